"""Files of vector stores and file batches in the format of OpenAI's API: documents and job runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from itertools import chain

from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from api import auth
from api.operation import idempotent, operation
from api.request import ApiRequest, TenantUse
from api.routes.document_parts import read_parsed_text
from api.wire import vector_stores as wire
from connectors import registry
from retrieval.database import pagination
from retrieval.database.pagination import Aged
from retrieval.documents import documents, stored_files
from retrieval.documents.documents import DocumentRow
from retrieval.documents.queries import deletion
from retrieval.documents.queries import uploads as file_uploads
from retrieval.documents.queries.uploads import Owner, UploadedFile
from retrieval.errors import ErrorCode, ServiceError
from retrieval.filters import DocumentFilter
from retrieval.ingestion import reembedding
from retrieval.jobs import control, runs
from retrieval.jobs import uploads as job_uploads
from retrieval.jobs.runs import JobRun, NewFile
from retrieval.jobs.uploads import Upload
from retrieval.namespaces import namespaces
from retrieval.namespaces.namespaces import NamespaceConfig
from retrieval.ports import Scope

FILES_PATH = "/v1/vector_stores/{namespace_id:str}/files"
_FILE_PATH = FILES_PATH + "/{document_id:str}"
_BATCHES_PATH = "/v1/vector_stores/{namespace_id:str}/file_batches"
_BATCH_PATH = _BATCHES_PATH + "/{ingest_job_run_id:str}"
_FILE_NOT_FOUND_CODES = (ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.DOCUMENTS_NOT_FOUND)
_BATCH_NOT_FOUND_CODES = (ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.INGEST_JOB_RUN_NOT_FOUND)
_operation = partial(operation, tag="OpenAI", invalid=wire.INVALID_REQUEST)
_ingesting_operation = partial(
    _operation,
    "POST",
    tenant=TenantUse.ANY,
    raises=(ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.NOT_FOUND),
    failed=ErrorCode.INGESTION_FAILED,
    notifies=True,
)
_FILE_ID_EXAMPLE = "file-06gzpnn6z30k9qdmrw54faz30gfpw60mq5r0"


def find_owner(request: ApiRequest) -> Owner:
    """Return the owner of the request's uploads."""
    return Owner(request.caller.organization, request.tenant, request.caller.namespace)


async def attach_files(
    request: ApiRequest, namespace: NamespaceConfig, files: Sequence[wire.AddFile]
) -> tuple[str, list[str]]:
    """Copy uploads into a new namespace and accept their ingestion; return the ids of job run and documents."""
    copies: list[NewFile] = []
    try:
        await _copy_uploads(request, namespace, files, copies)
        return await _accept_files(request, namespace.id, files, copies)
    except BaseException:
        # The rollback removes the copies' records, so garbage collection would not find the files.
        store, keys = registry.make_file_store(namespace), [copy.upload.key for copy in copies]
        await asyncio.shield(request.services.run_in_thread(store.delete, keys))
        raise


async def find_uploads(request: ApiRequest, files: Sequence[wire.AddFile]) -> dict[str, UploadedFile]:
    """Return the uploads by id; raise NOT_FOUND for a missing upload, or INVALID_REQUEST."""
    names = [file.file_id for file in files]
    uploads = await file_uploads.find_uploads(request.services.db, find_owner(request), names)
    if not uploads.keys() >= set(names):
        raise file_not_found()
    return uploads


async def _copy_uploads(
    request: ApiRequest, namespace: NamespaceConfig, files: Sequence[wire.AddFile], copies: list[NewFile]
) -> list[NewFile]:
    """Copy uploads into the namespace's file store; `copies` also lists unfinished copies."""
    services, scope = request.services, request.scope_of(namespace.id)
    uploads, store = await find_uploads(request, files), registry.make_file_store(namespace)
    for file in files:
        source = uploads[file.file_id]
        copies.append(_new_file(source, file, await job_uploads.begin_upload(services.db, scope)))
        chunks = file_uploads.read_pieces(services.db, source.id)
        if await services.run_in_thread(store.put, copies[-1].upload.key, chunks) != source.size:
            raise file_not_found()
    return copies


