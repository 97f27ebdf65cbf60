"""Create a namespace's connectors; modules are imported on first use, and instances are cached."""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

from retrieval import settings, sources
from retrieval.connections import connections
from retrieval.connections.connected_source import ConnectedSource
from retrieval.errors import Fatal, ServiceError
from retrieval.namespaces import destinations
from retrieval.namespaces.namespaces import LEARNED_FIELD, SECRET_FIELDS
from retrieval.setting_values import list_folders

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

# Tables of entry points, `module:function`: the SDK of a vendor is imported on first use.
# embeddingModelConfig.provider: `make(config, settings) -> Embedder`.
EMBEDDER_FACTORIES = {
    "LOCAL": "connectors.embedders.local:make",
    "OPENAI": "connectors.embedders.openai:make",
    "COHERE": "connectors.embedders.cohere:make",
    "JINA": "connectors.embedders.jina:make",
    "ENDPOINT": "connectors.embedders.endpoint:make",
}

# rerankConfig.provider: `make(config, settings) -> Reranker`.
RERANKER_FACTORIES = {
    "COHERE": "connectors.rerankers.cohere:make",
    "JINA": "connectors.rerankers.jina:make",
    "ENDPOINT": "connectors.rerankers.endpoint:make",
    "LOCAL": "connectors.rerankers.local:make",
}

# parserConfig.provider: `make(config, settings) -> ExternalParser`.
PARSER_FACTORIES = {"ENDPOINT": "connectors.parsers.endpoint:make"}

# vectorStorageConfig.provider: `make(config, db, namespace_id, dimensions) -> VectorStore`.
VECTOR_STORE_FACTORIES = {
    "PGVECTOR": "connectors.vectors.pgvector:make",
    "PINECONE": "connectors.vectors.pinecone.store:make",
}

# fileStorageConfig.type: `make(config, settings) -> FileStore`.
FILE_STORE_FACTORIES = {"LOCAL": "connectors.files.local:make", "S3_COMPATIBLE": "connectors.files.s3.store:make"}

# webScraperConfig.provider: `make(config, settings) -> Scraper`.
SCRAPER_FACTORIES: dict[str, str] = {
    "BUILTIN": "connectors.web.builtin.scraper:make",
    "ENDPOINT": "connectors.web.endpoint:make",
    "FIRECRAWL": "connectors.web.firecrawl.scraper:make",
    "JINA": "connectors.web.jina:make",
    "SCRAPINGBEE": "connectors.web.scrapingbee:make",
}

# Ingestion source: `make(scraper, file_store, db) -> Source`.
SOURCE_FACTORIES: dict[str, str] = {
    "URLS_LIST": "connectors.web.crawl.sitemap:make_url_list",
    "SITEMAP": "connectors.web.crawl.sitemap:make",
    "WEBSITE": "connectors.web.crawl.website:make",
}

# Source and scraper with a crawler of the vendor's own.
CRAWLER_FACTORIES = {
    ("WEBSITE", "FIRECRAWL"): "connectors.web.firecrawl.site:make",
    ("WEBSITE", "ENDPOINT"): "connectors.web.endpoint:make_site",
}

_DESCRIBED_MODULE = "connectors.sources.described.connector"
_CUSTOM_MODULE = "connectors.sources.described.custom"
# Content service: `make(app, settings) -> Connector`; described services take their name.
CONNECTOR_FACTORIES: dict[str, str] = {
    name: f"{_DESCRIBED_MODULE}:make_described"
    if name in sources.DESCRIBED_SOURCES
    else f"{_CUSTOM_MODULE}:make"
    if name == "CUSTOM"
    else f"connectors.sources.{name.lower()}.connector:make"
    for name in sources.CONNECTED_SOURCES
}

_instances: dict[str, Any] = {}
_instances_lock = Lock()


def make_embedder(config: NamespaceConfig) -> Embedder:
    """Return the embedding model. Raises Fatal for an unavailable provider."""
    model = config.embedding_model
    _require_unmoved("embeddingModelConfig", model, config)
    make = _load_factory(EMBEDDER_FACTORIES, model["provider"], "embeddingModelConfig.provider")
    return cast("Embedder", _make_once("embedder", model, lambda: make(model, settings.load_settings())))


