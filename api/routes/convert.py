"""Files to Markdown, for who asks and nobody else."""

from __future__ import annotations

import tempfile
from pathlib import Path

from api import decode, request_limits, uploads
from api.operation import Call, operation
from api.services import Services
from api.uploads import ABSENT, Form
from api.wire.ingest import ConvertAnswer, ConvertData, ConvertedDocument, ConvertForm, OcrConfig
from connectors import registry
from retrieval.errors import ErrorCode, Retryable, ServiceError, Skippable
from retrieval.ingestion import convert
from retrieval.ingestion.convert import Converted
from retrieval.ports import OcrStrategy, RawContent

_INVALID = ErrorCode.INVALID_INGEST_CONFIG
_ocr = decode.json_reader(OcrConfig, _INVALID, at="ocrConfig")


@operation(
    "POST",
    "/v1/convert/file",
    tag="Ingestion",
    form=ConvertForm,
    invalid=_INVALID,
    failed=ErrorCode.INGESTION_FAILED,
    stores=False,
)
async def convert_file(call: Call[None, None]) -> ConvertAnswer:
    """Convert a file to Markdown.

    Nothing is stored. Within the limits of an ingested file; 400 with the reason for one that cannot be read,
    503 with Retry-After while too many are being converted.
    """
    services = call.services
    async with uploads.read_form(call.request, services) as form:
        form.require_file()
        sent = form.fields.get("ocrConfig", b"").strip()
        strategy = OcrConfig().strategy
        if sent not in ABSENT:
            request_limits.check_json(sent, _INVALID, "ocrConfig")
            strategy = _ocr(sent).strategy
        found = await services.conversions.run(call.caller.organization, lambda: _converted(services, form, strategy))
    documents = [ConvertedDocument.of(one) for one in found]
    return ConvertAnswer(message="File converted successfully", data=ConvertData(documents))


HANDLERS = (convert_file,)


def _converted(services: Services, form: Form, strategy: OcrStrategy) -> list[Converted]:
    """In a thread. INVALID_INGEST_CONFIG for what cannot be read, SERVICE_UNAVAILABLE for what cannot be read now."""
    settings, name = services.settings, form.name or uploads.FILE
    try:
        with tempfile.TemporaryDirectory(prefix="convert-") as folder:
            place = Path(folder) / "raw"
            with place.open("wb") as file:
                file.writelines(form.pieces())
            raw = RawContent(place, name, form.media_type, form.size)
            most, members = settings.max_file_bytes, settings.archive_members
            return convert.run(registry.parser(), raw, strategy, most=most, members=members)
    except Skippable as error:
        raise ServiceError(_INVALID, str(error), field=uploads.FILE, reason="unreadable") from error
    except (Retryable, OSError) as error:
        message = "The file cannot be converted now. Try again later."
        raise ServiceError(ErrorCode.SERVICE_UNAVAILABLE, message, headers={"Retry-After": "5"}) from error
