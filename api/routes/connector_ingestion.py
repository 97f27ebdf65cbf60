"""Ingestion from content services: one request shape, a path for each; the job run finds out what there is."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar.handlers import HTTPRouteHandler

from api.ingestion_operation import INVALID, dry_run, ingestion_operation
from api.operation import Call
from api.wire.connectors import BODIES, ConnectorConfig, IngestFromConnector
from api.wire.ingest import IngestAnswer, ingestion
from connectors import registry
from retrieval import sync_filter
from retrieval.connections import connections
from retrieval.documents import metadata
from retrieval.errors import ErrorCode, ServiceError
from retrieval.jobs import runs
from retrieval.namespaces import namespaces
from retrieval.sources import slug

AT = "ingestConfig.config"


async def _ingest(call: Call[IngestFromConnector, None], name: str) -> IngestAnswer | bytes:
    """What there is to ingest is found out by the job run. The connection must be ACTIVE."""
    services, asked = call.services, call.body.ingest_config
    config = asked.config
    if config.metadata is not None:
        metadata.check(config.metadata, services.settings, INVALID, f"{AT}.metadata")
    inner = asked.chunk_config is None and config.chunk_config is not None
    how = ingestion(
        config.metadata,
        asked.chunk_config or config.chunk_config,
        chunks_at=f"{AT}.chunkConfig" if inner else "ingestConfig.chunkConfig",
        access=(f"{AT}.access", config.access),
    )
    request = _request(config, asked.source)
    scope = call.scope(call.body.namespace_id)
    await namespaces.require(services.db, scope.organization, scope.namespace)
    await connections.require_active(services.db, scope, config.connection_id, asked.source)

    async def act() -> IngestAnswer:
        if call.body.dry_run:
            connection = config.connection_id
            return await dry_run(
                call, scope, name, source=asked.source, how=how, request=request, connection_id=connection
            )
        receipt = await runs.accept_discovery(
            services.db, scope, source=asked.source, config=request, ingestion=how, connection_id=config.connection_id
        )
        await call.make_tenant_known()
        return IngestAnswer.of_several(receipt, name)

    answer = await call.once(act)
    services.notices.send()
    return answer


def _request(config: ConnectorConfig, source: str) -> dict[str, Any]:
    """What the source is told. ServiceError for an entry that names two things or none, or makes no sense."""
    said: dict[str, Any] = {}
    for name in ("include", "exclude"):
        entries = [msgspec.to_builtins(one) for one in getattr(config, name) or ()]
        for number, entry in enumerate(entries):
            if wrong := sync_filter.fault(entry, empty_path=(source, name) == ("SHAREPOINT", "include")):
                at = f"{AT}.{name}[{number}]"
                reason = "id_or_path" if len(entry) != 1 else "invalid_pattern"
                raise ServiceError(INVALID, f"{at} {wrong}.", field=at, reason=reason)
        said |= {name: entries} if entries else {}
    return said | ({"pick": True} if config.pick else {})


def _handler(body: type[Any], source: str, name: str) -> HTTPRouteHandler:
    """The operation of one content service; `name` is how people call it."""

    async def ingest(call: Call[Any, None]) -> IngestAnswer | bytes:
        return await _ingest(call, name)

    ingest.__name__, ingest.__doc__ = f"ingest_{source.lower()}", f"Ingest from {name}. {_ingest.__doc__}"
    return ingestion_operation(
        f"/v1/ingest/{slug(source)}",
        raises=(ErrorCode.CONNECTION_NOT_FOUND,),
        body=body,
        example={
            "namespaceId": "ns_06gzpnn6z30k9qdmrw54faz30gfpw60mq5r0",
            "ingestConfig": {
                "source": source,
                "config": {"connectionId": "conn_06gzppa1c3e5g7j9m2p4r6t8w1", "metadata": {"team": "finance"}},
            },
        },
    )(ingest)


HANDLERS = tuple(_handler(BODIES[name], name, info.title) for name, info in registry.infos().items())
