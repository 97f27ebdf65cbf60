"""From a namespace's configuration to its connectors: modules are imported on first use, instances are kept."""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

from retrieval import settings, sources
from retrieval.connections import connections
from retrieval.connections.connected_source import Connected
from retrieval.errors import Fatal, ServiceError
from retrieval.namespaces import destinations
from retrieval.namespaces.namespaces import LEARNED, SECRET_FIELDS

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext

    from connectors.embedders.embedding_process import EmbeddingProcess
    from connectors.info import ConnectorInfo
    from retrieval.database.database import Database
    from retrieval.namespaces.namespaces import NamespaceConfig
    from retrieval.ports import (
        Authorizer,
        Connector,
        Embedder,
        ExternalParser,
        FileStore,
        PageRenderer,
        Parser,
        Reranker,
        Scraper,
        Source,
        Tokens,
        VectorStore,
    )
    from retrieval.security.secrets import KeyRing

EMBEDDERS = {
    "LOCAL": "connectors.embedders.local:make",
    "OPENAI": "connectors.embedders.openai:make",
    "COHERE": "connectors.embedders.cohere:make",
    "JINA": "connectors.embedders.jina:make",
    "ENDPOINT": "connectors.embedders.endpoint:make",
}
"""embeddingModelConfig.provider to `make(config, settings) -> Embedder`."""

RERANKERS = {
    "COHERE": "connectors.rerankers.cohere:make",
    "JINA": "connectors.rerankers.jina:make",
    "ENDPOINT": "connectors.rerankers.endpoint:make",
    "LOCAL": "connectors.rerankers.local:make",
}
"""rerankConfig.provider to `make(config, settings) -> Reranker`."""

PARSERS = {"ENDPOINT": "connectors.parsers.endpoint:make"}
"""parserConfig.provider to `make(config, settings) -> ExternalParser`."""

VECTOR_STORES = {"PGVECTOR": "connectors.vectors.pgvector:make", "PINECONE": "connectors.vectors.pinecone.store:make"}
"""vectorStorageConfig.provider to `make(config, db, namespace_id, dimensions) -> VectorStore`."""

FILE_STORES = {"LOCAL": "connectors.files.local:make", "S3_COMPATIBLE": "connectors.files.s3.store:make"}
"""fileStorageConfig.type to `make(config, settings) -> FileStore`."""

SCRAPERS: dict[str, str] = {
    "BUILTIN": "connectors.web.builtin.scraper:make",
    "FIRECRAWL": "connectors.web.firecrawl.scraper:make",
    "JINA": "connectors.web.jina:make",
    "SCRAPINGBEE": "connectors.web.scrapingbee:make",
}
"""webScraperConfig.provider to `make(config, settings) -> Scraper`."""

SOURCES: dict[str, str] = {
    "URLS_LIST": "connectors.web.crawl.sitemap:make_url_list",
    "SITEMAP": "connectors.web.crawl.sitemap:make",
    "WEBSITE": "connectors.web.crawl.website:make",
}
"""Ingestion source, such as WEBSITE, to `make(scraper, file_store, db) -> Source`."""

CRAWLERS = {("WEBSITE", "FIRECRAWL"): "connectors.web.firecrawl.site:make"}
"""Source and scraper to another `make` of that kind: the service walks websites itself."""

_DESCRIBED = "connectors.sources.described.connector"
CONNECTORS: dict[str, str] = {
    name: f"{_DESCRIBED}:make_described"
    if name in sources.DESCRIBED
    else f"connectors.sources.{name.lower()}.connector:make"
    for name in sources.CONNECTED
}
"""Content service to `make(app, settings) -> Connector`; `app` is the namespace's config of it. A described one takes
its name instead."""

_made: dict[str, Any] = {}
_lock = Lock()


def make_embedder(config: NamespaceConfig) -> Embedder:
    """The namespace's embedding model. Fatal if the provider is not part of this installation."""
    model = config.embedding_model
    _require_unmoved("embeddingModelConfig", model, config)
    make = _load(EMBEDDERS, model["provider"], "embeddingModelConfig.provider")
    return cast("Embedder", _once("embedder", model, lambda: make(model, settings.load_settings())))


def with_learned(config: NamespaceConfig) -> NamespaceConfig:
    """The namespace with the form and limits of its model server, once that was checked in this process."""
    learned = getattr(make_embedder(config), LEARNED, None)
    return replace(config, embedding_model={**config.embedding_model, LEARNED: learned}) if learned else config


def embedding_process(forks: ForkServerContext) -> EmbeddingProcess:
    """A process, not started yet, that runs the local model for all flow runs of a worker."""
    from connectors.embedders import local
    from connectors.embedders.embedding_process import EmbeddingProcess

    return EmbeddingProcess(forks, local.serve_models)