def _new_file(source: UploadedFile, file: wire.AddFile, target: Upload) -> NewFile:
    attributes = dict(file.attributes or {})
    return NewFile(source.id, source.name, source.media_type, source.size, source.sha256, attributes, target)


async def _accept_files(
    request: ApiRequest, namespace_id: str, files: Sequence[wire.AddFile], copies: Sequence[NewFile]
) -> tuple[str, list[str]]:
    services, scope = request.services, request.scope_of(namespace_id)
    ingestion = wire.build_ingestion(files[0].chunking_strategy)
    receipt = await runs.accept_files(services.db, scope, copies, ingestion)
    for document_id, copy in zip(receipt.document_ids, copies, strict=True):
        if document_id in receipt.replaced_ids and copy.metadata:
            selection = DocumentFilter(document_ids=(document_id,))
            await documents.patch_metadata(services.db, scope, selection, copy.metadata, {}, {})
    await file_uploads.shorten_expiry(services.db, [copy.external_id for copy in copies])
    await request.save_tenant()
    return receipt.job_run_id, list(receipt.document_ids)


async def copy_file(request: ApiRequest, namespace_id: FromPath[str], data: JSONBody[wire.AddFile]) -> list[NewFile]:
    """Copy an upload before the transaction that accepts its ingestion."""
    return await _copy_checked(request, namespace_id, [data])


async def copy_files(request: ApiRequest, namespace_id: FromPath[str], data: JSONBody[wire.AddFiles]) -> list[NewFile]:
    """Copy a batch of uploads before the transaction that accepts their ingestion."""
    return await _copy_checked(request, namespace_id, data.list_files())


async def _copy_checked(request: ApiRequest, namespace_id: str, files: Sequence[wire.AddFile]) -> list[NewFile]:
    for file in files:
        file.attributes = wire.accept_attributes(file.attributes, request.services.settings)
        wire.build_ingestion(file.chunking_strategy)
    return await _copy_uploads(request, await find_namespace(request, namespace_id), files, [])


@_operation("GET", FILES_PATH, raises=(ErrorCode.NAMESPACE_NOT_FOUND,))
async def list_vector_store_files(
    request: ApiRequest, namespace_id: FromPath[str], params: NamedDependency[wire.StoreFileList]
) -> wire.VectorStoreFilePage:
    """List the files of a vector store. The namespace's documents, newest first."""
    await find_namespace(request, namespace_id)
    return await _list_files(request, request.scope_of(namespace_id), params)


@_ingesting_operation(
    FILES_PATH,
    body=wire.AddFile,
    dependencies={"copies": copy_file},
    example={"file_id": _FILE_ID_EXAMPLE, "attributes": {"manual": "A-7"}},
)
@idempotent
async def add_vector_store_file(
    request: ApiRequest,
    namespace_id: FromPath[str],
    data: JSONBody[wire.AddFile],
    copies: NamedDependency[list[NewFile]],
) -> wire.VectorStoreFile:
    """Add an uploaded file to a vector store. It is ingested; the same file again replaces the document."""
    _, document_ids = await _accept_files(request, namespace_id, [data], copies)
    return await _present_file(request, request.scope_of(namespace_id), document_ids[0])


@_operation("GET", _FILE_PATH, raises=_FILE_NOT_FOUND_CODES)
async def get_vector_store_file(
    request: ApiRequest, namespace_id: FromPath[str], document_id: FromPath[str]
) -> wire.VectorStoreFile:
    """Get a file of a vector store."""
    return await _present_file(request, request.scope_of(namespace_id), document_id)


@_operation(
    "POST",
    _FILE_PATH,
    raises=(*_FILE_NOT_FOUND_CODES, ErrorCode.INVALID_FILTER_CONFIG),
    failed=ErrorCode.UPDATE_DOCUMENTS_FAILED,
    example={"attributes": {"reviewed": True}},
)
@idempotent
async def update_vector_store_file(
    request: ApiRequest, namespace_id: FromPath[str], document_id: FromPath[str], data: JSONBody[wire.UpdateFile]
) -> wire.VectorStoreFile:
    """Replace the attributes of a file. Other metadata of the document stays."""
    scope = request.scope_of(namespace_id)
    row = await _find_document(request, scope, document_id)
    attributes = wire.accept_attributes(data.attributes, request.services.settings)
    values = {**dict.fromkeys(wire.scalar_values(row.metadata)), **attributes}
    selection = DocumentFilter(document_ids=(row.id,))
    rows = await documents.patch_metadata(request.services.db, scope, selection, values, {}, {})
    if not rows:  # deleted concurrently
        raise _file_not_in_store()
    return wire.VectorStoreFile.from_row(rows[0], namespace_id)


