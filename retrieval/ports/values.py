"""Protocols of parsers, embedders, scrapers and file stores, and values between steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from http.cookiejar import CookieJar
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Generic, Literal, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Embeddings = npt.NDArray[np.float32]
    """Shape (texts, dimensions), each row of length 1."""

# Ports are synchronous and run in threads. They raise only Retryable, Fatal or Skippable.
TextKind = Literal["document", "query"]


@dataclass(frozen=True, slots=True)
class Scope:
    """Owner of data in every repository, store and search."""

    organization: str
    namespace: str
    # "" without a tenant.
    tenant: str = ""


class OcrStrategy(StrEnum):
    """Text layer only, or OCR for pages without one."""

    BASIC_PARSER = "BASIC_PARSER"
    STANDARD_OCR = "STANDARD_OCR"


@dataclass(frozen=True, slots=True)
class ScrapeOptions:
    """CSS selectors to include and exclude; the main text without `include`."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    # Called before every request, redirects included. Raises Skippable.
    check: Callable[[str], None] | None = field(default=None, compare=False, repr=False)
    # Cookies of the site during a crawl.
    cookies: CookieJar | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> ScrapeOptions:
        """Parse the config of a web ingestion."""
        options = config.get("scrapeOptions") or {}
        return cls(tuple(options.get("includeSelectors") or ()), tuple(options.get("excludeSelectors") or ()))


@dataclass(frozen=True, slots=True)
class RawContent:
    """Fetched content in a local file. `size` is in bytes."""

    path: Path
    name: str
    media_type: str
    size: int
    # ETag or version of the source, "" without one.
    version: str = ""
    # Properties under the contract's names: title, language, canonicalUrl …
    properties: Mapping[str, str | int] = field(default_factory=dict)
    # Set for HTML pages.
    page: ScrapeOptions | None = None
    url: str = ""  # final URL after redirects
    # The address may soon lead to its own page again (302, 303, 307).
    is_temporary: bool = False
    # `noindex` and `nofollow` from X-Robots-Tag.
    robots: frozenset[str] = frozenset()
    # Password of a protected file.
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Member:
    """File in an archive or mail: inner path and extracted local file."""

    path: str
    file: Path
    media_type: str
    size: int
    # Reason for users of an omitted file; no content then.
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PageQuality:
    """Confidence in a page's text, 0 (unreadable) to 1 (sound)."""

    # From 1; None for text without pages.
    page: int | None
    quality: float
    reasons: tuple[str, ...] = ()
    # Omitted from the text.
    unread: bool = False
    # Read by OCR.
    recognised: bool = False


@dataclass(frozen=True, slots=True)
class Parsed:
    """Document as Markdown. `pages` are offsets of page starts, empty without pages."""

    text: str
    title: str = ""
    pages: tuple[int, ...] = ()
    properties: Mapping[str, str | int] = field(default_factory=dict)
    # Files of an archive or mail, to become documents.
    members: tuple[Member, ...] = ()
    # `text` is only the list of members.
    is_listing: bool = False
    # Quality by page, or of the whole text; empty without an assessment.
    qualities: tuple[PageQuality, ...] = ()


@dataclass(frozen=True, slots=True)
class Chunk:
    """Part of the parsed text, `parsed.text[start:end] == text`. `page` counts from 1."""

    index: int
    text: str
    start: int
    end: int
    page: int | None
    tokens: int
    # Column names of the first table in the chunk.
    header: str = ""
    # Typed fields of table rows and records in the chunk.
    rows: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class SourceItem:
    """Item of a source listing. `external_id` is the URL or the vendor's id."""

    external_id: str
    name: str
    media_type: str = ""
    # An equal version is not fetched again.
    version: str = ""
    # The document is deleted with the page.
    deleted: bool = False
    # Reason for users of a FAILED entry without a document.
    error: str = ""
    # URL of the linking page, for a failed page of a crawl.
    linked_from: str = ""
    properties: Mapping[str, str | int] = field(default_factory=dict)
    # Ids of the parent folders, for filters by id (`retrieval.sync_filter`).
    above: tuple[str, ...] = ()
    # Content needed for the listing itself, stored with the page instead of fetched again.
    content: RawContent | None = None


@dataclass(frozen=True, slots=True)
class DiscoveryRequest:
    """Ingestion request to a source, with the checked config."""

    scope: Scope
    source: str
    config: Mapping[str, Any]
    connection_id: str | None = None
    job_run_id: str = ""


