"""Operations on passages and documents hidden from search."""

from __future__ import annotations

from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from api.operation import idempotent, operation
from api.request import ApiRequest
from api.wire import hidden_passages as wire
from api.wire.common import ObjectReference
from retrieval.documents import hidden_passages
from retrieval.errors import ErrorCode

_NOT_FOUND_CODES = (ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.DOCUMENTS_NOT_FOUND, ErrorCode.NOT_FOUND)
_DOCUMENT_PATH = "/v1/documents/{document_id:str}/hidden-passages"


@operation(
    "POST",
    _DOCUMENT_PATH,
    tag="Documents",
    invalid=ErrorCode.INVALID_REQUEST,
    raises=_NOT_FOUND_CODES,
    example={
        "namespaceId": "ns_06gzpnn6z30k9qdmrw54faz30gfpw60mq5r0",
        "chunkIndex": 3,
        "reason": "Prices of last year",
    },
)
@idempotent
async def hide_passage(
    request: ApiRequest, document_id: FromPath[str], data: JSONBody[wire.HidePassage]
) -> wire.HiddenPassageAnswer:
    """Hide a passage from search.

    Hides a chunk, or without `chunkIndex` the whole document, from all searches, parsed texts and MCP tools, and from
    requests on behalf of a user also in chunks, raw files and pages. The passage stays hidden when the document is
    ingested again: chunks with eight successive words of it are hidden; `matched` is false if there is none. Contexts
    of the document's other chunks are limited to these chunks. Listings still show the document. A document may have
    100 hidden passages.
    """
    scope = request.scope_of(data.namespace_id)
    passage = await hidden_passages.hide_passage(request.services.db, scope, document_id, data.chunk_index, data.reason)
    data_of_answer = wire.HiddenPassageData(wire.HiddenPassage.from_passage(passage))
    return wire.HiddenPassageAnswer(message="Passage hidden successfully", data=data_of_answer)


@operation(
    "GET",
    "/v1/hidden-passages",
    tag="Documents",
    invalid=ErrorCode.INVALID_REQUEST,
    raises=(ErrorCode.NAMESPACE_NOT_FOUND,),
)
async def list_hidden_passages(
    request: ApiRequest, params: NamedDependency[wire.HiddenPassagesQuery]
) -> wire.HiddenPassagesAnswer:
    """List hidden passages. Those of the newest document first, with the reason of each."""
    scope = request.scope_of(params.namespace_id)
    page_request = await request.read_page(params.to_page(), scope.namespace)
    page = await hidden_passages.list_hidden(request.services.db, scope, page_request)
    passages = [
        wire.HiddenPassage.from_passage(passage)
        for document in page.items
        for passage in hidden_passages.entries_of(document)
    ]
    data = wire.HiddenPassagesData(hidden_passages=passages).set_page(
        page_request, await request.write_cursor(page.cursor, scope.namespace)
    )
    return wire.HiddenPassagesAnswer(message="Hidden passages fetched successfully", data=data)


@operation(
    "DELETE",
    _DOCUMENT_PATH + "/{passage_id:str}",
    tag="Documents",
    invalid=ErrorCode.INVALID_REQUEST,
    raises=_NOT_FOUND_CODES,
)
async def show_passage(
    request: ApiRequest,
    document_id: FromPath[str],
    passage_id: FromPath[str],
    params: NamedDependency[wire.ShownPassageQuery],
) -> wire.PassageShownAnswer:
    """Show a hidden passage in searches again."""
    scope = request.scope_of(params.namespace_id)
    await hidden_passages.show_passage(request.services.db, scope, document_id, passage_id)
    return wire.PassageShownAnswer(message="Passage shown successfully", data=ObjectReference(passage_id))


ROUTE_HANDLERS = (hide_passage, list_hidden_passages, show_passage)
