"""Files and folders of Google Drive: source items, content, paths, and browsing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from connectors.google.transport import iterate_pages
from connectors.http import responses
from connectors.sources.google_drive import api
from connectors.sources.google_drive.api import DRIVE_API, TooLarge, Unsupported
from connectors.sources.google_drive.client import Drive
from retrieval.errors import Retryable, Skippable
from retrieval.ports import FolderEntry, FolderPage, RawContent, SourceItem

GOOGLE_TYPE_PREFIX: Final = "application/vnd.google-apps."
FOLDER_TYPE: Final = GOOGLE_TYPE_PREFIX + "folder"
SHORTCUT_TYPE: Final = GOOGLE_TYPE_PREFIX + "shortcut"

_OFFICE_TYPE_PREFIX = "application/vnd.openxmlformats-officedocument."
# Google's own types and their export formats, in order of preference. As CSV, a spreadsheet would lose all sheets but
# the first.
EXPORT_FORMATS: Final[Mapping[str, tuple[str, ...]]] = {
    GOOGLE_TYPE_PREFIX + "document": ("text/markdown", _OFFICE_TYPE_PREFIX + "wordprocessingml.document", "text/plain"),
    GOOGLE_TYPE_PREFIX + "spreadsheet": (_OFFICE_TYPE_PREFIX + "spreadsheetml.sheet",),
    GOOGLE_TYPE_PREFIX + "presentation": (_OFFICE_TYPE_PREFIX + "presentationml.presentation", "text/plain"),
    GOOGLE_TYPE_PREFIX + "drawing": ("application/pdf", "image/png"),
}

_TEXTLESS_TYPES: Final[Mapping[str, str]] = {
    "form": "a Google Form",
    "site": "a Google Site",
    "map": "a Google My Maps map",
    "fusiontable": "a Google Fusion Table",
    "jam": "a Google Jamboard",
    "script": "a Google Apps Script project",
    "vid": "a Google Vids video",
    "mail-layout": "a Google mail layout",
}
_ENCRYPTED_TYPE: Final = "application/vnd.google-gsuite.encrypted"
SKIPPED_FOLDER_SHORTCUT: Final = "a shortcut to a folder"
SKIPPED_DRIVE: Final = "a shared drive that the account may not list"
SKIPPED_FOLDER: Final = "a shared folder that the account may not list"
SKIPPED_EXCESS_FOLDER: Final = "a shared folder beyond those that are looked into"
SKIPPED_LOST_SHORTCUT: Final = "a shortcut to what cannot be opened"
DOWNLOAD_FORBIDDEN_MESSAGE: Final = "The file's owner does not let it be downloaded."


def skip_reason(file: Mapping[str, Any]) -> str:
    """Return the reason to skip a file without text; "" for others."""
    kind = file["mimeType"]
    if kind.startswith(_ENCRYPTED_TYPE):
        return "a file that its organization encrypted"
    if not kind.startswith(GOOGLE_TYPE_PREFIX) or kind in EXPORT_FORMATS:
        return ""
    return _TEXTLESS_TYPES.get(kind.removeprefix(GOOGLE_TYPE_PREFIX), "a kind of Google's own that cannot be exported")


def source_item(file: Mapping[str, Any], location: tuple[str, tuple[str, ...]]) -> SourceItem:
    """Return the source item of a listed file, with an error if downloads are forbidden."""
    allowed = (file.get("capabilities") or {}).get("canDownload", True)
    return SourceItem(
        external_id=file["id"],
        name=file["name"],
        media_type=file["mimeType"],
        version=file_version(file),
        error="" if allowed else DOWNLOAD_FORBIDDEN_MESSAGE,
        properties=file_properties(file) | {"path": location[0]},
        above=location[1],
    )


def file_version(file: Mapping[str, Any]) -> str:
    """Return the version of a file: the hash of a stored file, the last change of a Google document."""
    return str(file.get("md5Checksum") or file.get("headRevisionId") or file.get("modifiedTime") or "")


def file_properties(file: Mapping[str, Any]) -> dict[str, str | int]:
    """Return metadata of a file."""
    # Files of a shared drive have no owner; only Google's own types have titles.
    owner = (file.get("owners") or [{}])[0]
    fields = {
        "url": file.get("webViewLink"),
        "createdAt": file.get("createdTime"),
        "modifiedAt": file.get("modifiedTime"),
        "owner": owner.get("displayName") or owner.get("emailAddress"),
        "title": file["name"] if file["mimeType"] in EXPORT_FORMATS else None,
    }
    return {name: str(value) for name, value in fields.items() if value}


_PICTURE_DATA = re.compile(rb"^\[([^\]\n]{1,100})\]:[ \t]*<data:[^>\n]*>[ \t]*\r?\n?", re.MULTILINE)
_PICTURE_PATTERN: Final = rb"!\[([^\]\n]*)\]\[(%s)\]"


def fetch_content(drive: Drive, file_id: str, to: Path, max_bytes: int) -> RawContent:
    """Fetch at most `max_bytes`. Skippable if the file is deleted, trashed, too large, or unreadable."""
    file = drive.read_file(file_id)
    if file.get("trashed"):
        raise Skippable("The file is in the trash of Google Drive.")
    media_type = file["mimeType"]
    if media_type in EXPORT_FORMATS:
        media_type = _export_document(drive, file, to, max_bytes)
    elif reason := skip_reason(file):
        raise Skippable(f"There is no text in {reason} that could be fetched.")
    else:
        _download_stored(drive, file, to, max_bytes)
    return RawContent(to, file["name"], media_type, to.stat().st_size, properties=file_properties(file))


def _download_stored(drive: Drive, file: Mapping[str, Any], to: Path, max_bytes: int) -> None:
    """Download a stored file. Retryable unless it matches Google Drive's size and hash."""
    size = file.get("size", "")
    if size.isdigit() and int(size) > max_bytes:
        raise responses.too_large(max_bytes)
    if size == "0":  # an empty file has no part to download
        to.write_bytes(b"")
        return
    sink = drive.download(file["id"], to, max_bytes)
    received = {"size": str(sink.size), "md5Checksum": sink.md5.hexdigest()}
    if any(file.get(name, value) != value for name, value in received.items()):
        raise Retryable("The file changed in Google Drive while it was fetched, or did not come whole.")


