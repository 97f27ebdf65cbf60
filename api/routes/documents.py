"""Operations on documents by a filter, and receipts of deletions."""

from __future__ import annotations

from functools import partial

import msgspec
from litestar.params import FromPath, JSONBody
from msgspec import UNSET

from api import query_limits, request_context
from api.operation import idempotent, operation
from api.request import ApiRequest
from api.wire import documents as wire
from api.wire.audit import (
    Deletion,
    DeletionAnswer,
    DeletionData,
    DeletionVerifiedAnswer,
    VerifiedDeletion,
    VerifyDeletion,
)
from api.wire.resync import ResyncAnswer, ResyncData, ResyncDocuments, ResyncReport
from retrieval import write_details
from retrieval.documents import documents, facets, receipts
from retrieval.documents.documents import NewAccess
from retrieval.errors import ErrorCode, ServiceError
from retrieval.ingestion import dry_run_report
from retrieval.jobs import resync
from retrieval.jobs.queries import passwords
from retrieval.namespaces import namespaces
from retrieval.ports import Scope

_operation = partial(operation, path="/v1/documents", tag="Documents", invalid=ErrorCode.INVALID_FILTER_CONFIG)
_NAMESPACE_EXAMPLE = "ns_06gzpnn6z30k9qdmrw54faz30gfpw60mq5r0"
_FILTER_EXAMPLE = {
    "documentIds": [],
    "documentExternalIds": [],
    "documentTypes": ["TEXT"],
    "metadata": {"manual": "A-7"},
}


@_operation(
    method="POST",
    raises=(ErrorCode.NAMESPACE_NOT_FOUND,),
    example={"namespaceId": _NAMESPACE_EXAMPLE, "filterConfig": _FILTER_EXAMPLE, "pagination": {"pageSize": 20}},
)
async def fetch_documents(request: ApiRequest, data: JSONBody[wire.FetchDocuments]) -> wire.DocumentsAnswer:
    """List documents. Newest first. An empty filter lists all documents of the namespace and tenant."""
    scope = request.scope_of(data.namespace_id)
    condition, viewer = data.filter_config.to_values(), await request.find_viewer(scope)
    facet_fields = facets.parse_fields(data.facets or (), ErrorCode.INVALID_FILTER_CONFIG, path="facets")
    presenter = await _load_presenter(request, scope)
    page, include = data.pagination or wire.Pagination(), data.include_config or wire.IncludeConfig()
    cursor = await request.read_cursor(page.cursor or None, scope.namespace, field="pagination.cursor")
    async with query_limits.limit_listing(request.services, condition, facets=len(facet_fields)):
        size = page.page_size or documents.MAX_LISTED_DOCUMENTS
        listing = await documents.list_page(request.services.db, scope, condition, size, cursor, viewer=viewer)
        answer = wire.DocumentsData(
            items_returned=len(listing.items),
            has_next_page=listing.cursor is not None,
            next_cursor=await request.write_cursor(listing.cursor, scope.namespace),
        )
        if include.documents is not False:
            answer.documents = [presenter.present(row) for row in listing.items]
            if include.raw_file_url or include.parsed_text_file_url:
                signer = await request.services.links.make_signer()
                holder = request_context.make_link_holder(request.caller, request.principal, request.context.groups)
                for document, row in zip(answer.documents, listing.items, strict=True):
                    document.add_links(row, include, signer, holder)
        if include.stats_by_source or include.stats_by_status:
            stats = await documents.count_documents(request.services.db, scope, condition, viewer=viewer)
            synced = await documents.read_sync_times(request.services.db, scope) if include.stats_by_source else {}
            answer.add_statistics(stats, include, synced)
        if include.stats_by_site:
            counts = await documents.count_sites(request.services.db, scope, condition, viewer=viewer)
            answer.stats_by_site = [wire.SiteCount(site, number) for site, number in counts.items()]
        if data.facets is not None:
            facet_counts = await facets.count_values(request.services.db, scope, condition, facet_fields, viewer=viewer)
            answer.facets = {
                name: [wire.FacetCount(facet.value, facet.documents) for facet in counts]
                for name, counts in facet_counts.items()
            }
    return wire.DocumentsAnswer(message="Documents fetched successfully", data=answer)


