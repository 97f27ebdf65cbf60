"""Files behind signed links: streamed, and served so that nothing in them runs in a browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from typing import Any, BinaryIO, cast
from urllib.parse import quote

from litestar import Request, get
from litestar.response import Stream

from api.links import PREFIX, Kind, groups_of
from api.services import Services
from connectors import registry
from retrieval.access import viewers
from retrieval.documents import stored_files
from retrieval.documents.stored_files import StoredFiles
from retrieval.errors import ErrorCode, Fatal, Retryable, ServiceError, Skippable
from retrieval.namespaces import namespaces

PIECE = 256 * 1024
TEXT = "text/plain"
"""The framework adds charset=utf-8."""
HARMLESS = frozenset({"application/pdf", "image/gif", "image/jpeg", "image/png", "image/webp"})
"""Served as what they are; text as plain text, everything else as bytes."""


@get(PREFIX + "{document_id:str}/{kind:str}", opt={"file": "Read a file by its signed link"})
async def read_file(request: Request[Any, Any, Any]) -> Stream:
    """The link stands on a document that was listed with `rawFileUrl` or `parsedTextFileUrl`.

    It expires, and ends when its key is revoked.
    """
    services = cast("Services", request.app.state.services)
    document_id, kind = str(request.path_params["document_id"]), str(request.path_params["kind"])
    signer = await services.links.signer()
    asked = request.query_params
    if not signer.opens(document_id, kind, asked):
        raise _not_found()
    principal, groups = asked.get("principal"), asked.get("groups")
    viewer = (
        None if principal is None else await viewers.viewer_of(services.db, document_id, principal, groups_of(groups))
    )
    found = await stored_files.find(services.db, document_id, viewer, key=asked.get("key"))
    if found is None:
        raise _not_found()
    key = found.raw_key if kind == Kind.RAW else found.parsed_key
    if key is None:
        raise _not_found()
    opened, file = await _open(services, found, key)
    media_type, name = _presented(found, Kind(kind))
    headers = {
        "Content-Disposition": _disposition(name, inline=kind == Kind.PARSED),
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-store",
        "Referrer-Policy": "no-referrer",
    }
    return Stream(_pieces(services, opened, file), media_type=media_type, headers=headers)


HANDLERS = (read_file,)


async def _open(services: Services, found: StoredFiles, key: str) -> tuple[AbstractContextManager[BinaryIO], BinaryIO]:
    config = await namespaces.get(services.db, services.ring, found.organization_id, found.namespace_id)
    try:
        opened = await services.in_thread(lambda: registry.file_store(config).open(key))
        return opened, await services.in_thread(opened.__enter__)
    except Skippable as error:
        raise _not_found() from error
    except (Retryable, Fatal) as error:
        message = "The namespace's file storage cannot be read now. Try again later."
        raise ServiceError(ErrorCode.SERVICE_UNAVAILABLE, message, headers={"Retry-After": "5"}) from error


async def _pieces(services: Services, opened: AbstractContextManager[BinaryIO], file: BinaryIO) -> AsyncIterator[bytes]:
    try:
        while piece := await services.in_thread(file.read, PIECE):
            yield piece
    finally:
        opened.__exit__(None, None, None)


def _presented(found: StoredFiles, kind: Kind) -> tuple[str, str]:
    """The media type to serve, and the name to save it under."""
    if kind is Kind.PARSED:
        return TEXT, found.name + ".md"
    bare = found.media_type.partition(";")[0].strip().lower()
    if bare.startswith("text/"):
        return TEXT, found.name
    return bare if bare in HARMLESS else "application/octet-stream", found.name


def _disposition(name: str, *, inline: bool) -> str:
    """Safe whatever the name holds: an ASCII fallback without quotes, and the name itself percent-encoded."""
    base = name.replace("\\", "/").rpartition("/")[2] or "file"
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._- ") else "_" for c in base)[:150]
    whole = quote(base[:150], safe="", errors="replace")
    return f"{'inline' if inline else 'attachment'}; filename=\"{plain}\"; filename*=UTF-8''{whole}"


def _not_found() -> ServiceError:
    message = "There is no such file, or the link has expired; list the document again for a fresh link."
    return ServiceError(ErrorCode.NOT_FOUND, message, reason="no_such_file")
