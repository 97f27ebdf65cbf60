"""Ports behind circuit breakers: a vendor or a site that hangs is detected, and not requested for a while.

What runs here, such as the local model and PGVECTOR, is passed on as it is. A vendor that all of a scope needs (model,
vector store, file store) holds all of its job runs; a site, a scraping service and a connection hold those that need
them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, cast

from connectors import registry
from retrieval import settings, sources
from retrieval.jobs.breaker_watch import Circuits
from retrieval.jobs.queries.breakers import Asked
from retrieval.namespaces.namespaces import NamespaceConfig
from retrieval.network import urls
from retrieval.ports import DiscoveryRequest, Embedder, FileStore, Page, RawContent, Source, SourceItem, VectorStore

P = TypeVar("P", Embedder, VectorStore, FileStore)
SITE_PATIENCE: Final = 300.0
"""Seconds that job runs wait for a site."""
HUNG_SECONDS: Final = 5.0
"""A site's failure counts if it took so long: what refuses at once keeps no slot."""
_CONFIGS: Final = {"embedder": "embedding_model", "vectors": "vector_storage", "files": "file_storage"}
"""Kind of a port to the part of a namespace's configuration that names its vendor."""
_LOCAL: Final = frozenset({"LOCAL", "PGVECTOR"})
_ADDRESSES: Final = {"indexHost", "endpoint", "bucket", "region", "url"}
_IDENTITY: Final = sorted({"apiKey", "credentials", "provider", "type", *_ADDRESSES})
_NAMES: Final = {
    "OPENAI": "OpenAI",
    "COHERE": "Cohere",
    "JINA": "Jina AI",
    "ENDPOINT": "The model server",
    "PINECONE": "The vector index at Pinecone",
    "S3_COMPATIBLE": "The bucket",
    "FIRECRAWL": "Firecrawl",
    "SCRAPINGBEE": "ScrapingBee",
}


def guard_port(
    port: P,
    kind: Literal["embedder", "vectors", "files"],
    config: NamespaceConfig,
    circuits: Circuits | None,
    job_run: str | None = None,
) -> P:
    """The namespace's model, vector store or file store behind its breaker. `job_run`: as of `Circuits.through`."""
    storage: Mapping[str, Any] = getattr(config, _CONFIGS[kind])
    if circuits is None or _provider(storage) in _LOCAL:
        return port
    counts_each = kind != "embedder"  # a model's client counts its own tries
    through = partial(circuits.through, _vendor(config, kind, storage), job_run=job_run, each=counts_each)
    return cast("P", _Guarded(port, through))


def guard_source(port: Source, config: NamespaceConfig, circuits: Circuits | None) -> Source:
    return port if circuits is None else _Source(port, config, circuits)


class _Guarded:
    """A port whose methods go through a circuit."""

    def __init__(self, port: Any, through: Any) -> None:
        self._port, self._through = port, through

    def __repr__(self) -> str:
        return repr(self._port)

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._port, name)
        if not callable(attribute):
            return attribute

        @wraps(attribute)
        def guarded(*args: Any, **named: Any) -> Any:
            with self._through():
                return attribute(*args, **named)

        return guarded


class _Source:
    """Source behind the circuit breaker of its site, scraping service or connection."""

    def __init__(self, port: Source, config: NamespaceConfig, circuits: Circuits) -> None:
        self._port, self._config, self._circuits = port, config, circuits

    def discover(self, request: DiscoveryRequest, cursor: str | None) -> Generator[Page[SourceItem], None, None]:
        """Count each page as a request of its own, without the reader's work on it."""
        pages: Iterator[Page[SourceItem]] = iter(self._port.discover(request, cursor))
        try:
            while True:
                with self._through(request, str(request.config.get("url") or "")):
                    page = next(pages, None)
                if page is None:
                    return
                yield page
        finally:
            if isinstance(pages, Generator):
                pages.close()

    def fetch(self, item: SourceItem, request: DiscoveryRequest, to: Path) -> RawContent | None:
        if request.source in sources.WEB:
            with self._through(request, item.external_id):
                return self._port.fetch(item, request, to)
        breaker = self._ask_connection(request)
        with self._through(request, ""), self._circuits.tell_apart(breaker, item.external_id):
            return self._port.fetch(item, request, to)

    def _ask_connection(self, request: DiscoveryRequest) -> Asked:
        info = registry.source_infos().get(request.source)
        name = info.title if info else request.source.title()
        patience = settings.load_settings().outage_seconds
        return Asked(self._config.organization_id, name, {"connection": request.connection_id}, patience)

    def _through(self, request: DiscoveryRequest, url: str) -> AbstractContextManager[None]:
        organization, outage = self._config.organization_id, settings.load_settings().outage_seconds
        through = partial(self._circuits.through, job_run=request.job_run_id)
        if request.source not in sources.WEB:
            return through(self._ask_connection(request), each=False)
        scraper = self._config.web_scraper or {}
        if scraper.get("provider", "BUILTIN") != "BUILTIN":
            return through(_vendor(self._config, "scraper", scraper), each=False)
        name = f"The site {urls.site_name(url)}".strip()
        site = Asked(organization, name, {"site": urls.site_of(url)}, min(SITE_PATIENCE, outage))
        return through(site, each=True, least=HUNG_SECONDS)


def _provider(storage: Mapping[str, Any]) -> str:
    return str(storage.get("provider") or storage.get("type"))


def _vendor(config: NamespaceConfig, kind: str, storage: Mapping[str, Any]) -> Asked:
    """Breaker key of a vendor and credential: a hash of what distinguishes them."""
    provider = _provider(storage)
    # Models at one server fail apart from each other.
    names = [*_IDENTITY, "model"] if kind == "embedder" else _IDENTITY
    identity = {"kind": kind} | {name: storage[name] for name in names if name in storage}
    name = _NAMES.get(provider, provider.title())
    return Asked(config.organization_id, name, identity, settings.load_settings().outage_seconds)
