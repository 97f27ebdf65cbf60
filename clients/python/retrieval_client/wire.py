"""From arguments to what is sent."""

from __future__ import annotations

import mimetypes
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from retrieval_client.record import Record, wire_name


def body_of(**fields: Any) -> dict[str, Any]:
    """The fields that were given, by their names on the wire."""
    return {wire_name(name): sent(value) for name, value in fields.items() if value is not None}


def sent(value: Any) -> Any:
    """A value as JSON holds it: times as ISO 8601, records as they came."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Record):
        return dict(value.raw)
    return value


def headers_of(api_key: str, tenant: str | None, on_behalf_of: str | None) -> dict[str, str]:
    """What every request carries."""
    headers = {
        "Authorization": f"Bearer {api_key}",
        "Accept": "application/json",
        "User-Agent": f"retrieval-client/{_version()}",
    }
    if tenant is not None:
        headers["X-Tenant-ID"] = tenant
    if on_behalf_of is not None:
        headers["X-On-Behalf-Of"] = quote(on_behalf_of, safe="@.+-_~ ")
    return headers


def upload_of(
    file: str | Path | bytes | BinaryIO, name: str | None, media_type: str | None
) -> tuple[str, bytes | BinaryIO, str]:
    """A file's name, its content and its media type. An opened file is read again from its start if need be."""
    if isinstance(file, str | Path):
        name = name or Path(file).name
        file = Path(file).open("rb")  # noqa: SIM115 - closed by `close_upload`
    name = readable(name or Path(str(getattr(file, "name", "file"))).name)
    return name, file, media_type or mimetypes.guess_type(name)[0] or "application/octet-stream"


def readable(name: str) -> str:
    """A file's name as text: bytes of it that are no UTF-8 are spelled `\\xff`, since no request could hold them."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def close_upload(file: str | Path | bytes | BinaryIO, upload: tuple[str, bytes | BinaryIO, str]) -> None:
    """Close what `upload_of` has opened."""
    if isinstance(file, str | Path) and not isinstance(upload[1], bytes):
        upload[1].close()


def given(**fields: Any) -> dict[str, Any]:
    """The fields that are not None, by the names they have."""
    return {name: value for name, value in fields.items() if value is not None}


def _version() -> str:
    try:
        return metadata.version("retrieval-client")
    except metadata.PackageNotFoundError:
        return "dev"
