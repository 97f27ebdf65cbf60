"""A file at Dropbox: as an item of a listing, and its content, downloaded or exported."""

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

SYMLINK = "symbolic links"
NO_FORMAT = "documents that Dropbox can neither send nor export"
FORMATS = {
    "markdown": (".md", "text/markdown"),
    "html": (".html", "text/html"),
    "docx": (".docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    "xlsx": (".xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    "pptx": (".pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    "pdf": (".pdf", "application/pdf"),
}
"""What Paper documents and Google's are exported as: the first of these that Dropbox offers."""
SECONDS = 600.0
"""How long the content of one file may take."""
GONE = "The file is no longer at Dropbox."
_LOOKUPS = {
    "not_found": GONE,
    "not_file": "There is no file under this id at Dropbox any more.",
    "restricted_content": "Dropbox does not give out this file: its content is restricted.",
    "unsupported_content_type": "Dropbox does not give out files of this kind.",
    "locked": "The file is locked at Dropbox.",
}


def as_source_item(file: Any) -> SourceItem | str:
    """Source item of a file; a reason if it is left out. A symbolic link's target is listed at its own path."""
    if file.symlink_info is not None:
        return SYMLINK
    if file.is_downloadable:
        return SourceItem(file.id, file.name, version=file.content_hash or file.rev, properties=_said(file))
    export_format = _format(file)
    if export_format is None:
        return NO_FORMAT
    ending, media_type = FORMATS[export_format]
    name = PurePosixPath(file.name).stem + ending
    return SourceItem(file.id, name, media_type, file.rev, properties=_said(file))


def fetch_file(client: DropboxSession, tokens: TokenSource, wanted: SourceItem, to: Path, most: int) -> RawContent:
    """The content of a file by its id. `most`: bytes that one may have."""

    def request(sdk: Any) -> RawContent:
        from dropbox.exceptions import ApiError

        try:
            return _content(sdk, wanted, to, most)
        except ApiError as error:
            raise _refusal(error.error) from error

    return client.ask(tokens, request)


def current_version(client: DropboxSession, tokens: TokenSource, external_id: str) -> str:
    """Version as a listing names it now; "" if the file cannot be read."""

    def request(sdk: Any) -> str:
        from dropbox.exceptions import ApiError

        try:
            current = as_source_item(sdk.files_get_metadata(external_id))
        except ApiError:
            return ""
        return current.version if isinstance(current, SourceItem) else ""

    return client.ask(tokens, request)


def is_gone(client: DropboxSession, tokens: TokenSource, external_id: str) -> bool:
    """Tell whether a file cannot be reached: deleted, or in a shared folder that was left."""

    def request(sdk: Any) -> bool:
        from dropbox.exceptions import ApiError

        try:
            return bool(sdk.files_get_metadata(external_id).path_lower is None)
        except ApiError as error:
            return _lookup(error.error) == "not_found"

    return client.ask(tokens, request)


def _content(sdk: Any, wanted: SourceItem, to: Path, most: int) -> RawContent:
    """Download the content; or export it, where Dropbox requires that."""
    from dropbox.exceptions import ApiError

    try:
        file, answer = sdk.files_download(wanted.external_id)
    except ApiError as error:
        if not error.error.is_unsupported_file():
            raise
    else:
        hashed = _save(answer, to, file.size, most)
        if file.content_hash and hashed != file.content_hash:
            raise TransientError("The download from Dropbox is not what it said it would be.")
        return RawContent(to, file.name, "", file.size, version=file.content_hash or file.rev, properties=_said(file))
    return _exported(sdk, wanted, to, most)


def _exported(sdk: Any, wanted: SourceItem, to: Path, most: int) -> RawContent:
    chosen = _format(sdk.files_get_metadata(wanted.external_id))
    if chosen is None:
        raise Skippable("Dropbox can neither send nor export this document.")
    result, answer = sdk.files_export(wanted.external_id, export_format=chosen)
    about, file = result.export_metadata, result.file_metadata
    _save(answer, to, about.size, most)
    ending, media_type = FORMATS[chosen]
    name = PurePosixPath(file.name).stem + ending
    return RawContent(to, name, media_type, about.size, version=file.rev, properties=_said(file))


def _save(answer: Any, to: Path, size: int, most: int) -> str:
    """Save the content and return Dropbox's hash of it. A file that is too large is not saved."""
    from dropbox.content_hash import DropboxContentHasher

    hasher, came = DropboxContentHasher(), 0
    with closing(answer), to.open("wb") as file:
        if size > most:
            raise Skippable(
                f"The file has {size / 2**20:,.1f} MiB; {most / 2**20:,.0f} MiB is the most that is fetched."
            )
        for piece in responses.iter_within(responses.iter_raw(answer.raw), SECONDS, "Dropbox", "the file"):
            came += len(piece)
            if came > size:
                break
            hasher.update(piece)
            file.write(piece)
    if came != size:
        raise TransientError("The download from Dropbox broke off.")
    return str(hasher.hexdigest())


def _format(file: Any) -> str | None:
    about = getattr(file, "export_info", None)
    offered = {*(about.export_options or ()), about.export_as} if about is not None else set()
    return next((name for name in FORMATS if name in offered), None)


def _said(file: Any) -> dict[str, str | int]:
    """`url` opens the file in its folder on the web."""
    path = PurePosixPath(file.path_display or "/" + file.name)
    folder = quote(str(path.parent).rstrip("/"))
    return {
        "url": f"https://www.dropbox.com/home{folder}?preview={quote(path.name, safe='')}",
        "path": str(path).lstrip("/"),
        "modifiedAt": file.server_modified.replace(tzinfo=UTC).isoformat().replace("+00:00", "Z"),
    }


def _refusal(error: Any) -> Exception:
    """Error for Dropbox's refusal to send one file."""
    lookup = _lookup(error)
    if lookup in _LOOKUPS:
        return (ItemMissing if lookup == "not_found" else Skippable)(_LOOKUPS[lookup])
    if getattr(error, "is_retry_error", bool)():
        return TransientError("Dropbox has not finished the export of this document yet.")
    return Skippable("Dropbox does not give out this file.")


def _lookup(error: Any) -> str:
    """Which of `_LOOKUPS` it is; "" if none of them."""
    about = error.get_path() if error.is_path() else None
    return next((name for name in _LOOKUPS if about is not None and getattr(about, f"is_{name}")()), "")
