"""Files and folders of Google Drive: as source items, their content, their paths, one folder for people who choose."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from connectors.http import responses
from connectors.sources.google_drive import transport
from connectors.sources.google_drive.client import Drive, iterate_pages
from connectors.sources.google_drive.transport import TooLarge, Unsupported
from retrieval.errors import Retryable, Skippable
from retrieval.ports import FolderEntry, FolderPage, RawContent, SourceItem

GOOGLES: Final = "application/vnd.google-apps."
FOLDER: Final = GOOGLES + "folder"
SHORTCUT: Final = GOOGLES + "shortcut"

_OFFICE = "application/vnd.openxmlformats-officedocument."
EXPORTS: Final[Mapping[str, tuple[str, ...]]] = {
    GOOGLES + "document": ("text/markdown", _OFFICE + "wordprocessingml.document", "text/plain"),
    GOOGLES + "spreadsheet": (_OFFICE + "spreadsheetml.sheet",),
    GOOGLES + "presentation": (_OFFICE + "presentationml.presentation", "text/plain"),
    GOOGLES + "drawing": ("application/pdf", "image/png"),
}
"""Google's own kinds to the formats that are asked for, the next one if the last cannot be had. As CSV a spreadsheet
would lose all sheets but its first."""

_NO_TEXT: Final[Mapping[str, str]] = {
    "form": "a Google Form",
    "site": "a Google Site",
    "map": "a Google My Maps map",
    "fusiontable": "a Google Fusion Table",
    "jam": "a Google Jamboard",
    "script": "a Google Apps Script project",
    "vid": "a Google Vids video",
    "mail-layout": "a Google mail layout",
}
_ENCRYPTED: Final = "application/vnd.google-gsuite.encrypted"
FOLDER_SHORTCUT: Final = "a shortcut to a folder"
BARRED_DRIVE: Final = "a shared drive that the account may not list"
BARRED_FOLDER: Final = "a shared folder that the account may not list"
MANY_FOLDERS: Final = "a shared folder beyond those that are looked into"
LOST_SHORTCUT: Final = "a shortcut to what cannot be opened"
NO_DOWNLOAD: Final = "The file's owner does not let it be downloaded."


def skip_reason(file: Mapping[str, Any]) -> str:
    """Why the file has no text for us, as a reason to be counted; "" if it has."""
    kind = file["mimeType"]
    if kind.startswith(_ENCRYPTED):
        return "a file that its organization encrypted"
    if not kind.startswith(GOOGLES) or kind in EXPORTS:
        return ""
    return _NO_TEXT.get(kind.removeprefix(GOOGLES), "a kind of Google's own that cannot be exported")


def source_item(file: Mapping[str, Any], place: tuple[str, tuple[str, ...]]) -> SourceItem:
    """Source item of a listed file, with a reason if it must not be downloaded."""
    allowed = (file.get("capabilities") or {}).get("canDownload", True)
    return SourceItem(
        external_id=file["id"],
        name=file["name"],
        media_type=file["mimeType"],
        version=version_of(file),
        error="" if allowed else NO_DOWNLOAD,
        properties=properties_of(file) | {"path": place[0]},
        above=place[1],
    )


def version_of(file: Mapping[str, Any]) -> str:
    """Version of a file: the hash of stored files; the time of the last change of Google's own kinds."""
    return str(file.get("md5Checksum") or file.get("headRevisionId") or file.get("modifiedTime") or "")


def properties_of(file: Mapping[str, Any]) -> dict[str, str | int]:
    """Metadata of a file. Files of a shared drive have no owner; Google's own kinds are titled."""
    owner = (file.get("owners") or [{}])[0]
    fields = {
        "url": file.get("webViewLink"),
        "createdAt": file.get("createdTime"),
        "modifiedAt": file.get("modifiedTime"),
        "owner": owner.get("displayName") or owner.get("emailAddress"),
        "title": file["name"] if file["mimeType"] in EXPORTS else None,
    }
    return {name: str(value) for name, value in fields.items() if value}


_PICTURE_DATA = re.compile(rb"^\[([^\]\n]{1,100})\]:[ \t]*<data:[^>\n]*>[ \t]*\r?\n?", re.MULTILINE)
_PICTURE: Final = rb"!\[([^\]\n]*)\]\[(%s)\]"


