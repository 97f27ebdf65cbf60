"""Values that travel between steps, and the protocols of parsers, embedders, scrapers and file stores.

Every port is sync and is called from a thread. A port method raises only `Retryable`, `Fatal` or `Skippable`.
"""

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

TextKind = Literal["document", "query"]


@dataclass(frozen=True, slots=True)
class Scope:
    """Owner of data, which every repository, store and search call needs. `tenant` is "" for the scope without a
    tenant."""

    organization: str
    namespace: str
    tenant: str = ""


class OcrStrategy(StrEnum):
    """Method of text extraction from a file: its text layer only, or OCR where there is none."""

    BASIC_PARSER = "BASIC_PARSER"
    STANDARD_OCR = "STANDARD_OCR"


@dataclass(frozen=True, slots=True)
class ScrapeOptions:
    """CSS selectors of the elements of a web page to take and to leave; without `include` its main text is taken."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    check: Callable[[str], None] | None = field(default=None, compare=False, repr=False)
    """May raise Skippable: asked before an address is dialled, also of redirects, where this service fetches itself."""
    cookies: CookieJar | None = field(default=None, compare=False, repr=False)
    """Cookies of the site that last for a crawl."""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> ScrapeOptions:
        """Read the options from a web ingestion's config, in the contract's words."""
        wanted = config.get("scrapeOptions") or {}
        return cls(tuple(wanted.get("includeSelectors") or ()), tuple(wanted.get("excludeSelectors") or ()))


@dataclass(frozen=True, slots=True)
class RawContent:
    """Fetched bytes, as a readable local file. `size` in bytes; `media_type` as the source named it, or ""."""

    path: Path
    name: str
    media_type: str
    size: int
    version: str = ""
    """The source's own mark of this content, for the next time; "" if it has none."""
    properties: Mapping[str, str | int] = field(default_factory=dict)
    """What the source says of the content beside it, under the contract's names: title, language, canonicalUrl …"""
    page: ScrapeOptions | None = None
    """Set for a web page in HTML: what to take of it. Such a page is read as one, not as a file."""
    url: str = ""  # where it came from in the end, redirects followed, if that is known
    robots: frozenset[str] = frozenset()
    """Which of `noindex` and `nofollow` the answer says to our crawler (X-Robots-Tag)."""
    password: str = field(default="", repr=False)
    """Opens the file, if it is protected; "" if none was given."""


@dataclass(frozen=True, slots=True)
class Member:
    """A file that was packed into another: its path there, and a local file beside that one with its content.

    `reason`: why it was left out, for the user; there is no content then.
    """

    path: str
    file: Path
    media_type: str
    size: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PageQuality:
    """Confidence in the text of a page, from 0 (unreadable) to 1 (sound).

    `page` counts from 1; None for a text without pages. `reasons`: why it is less than 1, in sentences for the user.
    `unread`: it is left out of the text. `recognised`: its text was read from its picture.
    """

    page: int | None
    quality: float
    reasons: tuple[str, ...] = ()
    unread: bool = False
    recognised: bool = False


@dataclass(frozen=True, slots=True)
class Parsed:
    """A document as Markdown. `pages`: the offset in `text` at which each page starts, empty if there are no pages."""

    text: str
    title: str = ""
    pages: tuple[int, ...] = ()
    properties: Mapping[str, str | int] = field(default_factory=dict)
    members: tuple[Member, ...] = ()
    """Files that were packed into this one: to become documents of their own."""
    is_listing: bool = False
    """`text` is no more than the list of the members, as of an archive."""
    qualities: tuple[PageQuality, ...] = ()
    """Of each page of a PDF or picture, or of the whole text; empty where nothing is judged, as of archives."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of the parsed text: `parsed.text[start:end] == text`; `page` counts from 1, tokens are the model's.

    `header`: the column names of the first table whose rows it holds, "" without one; `rows`: the typed fields of the
    table rows and records in it.
    """

    index: int
    text: str
    start: int
    end: int
    page: int | None
    tokens: int
    header: str = ""
    rows: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class SourceItem:
    """Something that a source lists. `external_id`: a page's URL or the vendor's id, the same at every listing."""

    external_id: str
    name: str
    media_type: str = ""
    version: str = ""
    """The source's own mark of the content; another one means that it changed. The same one is not fetched again."""
    deleted: bool = False
    """It is gone at the source: its document is removed with the page."""
    error: str = ""
    """Why it cannot be had, for the user: it becomes a FAILED entry of the job run, and no document."""
    linked_from: str = ""
    """The page that led to it, where a crawl found it and it cannot be had."""
    properties: Mapping[str, str | int] = field(default_factory=dict)
    above: tuple[str, ...] = ()
    """Ids of the folders that it lies in; said where a choice names ids (`retrieval.sync_filter`)."""
    content: RawContent | None = None
    """What had to be fetched to list on: stored with the page, and never fetched again. The file stays until then."""


