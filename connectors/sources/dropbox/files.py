"""Files of Dropbox: source items and content, downloaded or exported."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from connectors.http import responses
from connectors.http.retries import TransientError
from retrieval.errors import ItemMissing, Skippable
from retrieval.ports import RawContent, SourceItem

if TYPE_CHECKING:
    from connectors.sources.dropbox.client import DropboxSession
    from retrieval.ports import TokenSource

SKIPPED_SYMLINK = "symbolic links"
SKIPPED_UNEXPORTABLE = "documents that Dropbox can neither send nor export"
# Export formats of Paper and Google documents, the preferred first.
EXPORT_FORMATS = {
    "markdown": (".md", "text/markdown"),
    "html": (".html", "text/html"),
    "docx": (".docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    "xlsx": (".xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    "pptx": (".pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    "pdf": (".pdf", "application/pdf"),
}
# Limit for the content of one file.
DOWNLOAD_SECONDS = 600.0
FILE_GONE_MESSAGE = "The file is no longer at Dropbox."
_LOOKUP_MESSAGES = {
    "not_found": FILE_GONE_MESSAGE,
    "not_file": "There is no file under this id at Dropbox any more.",
    "restricted_content": "Dropbox does not give out this file: its content is restricted.",
    "unsupported_content_type": "Dropbox does not give out files of this kind.",
    "locked": "The file is locked at Dropbox.",
}


def as_source_item(file: Any) -> SourceItem | str:
    """Return the source item of a file, or the reason to skip it."""
    # A symbolic link's target is listed at its own path.
    if file.symlink_info is not None:
        return SKIPPED_SYMLINK
    if file.is_downloadable:
        return SourceItem(file.id, file.name, version=file.content_hash or file.rev, properties=_file_properties(file))
    format_name = _export_format(file)
    if format_name is None:
        return SKIPPED_UNEXPORTABLE
    ending, media_type = EXPORT_FORMATS[format_name]
    name = PurePosixPath(file.name).stem + ending
    return SourceItem(file.id, name, media_type, file.rev, properties=_file_properties(file))


def fetch_file(client: DropboxSession, tokens: TokenSource, item: SourceItem, to: Path, max_bytes: int) -> RawContent:
    """Download or export a file of at most `max_bytes`."""

    def request(sdk: Any) -> RawContent:
        from dropbox.exceptions import ApiError

        try:
            return _fetch_content(sdk, item, to, max_bytes)
        except ApiError as error:
            raise _refusal(error.error) from error

    return client.call(tokens, request)


def current_version(client: DropboxSession, tokens: TokenSource, external_id: str) -> str:
    """Return the version from a listing now; "" for an unreadable file."""

    def request(sdk: Any) -> str:
        from dropbox.exceptions import ApiError

        try:
            current = as_source_item(sdk.files_get_metadata(external_id))
        except ApiError:
            return ""
        return current.version if isinstance(current, SourceItem) else ""

    return client.call(tokens, request)


def is_deleted(client: DropboxSession, tokens: TokenSource, external_id: str) -> bool:
    """Return True for a file that is deleted or in a left shared folder."""

    def request(sdk: Any) -> bool:
        from dropbox.exceptions import ApiError

        try:
            metadata = sdk.files_get_metadata(external_id)
            return metadata.path_lower is None or not client.holds(metadata)
        except ApiError as error:
            return _lookup_reason(error.error) == "not_found"

    return client.call(tokens, request)


def _fetch_content(sdk: Any, item: SourceItem, to: Path, max_bytes: int) -> RawContent:
    """Download the content, or export a file without a download."""
    from dropbox.exceptions import ApiError

    try:
        file, answer = sdk.files_download(item.external_id)
    except ApiError as error:
        if not error.error.is_unsupported_file():
            raise
    else:
        hashed = _save(answer, to, file.size, max_bytes)
        if file.content_hash and hashed != file.content_hash:
            raise TransientError("The download from Dropbox is not what it said it would be.")
        return RawContent(
            to, file.name, "", file.size, version=file.content_hash or file.rev, properties=_file_properties(file)
        )
    return _export(sdk, item, to, max_bytes)


def _export(sdk: Any, item: SourceItem, to: Path, max_bytes: int) -> RawContent:
    chosen = _export_format(sdk.files_get_metadata(item.external_id))
    if chosen is None:
        raise Skippable("Dropbox can neither send nor export this document.")
    result, answer = sdk.files_export(item.external_id, export_format=chosen)
    about, file = result.export_metadata, result.file_metadata
    _save(answer, to, about.size, max_bytes)
    ending, media_type = EXPORT_FORMATS[chosen]
    name = PurePosixPath(file.name).stem + ending
    return RawContent(to, name, media_type, about.size, version=file.rev, properties=_file_properties(file))


def _save(answer: Any, to: Path, size: int, max_bytes: int) -> str:
    """Save content of at most `max_bytes` and return Dropbox's hash."""
    from dropbox.content_hash import DropboxContentHasher

    hasher, received = DropboxContentHasher(), 0
    with closing(answer), to.open("wb") as file:
        if size > max_bytes:
            raise Skippable(
                f"The file has {size / 2**20:,.1f} MiB; {max_bytes / 2**20:,.0f} MiB is the most that is fetched."
            )
        for piece in responses.iter_within(responses.iter_raw(answer.raw), DOWNLOAD_SECONDS, "Dropbox", "the file"):
            received += len(piece)
            if received > size:
                break
            hasher.update(piece)
            file.write(piece)
    if received != size:
        raise TransientError("The download from Dropbox broke off.")
    return str(hasher.hexdigest())


def _export_format(file: Any) -> str | None:
    about = getattr(file, "export_info", None)
    offered = {*(about.export_options or ()), about.export_as} if about is not None else set()
    return next((name for name in EXPORT_FORMATS if name in offered), None)


def _file_properties(file: Any) -> dict[str, str | int]:
    """Return metadata of a file; `url` opens a preview in the folder on the web."""
    path = PurePosixPath(file.path_display or "/" + file.name)
    folder = quote(str(path.parent).rstrip("/"))
    return {
        "url": f"https://www.dropbox.com/home{folder}?preview={quote(path.name, safe='')}",
        "path": str(path).lstrip("/"),
        "modifiedAt": file.server_modified.replace(tzinfo=UTC).isoformat().replace("+00:00", "Z"),
    }


def _refusal(error: Any) -> Exception:
    """Return the error for Dropbox's refusal to send a file."""
    lookup = _lookup_reason(error)
    if lookup in _LOOKUP_MESSAGES:
        return (ItemMissing if lookup == "not_found" else Skippable)(_LOOKUP_MESSAGES[lookup])
    if getattr(error, "is_retry_error", bool)():
        return TransientError("Dropbox has not finished the export of this document yet.")
    return Skippable("Dropbox does not give out this file.")


def _lookup_reason(error: Any) -> str:
    """Return the reason of a refusal among `_LOOKUP_MESSAGES`, "" for others."""
    about = error.get_path() if error.is_path() else None
    return next((name for name in _LOOKUP_MESSAGES if about is not None and getattr(about, f"is_{name}")()), "")
