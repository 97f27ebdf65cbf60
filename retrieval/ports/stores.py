"""Protocol of vector stores. Import from `retrieval.ports`."""

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
    """Embedded chunk. `id` is `document#generation#index`."""

    id: str
    document_id: str
    values: Sequence[float]
    # Filter values for external stores (`retrieval.documents.vector_metadata`).
    labels: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Match:
    """Nearest vector with its cosine."""

    id: str
    score: float


class VectorStore(Protocol):
    """Vectors of a namespace, partitioned by scope."""

    # True for a filter by labels, False for a filter by our tables.
    stores_labels: bool

    def upsert(self, scope: Scope, vectors: Sequence[Vector]) -> None: ...

    def query(
        self,
        scope: Scope,
        values: Sequence[float],
        top_k: int,
        document_filter: DocumentFilter | None = None,
        viewer: Viewer | None = None,
    ) -> list[Match]:
        """Return the `top_k` nearest, best first. Stores may filter only in part; callers filter again."""
        ...

    def delete(self, scope: Scope, ids: Sequence[str]) -> None:
        """Delete vectors by id; ignores unknown ids."""
        ...

    def ids(self, scope: Scope, prefix: str) -> Iterator[str]: ...

    def list_other_dimensions(self, scope: Scope) -> Iterator[str]:
        """List ids of vectors with wrong dimensions."""
        ...

    def list_unsettled(self, scope: Scope, ids: Sequence[str]) -> list[str]:
        """Return written ids not readable yet."""
        # Zero vectors have no direction: a store may omit them and never counts them.
        ...

    def relabel(self, scope: Scope, document_id: str, ids: Sequence[str], labels: Mapping[str, Any]) -> None:
        """Replace the labels of all vectors of a document; `ids` are the visible ones."""
        ...

    def drop(self, scope: Scope) -> None:
        """Delete all vectors of a scope."""
        ...

    def maintain(self, scope: Scope, *, seconds: float) -> None:
        """Optimize a growing scope; called periodically. Raises Retryable if unfinished."""
        ...

    def check(self) -> None: ...