class Source(Protocol):
    """Origin of documents: web pages, drives, workspaces."""

    def discover(self, request: DiscoveryRequest, cursor: str | None) -> Iterator[Page[SourceItem]]:
        """Yield pages of items after `cursor`; the last page is `done`. Raises Skippable or Fatal."""
        # Items and cursor of a page are saved together before the next page is requested. A listing without a `done`
        # page is incomplete.
        ...

    def fetch(self, item: SourceItem, request: DiscoveryRequest, to: Path) -> RawContent | None:
        """Fetch content into a file; None if unchanged. Raises Skippable for an unavailable item."""
        ...


class Scraper(Protocol):
    """Fetcher of a web page, local or hosted."""

    def fetch(self, url: str, options: ScrapeOptions, to: Path, *, known_version: str = "") -> RawContent | None:
        """Fetch a page as HTML, Markdown or a file; None if unchanged. Raises Skippable, Retryable or Fatal."""
        # Hosted services apply the options and return Markdown; HTML is filtered by the parser.
        ...

    def check(self) -> None:
        """Raise Fatal or Retryable unless pages can be fetched."""
        ...


ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class Page(Generic[ItemT]):
    """Page of a listing with the cursor of the next page; `done` ends the listing."""

    items: Sequence[ItemT]
    cursor: str
    done: bool
    # Counts of omitted items by reason.
    skipped: Mapping[str, int] = field(default_factory=dict)
    # Saves the source's own state in the page's transaction.
    save: Callable[[Any], None] | None = None
    # On the last page of a full listing: unlisted items are deleted.
    whole: bool = False
    # On the last page of another listing: regular expression of the external ids that were listed in full.
    whole_pattern: str = ""


class Parser(Protocol):
    """Converter of files to Markdown. Raises Skippable with cause and advice."""

    def parse(self, raw: RawContent, ocr: OcrStrategy, should_continue: Callable[[], bool] = ...) -> Parsed:
        """Parse a file. Raises Interrupted after `should_continue` returns False."""
        ...

    def warm(self, files: Iterable[tuple[str, str]]) -> None:
        """Prepare for files by name and media type. Raises Retryable."""
        ...


class ExternalParser(Protocol):
    """Parser provided by the user, for files unsupported here."""

    def read(self, data: bytes, name: str, media_type: str) -> str:
        """Return the Markdown of a file. Raises Skippable or Retryable."""
        ...

    def check(self) -> None:
        """Raise Fatal or Retryable unless a file can be read."""
        ...


@dataclass(frozen=True, slots=True)
class PageMark:
    """Text of a page, with the range to highlight."""

    text: str = ""
    start: int = 0
    end: int = 0


class PageRenderer(Protocol):
    """Renderer of PDF pages, from 1, as PNG. Raises Skippable."""

    def draw(self, file: Path, page: int, mark: PageMark) -> bytes: ...


class Tokenizer(Protocol):
    """Tokenizer of a model. `name` is shown to users."""

    name: str

    def spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Return character offsets of each text's tokens, without special tokens."""
        ...


class Embedder(Protocol):
    """Embedding model. `max_tokens` excludes special tokens."""

    # Vectors of a call with `batch_size` texts are stored at once, so a call should take only seconds. `calls` run in
    # parallel; a crash loses only those.
    provider: str
    model: str
    batch_size: int
    calls: int
    passage_prefix: str

    @property
    def max_tokens(self) -> int: ...

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str], kind: TextKind) -> Embeddings:
        """Return unit vectors in order. Raises Fatal, Retryable, or NotEmbedded for rejected texts."""
        ...

    def check(self) -> None:
        """Raise Fatal or Retryable unless a word can be embedded."""
        ...


@runtime_checkable
class BatchingEmbedder(Protocol):
    """Embedding model with a limit per vendor request."""

    def count_requests(self, texts: Sequence[str]) -> int:
        """Return the number of vendor requests for a call."""
        ...


@runtime_checkable
class UncalibratedEmbedder(Protocol):
    """Embedding model with a cosine of unrelated texts above 0."""

    unrelated_cosine: float


class FileStore(Protocol):
    """Raw and parsed files of a namespace. Keys hold letters, digits and `-_./`."""

    def put(self, key: str, chunks: Iterable[bytes]) -> int:
        """Store the bytes durably, replacing an earlier file, and return the size."""
        ...

    def open(self, key: str) -> AbstractContextManager[BinaryIO]:
        """Open a file. Raises Skippable for a missing file."""
        ...

    def delete(self, keys: Sequence[str]) -> None:
        """Delete files; ignores unknown keys."""
        ...

    def keys(self, prefix: str) -> Iterator[str]:
        """List keys by prefix, unordered. Raises Fatal without permission."""
        ...

    def sizes(self, prefix: str) -> Iterator[tuple[str, int]]:
        """List keys and sizes in bytes."""
        ...

    def check(self) -> None: ...