def add_learned_model(config: NamespaceConfig) -> NamespaceConfig:
    """Add the learned form and limits of the model server, if known in this process."""
    learned_model = getattr(make_embedder(config), LEARNED_FIELD, None)
    return (
        replace(config, embedding_model={**config.embedding_model, LEARNED_FIELD: learned_model})
        if learned_model
        else config
    )


def make_embedding_process(forks: ForkServerContext) -> EmbeddingProcess:
    """Create the process of the local model for all flow runs of a worker."""
    from connectors.embedders import local
    from connectors.embedders.embedding_process import EmbeddingProcess

    return EmbeddingProcess(forks, local.serve_models)


def use_embedding_process(address: str | None) -> None:
    """Use the embedding process at this socket; None runs the local model in this process."""
    from connectors.embedders import embedding_process

    embedding_process.set_process_address(address)


def import_local() -> None:
    """Import the local connectors and their tables before forks."""
    for target in (EMBEDDER_FACTORIES["LOCAL"], VECTOR_STORE_FACTORIES["PGVECTOR"], FILE_STORE_FACTORIES["LOCAL"]):
        importlib.import_module(target.partition(":")[0])
    importlib.import_module("connectors.parsers.parser")
    importlib.import_module("connectors.parsers.trust").rate_plausibility("")


def make_reranker(config: NamespaceConfig) -> Reranker:
    """Return the reranker. Raises Fatal without one."""
    reranker_config = config.reranker
    if reranker_config is None:
        raise Fatal("The namespace has no reranker; set its rerankConfig.")
    _require_unmoved("rerankConfig", reranker_config, config)
    make = _load_factory(RERANKER_FACTORIES, reranker_config["provider"], "rerankConfig.provider")
    return cast(
        "Reranker", _make_once("reranker", reranker_config, lambda: make(reranker_config, settings.load_settings()))
    )


def make_vector_store(config: NamespaceConfig, db: Database) -> VectorStore:
    storage = config.vector_storage
    make = _load_factory(VECTOR_STORE_FACTORIES, storage["provider"], "vectorStorageConfig.provider")
    dimensions = config.dimensions or make_embedder(config).dimensions
    identity = {"namespace": config.id, "dimensions": dimensions, "db": id(db), **storage}
    return cast("VectorStore", _make_once("vectors", identity, lambda: make(storage, db, config.id, dimensions)))


def prepare_vector_store(config: NamespaceConfig) -> None:
    """Import the modules of the vector store, without requests."""
    provider = config.vector_storage["provider"]
    _load_factory(VECTOR_STORE_FACTORIES, provider, "vectorStorageConfig.provider")
    module = importlib.import_module(VECTOR_STORE_FACTORIES[provider].partition(":")[0])
    getattr(module, "prepare", lambda: None)()


def make_file_store(config: NamespaceConfig) -> FileStore:
    storage = config.file_storage
    make = _load_factory(FILE_STORE_FACTORIES, storage["type"], "fileStorageConfig.type")
    return cast(
        "FileStore", _make_once("files", _file_store_identity(storage), lambda: make(storage, settings.load_settings()))
    )


def make_local_file_store() -> FileStore:
    """Return the folder of LOCAL file storage, shared by namespaces."""
    make = _load_factory(FILE_STORE_FACTORIES, "LOCAL", "fileStorageConfig.type")
    return cast(
        "FileStore",
        _make_once("files", _file_store_identity({"type": "LOCAL"}), lambda: make({}, settings.load_settings())),
    )


