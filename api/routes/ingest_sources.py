"""Ingestion from the web and from content services."""

from __future__ import annotations

from typing import Any, cast

import msgspec
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody

from api.operation import idempotent
from api.request import ApiRequest
from api.routes.ingest import INVALID_CONFIG, accept_dry_run, ingestion_operation
from api.services import Services
from api.wire import ingest as wire
from api.wire.connectors import CONNECTOR_BODIES, SOURCE_BODY, ConnectorConfig, IngestFromConnector
from connectors import registry
from retrieval import sync_filter
from retrieval.connections import connections
from retrieval.documents import metadata
from retrieval.errors import ErrorCode, ServiceError
from retrieval.job_config import FULL_LISTING, Ingestion
from retrieval.jobs import runs
from retrieval.namespaces import namespaces
from retrieval.network import urls as web_addresses
from retrieval.ports import Scope
from retrieval.sources import CREDENTIAL_SOURCES, source_slug

CONFIG_PATH = "ingestConfig.config"
_NAMESPACE_EXAMPLE = "ns_06gzpnn6z30k9qdmrw54faz30gfpw60mq5r0"
_WEB_ERROR_CODES = (ErrorCode.WEB_SCRAPER_CONFIG_NOT_SET, ErrorCode.INVALID_SCRAPE_OPTIONS)


@ingestion_operation(
    "/v1/ingest/urls",
    raises=_WEB_ERROR_CODES,
    example={
        "namespaceId": _NAMESPACE_EXAMPLE,
        "ingestConfig": {
            "source": "URLS_LIST",
            "config": {
                "urls": ["https://docs.example.com/start"],
                "scrapeOptions": {"includeSelectors": ["main"], "excludeSelectors": ["nav"]},
            },
        },
    },
)
@idempotent
async def ingest_urls(request: ApiRequest, data: JSONBody[wire.IngestUrls]) -> wire.IngestAnswer:
    """Ingest a list of URLs. Each URL becomes a document. The same URL again replaces its document."""
    config = data.ingest_config.config
    _require_limit(len(config.urls), request.services.settings.max_urls, f"{CONFIG_PATH}.urls", "URLs")
    urls = [_tidy_url(url, f"{CONFIG_PATH}.urls[{index}]") for index, url in enumerate(config.urls)]

    scope, ingestion = await _prepare_ingestion(request, data)
    job = config.to_job_config() | {"urls": list(dict.fromkeys(urls))}
    if data.dry_run:
        return await accept_dry_run(request, scope, "URLs", source="URLS_LIST", ingestion=ingestion, config=job)
    del job["urls"]
    receipt = await runs.accept_urls(request.services.db, scope, urls=urls, config=job, ingestion=ingestion)
    await request.save_tenant()
    return wire.IngestAnswer.of_several(receipt, "URLs")


@ingestion_operation(
    "/v1/ingest/sitemap",
    raises=_WEB_ERROR_CODES,
    example={
        "namespaceId": _NAMESPACE_EXAMPLE,
        "ingestConfig": {
            "source": "SITEMAP",
            "config": {"url": "https://docs.example.com/sitemap.xml", "maxLinks": 500, "includePaths": ["/guide/"]},
        },
    },
)
@idempotent
async def ingest_sitemap(request: ApiRequest, data: JSONBody[wire.IngestSitemap]) -> wire.IngestAnswer:
    """Ingest the pages of a sitemap. The job run lists the pages to ingest."""
    return await _discover(request, data, "SITEMAP", "sitemap")


@ingestion_operation(
    "/v1/ingest/website",
    raises=_WEB_ERROR_CODES,
    example={
        "namespaceId": _NAMESPACE_EXAMPLE,
        "ingestConfig": {
            "source": "WEBSITE",
            "config": {"url": "https://docs.example.com", "maxDepth": 2, "maxLinks": 100, "excludePaths": ["/login"]},
        },
    },
)
@idempotent
async def ingest_website(request: ApiRequest, data: JSONBody[wire.IngestWebsite]) -> wire.IngestAnswer:
    """Ingest the pages of a website.

    The job run finds the pages by following the site's links.
    """
    return await _discover(request, data, "WEBSITE", "website")


