"""Ingestion of texts and files: requests are checked and stored; a flow does the work."""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody

from api import decode, request_limits, uploads
from api.operation import idempotent, operation
from api.request import ApiRequest, TenantUse
from api.services import Services
from api.uploads import Form
from api.wire import ingest as wire
from api.wire import ingest_files as files_wire
from api.wire.access import Access
from api.wire.common import Answer
from connectors import registry
from retrieval.documents import external_ids, metadata
from retrieval.errors import ErrorCode, ServiceError
from retrieval.job_config import Ingestion
from retrieval.jobs import dry_runs, runs
from retrieval.jobs import uploads as job_uploads
from retrieval.jobs.runs import NewFile
from retrieval.jobs.uploads import StoredUpload, Upload
from retrieval.namespaces import namespaces
from retrieval.ports import Scope

FormT = TypeVar("FormT", bound=msgspec.Struct)
INVALID_CONFIG = ErrorCode.INVALID_INGEST_CONFIG

# Form fields with JSON text.
JSON_FIELD_READERS: Mapping[str, Callable[[bytes], Any]] = {
    "metadata": decode.make_json_reader(dict[str, Any], INVALID_CONFIG, at="metadata"),
    "chunkConfig": decode.make_json_reader(wire.ChunkConfig, INVALID_CONFIG, at="chunkConfig"),
    "ocrConfig": decode.make_json_reader(wire.OcrConfig, INVALID_CONFIG, at="ocrConfig"),
    "access": decode.make_json_reader(Access, INVALID_CONFIG, at="access"),
}
# Form fields of direct ingestion, refused for uploads.
_FILE_OPTIONS = frozenset({*JSON_FIELD_READERS, "externalId", "modifiedAt", "dryRun"})


def ingestion_operation(
    path: str, *, raises: tuple[ErrorCode, ...] = (), **declared: Any
) -> Callable[[Callable[..., Awaitable[Answer | bytes]]], HTTPRouteHandler]:
    """Declare an operation that accepts an ingestion; `raises` are additional error codes."""
    return operation(
        "POST",
        path,
        tag="Ingestion",
        tenant=TenantUse.ANY,
        invalid=INVALID_CONFIG,
        failed=ErrorCode.INGESTION_FAILED,
        raises=(ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.INVALID_CHUNK_CONFIG, *raises),
        notifies=True,
        **declared,
    )


async def accept_dry_run(
    request: ApiRequest,
    scope: Scope,
    noun: str,
    *,
    source: str,
    ingestion: Ingestion,
    config: Mapping[str, Any],
    connection_id: str | None = None,
    text: str | None = None,
) -> wire.IngestAnswer:
    """Queue a dry run."""
    db = request.services.db
    receipt = await dry_runs.accept_dry_run(
        db, scope, source=source, request=config, ingestion=ingestion, connection_id=connection_id, content=text
    )
    await request.save_tenant()
    return wire.IngestAnswer.of_dry_run(receipt, noun)


@ingestion_operation(
    "/v1/ingest/text",
    example={
        "namespaceId": "ns_06gzpnn6z30k9qdmrw54faz30gfpw60mq5r0",
        "ingestConfig": {
            "source": "TEXT",
            "config": {"text": "Turn the key to the left to open the cover.", "metadata": {"manual": "A-7"}},
            "chunkConfig": {"chunkSize": 1000, "chunkOverlap": 200},
        },
    },
)
@idempotent
async def ingest_text(request: ApiRequest, data: JSONBody[wire.IngestText]) -> wire.IngestAnswer:
    """Ingest a text. It is searchable within about a second. The same external id again replaces the document."""
    scope = request.scope_of(data.namespace_id)
    config_sent = data.ingest_config
    config = config_sent.config
    _check_text(config_sent, request.services)
    chunks = config_sent.chunk_config or config.chunk_config
    modified = "ingestConfig.config.modifiedAt", config.modified_at
    access = "ingestConfig.config.access", config.access
    ingestion = wire.build_ingestion(
        config.metadata, chunks, chunks_at="ingestConfig.chunkConfig", modified=modified, access=access
    )

    if data.dry_run:
        return await accept_dry_run(
            request, scope, "text", source="TEXT", ingestion=ingestion, config=_text_identity(config), text=config.text
        )
    db = request.services.db
    accepted = await runs.accept_text(
        db, scope, text=config.text, ingestion=ingestion, name=config.name, external_id=config.external_id
    )
    await request.save_tenant()
    return wire.IngestAnswer.for_document(accepted, "text")