def fetch_content(drive: Drive, file_id: str, to: Path, most: int) -> RawContent:
    """Fetch at most `most` bytes. Skippable if the file is deleted, trashed, too large, or not readable."""
    file = drive.file(file_id)
    if file.get("trashed"):
        raise Skippable("The file is in the trash of Google Drive.")
    media_type = file["mimeType"]
    if media_type in EXPORTS:
        media_type = _exported(drive, file, to, most)
    elif reason := skip_reason(file):
        raise Skippable(f"There is no text in {reason} that could be fetched.")
    else:
        _stored(drive, file, to, most)
    return RawContent(to, file["name"], media_type, to.stat().st_size, properties=properties_of(file))


def _stored(drive: Drive, file: Mapping[str, Any], to: Path, most: int) -> None:
    """Check the download: Retryable unless it matches Google Drive's size and hash."""
    size = file.get("size", "")
    if size.isdigit() and int(size) > most:
        raise responses.too_large(most)
    if size == "0":  # there would be no part to ask for
        to.write_bytes(b"")
        return
    sink = drive.media(file["id"], to, most)
    came = {"size": str(sink.size), "md5Checksum": sink.md5.hexdigest()}
    if any(file.get(name, value) != value for name, value in came.items()):
        raise Retryable("The file changed in Google Drive while it was fetched, or did not come whole.")


def _exported(drive: Drive, file: Mapping[str, Any], to: Path, most: int) -> str:
    """The first format that can be had."""
    reason: Skippable | None = None
    for media_type in EXPORTS[file["mimeType"]]:
        try:
            drive.export(file["id"], media_type, to, most)
        except (TooLarge, Unsupported) as error:
            reason = reason or error
            if not isinstance(error, TooLarge) or not _linked(drive, file, media_type, to, most):
                continue
        if media_type == "text/markdown":
            to.write_bytes(without_pictures(to.read_bytes()))
        return media_type
    raise reason or Skippable("Google Drive cannot export the file.")


def _linked(drive: Drive, file: Mapping[str, Any], media_type: str, to: Path, most: int) -> bool:
    """Tell whether the document could be read in this format by the link that Google names for it."""
    link = (drive.file(file["id"], "id,exportLinks").get("exportLinks") or {}).get(media_type)
    if not isinstance(link, str):
        return False
    try:
        drive.linked(link, to, most)
    except Unsupported:
        return False
    return True


def without_pictures(text: bytes) -> bytes:
    """Markdown as Google exports it holds each picture as base64 at its end; their descriptions stay."""
    names = b"|".join(re.escape(name) for name in _PICTURE_DATA.findall(text))
    if not names:
        return text
    return re.sub(_PICTURE % names, rb"\1", _PICTURE_DATA.sub(b"", text))


FEW: Final = 20
DEEPEST: Final = 100
"""Google Drive has no folders in deeper folders than these."""
TOP: Final = ("", "")