def use_embedding_process(address: str | None) -> None:
    """Let this process ask the one at this socket; None: it runs the local model itself."""
    from connectors.embedders import embedding_process

    embedding_process.use_process(address)


def import_local() -> None:
    """Import the connectors that run on this machine, with their tables, for processes forked from this one."""
    for target in (EMBEDDERS["LOCAL"], VECTOR_STORES["PGVECTOR"], FILE_STORES["LOCAL"]):
        importlib.import_module(target.partition(":")[0])
    importlib.import_module("connectors.parsers.parser")
    importlib.import_module("connectors.parsers.trust").rate_plausibility("")


def make_reranker(config: NamespaceConfig) -> Reranker:
    """Reranker of the namespace. Fatal if there is none, or none such in this installation."""
    chosen = config.reranker
    if chosen is None:
        raise Fatal("The namespace has no reranker; set its rerankConfig.")
    _require_unmoved("rerankConfig", chosen, config)
    make = _load(RERANKERS, chosen["provider"], "rerankConfig.provider")
    return cast("Reranker", _once("reranker", chosen, lambda: make(chosen, settings.load_settings())))


def vector_store(config: NamespaceConfig, db: Database) -> VectorStore:
    """The namespace's vector store."""
    storage = config.vector_storage
    make = _load(VECTOR_STORES, storage["provider"], "vectorStorageConfig.provider")
    dimensions = config.dimensions or make_embedder(config).dimensions
    identity = {"namespace": config.id, "dimensions": dimensions, "db": id(db), **storage}
    return cast("VectorStore", _once("vectors", identity, lambda: make(storage, db, config.id, dimensions)))


def prepare_vector_store(config: NamespaceConfig) -> None:
    """Import the modules of the namespace's vector store; nothing is created or requested."""
    provider = config.vector_storage["provider"]
    _load(VECTOR_STORES, provider, "vectorStorageConfig.provider")
    module = importlib.import_module(VECTOR_STORES[provider].partition(":")[0])
    getattr(module, "prepare", lambda: None)()


def file_store(config: NamespaceConfig) -> FileStore:
    """The namespace's file storage."""
    storage = config.file_storage
    make = _load(FILE_STORES, storage["type"], "fileStorageConfig.type")
    return cast("FileStore", _once("files", _placed(storage), lambda: make(storage, settings.load_settings())))


def local_files() -> FileStore:
    """The folder of LOCAL file storage, whichever namespaces use it."""
    make = _load(FILE_STORES, "LOCAL", "fileStorageConfig.type")
    return cast("FileStore", _once("files", _placed({"type": "LOCAL"}), lambda: make({}, settings.load_settings())))


def _placed(storage: Mapping[str, Any]) -> Mapping[str, Any]:
    """Identity of a file store; the location of a folder on this machine comes from the settings alone."""
    return {**storage, "folder": str(settings.load_settings().files)} if storage["type"] == "LOCAL" else storage


def make_scraper(config: NamespaceConfig) -> Scraper:
    """Scraper of the namespace's web pages. Fatal if there is none, or none such in this installation."""
    chosen = config.web_scraper
    if chosen is None:
        raise Fatal("The namespace no longer has a web scraper; set its webScraperConfig.")
    _require_unmoved("webScraperConfig", chosen, config)
    make = _load(SCRAPERS, chosen["provider"], "webScraperConfig.provider")
    return cast("Scraper", _once("scraper", chosen, lambda: make(chosen, settings.load_settings())))


def is_selector(text: str) -> bool:
    """Tell whether this is a CSS selector that pages can be read with."""
    return bool(importlib.import_module("connectors.http.html").is_selector(text))


def make_source(name: str, config: NamespaceConfig, db: Database, ring: KeyRing) -> Source:
    """Source of the documents of an ingestion. Fatal if the namespace has nothing to fetch them with."""
    if name in CONNECTORS:
        try:
            app = connections.usable_app(config, name, settings.load_settings())
        except ServiceError as error:  # taken away since the request
            raise Fatal(str(error)) from error
        return Connected(db, ring, make_connector(name, app, settings.load_settings()))
    crawler = CRAWLERS.get((name, (config.web_scraper or {}).get("provider", "")))
    make = _load({**SOURCES, name: crawler} if crawler else SOURCES, name, "source")
    return cast("Source", make(make_scraper(config), file_store(config), db))


@lru_cache(maxsize=1)
def make_parser() -> Parser:
    """The parser of every kind of file."""
    return cast("Parser", importlib.import_module("connectors.parsers.parser").document_parser())


def require_ocr_languages(languages: Sequence[str]) -> None:
    """Raise WrongSetting for languages of scans that the installed tesseract does not read."""
    importlib.import_module("connectors.parsers.ocr").require_languages(languages)


