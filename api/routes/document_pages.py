"""A page of a document as a picture, with a chunk shaded on it."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

from api.operation import Call, operation
from api.wire.document_parts import PageQuery
from connectors import registry
from retrieval.documents import page_images
from retrieval.documents.page_images import PagedDocument
from retrieval.errors import ErrorCode, Fatal, Retryable, ServiceError, Skippable
from retrieval.namespaces import namespaces
from retrieval.namespaces.namespaces import NamespaceConfig
from retrieval.ports import PageMark

_NUMBER = re.compile(r"[0-9]{1,6}")
_MOST_TEXT = 200_000
"""Characters of one page beside which a mark is looked for."""
_PDF = "application/pdf"


@operation(
    "GET",
    "/v1/documents/{document_id:str}/pages/{page:str}",
    tag="Documents",
    media_type="image/png",
    invalid=ErrorCode.INVALID_FILTER_CONFIG,
    raises=(ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.DOCUMENTS_NOT_FOUND, ErrorCode.NOT_FOUND),
)
async def draw_document_page(call: Call[None, PageQuery]) -> bytes:
    """Draw a page of a document.

    The page of a PDF, counted from 1, as a PNG of at most 2000 pixels a side, with the chunk shaded where it
    stands. 404 for what has no such page or cannot be drawn, as `reason` says; 503 with Retry-After while too
    many are drawn. A document that was ingested before pages were placed exactly is drawn without the shade;
    resync it.
    """
    scope = call.scope(call.query.namespace_id)
    services = call.services
    viewer = await call.viewer(scope)
    found = await page_images.find(services.db, scope, call.path["document_id"], call.query.chunk, viewer)
    page = int(call.path["page"]) if _NUMBER.fullmatch(call.path["page"]) else 0
    if page < 1:
        raise _refused("The pages of a document count from 1.", "no_such_page")
    if found.media_type != _PDF or found.raw_key is None:
        raise _refused("Only pages of PDFs can be drawn.", "not_drawable")
    config = await namespaces.get(services.db, services.ring, scope.organization, scope.namespace)
    return await services.drawings.run(scope.organization, lambda: _drawn(config, found, page))


HANDLERS = (draw_document_page,)


def _drawn(config: NamespaceConfig, found: PagedDocument, page: int) -> bytes:
    """NOT_FOUND for what cannot be drawn, SERVICE_UNAVAILABLE while the files cannot be read."""
    files = registry.file_store(config)
    try:
        with tempfile.TemporaryDirectory(prefix="page-") as folder:
            place = Path(folder) / "raw"
            with files.open(found.raw_key or "") as stream, place.open("wb") as file:
                shutil.copyfileobj(stream, file, 1 << 20)
            mark = PageMark()
            if found.start is not None and found.parsed_key is not None and 1 <= page <= len(found.pages):
                with files.open(found.parsed_key) as stream:
                    mark = _mark(stream.read().decode(), found, page)
            return registry.page_drawer().draw(place, page, mark)
    except Skippable as error:
        raise _refused(str(error), "not_drawable") from error
    except (Retryable, Fatal, OSError) as error:
        message = "The page cannot be drawn now. Try again later."
        raise ServiceError(ErrorCode.SERVICE_UNAVAILABLE, message, headers={"Retry-After": "5"}) from error


def _mark(text: str, found: PagedDocument, page: int) -> PageMark:
    """The text of the page, and what of it is the chunk's."""
    first, last = [*found.pages, len(text)][page - 1 : page + 1]
    start, end = max(first, found.start or 0), min(last, found.end or 0)
    return PageMark(text[first:last], start - first, end - first) if last - first <= _MOST_TEXT else PageMark()


def _refused(message: str, reason: str) -> ServiceError:
    return ServiceError(ErrorCode.NOT_FOUND, message, reason=reason)
