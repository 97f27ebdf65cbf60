"""Permissions: the scope of each operation, and the reach of bound keys."""
# The routes, the OpenAPI document, the docs and a generated test use this table; an operation without a row fails at
# start.

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from retrieval.accounts.api_keys import KEY_SCOPES
from retrieval.sources import CONTENT_SERVICES, source_slug


class Reach(StrEnum):
    """Part of an operation's objects that a bound key may use, as worded in the docs."""

    WITHIN = "within its bounds"
    NAMES = "id and name"
    ITSELF = "itself"
    NOTHING = "403"


@dataclass(frozen=True, slots=True)
class Permission:
    """Scope of an operation (None: any valid key), and the reach of keys bound to a namespace or tenant."""

    scope: str | None
    namespace_bound: Reach = Reach.WITHIN
    tenant_bound: Reach = Reach.WITHIN
    on_behalf: bool = False  # allowed on behalf of a user, for reads
    admins: bool = False  # of signed-in people, only the role `admin`

    def find_reach(self, *, namespace: bool, tenant: bool) -> Reach | None:
        """Return the narrower reach of a key with these bounds; None for an organization-wide key."""
        reaches = [self.namespace_bound] * namespace + [self.tenant_bound] * tenant
        return max(reaches, key=list(Reach).index, default=None)

    def describe_access(self) -> Iterator[str]:
        """Yield sentences for the operation's description."""
        if self.scope:
            yield f"Needs the scope `{self.scope}`."
        bound = {"namespace": self.namespace_bound, "tenant": self.tenant_bound}
        for reach in dict.fromkeys(bound.values()):
            keys = " or ".join(f"a {kind}" for kind, kind_reach in bound.items() if kind_reach is reach)
            yield _REACH_SENTENCES[reach].format(keys=keys)
        if not self.on_behalf:
            yield "Refused on behalf of a user (`X-On-Behalf-Of`)."
        if self.admins:
            yield "Of the people who sign in, only admins may do this."


_REACH_SENTENCES: Mapping[Reach, str] = {
    Reach.WITHIN: "A key bound to {keys} acts within its bounds.",
    Reach.NAMES: "A key bound to {keys} receives `id`, `identifier` and `name` only.",
    Reach.ITSELF: "",
    Reach.NOTHING: "Refused to a key that is bound to {keys}.",
}


def _organization_only(scope: str) -> Permission:
    """Return the permission for organization-wide keys."""
    return Permission(scope, Reach.NOTHING, Reach.NOTHING)


def _no_tenant_keys(scope: str) -> Permission:
    """Return the permission for organization-wide and namespace-bound keys."""
    return Permission(scope, Reach.WITHIN, Reach.NOTHING)


def _user_readable(scope: str | None, bound: Reach = Reach.WITHIN) -> Permission:
    """Return the permission for requests on behalf of a user too."""
    return Permission(scope, bound, bound, on_behalf=True)


_INGESTION_PATHS = (
    "text",
    "file",
    "files",
    "uploads",
    "urls",
    "sitemap",
    "website",
    *map(source_slug, CONTENT_SERVICES),
    "source",
)