def close_parser() -> None:
    """End the processes that read files for this one, where it has any."""
    if module := sys.modules.get("connectors.parsers.parser"):
        module.close_parser()


def external_parser(config: NamespaceConfig) -> ExternalParser | None:
    """The namespace's own parser, for what the service cannot read; None if it has none."""
    if config.parser is None:
        return None
    chosen = config.parser
    make = _load(PARSERS, chosen["provider"], "parserConfig.provider")
    return cast("ExternalParser", _once("parser", chosen, lambda: make(chosen, settings.load_settings())))


def parser_of(config: NamespaceConfig) -> Parser:
    """The parser of every kind of file, with the namespace's own behind it."""
    external = external_parser(config)
    if external is None:
        return make_parser()
    return cast(
        "Parser", importlib.import_module("connectors.parsers.parser").document_parser().with_external(external)
    )


def parser_warnings() -> list[str]:
    """Protection of parser processes that this machine does not offer, a sentence each."""
    confinement = importlib.import_module("connectors.parsers.confinement")
    return [] if confinement.landlock_version() else [confinement.MISSING]


def page_drawer() -> PageRenderer:
    """Renderer of PDF pages."""
    return cast("PageRenderer", importlib.import_module("connectors.parsers.parser").page_drawer())


@lru_cache(maxsize=1)
def connector_infos() -> Mapping[str, ConnectorInfo]:
    """Descriptions of the content services with an app, in the order of `retrieval.sources.CONNECTORS`."""
    return {name: info for name, info in source_infos().items() if name in sources.APPS}


@lru_cache(maxsize=1)
def source_infos() -> Mapping[str, ConnectorInfo]:
    """Descriptions of all sources that are read through a connection; loads no SDK."""
    described = importlib.import_module("connectors.sources.described.description")
    infos = {
        name: described.read_info(name)
        if name in sources.DESCRIBED
        else importlib.import_module(f"connectors.sources.{name.lower()}").INFO
        for name in sources.CONNECTED
    }
    return cast("Mapping[str, ConnectorInfo]", infos)


def read_config(name: str, config: Mapping[str, Any], options: settings.Settings) -> Tokens:
    """The `config` of a connection, checked, as what is stored of it. ValueError with the field and what is wrong."""
    if name in sources.DESCRIBED:
        return cast("Tokens", importlib.import_module(_DESCRIBED).read_config(name, config, options))
    module = importlib.import_module(f"connectors.sources.{name.lower()}.connector")
    return cast("Tokens", module.read_config(config, options))


def make_connector(name: str, app: Mapping[str, Any], options: settings.Settings) -> Connector:
    """A content service, spoken to as the app of a namespace."""
    make = _load(CONNECTORS, name, "connector")
    return cast("Connector", make(name if name in sources.DESCRIBED else app, options))


def make_authorizer(
    name: str, app: Mapping[str, Any], options: settings.Settings, *, sharing: bool = False
) -> Authorizer:
    """OAuth2 client of a content service. `sharing`: with the scopes needed to read item permissions."""
    base_authorizer = make_connector(name, app, options).authorizer
    with_sharing = getattr(base_authorizer, "with_sharing", None)
    return cast("Authorizer", with_sharing()) if sharing and with_sharing is not None else base_authorizer


def _load(table: Mapping[str, str], value: str, field: str) -> Any:
    if value not in table:
        raise Fatal(f"{field} {value} is not available in this version; use one of: {', '.join(sorted(table))}.")
    module, _, name = table[value].partition(":")
    return getattr(importlib.import_module(module), name)


def _require_unmoved(area: str, config: Mapping[str, Any], namespace: NamespaceConfig) -> None:
    """Fatal where the config's secrets were stored for another address than the settings name now."""
    try:
        destinations.require_unmoved(settings.load_settings(), area, config, namespace.sent_to)
    except ServiceError as error:
        raise Fatal(str(error), field=area) from error


def _without_secret(error: KeyError) -> Exception:
    """A namespace that was imported has no secrets until a client sends them."""
    name = str(error.args[0]) if error.args else ""
    if name not in SECRET_FIELDS and name != "credentials":
        return error
    return Fatal(
        f"The namespace has no {name} here yet: send it by PATCH, with the config that it belongs to.", field=name
    )


def _once(kind: str, config: Mapping[str, Any], make: Any) -> Any:
    """One client per configuration: making them is slow, and not all are safe to make from two threads."""
    text = json.dumps([kind, dict(config)], sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()
    with _lock:
        if key not in _made:
            try:
                _made[key] = make()
            except KeyError as error:
                raise _without_secret(error) from error
        return _made[key]
