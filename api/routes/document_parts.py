"""Parts of a document: chunks, history, pages and files by signed link."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from litestar import get
from litestar.di import NamedDependency
from litestar.openapi.spec import Parameter, Schema
from litestar.openapi.spec.enums import OpenAPIType
from litestar.params import FromPath
from litestar.response import Response, Stream

from api.links import FILES_PATH, FileKind, decode_groups
from api.openapi import (
    BINARY_SCHEMA,
    BYTES_MEDIA_TYPE,
    describe_response,
    error_responses,
    public_operation_class,
    text_parameter,
)
from api.operation import operation
from api.request import ApiRequest
from api.services import Services
from api.wire import document_parts as wire
from connectors import registry
from retrieval.access import hidden_spans
from retrieval.access.queries import memberships
from retrieval.documents import listing, receipts, stored_files
from retrieval.documents.stored_files import PagedDocument, StoredFiles
from retrieval.errors import ErrorCode, Fatal, Retryable, ServiceError, Skippable
from retrieval.namespaces import namespaces
from retrieval.namespaces.namespaces import NamespaceConfig
from retrieval.ports import PageMark


@operation(
    "GET",
    "/v1/documents/{document_id:str}/chunks",
    tag="Documents",
    invalid=ErrorCode.INVALID_FILTER_CONFIG,
    raises=(ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.DOCUMENTS_NOT_FOUND),
)
async def list_chunks(
    request: ApiRequest, document_id: FromPath[str], params: NamedDependency[wire.ChunksQuery]
) -> wire.ChunksAnswer:
    """List the chunks of a document.

    The searchable chunks in document order, 50 per page by default.
    """
    scope = request.scope_of(params.namespace_id)
    page = await listing.list_chunks(
        request.services.db,
        scope,
        document_id,
        cursor=await request.read_cursor(params.cursor, params.namespace_id),
        first=params.first_index or 0,
        size=params.page_size or listing.CHUNK_PAGE_SIZE,
        viewer=await request.find_viewer(scope),
    )
    items = [wire.Chunk.from_row(row) for row in page.items]
    data = wire.ChunksData(
        items, len(items), page.cursor is not None, await request.write_cursor(page.cursor, params.namespace_id)
    )
    return wire.ChunksAnswer(message="Chunks fetched successfully", data=data)


@operation(
    "GET",
    "/v1/documents/{document_id:str}/history",
    tag="Documents",
    invalid=ErrorCode.INVALID_FILTER_CONFIG,
    raises=(ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.DOCUMENTS_NOT_FOUND),
)
async def list_history(
    request: ApiRequest, document_id: FromPath[str], params: NamedDependency[wire.HistoryQuery]
) -> wire.HistoryAnswer:
    """List the job runs of a document.

    Newest first, 20 per page by default. The version of the active one is searchable.
    """
    scope = request.scope_of(params.namespace_id)
    page = await receipts.list_history(
        request.services.db,
        scope,
        document_id,
        cursor=await request.read_cursor(params.cursor, params.namespace_id),
        size=params.page_size or receipts.HISTORY_PAGE_SIZE,
    )
    entries = [wire.HistoryEntry.from_run(entry) for entry in page.items]
    data = wire.HistoryData(
        entries, len(entries), page.cursor is not None, await request.write_cursor(page.cursor, params.namespace_id)
    )
    return wire.HistoryAnswer(message="History fetched successfully", data=data)


_PAGE_NUMBER = re.compile(r"[0-9]{1,6}")
# A mark is searched in a page of at most this many characters.
_MAX_MARKED_CHARACTERS = 200_000
_PDF_MEDIA_TYPE = "application/pdf"


@operation(
    "GET",
    "/v1/documents/{document_id:str}/pages/{page:str}",
    tag="Documents",
    media_type="image/png",
    invalid=ErrorCode.INVALID_FILTER_CONFIG,
    raises=(ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.DOCUMENTS_NOT_FOUND, ErrorCode.NOT_FOUND),
)
async def draw_document_page(
    request: ApiRequest, document_id: FromPath[str], page: FromPath[str], params: NamedDependency[wire.PageQuery]
) -> bytes:
    """Draw a page of a document.

    Returns a page of a PDF, counted from 1, as a PNG of at most 2000 pixels a side, with the chunk shaded. 404 if there
    is no such page or it cannot be drawn, with the `reason`; 503 with Retry-After while too many are drawn. A document
    that was ingested before exact positions were stored is drawn without the shade; resync it.
    """
    scope = request.scope_of(params.namespace_id)
    services = request.services
    viewer = await request.find_viewer(scope)
    document = await stored_files.find_pages(services.db, scope, document_id, params.chunk, viewer)
    number = int(page) if _PAGE_NUMBER.fullmatch(page) else 0
    if number < 1:
        raise _not_drawable("The pages of a document count from 1.", "no_such_page")
    if viewer is not None and document.hides_page(number):
        raise _not_drawable("The page has a hidden passage.", "hidden")
    if document.media_type != _PDF_MEDIA_TYPE or document.raw_key is None:
        raise _not_drawable("Only pages of PDFs can be drawn.", "not_drawable")
    config = await namespaces.get_namespace(services.db, services.ring, scope.organization, scope.namespace)
    return await services.drawings.run(scope.organization, lambda: _draw_page(config, document, number))


def _draw_page(config: NamespaceConfig, document: PagedDocument, page: int) -> bytes:
    """Draw the page as PNG; raise NOT_FOUND if impossible, SERVICE_UNAVAILABLE while files cannot be read."""
    files = registry.make_file_store(config)
    try:
        with tempfile.TemporaryDirectory(prefix="page-") as folder:
            path = Path(folder) / "raw"
            with files.open(document.raw_key or "") as stream, path.open("wb") as file:
                shutil.copyfileobj(stream, file, 1 << 20)
            mark = PageMark()
            if document.start is not None and document.parsed_key is not None and 1 <= page <= len(document.pages):
                with files.open(document.parsed_key) as stream:
                    mark = _find_mark(stream.read().decode(), document, page)
            return registry.make_page_renderer().draw(path, page, mark)
    except Skippable as error:
        raise _not_drawable(str(error), "not_drawable") from error
    except (Retryable, Fatal, OSError) as error:
        message = "The page cannot be drawn now. Try again later."
        raise ServiceError(ErrorCode.SERVICE_UNAVAILABLE, message, headers={"Retry-After": "5"}) from error


def _find_mark(text: str, document: PagedDocument, page: int) -> PageMark:
    """Return the page's text with the span of the chunk."""
    first, last = [*document.pages, len(text)][page - 1 : page + 1]
    start, end = max(first, document.start or 0), min(last, document.end or 0)
    return (
        PageMark(text[first:last], start - first, end - first) if last - first <= _MAX_MARKED_CHARACTERS else PageMark()
    )