@_operation("DELETE", _FILE_PATH, raises=_FILE_NOT_FOUND_CODES, failed=ErrorCode.DELETE_DOCUMENTS_FAILED)
async def remove_vector_store_file(
    request: ApiRequest, namespace_id: FromPath[str], document_id: FromPath[str]
) -> wire.Removed:
    """Remove a file from a vector store. The document disappears at once; the upload stays."""
    scope = request.scope_of(namespace_id)
    row = await _find_document(request, scope, document_id)
    await documents.delete_documents(request.services.db, scope, DocumentFilter(document_ids=(row.id,)))
    request.services.notices.send()
    return wire.Removed(id=document_id, object="vector_store.file.deleted")


@_operation("GET", _FILE_PATH + "/content", raises=_FILE_NOT_FOUND_CODES)
async def read_vector_store_file(
    request: ApiRequest, namespace_id: FromPath[str], document_id: FromPath[str]
) -> wire.FileTextPage:
    """Read the parsed text of a file. Without any text before it was ingested."""
    row = await _find_document(request, request.scope_of(namespace_id), document_id)
    await find_namespace(request, namespace_id)
    files = await stored_files.find_files(request.services.db, row.id, None)
    text = None if files is None or files.parsed_key is None else await read_parsed_text(request.services, files)
    return wire.FileTextPage(data=[] if text is None else [wire.FileText(text)])


@_ingesting_operation(
    _BATCHES_PATH,
    body=wire.AddFiles,
    dependencies={"copies": copy_files},
    example={"file_ids": [_FILE_ID_EXAMPLE], "attributes": {"manual": "A-7"}},
)
@idempotent
async def create_file_batch(
    request: ApiRequest,
    namespace_id: FromPath[str],
    data: JSONBody[wire.AddFiles],
    copies: NamedDependency[list[NewFile]],
) -> wire.FileBatch:
    """Add uploaded files to a vector store. They are ingested by a single job run, which is the batch."""
    job_run_id, _ = await _accept_files(request, namespace_id, data.list_files(), copies)
    return await _present_batch(request, request.scope_of(namespace_id), job_run_id)


@_operation("GET", _BATCH_PATH, raises=_BATCH_NOT_FOUND_CODES)
async def get_file_batch(
    request: ApiRequest, namespace_id: FromPath[str], ingest_job_run_id: FromPath[str]
) -> wire.FileBatch:
    """Get a batch of files. Any job run of the namespace."""
    return await _present_batch(request, request.scope_of(namespace_id), ingest_job_run_id)


@_operation("GET", _BATCH_PATH + "/files", raises=_BATCH_NOT_FOUND_CODES)
async def list_file_batch_files(
    request: ApiRequest,
    namespace_id: FromPath[str],
    ingest_job_run_id: FromPath[str],
    params: NamedDependency[wire.StoreFileList],
) -> wire.VectorStoreFilePage:
    """List the files of a batch. Those that were not deleted, newest first."""
    scope = request.scope_of(namespace_id)
    run = await _read_batch(request, scope, ingest_job_run_id)
    groups = chain(run.queued, run.processing, run.completed, run.failed, run.cancelled)
    return await _list_files(request, scope, params, document_ids=tuple(document.id for document in groups) or ("",))


@_operation(
    "POST", _BATCH_PATH + "/cancel", raises=_BATCH_NOT_FOUND_CODES, failed=ErrorCode.INGESTION_FAILED, creates=True
)
async def cancel_file_batch(
    request: ApiRequest, namespace_id: FromPath[str], ingest_job_run_id: FromPath[str]
) -> wire.FileBatch | bytes:
    """Cancel a batch of files. Those that were ingested stay."""
    services, scope = request.services, request.scope_of(namespace_id)
    batch = await _read_batch(request, scope, ingest_job_run_id)
    if batch.source == reembedding.REEMBED_SOURCE and request.bound_access is not None:
        raise auth.bound_key_error()

    async def cancel_batch() -> wire.FileBatch:
        await services.run_in_thread(control.cancel_run, services.db, scope, ingest_job_run_id)
        return await _present_batch(request, scope, ingest_job_run_id)

    return await request.run_once(cancel_batch, b"")


