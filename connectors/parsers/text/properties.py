"""What a file says of itself: title, author, dates, language, pages."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from connectors.parsers.detect import file_types, plain

if TYPE_CHECKING:
    import kreuzberg

    from connectors.parsers.detect.file_types import Kind

_NO_NAMES = frozenset(
    {
        "untitled",
        "unknown",
        "document",
        "title",
        "anonymous",
        "(anonymous)",
        "unspecified",
        "(unspecified)",
        "python-docx",
    }
)
_SHORT = {
    "eng": "en", "deu": "de", "fra": "fr", "spa": "es", "ita": "it", "por": "pt", "nld": "nl", "pol": "pl",
    "rus": "ru", "ukr": "uk", "ces": "cs", "swe": "sv", "dan": "da", "nob": "nb", "fin": "fi", "tur": "tr",
    "ell": "el", "ron": "ro", "hun": "hu", "cmn": "zh", "jpn": "ja", "kor": "ko", "ara": "ar", "hin": "hi",
}  # fmt: skip


def of(result: kreuzberg.ExtractionResult, kind: Kind, size: int) -> dict[str, str | int]:
    """The properties that are known, under the names of the contract."""
    metadata: Mapping[str, Any] = result.metadata
    known: dict[str, str | int] = {"mimeType": kind.media_type, "fileSize": size}
    count = page_count(result)
    detected = result.detected_languages or [""]
    language = str(metadata.get("language") or "") or _SHORT.get(detected[0], detected[0])
    authors = metadata.get("authors") or []
    author = ", ".join(map(str, authors)) or str(metadata.get("from_email") or "")
    known.update(
        {"pageCount": count} if count and kind is not file_types.PPT else {}
    )  # of those it counts masters, too
    dates = {"createdAt": "created_at", "modifiedAt": "modified_at"}
    texts = {"language": language, "author": author}
    texts |= {name: instant(str(metadata.get(key) or "")) for name, key in dates.items()}
    known.update(
        {key: plain.one_line(value) for key, value in texts.items() if value.strip() and value.lower() not in _NO_NAMES}
    )
    return known


def name(text: str) -> str:
    """A title or author in one line; "" for what programs write where nobody said any."""
    line = plain.one_line(text)
    return "" if line.lower() in _NO_NAMES else line


def page_count(result: kreuzberg.ExtractionResult) -> int:
    metadata: Mapping[str, Any] = result.metadata
    structure = metadata.get("pages") or {}
    count = structure.get("total_count") if structure.get("unit_type") in ("page", "slide") else None
    count = count or metadata.get("page_count") or 0
    return count if isinstance(count, int) else 0


def title(result: kreuzberg.ExtractionResult, text: str) -> str:
    """The title that the file names, an e-mail's subject, or else the first heading."""
    metadata: Mapping[str, Any] = result.metadata
    named = plain.one_line(str(metadata.get("title") or metadata.get("subject") or ""))
    if named and named.lower() not in _NO_NAMES:
        return named
    return plain.first_heading(text)


def instant(stamp: str) -> str:
    """ISO 8601 in UTC, or "" if the date makes no sense."""
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(stamp)
        except ValueError:
            continue
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return ""