async def _discover(
    request: ApiRequest, data: wire.IngestSitemap | wire.IngestWebsite, source: str, noun: str
) -> wire.IngestAnswer:
    config = data.ingest_config.config
    url = _tidy_url(config.url, f"{CONFIG_PATH}.url")
    kind: type[wire.SitemapConfig | wire.WebsiteConfig] = type(config)
    defaults: dict[str, Any] = {"maxLinks": kind(url=url).max_links}
    if isinstance(config, wire.WebsiteConfig):
        defaults["maxDepth"] = wire.WebsiteConfig(url=url).max_depth
    settings = request.services.settings
    if config.max_links is not None:
        _require_limit(config.max_links, settings.max_links, f"{CONFIG_PATH}.maxLinks", "links")
    for name, paths in (("includePaths", config.include_paths), ("excludePaths", config.exclude_paths)):
        _require_limit(len(paths or ()), settings.max_paths, f"{CONFIG_PATH}.{name}", "paths")
    scope, ingestion = await _prepare_ingestion(request, data)
    job = {**defaults, **config.to_job_config(url=url)}
    if data.dry_run:
        return await accept_dry_run(request, scope, noun, source=source, ingestion=ingestion, config=job)
    receipt = await runs.accept_discovery(request.services.db, scope, source=source, config=job, ingestion=ingestion)
    await request.save_tenant()
    return wire.IngestAnswer.of_several(receipt, noun)


async def _prepare_ingestion(
    request: ApiRequest, data: wire.IngestUrls | wire.IngestSitemap | wire.IngestWebsite
) -> tuple[Scope, Ingestion]:
    """Return the scope and the ingestion; raise WEB_SCRAPER_CONFIG_NOT_SET."""
    services = request.services
    ingestion = _read_ingestion(data.ingest_config, services)
    scope = request.scope_of(data.namespace_id)
    namespace = await namespaces.get_namespace(services.db, services.ring, scope.organization, scope.namespace)
    if namespace.web_scraper is None:
        raise ServiceError(
            ErrorCode.WEB_SCRAPER_CONFIG_NOT_SET,
            "The namespace has no webScraperConfig; set one, for instance the provider BUILTIN, which needs no key.",
            field="webScraperConfig",
        )
    return scope, ingestion


def _read_ingestion(
    ingest_config: wire.UrlsIngestion | wire.SitemapIngestion | wire.WebsiteIngestion, services: Services
) -> Ingestion:
    config: wire.PageConfig = ingest_config.config
    if config.metadata is not None:
        config.metadata = metadata.accept_metadata(
            config.metadata, services.settings, INVALID_CONFIG, f"{CONFIG_PATH}.metadata"
        )
    _check_selectors(config, services)
    inner = ingest_config.chunk_config is None and config.chunk_config is not None
    return wire.build_ingestion(
        config.metadata,
        ingest_config.chunk_config or config.chunk_config,
        chunks_at=f"{CONFIG_PATH}.chunkConfig" if inner else "ingestConfig.chunkConfig",
        access=(f"{CONFIG_PATH}.access", config.access),
    )


def _check_selectors(config: wire.PageConfig, services: Services) -> None:
    from connectors import registry  # imports the HTML reader

    options, settings = config.scrape_options, services.settings
    longest = settings.max_selector_characters
    if options is None:
        return
    for name, selectors in (
        ("includeSelectors", options.include_selectors or []),
        ("excludeSelectors", options.exclude_selectors or []),
    ):
        field = f"{CONFIG_PATH}.scrapeOptions.{name}"
        _require_limit(len(selectors), settings.max_selectors, field, "selectors", ErrorCode.INVALID_SCRAPE_OPTIONS)
        for index, selector in enumerate(selectors):
            if not selector.strip() or len(selector) > longest:
                raise ServiceError(
                    ErrorCode.INVALID_SCRAPE_OPTIONS,
                    f"{field}[{index}] must be a CSS selector of at most {longest} characters.",
                    field=f"{field}[{index}]",
                    reason="out_of_bounds",
                )
            if not registry.is_selector(selector):
                raise ServiceError(
                    ErrorCode.INVALID_SCRAPE_OPTIONS,
                    f"{field}[{index}] is not a CSS selector that can be read.",
                    field=f"{field}[{index}]",
                    reason="invalid_selector",
                )


def _require_limit(number: int, maximum: int, field: str, noun: str, code: ErrorCode = INVALID_CONFIG) -> None:
    if number > maximum:
        raise ServiceError(code, f"{field} asks for more than {maximum:,} {noun}.", field=field, reason="out_of_bounds")


