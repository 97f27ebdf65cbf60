"""Uploads of OpenAI's clients, before they are added to a vector store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from itertools import islice

from litestar.di import NamedDependency
from litestar.params import FromPath
from litestar.response import Stream

from api import decode, uploads
from api.operation import operation
from api.request import ApiRequest, TenantUse
from api.routes.document_parts import download_headers, open_file, read_chunks
from api.routes.vector_store_files import file_not_found, find_owner
from api.services import Services
from api.uploads import Form
from api.wire import files
from api.wire import vector_stores as wire
from retrieval.documents import documents
from retrieval.documents.queries import uploads as file_uploads
from retrieval.documents.queries.uploads import FileDocument, UploadedFile
from retrieval.documents.stored_files import StoredFiles
from retrieval.errors import ErrorCode
from retrieval.filters import DocumentFilter
from retrieval.ports import Scope

_operation = partial(operation, tag="OpenAI", invalid=wire.INVALID_REQUEST)
_FILE_PATH = "/v1/files/{file_id:str}"
# Pieces of an upload that one statement stores, or one thread call reads.
_PIECES_PER_CALL = 16


@operation(
    "POST",
    "/v1/files",
    tag="OpenAI",
    tenant=TenantUse.ANY,
    invalid=ErrorCode.INVALID_INGEST_CONFIG,
    form=files.UploadForm,
    creates=True,
)
async def create_file(request: ApiRequest) -> files.File | bytes:
    """Upload a file. It is kept for 7 days, or `expires_after[seconds]`, and is searchable once it was added to a
    vector store."""
    services = request.services
    async with uploads.read_form(request, services) as form:
        form.require_single({"purpose", "expires_after[anchor]", "expires_after[seconds]"})
        texts = {name: value.decode("utf-8", "replace") for name, value in form.fields.items() if value}
        fields = decode.convert_members(texts, files.UploadForm, ErrorCode.INVALID_INGEST_CONFIG)
        lifetime_seconds = files.expiry_seconds(form.fields.get("expires_after[seconds]", b""))
        form.require_file()
        if (stored_answer := await request.find_stored_answer(form.canonical_content())) is not None:
            return stored_answer

        async def store_form() -> files.File:
            upload = await _store_upload(request, form, fields.purpose, lifetime_seconds)
            await request.save_tenant()
            return files.File.from_upload(upload)

        return await request.run_once(store_form, form.canonical_content())


@_operation("GET", "/v1/files")
async def list_files(request: ApiRequest, params: NamedDependency[files.FileList]) -> files.FilePage:
    """List uploaded files. The newest first by default; each vector store has a list of documents."""
    if params.after and not file_uploads.is_upload_id(params.after):
        raise wire.unknown_entry("after")
    rows = await file_uploads.list_uploads(
        request.services.db,
        find_owner(request),
        params.limit + 1,  # the additional row shows that another page follows
        params.after,
        purpose=params.purpose,
        oldest_first=params.order == "asc",
    )
    entries = [files.File.from_upload(row) for row in rows[: params.limit]]
    return files.FilePage.from_entries(entries, has_more=len(rows) > params.limit)


async def _store_upload(request: ApiRequest, form: Form, purpose: str | None, lifetime_seconds: int) -> UploadedFile:
    services = request.services
    async with services.db.async_transaction() as connection:
        upload = await file_uploads.record_upload(
            connection,
            find_owner(request),
            name=form.name or uploads.FILE_FIELD,
            media_type=form.media_type,
            purpose=purpose or "assistants",
            size=form.size,
            sha256=form.sha256,
            seconds=lifetime_seconds,
        )
        pieces, stored_count = form.iterate_chunks(), 0
        while next_pieces := await services.run_in_thread(_take_pieces, pieces):
            await file_uploads.add_pieces(connection, upload.id, stored_count, next_pieces)
            stored_count += len(next_pieces)
        await file_uploads.require_room(connection, request.caller.organization)
    return upload


def _take_pieces(pieces: Iterator[bytes]) -> list[bytes]:
    """Take the next pieces of a blocking iterator; empty at the end."""
    return list(islice(pieces, _PIECES_PER_CALL))


@_operation("GET", _FILE_PATH, raises=(ErrorCode.NOT_FOUND,))
async def get_file(request: ApiRequest, file_id: FromPath[str]) -> files.File:
    """Get an uploaded file, or a document with this file id."""
    upload, file_documents = await _find_file(request, file_id)
    return files.File.from_upload(upload) if upload else files.File.from_document(file_documents[0])


@_operation("GET", _FILE_PATH + "/content", media_type="application/octet-stream", raises=(ErrorCode.NOT_FOUND,))
async def read_file_content(request: ApiRequest, file_id: FromPath[str]) -> Stream:
    """Read an uploaded file, or the raw file of a document with this file id."""
    services = request.services
    upload, file_documents = await _find_file(request, file_id)
    if upload is not None:
        chunks, name = _read_upload(services, upload), upload.name
    else:
        document = next((document for document in file_documents if document.raw_key), None)
        if document is None:
            raise file_not_found()
        stored_files = StoredFiles(
            organization_id=request.caller.organization,
            namespace_id=document.namespace_id,
            name=document.name,
            media_type=document.media_type,
            raw_key=document.raw_key,
            parsed_key=None,
        )
        file_context, file = await open_file(services, stored_files, document.raw_key or "")
        chunks, name = read_chunks(services, file_context, file), document.name
    return Stream(chunks, media_type="application/octet-stream", headers=download_headers(name))


@_operation("DELETE", _FILE_PATH, raises=(ErrorCode.NOT_FOUND,), failed=ErrorCode.DELETE_DOCUMENTS_FAILED)
async def delete_file(request: ApiRequest, file_id: FromPath[str]) -> wire.Removed:
    """Delete a file: the upload, and the documents with this file id in all vector stores."""
    services, caller = request.services, request.caller
    _, file_documents = await _find_file(request, file_id)
    await file_uploads.delete_upload(services.db, find_owner(request), file_id)
    for document in file_documents:
        scope = Scope(caller.organization, document.namespace_id, request.tenant)
        await documents.delete_documents(services.db, scope, DocumentFilter(document_ids=(document.id,)))
    services.notices.send()
    return wire.Removed(id=file_id, object="file")


async def _find_file(request: ApiRequest, file_id: str) -> tuple[UploadedFile | None, list[FileDocument]]:
    """Return the upload and the documents with this file id; raise NOT_FOUND if there is neither."""
    services, owner = request.services, find_owner(request)
    uploads_by_id = await file_uploads.find_uploads(services.db, owner, [file_id])
    upload = uploads_by_id.get(file_id)
    file_documents = await file_uploads.find_documents(services.db, owner, file_id)
    if upload is None and not file_documents:
        raise file_not_found()
    return upload, file_documents


async def _read_upload(services: Services, upload: UploadedFile) -> AsyncIterator[bytes]:
    """Yield an upload's content; raise NOT_FOUND if the upload is deleted during the download."""
    pieces, sent_bytes = file_uploads.read_pieces(services.db, upload.id), 0
    while next_pieces := await services.run_in_thread(_take_pieces, pieces):
        for piece in next_pieces:
            sent_bytes += len(piece)
            yield piece
    if sent_bytes != upload.size:
        raise file_not_found()


ROUTE_HANDLERS = (create_file, list_files, get_file, read_file_content, delete_file)
