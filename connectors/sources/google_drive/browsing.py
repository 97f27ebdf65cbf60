"""One folder of Google Drive for people who choose: at the top shared drives, My Drive, and what others share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from connectors.sources.google_drive import errors as drive_errors
from connectors.sources.google_drive import items
from connectors.sources.google_drive.client import Drive
from connectors.sources.google_drive.folders import Folders
from retrieval.errors import Skippable
from retrieval.ports import Entry, Level

MINE, SHARED = "mine", "shared"
NOT_THERE: Final = "There is no such folder in Google Drive, or the account may not read it."
_TOP: Final[Mapping[str, str]] = {
    MINE: "'root' in parents and trashed = false",
    SHARED: "sharedWithMe and trashed = false",
}


def level(drive: Drive, parent: str | None, cursor: str | None) -> Level:
    """The cursor at the top: what is listed, and the vendor's page of it."""
    shared = drive.shared_drives()
    if parent is not None:
        return _folder(drive, shared, parent, cursor)
    kind, _, page = (cursor or f"{MINE} ").partition(" ")
    drives = (
        []
        if cursor
        else [Entry(one, name, is_folder=True, path=name, has_children=True) for one, name in shared.items()]
    )
    answer = drive.files(_TOP[kind], "", page or None)
    found = [*drives, *_entries(drive, shared, answer["files"])]
    following = answer.get("nextPageToken")
    if following or kind == MINE:
        return Level(found, f"{kind} {following}" if following else f"{SHARED} ")
    return Level(found)


def _folder(drive: Drive, shared: Mapping[str, str], parent: str, cursor: str | None) -> Level:
    quoted = parent.replace("\\", "\\\\").replace("'", "\\'")
    log = parent if parent in shared else str(drive.file(parent, "id,driveId").get("driveId") or "")
    try:
        answer = drive.files(
            f"'{quoted}' in parents and trashed = false", log if log in shared else "", cursor, part=True
        )
    except (drive_errors.Forgotten, drive_errors.Barred) as error:
        raise Skippable(NOT_THERE) from error
    return Level(_entries(drive, shared, answer["files"]), answer.get("nextPageToken"))


def _entries(drive: Drive, shared: Mapping[str, str], files: list[Mapping[str, Any]]) -> list[Entry]:
    folders = Folders(drive, shared)
    return [_entry(file, folders) for file in files if _is_shown(file)]


def _is_shown(file: Mapping[str, Any]) -> bool:
    return file["mimeType"] == items.FOLDER or (file["mimeType"] != items.SHORTCUT and not items.left_out(file))


def _entry(file: Mapping[str, Any], folders: Folders) -> Entry:
    """Whether a folder is empty is not said."""
    is_folder = file["mimeType"] == items.FOLDER
    path, above = folders.place(file)
    size = str(file.get("size") or "")
    return Entry(
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