def _export_document(drive: Drive, file: Mapping[str, Any], to: Path, max_bytes: int) -> str:
    """Export in the first available format."""
    reason: Skippable | None = None
    for media_type in EXPORT_FORMATS[file["mimeType"]]:
        try:
            drive.export_document(file["id"], media_type, to, max_bytes)
        except (TooLarge, Unsupported) as error:
            reason = reason or error
            if not isinstance(error, TooLarge) or not _export_by_link(drive, file, media_type, to, max_bytes):
                continue
        if media_type == "text/markdown":
            to.write_bytes(remove_pictures(to.read_bytes()))
        return media_type
    raise reason or Skippable("Google Drive cannot export the file.")


def _export_by_link(drive: Drive, file: Mapping[str, Any], media_type: str, to: Path, max_bytes: int) -> bool:
    """Download by the export link of this format; False without a usable one."""
    link = (drive.read_file(file["id"], "id,exportLinks").get("exportLinks") or {}).get(media_type)
    if not isinstance(link, str):
        return False
    try:
        drive.download_link(link, to, max_bytes)
    except Unsupported:
        return False
    return True


def remove_pictures(text: bytes) -> bytes:
    """Remove pictures from exported Markdown; descriptions stay."""
    # Google appends each picture as base64.
    names = b"|".join(re.escape(name) for name in _PICTURE_DATA.findall(text))
    if not names:
        return text
    return re.sub(_PICTURE_PATTERN % names, rb"\1", _PICTURE_DATA.sub(b"", text))


MAX_SINGLE_FOLDERS: Final = 20
# Google Drive's limit of nested folders.
MAX_FOLDER_DEPTH: Final = 100
ROOT_PARENT: Final = ("", "")