def _not_drawable(message: str, reason: str) -> ServiceError:
    return ServiceError(ErrorCode.NOT_FOUND, message, reason=reason)


DOWNLOAD_CHUNK_BYTES = 256 * 1024
# Litestar adds charset=utf-8.
TEXT_MEDIA_TYPE = "text/plain"
# Served under their own media type; others as bytes.
SAFE_MEDIA_TYPES = frozenset({"application/pdf", "image/gif", "image/jpeg", "image/png", "image/webp"})


@get(
    FILES_PATH + "{document_id:str}/{kind:str}",
    operation_class=public_operation_class(
        {
            "200": describe_response(
                "The file, under its own media type; texts as plain text", [BYTES_MEDIA_TYPE], BINARY_SCHEMA
            ),
            **error_responses(
                (
                    ErrorCode.NOT_FOUND,
                    ErrorCode.RATE_LIMIT_EXCEEDED,
                    ErrorCode.INTERNAL_ERROR,
                    ErrorCode.SERVICE_UNAVAILABLE,
                )
            ),
        },
        Parameter(
            "kind",
            "path",
            Schema(type=OpenAPIType.STRING, enum=["raw", "parsed"]),
            description="The file as it came, or the parsed text.",
            required=True,
        ),
        text_parameter("expires", "When the link ends, in Unix seconds.", required=True),
        text_parameter("signature", "What proves that the service made the link.", required=True),
        text_parameter("key", "The id of the key with which the link ends."),
        text_parameter("principal", "The user for whom the link was made."),
        text_parameter("groups", "The groups of that user's token."),
    ),
    operation_id="readFile",
    tags=["Documents"],
    summary="Read a file by its signed link",
)
async def read_file(request: ApiRequest, document_id: FromPath[str], kind: FromPath[str]) -> Stream | Response[bytes]:
    """Read a file by the link of a document that was listed with `rawFileUrl` or `parsedTextFileUrl`.

    The link expires, and ends when its key is revoked.
    """
    services = request.services
    signer = await services.links.make_signer()
    parameters = request.query_params
    if not signer.is_valid(document_id, kind, parameters):
        raise _not_found()
    principal, groups = parameters.get("principal"), parameters.get("groups")
    viewer = (
        None
        if principal is None
        else await memberships.find_document_viewer(services.db, document_id, principal, decode_groups(groups))
    )
    files = await stored_files.find_files(services.db, document_id, viewer, key=parameters.get("key"))
    if files is None:
        raise _not_found()
    key = files.raw_key if kind == FileKind.RAW else files.parsed_key
    if key is None:
        raise _not_found()
    media_type, name = _describe_download(files, FileKind(kind))
    headers = download_headers(name, inline=kind == FileKind.PARSED)
    if kind == FileKind.PARSED and files.hidden_spans != []:
        return Response((await read_parsed_text(services, files)).encode(), media_type=media_type, headers=headers)
    opened, file = await open_file(services, files, key)
    return Stream(read_chunks(services, opened, file), media_type=media_type, headers=headers)


