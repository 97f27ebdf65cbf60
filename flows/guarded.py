"""Ports through circuit breakers: a vendor or a site that hangs is detected, and not requested for a while
(`breakers`).

What runs here, such as the local model and PGVECTOR, is passed on as it is. Whom all of a scope needs (model, vector
store, file store) holds all of its job runs; a site, a scraping service and a connection hold those that need them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

from retrieval import settings, sources
from retrieval.jobs.circuits import Circuits
from retrieval.jobs.queries.breakers import Asked
from retrieval.namespaces.namespaces import NamespaceConfig
from retrieval.ports import DiscoveryRequest, Embedder, FileStore, Page, RawContent, Source, SourceItem, VectorStore

SITE_PATIENCE: Final = 300.0
"""Seconds that job runs wait for a site."""
HUNG_SECONDS: Final = 5.0
"""A site's failure counts if it took so long: what refuses at once keeps no place."""
_SECRETS: Final = frozenset({"apiKey", "credentials"})
_PLACES: Final = frozenset({"provider", "type", "indexHost", "endpoint", "bucket", "region"})
_NAMES: Final = {
    "OPENAI": "OpenAI",
    "COHERE": "Cohere",
    "JINA": "Jina AI",
    "PINECONE": "The vector index at Pinecone",
    "S3_COMPATIBLE": "The bucket",
    "FIRECRAWL": "Firecrawl",
    "SCRAPINGBEE": "ScrapingBee",
}


def embedder(
    port: Embedder, config: NamespaceConfig, circuits: Circuits | None, job_run: str | None = None
) -> Embedder:
    """The namespace's model; its requests tell their tries themselves. `job_run`: as of `Circuits.through`."""
    model = config.embedding_model
    if circuits is None or model["provider"] == "LOCAL":
        return port
    vendor = _vendor(config, "embedder", model)
    return cast("Embedder", _Guarded(port, partial(circuits.through, vendor, job_run=job_run, each=False)))


def vectors(
    port: VectorStore, config: NamespaceConfig, circuits: Circuits | None, job_run: str | None = None
) -> VectorStore:
    """The namespace's vector store."""
    storage = config.vector_storage
    if circuits is None or storage["provider"] == "PGVECTOR":
        return port
    vendor = _vendor(config, "vectors", storage)
    return cast("VectorStore", _Guarded(port, partial(circuits.through, vendor, job_run=job_run, each=True)))


def files(port: FileStore, config: NamespaceConfig, circuits: Circuits | None, job_run: str | None = None) -> FileStore:
    """The namespace's file storage."""
    storage = config.file_storage
    if circuits is None or storage["type"] == "LOCAL":
        return port
    vendor = _vendor(config, "files", storage)
    return cast("FileStore", _Guarded(port, partial(circuits.through, vendor, job_run=job_run, each=True)))


def source(port: Source, config: NamespaceConfig, circuits: Circuits | None) -> Source:
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
        def asked(*args: Any, **named: Any) -> Any:
            with self._through():
                return attribute(*args, **named)

        return asked


class _Source:
    """Source behind the circuit breaker of its site, scraping service or connection."""

    def __init__(self, port: Source, config: NamespaceConfig, circuits: Circuits) -> None:
        self._port, self._config, self._circuits = port, config, circuits

    def discover(self, request: DiscoveryRequest, cursor: str | None) -> Iterator[Page[SourceItem]]:
        return self._pages(request, cursor)

    def fetch(self, item: SourceItem, request: DiscoveryRequest, to: Path) -> RawContent | None:
        with self._through(request, item.external_id):
            return self._port.fetch(item, request, to)

    def _pages(self, request: DiscoveryRequest, cursor: str | None) -> Generator[Page[SourceItem], None, None]:
        """Count each page as a request of its own, without the reader's work on it."""
        pages = iter(self._port.discover(request, cursor))
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

    def _through(self, request: DiscoveryRequest, url: str) -> AbstractContextManager[None]:
        organization, outage = self._config.organization_id, settings.load().outage_seconds
        if request.source not in sources.WEB:
            name = request.source.replace("_", " ").title()
            breaker_key = Asked(organization, name, {"connection": request.connection_id}, outage)
            return self._circuits.through(breaker_key, job_run=request.job_run_id, each=False)
        scraper = self._config.web_scraper or {}
        if scraper.get("provider", "BUILTIN") == "BUILTIN":
            host = urlsplit(url).hostname or ""
            breaker_key = Asked(organization, f"The site {host}".strip(), {"site": host}, min(SITE_PATIENCE, outage))
            return self._circuits.through(breaker_key, job_run=request.job_run_id, each=True, least=HUNG_SECONDS)
        breaker_key = _vendor(self._config, "scraper", scraper)
        return self._circuits.through(breaker_key, job_run=request.job_run_id, each=False)


def _vendor(config: NamespaceConfig, kind: str, given: Mapping[str, Any]) -> Asked:
    """Breaker key of a vendor and credential: a hash of what distinguishes them."""
    provider = str(given.get("provider") or given.get("type"))
    identity = {name: given[name] for name in sorted(_SECRETS | _PLACES) if name in given}
    outage = settings.load().outage_seconds
    return Asked(config.organization_id, _NAMES.get(provider, provider.title()), {"kind": kind, **identity}, outage)
