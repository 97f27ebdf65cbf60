"""Ports behind circuit breakers: a hanging vendor or site gets no requests for a while.

A vendor of the whole scope (model, vector store, file store) holds all job runs; a site, scraping service or connection
holds dependent job runs only. The local model and PGVECTOR have no breaker.
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
from retrieval.jobs.queries.breakers import BreakerTarget
from retrieval.namespaces.namespaces import NamespaceConfig
from retrieval.network import urls
from retrieval.ports import DiscoveryRequest, Embedder, FileStore, Page, RawContent, Source, SourceItem, VectorStore

PortT = TypeVar("PortT", Embedder, VectorStore, FileStore)
# Job runs wait this long for a site.
SITE_WAIT_SECONDS: Final = 300.0
# Faster failures of a site do not count: a site that refuses at once keeps no slot.
HUNG_REQUEST_SECONDS: Final = 5.0
# Port to the namespace's field with its vendor.
_CONFIG_FIELDS: Final = {"embedder": "embedding_model", "vectors": "vector_storage", "files": "file_storage"}
_LOCAL_PROVIDERS: Final = frozenset({"LOCAL", "PGVECTOR"})
_ADDRESS_FIELDS: Final = {"indexHost", "endpoint", "bucket", "region", "url"}
_IDENTITY_FIELDS: Final = sorted({"apiKey", "credentials", "provider", "type", *_ADDRESS_FIELDS})
_VENDOR_NAMES: Final = {
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
    port: PortT,
    kind: Literal["embedder", "vectors", "files"],
    config: NamespaceConfig,
    circuits: Circuits | None,
    job_run: str | None = None,
) -> PortT:
    """Put a namespace's model, vector store or file store behind a circuit breaker."""
    storage: Mapping[str, Any] = getattr(config, _CONFIG_FIELDS[kind])
    if circuits is None or _provider_name(storage) in _LOCAL_PROVIDERS:
        return port
    counts_each = kind != "embedder"  # the embedding client counts its own attempts
    breaker = partial(
        circuits.guard_requests, _vendor_breaker(config, kind, storage), job_run=job_run, count_failures=counts_each
    )
    return cast("PortT", _CircuitBreakerProxy(port, breaker))


def guard_source(port: Source, config: NamespaceConfig, circuits: Circuits | None) -> Source:
    return port if circuits is None else _CircuitBreakerSource(port, config, circuits)


class _CircuitBreakerProxy:
    """Port with methods behind a circuit breaker."""

    def __init__(self, port: Any, breaker: Any) -> None:
        self._port, self._breaker = port, breaker

    def __repr__(self) -> str:
        return repr(self._port)

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._port, name)
        if not callable(attribute):
            return attribute

        @wraps(attribute)
        def call_guarded(*args: Any, **kwargs: Any) -> Any:
            with self._breaker():
                return attribute(*args, **kwargs)

        return call_guarded


class _CircuitBreakerSource:
    """Source behind the circuit breaker of a site, scraping service or connection."""

    def __init__(self, port: Source, config: NamespaceConfig, circuits: Circuits) -> None:
        self._port, self._config, self._circuits = port, config, circuits

    def discover(self, request: DiscoveryRequest, cursor: str | None) -> Generator[Page[SourceItem], None, None]:
        """Count each page as a request, without the reader's own time."""
        pages: Iterator[Page[SourceItem]] = iter(self._port.discover(request, cursor))
        try:
            while True:
                with self._guard_request(request, str(request.config.get("url") or "")):
                    page = next(pages, None)
                if page is None:
                    return
                yield page
        finally:
            if isinstance(pages, Generator):
                pages.close()

    def fetch(self, item: SourceItem, request: DiscoveryRequest, to: Path) -> RawContent | None:
        if request.source in sources.WEB_SOURCES:
            with self._guard_request(request, item.external_id):
                return self._port.fetch(item, request, to)
        breaker = self._connection_breaker(request)
        with self._guard_request(request, ""), self._circuits.isolate_item(breaker, item.external_id):
            return self._port.fetch(item, request, to)

    def _connection_breaker(self, request: DiscoveryRequest) -> BreakerTarget:
        info = registry.load_source_infos().get(request.source)
        name = info.title if info else request.source.title()
        patience = settings.load_settings().outage_seconds
        return BreakerTarget(self._config.organization_id, name, {"connection": request.connection_id}, patience)

    def _guard_request(self, request: DiscoveryRequest, url: str) -> AbstractContextManager[None]:
        organization, outage = self._config.organization_id, settings.load_settings().outage_seconds
        through = partial(self._circuits.guard_requests, job_run=request.job_run_id)
        if request.source not in sources.WEB_SOURCES:
            return through(self._connection_breaker(request), count_failures=False)
        scraper = self._config.web_scraper or {}
        if scraper.get("provider", "BUILTIN") != "BUILTIN":
            return through(_vendor_breaker(self._config, "scraper", scraper), count_failures=False)
        name = f"The site {urls.site_name(url)}".strip()
        site = BreakerTarget(organization, name, {"site": urls.site_of(url)}, min(SITE_WAIT_SECONDS, outage))
        return through(site, count_failures=True, min_seconds=HUNG_REQUEST_SECONDS)


def _provider_name(storage: Mapping[str, Any]) -> str:
    return str(storage.get("provider") or storage.get("type"))


def _vendor_breaker(config: NamespaceConfig, kind: str, storage: Mapping[str, Any]) -> BreakerTarget:
    """Make the breaker of a vendor and credential."""
    provider = _provider_name(storage)
    # Models on one server fail independently.
    names = [*_IDENTITY_FIELDS, "model"] if kind == "embedder" else _IDENTITY_FIELDS
    identity = {"kind": kind} | {name: storage[name] for name in names if name in storage}
    name = _VENDOR_NAMES.get(provider, provider.title())
    if (kind, provider) == ("scraper", "ENDPOINT"):
        name = "The scraping server"
    return BreakerTarget(config.organization_id, name, identity, settings.load_settings().outage_seconds)