OPERATION_PERMISSIONS: Mapping[str, Permission] = {
    "POST /v1/namespaces": _organization_only("namespaces:write"),
    "POST /v1/namespaces/test": _organization_only("namespaces:write"),
    "GET /v1/namespaces": _user_readable("namespaces:read", Reach.NAMES),
    "GET /v1/namespaces/{namespace_id}": _user_readable("namespaces:read", Reach.NAMES),
    "PATCH /v1/namespaces/{namespace_id}": _organization_only("namespaces:write"),
    "DELETE /v1/namespaces/{namespace_id}": _organization_only("namespaces:write"),
    **{f"POST /v1/ingest/{name}": Permission("ingest:write") for name in _INGESTION_PATHS},
    "POST /v1/convert/file": Permission("ingest:write"),
    "GET /v1/ingest-job-runs": Permission("ingest:read"),
    "GET /v1/ingest-job-runs/{ingest_job_run_id}": Permission("ingest:read"),
    "POST /v1/ingest-job-runs/{ingest_job_run_id}/cancel": Permission("ingest:write"),
    "POST /v1/ingest-job-runs/{ingest_job_run_id}/retry": Permission("ingest:write"),
    "POST /v1/search": _user_readable("search"),
    "POST /v1/search/hybrid": _user_readable("search"),
    "POST /v1/search/batch": _user_readable("search"),
    "POST /v1/compat/dify/retrieval": _user_readable("search"),
    "POST /v1/vector_stores/{namespace_id}/search": _user_readable("search"),
    "GET /v1/models": Permission("namespaces:read"),
    "GET /v1/models/{model}": Permission("namespaces:read"),
    "GET /v1/vector_stores": Permission("namespaces:read"),
    "POST /v1/vector_stores": _organization_only("namespaces:write"),
    "GET /v1/vector_stores/{namespace_id}": Permission("namespaces:read"),
    "POST /v1/vector_stores/{namespace_id}": _organization_only("namespaces:write"),
    "DELETE /v1/vector_stores/{namespace_id}": _organization_only("namespaces:write"),
    "GET /v1/vector_stores/{namespace_id}/files": Permission("documents:read"),
    "POST /v1/vector_stores/{namespace_id}/files": Permission("ingest:write"),
    "GET /v1/vector_stores/{namespace_id}/files/{document_id}": Permission("documents:read"),
    "POST /v1/vector_stores/{namespace_id}/files/{document_id}": Permission("documents:write"),
    "DELETE /v1/vector_stores/{namespace_id}/files/{document_id}": Permission("documents:write"),
    "GET /v1/vector_stores/{namespace_id}/files/{document_id}/content": Permission("documents:read"),
    "POST /v1/vector_stores/{namespace_id}/file_batches": Permission("ingest:write"),
    "GET /v1/vector_stores/{namespace_id}/file_batches/{ingest_job_run_id}": Permission("ingest:read"),
    "GET /v1/vector_stores/{namespace_id}/file_batches/{ingest_job_run_id}/files": Permission("documents:read"),
    "POST /v1/vector_stores/{namespace_id}/file_batches/{ingest_job_run_id}/cancel": Permission("ingest:write"),
    "POST /v1/files": Permission("ingest:write"),
    "GET /v1/files": Permission("documents:read"),
    "GET /v1/files/{file_id}": Permission("documents:read"),
    "GET /v1/files/{file_id}/content": Permission("documents:read"),
    "DELETE /v1/files/{file_id}": Permission("documents:write"),
    "POST /v1/evaluations": Permission("documents:write"),
    "GET /v1/evaluations": Permission("search"),
    "GET /v1/evaluations/{evaluation_id}": Permission("search"),
    "GET /v1/evaluations/{evaluation_id}/questions": Permission("search"),
    "PATCH /v1/evaluations/{evaluation_id}": Permission("documents:write"),
    "DELETE /v1/evaluations/{evaluation_id}": Permission("documents:write"),
    "POST /v1/evaluations/{evaluation_id}/runs": Permission("search"),
    "GET /v1/evaluations/{evaluation_id}/runs": Permission("search"),
    "GET /v1/evaluations/{evaluation_id}/runs/{run_id}": Permission("search"),
    "POST /v1/search/why": Permission("search"),
    "GET /v1/weak-searches": Permission("documents:write"),
    "POST /v1/documents": _user_readable("documents:read"),
    "PATCH /v1/documents": Permission("documents:write"),
    "DELETE /v1/documents": Permission("documents:write"),
    "POST /v1/documents/delete": Permission("documents:write"),
    "GET /v1/deletions/{deletion_id}": Permission("documents:read"),
    "POST /v1/deletions/verify": Permission("documents:read"),
    "POST /v1/documents/resync": Permission("documents:write"),
    "GET /v1/documents/{document_id}/chunks": _user_readable("documents:read"),
    "GET /v1/documents/{document_id}/pages/{page}": _user_readable("documents:read"),
    "GET /v1/documents/{document_id}/history": Permission("documents:read"),
    "POST /v1/documents/{document_id}/hidden-passages": Permission("documents:write"),
    "DELETE /v1/documents/{document_id}/hidden-passages/{passage_id}": Permission("documents:write"),
    "GET /v1/hidden-passages": Permission("documents:read"),
    "PUT /v1/groups/{group_id}": Permission("documents:write", admins=True),
    "GET /v1/groups/{group_id}": Permission("documents:read"),
    "DELETE /v1/groups/{group_id}": Permission("documents:write", admins=True),
    **{
        f"{method} /v1/namespaces/{{namespace_id}}/scim/v2/{path}": Permission(
            "documents:read" if method == "GET" else "documents:write", admins=method != "GET"
        )
        for method, path in (
            ("GET", "{resource_type}"),
            ("POST", "{resource_type}"),
            *((method, "{resource_type}/{resource_id}") for method in ("GET", "PUT", "PATCH", "DELETE")),
        )
    },
    "POST /v1/connections": Permission("connections:write"),
    "GET /v1/connections": Permission("connections:read"),
    "GET /v1/connections/{connection_id}": Permission("connections:read"),
    "PATCH /v1/connections/{connection_id}": Permission("connections:write"),
    "POST /v1/connections/{connection_id}/browse": Permission("connections:read"),
    "POST /v1/connections/{connection_id}/push": Permission("connections:write"),
    "DELETE /v1/connections/{connection_id}/push": Permission("connections:write"),
    "POST /v1/connections/{connection_id}/revoke": Permission("connections:write"),
    "POST /v1/schedules": Permission("ingest:write"),
    "GET /v1/schedules": Permission("ingest:read"),
    "GET /v1/schedules/{schedule_id}": Permission("ingest:read"),
    "PATCH /v1/schedules/{schedule_id}": Permission("ingest:write"),
    "DELETE /v1/schedules/{schedule_id}": Permission("ingest:write"),
    "GET /v1/activity": Permission("ingest:read"),
    "GET /v1/problems": Permission("ingest:read"),
    "POST /v1/webhooks": _no_tenant_keys("webhooks:write"),
    "GET /v1/webhooks": _no_tenant_keys("webhooks:read"),
    "GET /v1/webhooks/{webhook_id}": _no_tenant_keys("webhooks:read"),
    "PATCH /v1/webhooks/{webhook_id}": _no_tenant_keys("webhooks:write"),
    "DELETE /v1/webhooks/{webhook_id}": _no_tenant_keys("webhooks:write"),
    "POST /v1/webhooks/{webhook_id}/rotate": _no_tenant_keys("webhooks:write"),
    "POST /v1/webhooks/{webhook_id}/test": _no_tenant_keys("webhooks:write"),
    "GET /v1/webhooks/{webhook_id}/deliveries": _no_tenant_keys("webhooks:read"),
    "POST /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver": _no_tenant_keys("webhooks:write"),
    "GET /v1/keys": _organization_only("admin"),
    "GET /v1/keys/current": _user_readable(None, Reach.ITSELF),
    "POST /v1/keys": _organization_only("admin"),
    "DELETE /v1/keys/{key_id}": _organization_only("admin"),
    "GET /v1/tenants": _organization_only("admin"),
    "POST /v1/tenants": _organization_only("admin"),
    "DELETE /v1/tenants/{tenant_id}": _organization_only("admin"),
    "GET /v1/usage": _organization_only("admin"),
    "GET /v1/audit": _organization_only("admin"),
    "GET /v1/queue": _organization_only("admin"),
    "GET /metrics": _organization_only("admin"),
    "GET /v1/organization": _organization_only("admin"),
    "PATCH /v1/organization": _organization_only("admin"),
    "PATCH /v1/tenants/{tenant_id}": _organization_only("admin"),
}


def find_permission(method: str, path: str) -> Permission:
    """Return the permission of an operation; raise LookupError if missing."""
    name = f"{method} {path.replace(':str}', '}')}"
    if name not in OPERATION_PERMISSIONS:
        raise LookupError(f"say in api/permissions.py who may {name}")
    return OPERATION_PERMISSIONS[name]


def default_scopes(*, namespace: bool, tenant: bool) -> list[str]:
    """Return the usable scopes of a key with these bounds, except `admin`."""
    usable = {
        permission.scope
        for permission in OPERATION_PERMISSIONS.values()
        if permission.find_reach(namespace=namespace, tenant=tenant) != Reach.NOTHING
    }
    return [scope for scope in KEY_SCOPES if scope in usable and scope != "admin"]