@ingestion_operation("/v1/ingest/file", form=wire.FileForm, creates=True)
async def ingest_file(request: ApiRequest) -> wire.IngestAnswer | bytes:
    """Ingest a file. Send a multipart form with fields in any order. The limit is 50 MiB."""
    services = request.services
    async with uploads.read_form(request, services) as form:
        fields = _read_fields(form, wire.FileForm)
        scope = request.scope_of(fields.namespace_id)
        external_ids.check_external_id(fields.external_id or "", "externalId")
        if fields.metadata is not None:
            fields.metadata = metadata.accept_metadata(fields.metadata, services.settings, INVALID_CONFIG, "metadata")
        options = wire.build_ingestion(
            fields.metadata,
            fields.chunk_config,
            chunks_at="chunkConfig",
            ocr=fields.ocr_config,
            modified=("modifiedAt", fields.modified_at),
            access=("access", fields.access),
        )
        if (previous := await request.find_stored_answer(form.canonical_content())) is not None:
            return previous
        upload = await _store_file(services, scope, form)

    async def accept_file() -> wire.IngestAnswer:
        external_id = fields.external_id or form.find_identity()
        name = form.name or fields.external_id or f"{uploads.FILE_FIELD} {external_id[:12]}"
        if fields.dry_run:
            job = _describe_file(NewFile(external_id, name, form.media_type, form.size, form.sha256, {}, upload))
            return await accept_dry_run(request, scope, "file", source="LOCAL_FILE", ingestion=options, config=job)
        accepted = await runs.accept_file(
            services.db,
            scope,
            upload=upload,
            name=name,
            media_type=form.media_type,
            size=form.size,
            sha256=form.sha256,
            ingestion=options,
            external_id=external_id,
        )
        await request.save_tenant()
        return wire.IngestAnswer.for_document(accepted, "file")

    return await request.run_once(accept_file, form.canonical_content())


@operation(
    "POST",
    "/v1/ingest/uploads",
    tag="Ingestion",
    form=files_wire.FileUploadForm,
    tenant=TenantUse.ANY,
    invalid=INVALID_CONFIG,
    failed=ErrorCode.INGESTION_FAILED,
    raises=(ErrorCode.NAMESPACE_NOT_FOUND,),
    creates=True,
)
async def create_upload(request: ApiRequest) -> files_wire.FileUploadAnswer | bytes:
    """Store a file for an ingestion of several. `POST /v1/ingest/files` ingests it within a day; then it is deleted."""
    services = request.services
    async with uploads.read_form(request, services) as form:
        for name in sorted(_FILE_OPTIONS.intersection(form.fields)):
            message = f"{name} is not a field of an upload: send it with POST /v1/ingest/files."
            raise ServiceError(INVALID_CONFIG, message, field=name, reason="not_allowed")
        fields = _read_fields(form, files_wire.FileUploadForm)
        scope = request.scope_of(fields.namespace_id)
        if (previous := await request.find_stored_answer(form.canonical_content())) is not None:
            return previous
        upload = await _store_file(services, scope, form)

    async def keep_upload() -> files_wire.FileUploadAnswer:
        await job_uploads.keep_upload(
            services.db, StoredUpload(upload, form.name, form.media_type, form.size, form.sha256)
        )
        await request.save_tenant()
        return files_wire.FileUploadAnswer(
            message="File stored", data=files_wire.FileUploadData(upload.id, form.name, form.size)
        )

    return await request.run_once(keep_upload, form.canonical_content())


@ingestion_operation(
    "/v1/ingest/files",
    example={
        "namespaceId": "ns_06gzpnn6z30k9qdmrw54faz30gfpw60mq5r0",
        "ingestConfig": {
            "source": "FILE",
            "config": {
                "name": "handbook",
                "files": [
                    {"uploadId": "up_06gzpnn6z30k9qdmrw54faz30gfpw60mq5r0", "externalId": "handbook/cover.pdf"},
                    {"uploadId": "up_06gzpnn6z30k9qdmrw54faz30gfpw60mq5r1", "externalId": "handbook/index.pdf"},
                ],
            },
        },
    },
)
@idempotent
async def ingest_files(request: ApiRequest, data: JSONBody[files_wire.IngestFiles]) -> wire.IngestAnswer:
    """Ingest several uploaded files by a single job run. `POST /v1/ingest/uploads` stores each of them first."""
    services, scope = request.services, request.scope_of(data.namespace_id)
    config, at = data.ingest_config.config, "ingestConfig.config"
    if config.metadata is not None:
        config.metadata = metadata.accept_metadata(config.metadata, services.settings, INVALID_CONFIG, f"{at}.metadata")
    chunks = data.ingest_config.chunk_config or config.chunk_config
    options = wire.build_ingestion(
        config.metadata,
        chunks,
        chunks_at="ingestConfig.chunkConfig",
        ocr=config.ocr_config,
        access=(f"{at}.access", config.access),
    )
    async with services.db.async_together():
        await namespaces.require_namespace(services.db, scope.organization, scope.namespace)
        files = await _take_uploads(services, scope, config)
        if data.dry_run:
            request_files = [_describe_file(file) for file in files]
            job = {"name": config.name or f"{len(files)} files", "files": request_files}
            return await accept_dry_run(request, scope, "files", source="LOCAL_FILE", ingestion=options, config=job)
        receipt = await runs.accept_files(services.db, scope, files, options, config.name)
        await request.save_tenant()
    return wire.IngestAnswer.of_several(receipt, "files")