def download_headers(name: str, *, inline: bool = False) -> dict[str, str]:
    """Return headers with which no browser runs the content."""
    return {
        "Content-Disposition": _content_disposition(name, inline=inline),
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-store",
        "Referrer-Policy": "no-referrer",
    }


async def read_parsed_text(services: Services, files: StoredFiles) -> str:
    """Return a document's parsed text without hidden passages; raise NOT_FOUND or SERVICE_UNAVAILABLE."""
    opened, file = await open_file(services, files, files.parsed_key or "")
    text = b"".join([chunk async for chunk in read_chunks(services, opened, file)]).decode()
    return hidden_spans.mask_text(text, files.hidden_spans)


async def open_file(
    services: Services, files: StoredFiles, key: str
) -> tuple[AbstractContextManager[BinaryIO], BinaryIO]:
    """Open a document's file; raise NOT_FOUND or SERVICE_UNAVAILABLE."""
    config = await namespaces.get_namespace(services.db, services.ring, files.organization_id, files.namespace_id)
    try:
        opened = await services.run_in_thread(lambda: registry.make_file_store(config).open(key))
        return opened, await services.run_in_thread(opened.__enter__)
    except Skippable as error:
        raise _not_found() from error
    except (Retryable, Fatal) as error:
        message = "The namespace's file storage cannot be read now. Try again later."
        raise ServiceError(ErrorCode.SERVICE_UNAVAILABLE, message, headers={"Retry-After": "5"}) from error


async def read_chunks(
    services: Services, opened: AbstractContextManager[BinaryIO], file: BinaryIO
) -> AsyncIterator[bytes]:
    """Yield an opened file's content, and close the file."""
    try:
        while chunk := await services.run_in_thread(file.read, DOWNLOAD_CHUNK_BYTES):
            yield chunk
    finally:
        opened.__exit__(None, None, None)


def _describe_download(files: StoredFiles, kind: FileKind) -> tuple[str, str]:
    """Return the media type and file name of a download."""
    if kind is FileKind.PARSED:
        return TEXT_MEDIA_TYPE, files.name + ".md"
    media_type = files.media_type.partition(";")[0].strip().lower()
    if media_type.startswith("text/"):
        return TEXT_MEDIA_TYPE, files.name
    return media_type if media_type in SAFE_MEDIA_TYPES else "application/octet-stream", files.name


def _content_disposition(name: str, *, inline: bool) -> str:
    """Return a Content-Disposition with an ASCII fallback and the percent-encoded name."""
    base = name.replace("\\", "/").rpartition("/")[2] or "file"
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._- ") else "_" for c in base)[:150]
    whole = quote(base[:150], safe="", errors="replace")
    return f"{'inline' if inline else 'attachment'}; filename=\"{plain}\"; filename*=UTF-8''{whole}"


def _not_found() -> ServiceError:
    message = "There is no such file, or the link has expired; list the document again for a fresh link."
    return ServiceError(ErrorCode.NOT_FOUND, message, reason="no_such_file")


ROUTE_HANDLERS = (
    list_chunks,
    list_history,
    draw_document_page,
    read_file,
)
