"""Vector stores in the format of OpenAI's API: namespaces."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import msgspec
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from api import auth
from api.operation import idempotent, operation
from api.permissions import find_permission
from api.request import ApiRequest
from api.routes import namespaces as namespace_routes
from api.routes.vector_store_files import FILES_PATH, attach_files, find_namespace, find_uploads
from api.wire import vector_stores as wire
from api.wire.namespaces import CreateNamespace
from retrieval.database import pagination
from retrieval.database.pagination import ListPosition, PageRequest
from retrieval.documents.queries import uploads as file_uploads
from retrieval.errors import ErrorCode
from retrieval.namespaces import namespaces, queries
from retrieval.namespaces.namespaces import EMBEDDED_CONFIGS, NamespaceConfig, default_configs

_operation = partial(operation, tag="OpenAI", invalid=wire.INVALID_REQUEST)
_STORE_PATH = "/v1/vector_stores/{namespace_id:str}"


@_operation("GET", "/v1/vector_stores")
async def list_vector_stores(request: ApiRequest, params: NamedDependency[wire.StoreList]) -> wire.VectorStorePage:
    """List vector stores. The namespaces, newest first."""
    services, caller = request.services, request.caller
    start, end = (
        await _find_position(request, "after", params.after),
        await _find_position(request, "before", params.before),
    )
    page = await namespaces.list_namespaces(
        services.db,
        services.ring,
        caller.organization,
        PageRequest(params.limit + 1, pagination.age_cursor(start) if start else None),
        queries.Listing("oldest" if params.is_ascending else "newest", only=caller.namespace),
    )
    rows, has_more = params.cut_page(page.items, end)
    return wire.VectorStorePage.from_entries(await _present_stores(request, rows), has_more=has_more)


async def _find_position(request: ApiRequest, field: str, namespace_id: str | None) -> ListPosition | None:
    if not namespace_id:
        return None
    is_reachable = "\x00" not in namespace_id and request.caller.namespace in {None, namespace_id}
    organization = request.caller.organization
    position = await namespaces.find_place(request.services.db, organization, namespace_id) if is_reachable else None
    if position is None:
        raise wire.unknown_entry(field)
    return position


async def check_store(request: ApiRequest, data: JSONBody[wire.CreateVectorStore]) -> NamespaceConfig:
    """Return the namespace to create; raise FORBIDDEN for files without the permission to ingest."""
    if data.file_ids:
        auth.require_permission(request.caller, find_permission("POST", FILES_PATH))
        wire.build_ingestion(data.chunking_strategy)
        await find_uploads(request, data.list_files())
    configs = default_configs(request.services.settings) or EMBEDDED_CONFIGS
    body = msgspec.convert({"name": data.name or wire.DEFAULT_NAME, **configs}, CreateNamespace)
    return await namespace_routes.check_draft(request, body)


@_operation(
    "POST",
    "/v1/vector_stores",
    raises=(ErrorCode.NAMESPACE_LIMIT_EXCEEDED, ErrorCode.INVALID_NAMESPACE_CONFIG, ErrorCode.NOT_FOUND),
    body=wire.CreateVectorStore,
    dependencies={"draft": check_store},
    notifies=True,
    example={"name": "Product manuals"},
)
@idempotent
async def create_vector_store(
    request: ApiRequest, data: JSONBody[wire.CreateVectorStore], draft: NamedDependency[NamespaceConfig]
) -> wire.VectorStore:
    """Create a vector store. A namespace with the default storage, index and model, and uploaded files, if any."""
    services = request.services
    async with services.db.async_together():
        created = await namespaces.create_namespace(
            services.db, services.ring, draft, limit=services.settings.namespace_limit
        )
        if data.file_ids:
            await attach_files(request, created, data.list_files())
    return (await _present_stores(request, [created]))[0]


@_operation("GET", _STORE_PATH, raises=(ErrorCode.NAMESPACE_NOT_FOUND,))
async def get_vector_store(request: ApiRequest, namespace_id: FromPath[str]) -> wire.VectorStore:
    """Get a vector store."""
    return (await _present_stores(request, [await find_namespace(request, namespace_id)]))[0]


@_operation(
    "POST",
    _STORE_PATH,
    raises=(ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.INVALID_NAMESPACE_CONFIG),
    example={"name": "Manuals"},
)
@idempotent
async def update_vector_store(
    request: ApiRequest, namespace_id: FromPath[str], data: JSONBody[wire.UpdateVectorStore]
) -> wire.VectorStore:
    """Rename a vector store."""
    services, namespace = request.services, await find_namespace(request, namespace_id)
    if data.name:
        namespace = await namespaces.update_namespace(services.db, services.ring, replace(namespace, name=data.name))
    return (await _present_stores(request, [namespace]))[0]


@_operation("DELETE", _STORE_PATH, raises=(ErrorCode.NAMESPACE_NOT_FOUND,))
async def delete_vector_store(request: ApiRequest, namespace_id: FromPath[str]) -> wire.Removed:
    """Delete a vector store. The namespace disappears at once."""
    request.require_namespace(namespace_id)
    await namespaces.delete_namespace(request.services.db, request.caller.organization, namespace_id)
    return wire.Removed(id=namespace_id, object="vector_store.deleted")


async def _present_stores(request: ApiRequest, configs: list[NamespaceConfig]) -> list[wire.VectorStore]:
    counts = await file_uploads.count_documents(request.services.db, [config.id for config in configs], request.tenant)
    return [wire.VectorStore.from_namespace(config, counts) for config in configs]


ROUTE_HANDLERS = (list_vector_stores, create_vector_store, get_vector_store, update_vector_store, delete_vector_store)