class Folders:
    """Names and parents of folders during one listing. `shared`: names of shared drives by id."""

    def __init__(self, drive: Drive, shared: Mapping[str, str]) -> None:
        self._drive = drive
        self._shared = shared
        self._folders_by_id: dict[str, tuple[str, str]] = {}
        self._loaded: set[str] = set()
        self._root: str | None = None
        self._single_requests = 0
        self.foreign: dict[str, None] = {}
        """Folders of other owners, in the order of their first mention."""

    @property
    def root_id(self) -> str:
        """Id of "My Drive"."""
        if self._root is None:
            try:
                self._root = str(self._drive.read_file("root", "id").get("id"))
            except Skippable:
                self._root = ""
        return self._root

    def load_all(self, log: str) -> None:
        """Load all folders of a shared drive, or for "" of the account, 1000 per request."""
        if log in self._loaded:
            return
        for answer in iterate_pages(
            DRIVE_API.title,
            lambda page: self._drive.list_files(f"trashed = false and mimeType = '{FOLDER_TYPE}'", log, page),
        ):
            for folder in answer["files"]:
                self.add(folder)
        self._loaded.add(log)

    def add(self, folder: Mapping[str, Any]) -> None:
        self._folders_by_id[folder["id"]] = (folder["name"], parent_id(folder))
        if self.is_foreign(folder):
            self.foreign[folder["id"]] = None

    def has_folder(self, folder_id: str) -> bool:
        return folder_id in self._folders_by_id

    def is_foreign(self, folder: Mapping[str, Any]) -> bool:
        """Return True for a folder of another person, outside of the listed shared drives."""
        drive = folder.get("driveId")
        return drive not in self._shared if drive else folder.get("ownedByMe") is False

    def locate(self, file: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
        """Return path and ids of the folders: the shared drive's name, visible folders, and the file's name."""
        # "My Drive" has the id `root`, too.
        parts, log, ids = [file["name"]], file.get("driveId") or "", list[str]()
        log = log if log in self._shared else ""
        above = parent_id(file)
        for _ in range(MAX_FOLDER_DEPTH):
            ids += [above] if above else []
            if above in self._shared:
                parts.append(self._shared[above])
            if not above or above in self._shared or above == self.root_id:
                ids += ["root"] if above == self.root_id else []
                break
            name, above = self._read_folder(above, log)
            parts += [name] if name else []
        return "/".join(reversed(parts)), tuple(ids)

    def _read_folder(self, folder_id: str, log: str) -> tuple[str, str]:
        if folder_id not in self._folders_by_id and log not in self._loaded:
            self._single_requests += 1
            if self._single_requests > MAX_SINGLE_FOLDERS:
                self.load_all(log)
            else:
                self._request_folder(folder_id)
        return self._folders_by_id.setdefault(folder_id, ROOT_PARENT)

    def _request_folder(self, folder_id: str) -> None:
        try:
            self.add(self._drive.read_file(folder_id, "id,name,parents"))
        except Skippable:
            self._folders_by_id[folder_id] = ROOT_PARENT


def parent_id(file: Mapping[str, Any]) -> str:
    """Return the folder of a file, "" if it is invisible to the account."""
    return str((file.get("parents") or [""])[0])


MY_FILES, SHARED_FILES = "mine", "shared"
FOLDER_MISSING_MESSAGE: Final = "There is no such folder in Google Drive, or the account may not read it."
_TOP_LEVEL_QUERIES: Final[Mapping[str, str]] = {
    MY_FILES: "'root' in parents and trashed = false",
    SHARED_FILES: "sharedWithMe and trashed = false",
}


def list_folder(drive: Drive, parent: str | None, cursor: str | None) -> FolderPage:
    """Return a page of a folder, or of the top level; the cursor there contains the listed part and Google's token."""
    shared = drive.list_shared_drives()
    if parent is not None:
        return _list_subfolder(drive, shared, parent, cursor)
    kind, _, page = (cursor or f"{MY_FILES} ").partition(" ")
    drives = (
        []
        if cursor
        else [
            FolderEntry(drive_id, name, is_folder=True, path=name, has_children=True)
            for drive_id, name in shared.items()
        ]
    )
    answer = drive.list_files(_TOP_LEVEL_QUERIES[kind], "", page or None)
    entries = [*drives, *_make_entries(drive, shared, answer["files"])]
    following = answer.get("nextPageToken")
    if following or kind == MY_FILES:
        return FolderPage(entries, f"{kind} {following}" if following else f"{SHARED_FILES} ")
    return FolderPage(entries)


def _list_subfolder(drive: Drive, shared: Mapping[str, str], parent: str, cursor: str | None) -> FolderPage:
    quoted = parent.replace("\\", "\\\\").replace("'", "\\'")
    log = parent if parent in shared else str(drive.read_file(parent, "id,driveId").get("driveId") or "")
    try:
        answer = drive.list_files(
            f"'{quoted}' in parents and trashed = false", log if log in shared else "", cursor, partial=True
        )
    except (api.CursorExpired, api.Forbidden) as error:
        raise Skippable(FOLDER_MISSING_MESSAGE) from error
    return FolderPage(_make_entries(drive, shared, answer["files"]), answer.get("nextPageToken"))


def _make_entries(drive: Drive, shared: Mapping[str, str], files: list[Mapping[str, Any]]) -> list[FolderEntry]:
    folders = Folders(drive, shared)
    return [_make_entry(file, folders) for file in files if _is_shown(file)]


def _is_shown(file: Mapping[str, Any]) -> bool:
    return file["mimeType"] == FOLDER_TYPE or (file["mimeType"] != SHORTCUT_TYPE and not skip_reason(file))


def _make_entry(file: Mapping[str, Any], folders: Folders) -> FolderEntry:
    """Convert a file to an entry."""
    # Google Drive does not report whether a folder is empty.
    is_folder = file["mimeType"] == FOLDER_TYPE
    path, above = folders.locate(file)
    size = str(file.get("size") or "")
    return FolderEntry(
        file["id"],
        file["name"],
        is_folder=is_folder,
        path=path,
        media_type="" if is_folder else file["mimeType"],
        size=int(size) if size.isdigit() and not is_folder else None,
        modified_at=file.get("modifiedTime"),
        has_children=is_folder,
        above=above,
    )
