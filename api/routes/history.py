"""The history of a document: its result in each job run."""

from __future__ import annotations

from api.operation import Call, operation
from api.wire.document_parts import HistoryAnswer, HistoryData, HistoryEntry, HistoryQuery
from retrieval.documents import receipts
from retrieval.errors import ErrorCode


@operation(
    "GET",
    "/v1/documents/{document_id:str}/history",
    tag="Documents",
    invalid=ErrorCode.INVALID_FILTER_CONFIG,
    raises=(ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.DOCUMENTS_NOT_FOUND),
)
async def list_history(call: Call[None, HistoryQuery]) -> HistoryAnswer:
    """List the job runs that held a document.

    Newest first, 20 a page unless `pageSize` says otherwise. One is active: the version that search shows.
    """
    query, scope = call.query, call.scope(call.query.namespace_id)
    page = await receipts.list_history(
        call.services.db,
        scope,
        call.path["document_id"],
        cursor=await call.place(query.cursor, query.namespace_id),
        size=query.page_size or receipts.PAGE,
    )
    shown = [HistoryEntry.of(entry) for entry in page.items]
    data = HistoryData(shown, len(shown), page.cursor is not None, await call.cursor(page.cursor, query.namespace_id))
    return HistoryAnswer(message="History fetched successfully", data=data)


HANDLERS = (list_history,)