def _file_store_identity(storage: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the identity of a file store."""
    # The folder on this machine comes from the settings, not from the namespace.
    return {**storage, "folder": str(settings.load_settings().files_folder)} if storage["type"] == "LOCAL" else storage


def make_scraper(config: NamespaceConfig) -> Scraper:
    """Return the web scraper. Raises Fatal without one."""
    scraper_config = config.web_scraper
    if scraper_config is None:
        raise Fatal("The namespace no longer has a web scraper; set its webScraperConfig.")
    _require_unmoved("webScraperConfig", scraper_config, config)
    make = _load_factory(SCRAPER_FACTORIES, scraper_config["provider"], "webScraperConfig.provider")
    return cast(
        "Scraper", _make_once("scraper", scraper_config, lambda: make(scraper_config, settings.load_settings()))
    )


def is_selector(text: str) -> bool:
    """Check for a valid CSS selector."""
    return bool(importlib.import_module("connectors.http.html").is_selector(text))


def make_source(name: str, config: NamespaceConfig, db: Database, ring: KeyRing) -> Source:
    """Create the source of an ingestion. Raises Fatal without app or scraper."""
    if name in CONNECTOR_FACTORIES:
        try:
            app = connections.get_usable_app(config, name, settings.load_settings())
        except ServiceError as error:  # removed since the request
            raise Fatal(str(error)) from error
        return ConnectedSource(
            db, ring, make_connector(name, app, narrow_settings(settings.load_settings(), config.organization_id))
        )
    crawler = CRAWLER_FACTORIES.get((name, (config.web_scraper or {}).get("provider", "")))
    make = _load_factory({**SOURCE_FACTORIES, name: crawler} if crawler else SOURCE_FACTORIES, name, "source")
    return cast("Source", make(make_scraper(config), make_file_store(config), db))


@lru_cache(maxsize=1)
def make_parser() -> Parser:
    """Return the parser for all files."""
    return cast("Parser", importlib.import_module("connectors.parsers.parser").document_parser())


def make_stoppable_parser(is_needed: Callable[[], bool]) -> Parser:
    """Return the parser for all files; it raises Interrupted once `is_needed` returns False."""
    parser = importlib.import_module("connectors.parsers.parser").document_parser()
    return cast("Parser", parser.stopped_unless(is_needed))


def may_need_recognition(head: bytes, name: str, media_type: str, size: int) -> bool:
    """Check for a file that OCR may read for minutes."""
    return bool(importlib.import_module("connectors.parsers.parser").may_need_recognition(head, name, media_type, size))


def require_ocr_languages(languages: Sequence[str]) -> None:
    """Raise WrongSetting for languages missing in tesseract."""
    importlib.import_module("connectors.parsers.ocr").require_languages(languages)


def close_parser() -> None:
    """End the parser processes of this process."""
    if module := sys.modules.get("connectors.parsers.parser"):
        module.close_parser()


def make_external_parser(config: NamespaceConfig) -> ExternalParser | None:
    """Return the namespace's own parser, if any."""
    if config.parser is None:
        return None
    parser_config = config.parser
    make = _load_factory(PARSER_FACTORIES, parser_config["provider"], "parserConfig.provider")
    return cast(
        "ExternalParser", _make_once("parser", parser_config, lambda: make(parser_config, settings.load_settings()))
    )


def make_namespace_parser(config: NamespaceConfig) -> Parser:
    """Return the parser for all files, with the namespace's own as fallback."""
    external = make_external_parser(config)
    if external is None:
        return make_parser()
    return cast(
        "Parser", importlib.import_module("connectors.parsers.parser").document_parser().with_external(external)
    )


def list_parser_warnings() -> list[str]:
    """Return a sentence per missing protection of parser processes."""
    confinement = importlib.import_module("connectors.parsers.confinement")
    return [] if confinement.landlock_version() else [confinement.LANDLOCK_MISSING]


def make_page_renderer() -> PageRenderer:
    return cast("PageRenderer", importlib.import_module("connectors.parsers.page_renderer").page_renderer())


@lru_cache(maxsize=1)
def load_connector_infos() -> Mapping[str, ConnectorInfo]:
    """Return the descriptions of services with an app, in the order of `retrieval.sources.APP_SERVICES`."""
    return {name: info for name, info in load_source_infos().items() if name in sources.APP_CONFIGS}


@lru_cache(maxsize=1)
def load_source_infos() -> Mapping[str, ConnectorInfo]:
    """Return the descriptions of all sources with connections, without SDKs."""
    described = importlib.import_module("connectors.sources.described.description")
    infos = {
        name: described.read_info(name)
        if name in sources.DESCRIBED_SOURCES
        else importlib.import_module(_CUSTOM_MODULE if name == "CUSTOM" else f"connectors.sources.{name.lower()}").INFO
        for name in sources.CONNECTED_SOURCES
    }
    return cast("Mapping[str, ConnectorInfo]", infos)


def read_config(name: str, config: Mapping[str, Any], options: settings.Settings) -> Tokens:
    """Check a connection's `config` and return the tokens to store. ValueError with the field and the problem."""
    if name in sources.DESCRIBED_SOURCES:
        return cast("Tokens", importlib.import_module(_DESCRIBED_MODULE).read_config(name, config, options))
    path = f"connectors.sources.{name.lower()}.connector"
    if name in sources.ORGANIZATION_SOURCES:
        path = _organization_module(name)
    module = importlib.import_module(_CUSTOM_MODULE if name == "CUSTOM" else path)
    return cast("Tokens", module.read_config(config, options))


def _organization_module(name: str) -> str:
    return f"connectors.sources.{name.lower()}.organization"


def narrow_settings(options: settings.Settings, organization: str) -> settings.Settings:
    """Return the settings with the `source_folders` of an organization."""
    folders = list_folders(options.source_folders, organization)
    return options.model_copy(update={"source_folders": folders}) if options.source_folders else options


def make_connector(name: str, app: Mapping[str, Any], options: settings.Settings) -> Connector:
    """Create the client of a content service for a namespace's app; an empty one serves organizations only."""
    make = _load_factory(CONNECTOR_FACTORIES, name, "connector")
    if name not in sources.ORGANIZATION_SOURCES:
        return cast("Connector", make(name if name in sources.DESCRIBED_SOURCES else app, options))
    from connectors.http.no_authorizer import MissingApp
    from connectors.organization import make_either

    missing = None if app else MissingApp(sources.MISSING_APP_MESSAGE.format(app=sources.APP_CONFIGS[name]))
    module = importlib.import_module(_organization_module(name))
    person = make(app or {"clientId": "", "clientSecret": ""}, options)
    return make_either(person, partial(module.open_organization, options), missing)


def make_authorizer(
    name: str, app: Mapping[str, Any], options: settings.Settings, *, sharing: bool = False, access_token: str = ""
) -> Authorizer:
    """Return the OAuth2 client of a service; `sharing` adds scopes to read permissions, `access_token` is that of a
    connection by a person with a config."""
    base_authorizer = make_connector(name, app, options).authorizer
    if access_token and (with_access_token := getattr(base_authorizer, "with_access_token", None)) is not None:
        return cast("Authorizer", with_access_token(access_token))
    with_sharing = getattr(base_authorizer, "with_sharing", None)
    return cast("Authorizer", with_sharing()) if sharing and with_sharing is not None else base_authorizer


def _load_factory(table: Mapping[str, str], value: str, field: str) -> Any:
    if value not in table:
        raise Fatal(f"{field} {value} is not available in this version; use one of: {', '.join(sorted(table))}.")
    module, _, name = table[value].partition(":")
    return getattr(importlib.import_module(module), name)


def _require_unmoved(area: str, config: Mapping[str, Any], namespace: NamespaceConfig) -> None:
    """Raise Fatal if the secrets belong to another address than the settings have."""
    try:
        destinations.require_unmoved(settings.load_settings(), area, config, namespace.sent_to)
    except ServiceError as error:
        raise Fatal(str(error), field=area) from error


def _explain_missing_secret(error: KeyError) -> Exception:
    """Return Fatal for a missing secret, as after an import of a namespace."""
    name = str(error.args[0]) if error.args else ""
    if name not in SECRET_FIELDS and name != "credentials":
        return error
    return Fatal(
        f"The namespace has no {name} here yet: send it by PATCH, with the config that it belongs to.", field=name
    )


def _make_once(kind: str, config: Mapping[str, Any], make: Any) -> Any:
    """Create one client per configuration."""
    # Creation is slow, and not every client can be created by two threads.
    text = json.dumps([kind, dict(config)], sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()
    with _instances_lock:
        if key not in _instances:
            try:
                _instances[key] = make()
            except KeyError as error:
                raise _explain_missing_secret(error) from error
        return _instances[key]