@dataclass(frozen=True, slots=True)
class DiscoveryRequest:
    """Request of a client to a source. `config`: the checked `ingestConfig.config`, in the contract's words."""

    scope: Scope
    source: str
    config: Mapping[str, Any]
    connection_id: str | None = None
    job_run_id: str = ""


class Source(Protocol):
    """Origin of documents: web pages, drives, workspaces."""

    def discover(self, request: DiscoveryRequest, cursor: str | None) -> Iterator[Page[SourceItem]]:
        """The items of the source, lazily.

        A page's items and cursor are saved together before the next page is requested. `cursor`: that of the last saved
        page, None at first. The last page is `done`; a listing that ends without one is incomplete. Raises Skippable or
        Fatal with the reason shown on the job run.
        """
        ...

    def fetch(self, item: SourceItem, request: DiscoveryRequest, to: Path) -> RawContent | None:
        """Fetch the item's content into the file `to`; None if it is unchanged since `item.version`.

        Skippable if this item alone cannot be had.
        """
        ...


class Scraper(Protocol):
    """Fetcher of one web page: this service itself, or a hosted service."""

    def fetch(self, url: str, options: ScrapeOptions, to: Path, *, known: str = "") -> RawContent | None:
        """Fetch `url` into the file `to`: raw HTML (the options are applied when it is parsed), Markdown from a service
        that applied them itself, or a file of another kind. None: unchanged since version `known`.

        Raises Skippable if this page alone is unavailable, Retryable, or Fatal (a refused key, no credit left).
        """
        ...

    def check(self) -> None:
        """Raise Fatal or Retryable unless pages can be fetched."""
        ...


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A piece of a listing. `cursor`: where to go on; saved with the page's items. `done`: the listing is complete."""

    items: Sequence[T]
    cursor: str
    done: bool
    skipped: Mapping[str, int] = field(default_factory=dict)
    save: Callable[[Any], None] | None = None
    """`skipped`: what was found and left out, by reason. `save`: the source's own, in the page's transaction."""
    whole: bool = False
    """On the last page: everything that there is was listed, so what was not listed is gone. Not so after changes."""


class Parser(Protocol):
    """Turns a file into Markdown. Raises Skippable for a file that cannot be read, naming the cause and what to do."""

    def parse(self, raw: RawContent, ocr: OcrStrategy, goes_on: Callable[[], bool] = ...) -> Parsed:
        """Parse the file. `goes_on` is called while it waits; once it returns False, Interrupted is raised."""
        ...

    def warm(self, files: Iterable[tuple[str, str]]) -> None:
        """Prepare for files of these names and media types. Retryable if that cannot be done."""
        ...


class ExternalParser(Protocol):
    """A parser of the user's, for the files and pages that this service cannot read."""

    def read(self, data: bytes, name: str, media_type: str) -> str:
        """Return the Markdown of a file. Skippable, with the cause, for one that it does not read, or Retryable."""
        ...

    def check(self) -> None:
        """Raise Fatal or Retryable unless a file can be read now."""
        ...


@dataclass(frozen=True, slots=True)
class PageMark:
    """Text read from a page, and the part of it, `text[start:end]`, to highlight."""

    text: str = ""
    start: int = 0
    end: int = 0


class PageRenderer(Protocol):
    """Draws a page of a PDF, counted from 1, as PNG. Skippable for what cannot be drawn."""

    def draw(self, file: Path, page: int, mark: PageMark) -> bytes: ...


class Tokenizer(Protocol):
    """Counts as a model counts. `name` is reported to the user."""

    name: str

    def spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Per text, the character offsets (start, end) of each token, without special tokens."""
        ...


class Embedder(Protocol):
    """An embedding model. `max_tokens` counts what fits into one text, special tokens left out.

    `passage_prefix`: text that it puts before each document's text, for models that need one.
    `batch_size`: texts of one call, whose vectors are kept as soon as they are there. It should take no more than
    seconds. `calls`: of them beside each other; what is under way is all that the loss of a process can cost.
    """

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
        """Vectors of length 1, one a text, in order. Fatal or Retryable; NotEmbedded if some texts are at fault."""
        ...

    def check(self) -> None:
        """Raise Fatal or Retryable unless one word can be embedded now."""
        ...


@runtime_checkable
class Packing(Protocol):
    """An embedding model whose calls become requests to a vendor, by what one may hold."""

    def requests(self, texts: Sequence[str]) -> int:
        """Number of requests that one call with these texts makes."""
        ...


@runtime_checkable
class Raised(Protocol):
    """An embedding model whose cosines do not begin at 0: two texts that have nothing in common have `unrelated`."""

    unrelated: float


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

    def keys(self, prefix: str) -> Iterator[str]:
        """Every key that begins with `prefix`, in no order. Fatal if the store does not let us look."""
        ...

    def sizes(self, prefix: str) -> Iterator[tuple[str, int]]:
        """List the keys with the size of each file in bytes, as the listing reports it."""
        ...

    def check(self) -> None: ...