async def _list_files(
    request: ApiRequest, scope: Scope, params: wire.StoreFileList, *, document_ids: tuple[str, ...] = ()
) -> wire.VectorStoreFilePage:
    start = await _find_position(request, scope, "after", params.after)
    end = await _find_position(request, scope, "before", params.before)
    page = await documents.list_page(
        request.services.db,
        scope,
        DocumentFilter(
            document_ids=document_ids, statuses=wire.document_statuses(params.filter) if params.filter else ()
        ),
        params.limit + 1,
        pagination.age_cursor(start) if start else None,
        viewer=None,
        oldest_first=params.is_ascending,
    )
    rows, has_more = params.cut_page(page.items, end)
    entries = [wire.VectorStoreFile.from_row(row, scope.namespace) for row in rows]
    return wire.VectorStoreFilePage.from_entries(entries, has_more=has_more)


async def _find_position(request: ApiRequest, scope: Scope, field: str, name: str | None) -> Aged | None:
    if not name:
        return None
    try:
        return await _find_document(request, scope, name)
    except ServiceError as error:
        # A program may delete the entries of a page before it asks for the next one.
        if (position := await deletion.find_place(request.services.db, scope, name)) is not None:
            return position
        raise wire.unknown_entry(field) from error


async def _find_document(request: ApiRequest, scope: Scope, name: str) -> DocumentRow:
    """Return the document of a file id; raise NAMESPACE_NOT_FOUND or DOCUMENTS_NOT_FOUND."""
    is_upload = name.startswith(file_uploads.UPLOAD_ID_PREFIX)
    selection = (
        DocumentFilter(external_ids=(name,), sources=(file_uploads.UPLOAD_SOURCE,))
        if is_upload
        else DocumentFilter(document_ids=(name,))
    )
    page = await documents.list_page(request.services.db, scope, selection, 1, viewer=None)
    if not page.items:
        await namespaces.require_namespace(request.services.db, scope.organization, scope.namespace)
        raise _file_not_in_store()
    return page.items[0]


def _file_not_in_store() -> ServiceError:
    return ServiceError(ErrorCode.DOCUMENTS_NOT_FOUND, "There is no such file in this vector store.")


async def find_namespace(request: ApiRequest, namespace_id: str) -> NamespaceConfig:
    request.require_namespace(namespace_id)
    services = request.services
    return await namespaces.get_namespace(services.db, services.ring, request.caller.organization, namespace_id)


async def _present_file(request: ApiRequest, scope: Scope, name: str) -> wire.VectorStoreFile:
    return wire.VectorStoreFile.from_row(await _find_document(request, scope, name), scope.namespace)


async def _read_batch(request: ApiRequest, scope: Scope, job_run_id: str) -> JobRun:
    """Return the job run; raise NAMESPACE_NOT_FOUND or INGEST_JOB_RUN_NOT_FOUND."""
    try:
        return await runs.read_run(request.services.db, scope, job_run_id)
    except ServiceError:
        await namespaces.require_namespace(request.services.db, scope.organization, scope.namespace)
        raise


async def _present_batch(request: ApiRequest, scope: Scope, job_run_id: str) -> wire.FileBatch:
    return wire.FileBatch.from_job_run(await _read_batch(request, scope, job_run_id), scope.namespace)


def file_not_found() -> ServiceError:
    days = file_uploads.UPLOAD_EXPIRY_SECONDS // 86_400
    message = f"There is no such file. An upload is kept for {days} days, and for one after it was added."
    return ServiceError(ErrorCode.NOT_FOUND, message, field="file_id", reason="no_such_file")


ROUTE_HANDLERS = (
    list_vector_store_files,
    add_vector_store_file,
    get_vector_store_file,
    update_vector_store_file,
    remove_vector_store_file,
    read_vector_store_file,
    create_file_batch,
    get_file_batch,
    list_file_batch_files,
    cancel_file_batch,
)