@_operation(
    method="PATCH",
    failed=ErrorCode.UPDATE_DOCUMENTS_FAILED,
    raises=(ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.DOCUMENTS_NOT_FOUND),
    example={
        "namespaceId": _NAMESPACE_EXAMPLE,
        "filterConfig": _FILTER_EXAMPLE,
        "data": {"metadata": {"reviewed": True}},
    },
)
async def update_documents(request: ApiRequest, data: JSONBody[wire.UpdateDocuments]) -> wire.DocumentsUpdatedAnswer:
    """Change metadata or access of documents. All matching documents are changed, or none."""
    scope = request.scope_of(data.namespace_id)
    condition, change = data.filter_config.to_values(), data.data
    if change.metadata is None and change.operators is None and change.access is UNSET:
        message = "data.metadata is required, unless there is data.$metadata or data.access."
        raise ServiceError(ErrorCode.INVALID_FILTER_CONFIG, message, field="data.metadata", reason="missing")
    presenter = await _load_presenter(request, scope)
    operators = change.operators
    sets = {**(change.metadata or {}), **((operators and operators.set) or {})}
    appends, removes = (operators and operators.append) or {}, (operators and operators.remove) or {}
    access = _new_access(change)
    rows = await documents.patch_metadata(request.services.db, scope, condition, sets, appends, removes, access=access)
    changed = len(rows) if sets or appends or removes or access is not None else 0
    message = "Documents updated successfully" if changed else "There was nothing to change"
    return wire.DocumentsUpdatedAnswer(
        message=message, data=wire.UpdatedDocumentsData([presenter.present(row) for row in rows], changed)
    )


@_operation(
    method="DELETE",
    failed=ErrorCode.DELETE_DOCUMENTS_FAILED,
    raises=(ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.DOCUMENTS_NOT_FOUND),
    example={"namespaceId": _NAMESPACE_EXAMPLE, "filterConfig": _FILTER_EXAMPLE},
)
async def delete_documents(request: ApiRequest, data: JSONBody[wire.DeleteDocuments]) -> wire.DocumentsDeletedAnswer:
    """Delete documents. They disappear at once. Files and vectors are removed in the background."""
    answer = await _delete_matching(request, data)
    request.services.notices.send()
    return answer


@operation(
    method="POST",
    path="/v1/documents/delete",
    tag="Documents",
    invalid=ErrorCode.INVALID_FILTER_CONFIG,
    failed=ErrorCode.DELETE_DOCUMENTS_FAILED,
    raises=(ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.DOCUMENTS_NOT_FOUND),
    notifies=True,
    example={"namespaceId": _NAMESPACE_EXAMPLE, "filterConfig": _FILTER_EXAMPLE},
)
@idempotent
async def delete_documents_by_post(
    request: ApiRequest, data: JSONBody[wire.DeleteDocuments]
) -> wire.DocumentsDeletedAnswer:
    """Delete documents by POST. As `DELETE /v1/documents`, for clients and proxies that send no body with DELETE."""
    return await _delete_matching(request, data)


async def _delete_matching(request: ApiRequest, data: wire.DeleteDocuments) -> wire.DocumentsDeletedAnswer:
    scope = request.scope_of(data.namespace_id)
    condition = data.filter_config.to_values()
    await _load_presenter(request, scope)
    deletion = await documents.delete_documents(request.services.db, scope, condition)
    counted = f"{deletion.documents} {'document' if deletion.documents == 1 else 'documents'}"
    return wire.DocumentsDeletedAnswer(message=f"{counted} deleted successfully", deletion_id=deletion.deletion_id)


@operation(
    method="POST",
    path="/v1/documents/resync",
    tag="Documents",
    invalid=ErrorCode.INVALID_FILTER_CONFIG,
    failed=ErrorCode.INGESTION_FAILED,
    raises=(ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.DOCUMENTS_NOT_FOUND),
    notifies=True,
    example={"namespaceId": _NAMESPACE_EXAMPLE, "filterConfig": {"documentIngestionStatuses": ["FAILED"]}},
)
@idempotent
async def resync_documents(request: ApiRequest, data: JSONBody[ResyncDocuments]) -> ResyncAnswer:
    """Ingest documents again.

    Texts and files are read from the stored raw file, other sources fetched again. Unchanged content is not
    embedded again. With `ocrConfig` the documents are read with this, and so are their later resyncs.
    `dryRun` answers the cost first. `password` opens protected files, and is deleted when the runs have ended.
    """
    scope = request.scope_of(data.namespace_id)
    condition = data.filter_config.to_values()
    services = request.services
    config = await namespaces.get_namespace(services.db, services.ring, scope.organization, scope.namespace)
    started = await resync.start_resync(
        services.db,
        scope,
        condition,
        confirm_deletions=bool(data.confirm_deletions),
        changes={"ocr": data.ocr_config.strategy.value} if data.ocr_config else None,
        dry_run=bool(data.dry_run),
        seal=passwords.make_sealer(services.ring, data.password),
    )
    number = started.queued
    queued = "document" if number == 1 else "documents"
    if started.size is None:
        return ResyncAnswer(message=f"{number} {queued} queued for resync", data=ResyncData.from_result(started))
    write_details.omit_entry()
    model, prices = config.embedding_model, services.settings.prices
    cost = dry_run_report.estimate_cost(model["provider"], model["model"], started.size.tokens, prices)
    report = ResyncReport.from_size(started.size, cost, services.settings.price_currency)
    return ResyncAnswer(
        message=f"{number} {queued} would be queued for resync", data=ResyncData.from_result(started, report)
    )


