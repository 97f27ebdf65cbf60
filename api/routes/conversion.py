"""Conversion of a file to Markdown without storage."""

from __future__ import annotations

import codecs
import tempfile
from collections.abc import Callable
from pathlib import Path

from api import request_limits, uploads
from api.operation import operation
from api.request import ApiRequest
from api.request_limits import Disconnected
from api.routes.ingest import INVALID_CONFIG, JSON_FIELD_READERS
from api.services import Services
from api.uploads import UNSET_VALUES, Form
from api.wire import ingest as wire
from connectors import registry
from retrieval.errors import ErrorCode, Interrupted, Retryable, ServiceError, Skippable
from retrieval.ingestion import convert
from retrieval.ingestion.convert import ConversionResult
from retrieval.ports import OcrStrategy, RawContent


@operation(
    "POST",
    "/v1/convert/file",
    tag="Ingestion",
    form=wire.ConvertForm,
    invalid=INVALID_CONFIG,
    failed=ErrorCode.INGESTION_FAILED,
    stores=False,
)
async def convert_file(request: ApiRequest) -> wire.ConvertAnswer:
    """Convert a file to Markdown.

    Nothing is stored. Within the limits of an ingested file; 400 with the reason for one that cannot be read,
    503 with Retry-After while too many are being converted.
    """
    services = request.services
    async with uploads.read_form(request, services) as form:
        form.require_file()
        form.require_single({"ocrConfig"})
        ocr_config = form.fields.get("ocrConfig", b"").removeprefix(codecs.BOM_UTF8).strip()
        strategy = wire.OcrConfig().strategy
        if ocr_config not in UNSET_VALUES:
            request_limits.check_json(ocr_config, INVALID_CONFIG, "ocrConfig")
            strategy = JSON_FIELD_READERS["ocrConfig"](ocr_config).strategy
        is_scan = strategy is OcrStrategy.STANDARD_OCR and form.may_need_recognition()
        limit = services.recognitions if is_scan else services.conversions
        async with request.watch_client() as is_connected:
            converted = await limit.run(
                request.caller.organization, lambda: _convert_form(services, form, strategy, is_connected)
            )
    documents = [wire.ConvertedDocument.from_converted(document) for document in converted]
    return wire.ConvertAnswer(message="File converted successfully", data=wire.ConvertData(documents))


def _convert_form(
    services: Services, form: Form, strategy: OcrStrategy, is_connected: Callable[[], bool]
) -> list[ConversionResult]:
    """Convert the file in a thread; raise INVALID_INGEST_CONFIG if unreadable, SERVICE_UNAVAILABLE if not possible
    now, Disconnected after the client left."""
    if not is_connected():
        raise Disconnected
    settings, name = services.settings, form.name or uploads.FILE_FIELD
    try:
        with tempfile.TemporaryDirectory(prefix="convert-") as folder:
            path = Path(folder) / "raw"
            with path.open("wb") as file:
                file.writelines(form.iterate_chunks())
            raw = RawContent(path, name, form.media_type, form.size)
            size_limit, members = settings.max_file_bytes, settings.archive_members
            return convert.convert_file(
                registry.make_stoppable_parser(is_connected),
                raw,
                strategy,
                max_characters=size_limit,
                max_files=members,
            )
    except Interrupted as error:
        raise Disconnected from error
    except Skippable as error:
        raise ServiceError(INVALID_CONFIG, str(error), field=uploads.FILE_FIELD, reason="unreadable") from error
    except (Retryable, OSError) as error:
        message = "The file cannot be converted now. Try again later."
        raise ServiceError(ErrorCode.SERVICE_UNAVAILABLE, message, headers={"Retry-After": "5"}) from error


ROUTE_HANDLERS = (convert_file,)