class Folders:
    """Names and parents of folders, as long as one listing lasts. `shared`: the shared drives' names by id."""

    def __init__(self, drive: Drive, shared: Mapping[str, str]) -> None:
        self._drive = drive
        self._shared = shared
        self._known: dict[str, tuple[str, str]] = {}
        self._loaded: set[str] = set()
        self._root: str | None = None
        self._asked = 0
        self.foreign: dict[str, None] = {}
        """Folders of somebody else, in the order in which they were told of."""

    @property
    def root(self) -> str:
        """The id of "My Drive"."""
        if self._root is None:
            try:
                self._root = str(self._drive.file("root", "id").get("id"))
            except Skippable:
                self._root = ""
        return self._root

    def load(self, log: str) -> None:
        """Load all folders of a shared drive, or for "" of the account: a request for each thousand."""
        if log in self._loaded:
            return
        for answer in iterate_pages(
            lambda page: self._drive.files(f"trashed = false and mimeType = '{FOLDER}'", log, page)
        ):
            for folder in answer["files"]:
                self.note(folder)
        self._loaded.add(log)

    def note(self, folder: Mapping[str, Any]) -> None:
        self._known[folder["id"]] = (folder["name"], parent_of(folder))
        if self.is_foreign(folder):
            self.foreign[folder["id"]] = None

    def knows(self, folder_id: str) -> bool:
        return folder_id in self._known

    def is_foreign(self, folder: Mapping[str, Any]) -> bool:
        """Tell whether the folder is another person's, and in no shared drive that is listed itself."""
        drive = folder.get("driveId")
        return drive not in self._shared if drive else folder.get("ownedByMe") is False

    def place(self, file: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
        """Path and ids of the folders: the drive's name if it is a shared one, the folders that the account can see,
        and the file's name. "My Drive" goes by `root`, too.
        """
        parts, log, ids = [file["name"]], file.get("driveId") or "", list[str]()
        log = log if log in self._shared else ""
        above = parent_of(file)
        for _ in range(DEEPEST):
            ids += [above] if above else []
            if above in self._shared:
                parts.append(self._shared[above])
            if not above or above in self._shared or above == self.root:
                ids += ["root"] if above == self.root else []
                break
            name, above = self._folder(above, log)
            parts += [name] if name else []
        return "/".join(reversed(parts)), tuple(ids)

    def _folder(self, folder_id: str, log: str) -> tuple[str, str]:
        if folder_id not in self._known and log not in self._loaded:
            self._asked += 1
            if self._asked > FEW:
                self.load(log)
            else:
                self._ask(folder_id)
        return self._known.setdefault(folder_id, TOP)

    def _ask(self, folder_id: str) -> None:
        try:
            self.note(self._drive.file(folder_id, "id,name,parents"))
        except Skippable:
            self._known[folder_id] = TOP


def parent_of(file: Mapping[str, Any]) -> str:
    """Folder that contains the file, "" if the account cannot see it."""
    return str((file.get("parents") or [""])[0])


MINE, SHARED = "mine", "shared"
NOT_THERE: Final = "There is no such folder in Google Drive, or the account may not read it."
_TOP: Final[Mapping[str, str]] = {
    MINE: "'root' in parents and trashed = false",
    SHARED: "sharedWithMe and trashed = false",
}


def list_folder(drive: Drive, parent: str | None, cursor: str | None) -> FolderPage:
    """The cursor at the top: what is listed, and the vendor's page of it."""
    shared = drive.shared_drives()
    if parent is not None:
        return _listed_folder(drive, shared, parent, cursor)
    kind, _, page = (cursor or f"{MINE} ").partition(" ")
    drives = (
        []
        if cursor
        else [
            FolderEntry(drive_id, name, is_folder=True, path=name, has_children=True)
            for drive_id, name in shared.items()
        ]
    )
    answer = drive.files(_TOP[kind], "", page or None)
    entries = [*drives, *_entries(drive, shared, answer["files"])]
    following = answer.get("nextPageToken")
    if following or kind == MINE:
        return FolderPage(entries, f"{kind} {following}" if following else f"{SHARED} ")
    return FolderPage(entries)


def _listed_folder(drive: Drive, shared: Mapping[str, str], parent: str, cursor: str | None) -> FolderPage:
    quoted = parent.replace("\\", "\\\\").replace("'", "\\'")
    log = parent if parent in shared else str(drive.file(parent, "id,driveId").get("driveId") or "")
    try:
        answer = drive.files(
            f"'{quoted}' in parents and trashed = false", log if log in shared else "", cursor, part=True
        )
    except (transport.CursorExpired, transport.Forbidden) as error:
        raise Skippable(NOT_THERE) from error
    return FolderPage(_entries(drive, shared, answer["files"]), answer.get("nextPageToken"))


def _entries(drive: Drive, shared: Mapping[str, str], files: list[Mapping[str, Any]]) -> list[FolderEntry]:
    folders = Folders(drive, shared)
    return [_entry(file, folders) for file in files if _is_shown(file)]


def _is_shown(file: Mapping[str, Any]) -> bool:
    return file["mimeType"] == FOLDER or (file["mimeType"] != SHORTCUT and not skip_reason(file))


def _entry(file: Mapping[str, Any], folders: Folders) -> FolderEntry:
    """Entry of a file. Google Drive does not report whether a folder is empty."""
    is_folder = file["mimeType"] == FOLDER
    path, above = folders.place(file)
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
