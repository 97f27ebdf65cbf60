"""The ports that connectors implement (`sources`, `stores`, `rerankers`), and the `values` that travel through them."""

from typing import TYPE_CHECKING

from retrieval.ports.rerankers import Reranker
from retrieval.ports.sources import (
    Authorizer,
    Browsing,
    Choosing,
    Connector,
    Entry,
    Level,
    Sharing,
    SourceAccess,
    Tokens,
    TokenSource,
)
from retrieval.ports.stores import Match, Vector, VectorStore
from retrieval.ports.values import (
    Chunk,
    DiscoveryRequest,
    Embedder,
    FileStore,
    Member,
    OcrStrategy,
    Packing,
    Page,
    PageMark,
    PageQuality,
    PageRenderer,
    Parsed,
    Parser,
    RawContent,
    Scope,
    ScrapeOptions,
    Scraper,
    Source,
    SourceItem,
    TextKind,
    Tokenizer,
)

if TYPE_CHECKING:
    from retrieval.ports.values import Embeddings

__all__ = [
    "Authorizer",
    "Browsing",
    "Choosing",
    "Chunk",
    "Connector",
    "DiscoveryRequest",
    "Embedder",
    "Embeddings",
    "Entry",
    "FileStore",
    "Level",
    "Match",
    "Member",
    "OcrStrategy",
    "Packing",
    "Page",
    "PageMark",
    "PageQuality",
    "PageRenderer",
    "Parsed",
    "Parser",
    "RawContent",
    "Reranker",
    "Scope",
    "ScrapeOptions",
    "Scraper",
    "Sharing",
    "Source",
    "SourceAccess",
    "SourceItem",
    "TextKind",
    "TokenSource",
    "Tokenizer",
    "Tokens",
    "Vector",
    "VectorStore",
]
