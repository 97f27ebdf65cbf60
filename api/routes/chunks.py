"""The chunks of a document, as search sees them."""

from __future__ import annotations

from api.operation import Call, operation
from api.wire.document_parts import Chunk, ChunksAnswer, ChunksData, ChunksQuery
from retrieval.documents import chunks
from retrieval.errors import ErrorCode


@operation(
    "GET",
    "/v1/documents/{document_id:str}/chunks",
    tag="Documents",
    invalid=ErrorCode.INVALID_FILTER_CONFIG,
    raises=(ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.DOCUMENTS_NOT_FOUND),
)
async def list_chunks(call: Call[None, ChunksQuery]) -> ChunksAnswer:
    """List the chunks of a document.

    In their order, 50 a page unless `pageSize` says otherwise. Those that search shows.
    """
    query, scope = call.query, call.scope(call.query.namespace_id)
    page = await chunks.list_page(
        call.services.db,
        scope,
        call.path["document_id"],
        cursor=await call.place(query.cursor, query.namespace_id),
        first=query.first_index or 0,
        size=query.page_size or chunks.PAGE,
        viewer=await call.viewer(scope),
    )
    shown = [Chunk.of(row) for row in page.items]
    data = ChunksData(shown, len(shown), page.cursor is not None, await call.cursor(page.cursor, query.namespace_id))
    return ChunksAnswer(message="Chunks fetched successfully", data=data)


HANDLERS = (list_chunks,)