async def _load_presenter(request: ApiRequest, scope: Scope) -> wire.DocumentPresenter:
    services = request.services
    config = await namespaces.get_namespace(services.db, services.ring, scope.organization, scope.namespace)
    return wire.DocumentPresenter.from_namespace(scope, config, principal=request.principal)


def _new_access(change: wire.DocumentChange) -> NewAccess | None:
    access = change.access
    if access is UNSET:
        return None
    if access == "inherit":
        return NewAccess(None, inherited=True)
    return NewAccess(None if access is None else access.to_values(ErrorCode.INVALID_FILTER_CONFIG, "data.access"))


_RECEIPT_EXAMPLE = {
    "deletion": {
        "id": "del_06gzpnn6z30k9qdmrw54faz30gfpw60mq5r0",
        "status": "CONFIRMED",
        "requestedAt": {"isoString": "2026-11-20T12:00:00.000Z"},
        "confirmedAt": {"isoString": "2026-11-20T12:00:03.000Z"},
        "documents": 1,
        "chunks": 4,
        "vectors": 4,
        "files": 2,
        "stores": [{"store": "PGVECTOR", "removed": 4, "readBackAt": {"isoString": "2026-11-20T12:00:02.000Z"}}],
        "signature": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    }
}


@operation(
    "GET",
    "/v1/deletions/{deletion_id:str}",
    tag="Documents",
    invalid=ErrorCode.INVALID_REQUEST,
    raises=(ErrorCode.NOT_FOUND,),
)
async def get_deletion(request: ApiRequest, deletion_id: FromPath[str]) -> DeletionAnswer:
    """Get the receipt of a deletion.

    The number of removed entries in each store, and when it was verified to hold none of them. CONFIRMED once all are
    verified.
    """
    caller = request.caller
    receipt = await receipts.find_receipt(
        request.services.db,
        deletion_id,
        organization=caller.organization,
        namespace=caller.namespace,
        tenant=request.tenant,
        all_tenants=caller.bound_tenant is None,
    )
    deletion = Deletion.from_receipt(receipt, await request.services.receipt_secret.load(), caller.organization)
    return DeletionAnswer(message="Deletion fetched successfully", data=DeletionData(deletion))


@operation("POST", "/v1/deletions/verify", tag="Documents", invalid=ErrorCode.INVALID_REQUEST, example=_RECEIPT_EXAMPLE)
async def verify_deletion(request: ApiRequest, data: JSONBody[VerifyDeletion]) -> DeletionVerifiedAnswer:
    """Verify the receipt of a deletion.

    Tells whether this service signed the receipt for your organization and it is unchanged.
    """
    receipt = data.deletion
    if receipt is UNSET:
        receipt = msgspec.json.decode(await request.body(), type=dict)
    if "signature" not in receipt:
        message = "Send the receipt as GET /v1/deletions/{deletion_id} answered it, with its signature."
        raise ServiceError(ErrorCode.INVALID_REQUEST, message, field="deletion.signature", reason="missing_field")
    valid = receipts.is_valid(await request.services.receipt_secret.load(), request.caller.organization, receipt)
    message = "The receipt is genuine" if valid else "The receipt was not signed here, or it was changed"
    return DeletionVerifiedAnswer(message=message, data=VerifiedDeletion(valid))


ROUTE_HANDLERS = (
    fetch_documents,
    update_documents,
    delete_documents,
    delete_documents_by_post,
    resync_documents,
    get_deletion,
    verify_deletion,
)