def _tidy_url(url: str, field: str) -> str:
    try:
        return web_addresses.tidy_url(url)
    except ValueError as error:
        raise ServiceError(INVALID_CONFIG, f"{field} {error}.", field=field, reason="invalid_url") from error


async def _ingest_from_connector(request: ApiRequest, data: IngestFromConnector, name: str) -> wire.IngestAnswer:
    """The job run lists the content to ingest. The connection must be ACTIVE."""
    services, ingest_config = request.services, data.ingest_config
    config = ingest_config.config
    if config.metadata is not None:
        config.metadata = metadata.accept_metadata(
            config.metadata, services.settings, INVALID_CONFIG, f"{CONFIG_PATH}.metadata"
        )
    inner = ingest_config.chunk_config is None and config.chunk_config is not None
    ingestion = wire.build_ingestion(
        config.metadata,
        ingest_config.chunk_config or config.chunk_config,
        chunks_at=f"{CONFIG_PATH}.chunkConfig" if inner else "ingestConfig.chunkConfig",
        access=(f"{CONFIG_PATH}.access", config.access),
    )
    job = _describe_selection(config, ingest_config.source)
    scope = request.scope_of(data.namespace_id)
    await namespaces.require_namespace(services.db, scope.organization, scope.namespace)
    await connections.require_active(services.db, scope, config.connection_id, ingest_config.source)

    if data.dry_run:
        connection = config.connection_id
        return await accept_dry_run(
            request, scope, name, source=ingest_config.source, ingestion=ingestion, config=job, connection_id=connection
        )
    receipt = await runs.accept_discovery(
        services.db,
        scope,
        source=ingest_config.source,
        config=job,
        ingestion=ingestion,
        connection_id=config.connection_id,
    )
    await request.save_tenant()
    return wire.IngestAnswer.of_several(receipt, name)


def _describe_selection(config: ConnectorConfig, source: str) -> dict[str, Any]:
    """Return the selection for the job configuration; raise ServiceError for an invalid entry."""
    fields: dict[str, Any] = {}
    for name in ("include", "exclude"):
        entries = [msgspec.to_builtins(item) for item in getattr(config, name) or ()]
        for number, entry in enumerate(entries):
            if wrong := sync_filter.entry_fault(entry, empty_path=(source, name) == ("SHAREPOINT", "include")):
                at = f"{CONFIG_PATH}.{name}[{number}]"
                reason = "id_or_path" if len(entry) != 1 else "invalid_pattern"
                raise ServiceError(INVALID_CONFIG, f"{at} {wrong}.", field=at, reason=reason)
        fields |= {name: entries} if entries else {}
    fields |= {"pick": True} if config.pick else {}
    return fields | ({FULL_LISTING: True} if config.full_listing else {})


def _make_handler(body: type[Any], source: str, name: str, path: str) -> HTTPRouteHandler:
    """Return the ingestion operation of a content service, or of all services by URL."""

    async def ingest_source(request: ApiRequest, data: JSONBody[IngestFromConnector]) -> wire.IngestAnswer:
        title = registry.load_source_infos()[data.ingest_config.source].title
        return await _ingest_from_connector(request, data, title)

    ingest_source.__name__ = f"ingest_{path.replace('-', '_')}"
    ingest_source.__doc__ = f"Ingest from {name}. {_ingest_from_connector.__doc__}"
    ingest_source.__annotations__["data"] = cast("Any", JSONBody)[body]
    return ingestion_operation(
        f"/v1/ingest/{path}",
        raises=(ErrorCode.CONNECTION_NOT_FOUND,),
        example={
            "namespaceId": "ns_06gzpnn6z30k9qdmrw54faz30gfpw60mq5r0",
            "ingestConfig": {
                "source": source,
                "config": {"connectionId": "conn_06gzppa1c3e5g7j9m2p4r6t8w1", "metadata": {"team": "finance"}},
            },
        },
    )(idempotent(ingest_source))


ROUTE_HANDLERS = (
    ingest_urls,
    ingest_sitemap,
    ingest_website,
    *(
        _make_handler(CONNECTOR_BODIES[name], name, info.title, source_slug(name))
        for name, info in registry.load_connector_infos().items()
    ),
    _make_handler(SOURCE_BODY, CREDENTIAL_SOURCES[0], "a storage or service by its URL", "source"),
)
