"""The ports: what a step asks of the world, and the small values that travel between steps.

Every port is sync and is called from a thread. A port method raises only `Retryable`, `Fatal` or `Skippable`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from retrieval.filters import DocumentFilter

    Embeddings = npt.NDArray[np.float32]
    """Shape (texts, dimensions), each row of length 1."""

TextKind = Literal["document", "query"]


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose data: every repository, store and search call needs it. `tenant` is "" for the scope without a tenant."""

    organization: str
    namespace: str
    tenant: str = ""


class OcrStrategy(StrEnum):
    """How a file's text is found: its own text layer only, or optical recognition where there is none."""

    BASIC_PARSER = "BASIC_PARSER"
    STANDARD_OCR = "STANDARD_OCR"


@dataclass(frozen=True, slots=True)
class RawContent:
    """Fetched bytes, as a readable local file. `size` in bytes; `media_type` as the source named it, or ""."""

    path: Path
    name: str
    media_type: str
    size: int


@dataclass(frozen=True, slots=True)
class Parsed:
    """A document as Markdown. `pages`: the offset in `text` at which each page starts, empty if there are no pages."""

    text: str
    title: str = ""
    pages: tuple[int, ...] = ()
    properties: Mapping[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of the parsed text: `parsed.text[start:end] == text`; `page` counts from 1, tokens are the model's."""

    index: int
    text: str
    start: int
    end: int
    page: int | None
    tokens: int


@dataclass(frozen=True, slots=True)
class Vector:
    """One embedded chunk for a vector store. `id` is `document#generation#index`."""

    id: str
    document_id: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Match:
    """A hit of a vector store. `score`: cosine similarity."""

    id: str
    score: float


class Parser(Protocol):
    """Turns a file into Markdown. Raises Skippable for a file that cannot be read, naming the cause and what to do."""

    def parse(self, raw: RawContent, ocr: OcrStrategy) -> Parsed: ...


class Tokenizer(Protocol):
    """Counts as a model counts. `name` is reported to the user."""

    name: str

    def spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Per text, the character offsets (start, end) of each token, without special tokens."""
        ...


class Embedder(Protocol):
    """An embedding model. `max_tokens` counts what fits into one text, special tokens left out."""

    provider: str
    model: str
    dimensions: int
    batch_size: int
    max_tokens: int

    def embed(self, texts: Sequence[str], kind: TextKind) -> Embeddings:
        """Vectors of length 1, one a text, in order."""
        ...

    def check(self) -> None:
        """Raise Fatal or Retryable unless one word can be embedded now."""
        ...


class VectorStore(Protocol):
    """Vectors of one namespace's store. Data of two scopes never lies in one partition of it."""

    def upsert(self, scope: Scope, vectors: Sequence[Vector]) -> None: ...

    def query(
        self, scope: Scope, values: Sequence[float], top_k: int, where: DocumentFilter | None = None
    ) -> list[Match]:
        """The `top_k` nearest, best first. `where` narrows by document where the store can; callers filter again."""
        ...

    def delete(self, scope: Scope, ids: Sequence[str]) -> None:
        """Remove by id; unknown ids are no error."""
        ...

    def ids(self, scope: Scope, prefix: str) -> Iterator[str]: ...

    def drop(self, scope: Scope) -> None:
        """Remove everything of the scope."""
        ...

    def maintain(self, scope: Scope) -> None:
        """Whatever keeps a scope fast that has grown; called now and then, may take minutes."""
        ...

    def check(self) -> None: ...


class FileStore(Protocol):
    """Raw and parsed files of one namespace's storage, by key. A key holds only letters, digits, `-_./`."""

    def put(self, key: str, chunks: Iterable[bytes]) -> int:
        """Store the bytes durably under `key`, replacing what was there; the size in bytes."""
        ...

    def open(self, key: str) -> AbstractContextManager[BinaryIO]:
        """A readable stream; Skippable if there is no such file."""
        ...

    def delete(self, keys: Sequence[str]) -> None:
        """Remove; unknown keys are no error."""
        ...

    def check(self) -> None: ...
