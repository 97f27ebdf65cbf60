"""Permissions: the scope of each operation, and the limits of keys bound to a namespace or tenant."""
# The routes, the OpenAPI document, the docs and a generated test use this table; an operation without a row fails at
# start.

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from retrieval.accounts.api_keys import KEY_SCOPES
from retrieval.sources import APP_SERVICES, source_slug


class BoundAccess(StrEnum):
    """Access of a bound key in an operation, from the widest to the narrowest; the values appear in the docs."""

    WITHIN_BOUNDS = "within its bounds"
    NAMES_ONLY = "id and name"
    KEY_ITSELF = "itself"
    REFUSED = "403"


@dataclass(frozen=True, slots=True)
class Permission:
    """Callers of an operation."""

    # None: any valid key.
    scope: str | None
    namespace_keys: BoundAccess = BoundAccess.WITHIN_BOUNDS
    tenant_keys: BoundAccess = BoundAccess.WITHIN_BOUNDS
    # Requests with X-On-Behalf-Of; only for reads.
    allows_on_behalf: bool = False
    # Signed-in people need the role `admin`; API keys do not.
    needs_admin_role: bool = False

    def find_access(self, *, namespace_bound: bool, tenant_bound: bool) -> BoundAccess | None:
        """Return the access of a key, for both bounds the narrower one; None for an organization-wide key."""
        if namespace_bound and tenant_bound:
            return max(self.namespace_keys, self.tenant_keys, key=list(BoundAccess).index)
        if namespace_bound:
            return self.namespace_keys
        return self.tenant_keys if tenant_bound else None

    def describe_access(self) -> Iterator[str]:
        """Yield sentences for the operation's description."""
        if self.scope:
            yield f"Needs the scope `{self.scope}`."
        if self.namespace_keys is self.tenant_keys:
            yield _BOUND_ACCESS_SENTENCES[self.namespace_keys].format(bounds="a namespace or a tenant")
        else:
            yield _BOUND_ACCESS_SENTENCES[self.namespace_keys].format(bounds="a namespace")
            yield _BOUND_ACCESS_SENTENCES[self.tenant_keys].format(bounds="a tenant")
        if not self.allows_on_behalf:
            yield "Refused on behalf of a user (`X-On-Behalf-Of`)."
        if self.needs_admin_role:
            yield "Of the people who sign in, only admins may do this."


_BOUND_ACCESS_SENTENCES: Mapping[BoundAccess, str] = {
    BoundAccess.WITHIN_BOUNDS: "A key bound to {bounds} acts within its bounds.",
    BoundAccess.NAMES_ONLY: "A key bound to {bounds} receives `id`, `identifier` and `name` only.",
    BoundAccess.KEY_ITSELF: "",
    BoundAccess.REFUSED: "Refused to a key that is bound to {bounds}.",
}


def _organization_only(scope: str) -> Permission:
    """Refuse bound keys."""
    return Permission(scope, namespace_keys=BoundAccess.REFUSED, tenant_keys=BoundAccess.REFUSED)


def _no_tenant_keys(scope: str) -> Permission:
    """Refuse tenant-bound keys."""
    return Permission(scope, tenant_keys=BoundAccess.REFUSED)


def _user_readable(scope: str | None, bound_keys: BoundAccess = BoundAccess.WITHIN_BOUNDS) -> Permission:
    """Allow requests on behalf of a user."""
    return Permission(scope, namespace_keys=bound_keys, tenant_keys=bound_keys, allows_on_behalf=True)


# Last segments of `POST /v1/ingest/…`.
_INGESTION_PATHS = (
    "text",
    "file",
    "files",
    "uploads",
    "urls",
    "sitemap",
    "website",
    *map(source_slug, APP_SERVICES),
    "source",
)

_SCIM_PATH = "/v1/namespaces/{namespace_id}/scim/v2/{resource_type}"

OPERATION_PERMISSIONS: Mapping[str, Permission] = {
    "POST /v1/namespaces": _organization_only("namespaces:write"),
    "POST /v1/namespaces/test": _organization_only("namespaces:write"),
    "GET /v1/namespaces": _user_readable("namespaces:read", BoundAccess.NAMES_ONLY),
    "GET /v1/namespaces/{namespace_id}": _user_readable("namespaces:read", BoundAccess.NAMES_ONLY),
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
    "PUT /v1/groups/{group_id}": Permission("documents:write", needs_admin_role=True),
    "GET /v1/groups/{group_id}": Permission("documents:read"),
    "DELETE /v1/groups/{group_id}": Permission("documents:write", needs_admin_role=True),
    f"GET {_SCIM_PATH}": Permission("documents:read"),
    f"POST {_SCIM_PATH}": Permission("documents:write", needs_admin_role=True),
    f"GET {_SCIM_PATH}/{{resource_id}}": Permission("documents:read"),
    f"PUT {_SCIM_PATH}/{{resource_id}}": Permission("documents:write", needs_admin_role=True),
    f"PATCH {_SCIM_PATH}/{{resource_id}}": Permission("documents:write", needs_admin_role=True),
    f"DELETE {_SCIM_PATH}/{{resource_id}}": Permission("documents:write", needs_admin_role=True),
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
    "GET /v1/keys/current": _user_readable(None, BoundAccess.KEY_ITSELF),
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
    # Litestar's `{name:str}` is `{name}` in the table.
    name = f"{method} {path.replace(':str}', '}')}"
    if name not in OPERATION_PERMISSIONS:
        raise LookupError(f"add {name} to OPERATION_PERMISSIONS in api/permissions.py")
    return OPERATION_PERMISSIONS[name]


def default_scopes(*, namespace_bound: bool, tenant_bound: bool) -> list[str]:
    """Return the scopes with an operation that a key with these bounds may use, except `admin`."""
    usable = {
        permission.scope
        for permission in OPERATION_PERMISSIONS.values()
        if permission.find_access(namespace_bound=namespace_bound, tenant_bound=tenant_bound) != BoundAccess.REFUSED
    }
    return [scope for scope in KEY_SCOPES if scope in usable and scope != "admin"]