async def _take_uploads(services: Services, scope: Scope, config: files_wire.FilesConfig) -> list[NewFile]:
    """Return the request's files; raise INVALID_INGEST_CONFIG for a missing or repeated file."""
    stored = await job_uploads.take_uploads(services.db, scope, [file.upload_id for file in config.files])
    files: list[NewFile] = []
    upload_ids: set[str] = set()
    identities: set[str] = set()
    for index, file in enumerate(config.files):
        field = f"ingestConfig.config.files[{index}]"
        if file.upload_id in upload_ids:
            message = f"The request names the upload {file.upload_id} twice: upload the file again for each document."
            raise ServiceError(INVALID_CONFIG, message, field=f"{field}.uploadId", reason="repeated")
        upload_ids.add(file.upload_id)
        upload = stored.get(file.upload_id)
        if upload is None:
            cause = "it was ingested, is older than a day, or is in another namespace or tenant"
            message = f"There is no upload {file.upload_id} to ingest: {cause}. Upload the file again."
            raise ServiceError(INVALID_CONFIG, message, field=f"{field}.uploadId", reason="no_such_upload")
        external_id = file.external_id or upload.name or upload.sha256.hex()
        external_ids.check_external_id(external_id, f"{field}.externalId")
        if external_id in identities:
            message = f"{external_id} is the identity of two files: give each an externalId of its own."
            raise ServiceError(INVALID_CONFIG, message, field=f"{field}.externalId", reason="repeated")
        identities.add(external_id)
        name = upload.name or file.external_id or f"{uploads.FILE_FIELD} {external_id[:12]}"
        content = upload.media_type, upload.size, upload.sha256
        files.append(NewFile(external_id, name, *content, config.metadata or {}, upload.upload))
    return files


def _describe_file(file: NewFile) -> dict[str, Any]:
    """Return the fields of a file that a dry run needs."""
    upload_fields = {"rawKey": file.upload.key, "mediaType": file.media_type, "size": file.size}
    return {"externalId": file.external_id, "name": file.name, **upload_fields}


def _check_text(ingest_config: wire.TextIngestion, services: Services) -> None:
    config, field = ingest_config.config, "ingestConfig.config"
    identity = "externalId" if config.external_id else "name"
    external_ids.check_external_id(config.external_id or config.name or "", f"{field}.{identity}")
    if not config.text.strip():
        raise ServiceError(INVALID_CONFIG, f"{field}.text is blank.", field=f"{field}.text", reason="blank")
    allowed = services.settings.max_text_bytes
    if len(config.text) > allowed or len(config.text.encode()) > allowed:
        raise ServiceError(
            ErrorCode.PAYLOAD_TOO_LARGE,
            f"{field}.text is larger than the {allowed:,} bytes allowed; send it as a file.",
            field=f"{field}.text",
            reason="text_too_large",
        )
    if config.metadata is not None:
        config.metadata = metadata.accept_metadata(
            config.metadata, services.settings, INVALID_CONFIG, f"{field}.metadata"
        )


def _read_fields(form: Form, form_type: type[FormT]) -> FormT:
    """Convert the form to its struct; an empty optional field counts as absent."""
    members: dict[str, Any] = {}
    form.require_single({member.encode_name for member in msgspec.structs.fields(form_type)})
    for name, content in form.fields.items():
        value = content.removeprefix(codecs.BOM_UTF8)
        if name in JSON_FIELD_READERS and value.strip() not in uploads.UNSET_VALUES:
            request_limits.check_json(value, INVALID_CONFIG, name)
            members[name] = JSON_FIELD_READERS[name](value)
        elif name == "dryRun" and value.strip() not in uploads.UNSET_VALUES:
            members[name] = _read_flag(value)
        elif name == "namespaceId" or (name in {"source", "externalId", "modifiedAt"} and value):
            request_limits.check_json(value, INVALID_CONFIG, name)
            members[name] = value.decode()
    form.require_file()
    return decode.convert_members(members, form_type, INVALID_CONFIG)


def _read_flag(value: bytes) -> bool:
    if value.strip() not in {b"true", b"false"}:
        raise ServiceError(INVALID_CONFIG, "dryRun must be true or false.", field="dryRun", reason="wrong_type")
    return value.strip() == b"true"


def _text_identity(config: wire.TextConfig) -> dict[str, str]:
    """Return the external id and name of a text."""
    digest = hashlib.sha256(config.text.encode()).hexdigest()
    external = config.external_id or config.name or digest
    return {"externalId": external, "name": config.name or config.external_id or f"text {digest[:12]}"}


async def _store_file(services: Services, scope: Scope, form: Form) -> Upload:
    """Store the file before the request is recorded, so that an accepted file exists."""
    config = await namespaces.get_namespace(services.db, services.ring, scope.organization, scope.namespace)
    upload = await job_uploads.begin_upload(services.db, scope)
    await services.run_in_thread(lambda: registry.make_file_store(config).put(upload.key, form.iterate_chunks()))
    return upload


ROUTE_HANDLERS = (ingest_text, ingest_file, create_upload, ingest_files)
