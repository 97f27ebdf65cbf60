"""The port of vector stores, and the values that travel through it. Others import them from `retrieval.ports`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from retrieval.filters import DocumentFilter
    from retrieval.ports.values import Scope
    from retrieval.principals import Viewer


@dataclass(frozen=True, slots=True)
class Vector:
    """One embedded chunk for a vector store. `id` is `document#generation#index`."""

    id: str
    document_id: str
    values: Sequence[float]
    labels: Mapping[str, Any] = field(default_factory=dict)
    """What a store that cannot ask our tables filters by, see `retrieval.documents.vector_metadata`."""


@dataclass(frozen=True, slots=True)
class Match:
    """A hit of a vector store. `score`: cosine similarity."""

    id: str
    score: float


class VectorStore(Protocol):
    """The vectors of one namespace. Vectors of two scopes are never in the same partition of it."""

    labelled: bool
    """Whether it filters by the labels that come with the vectors; otherwise it asks our own tables."""

    def upsert(self, scope: Scope, vectors: Sequence[Vector]) -> None: ...

    def query(
        self,
        scope: Scope,
        values: Sequence[float],
        top_k: int,
        where: DocumentFilter | None = None,
        viewer: Viewer | None = None,
    ) -> list[Match]:
        """The `top_k` nearest, best first. `where` narrows by document, and `viewer` by who may see it, where the store
        can; callers filter again."""
        ...

    def delete(self, scope: Scope, ids: Sequence[str]) -> None:
        """Remove by id; unknown ids are no error."""
        ...

    def ids(self, scope: Scope, prefix: str) -> Iterator[str]: ...

    def misfits(self, scope: Scope) -> Iterator[str]:
        """Ids of vectors of other dimensions than the namespace's, where a store can hold such."""
        ...

    def unsettled(self, scope: Scope, ids: Sequence[str]) -> list[str]:
        """Those of the ids, all written before, that cannot be read back yet; none in a store that shows all at once.

        A vector of length 0 has no direction: a store may leave it out, and never counts it here.
        """
        ...

    def relabel(self, scope: Scope, document_id: str, ids: Sequence[str], labels: Mapping[str, Any]) -> None:
        """Give all vectors of a document new labels; `ids` are those that a search may show."""
        ...

    def drop(self, scope: Scope) -> None:
        """Remove everything of the scope."""
        ...

    def maintain(self, scope: Scope, *, seconds: float) -> None:
        """Keep a growing scope fast; called periodically. Retryable if it did not finish in time."""
        ...

    def check(self) -> None: ...
