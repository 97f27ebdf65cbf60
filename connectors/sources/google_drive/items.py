"""Files of Google Drive as items: what they are called here, what marks their content, and which are left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from retrieval.ports import SourceItem

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


def left_out(file: Mapping[str, Any]) -> str:
    """Why the file has no text for us, as a reason to be counted; "" if it has."""
    kind = file["mimeType"]
    if kind.startswith(_ENCRYPTED):
        return "a file that its organization encrypted"
    if not kind.startswith(GOOGLES) or kind in EXPORTS:
        return ""
    return _NO_TEXT.get(kind.removeprefix(GOOGLES), "a kind of Google's own that cannot be exported")


def item(file: Mapping[str, Any], place: tuple[str, tuple[str, ...]]) -> SourceItem:
    """A file as it is listed. One that must not be downloaded says so instead."""
    allowed = (file.get("capabilities") or {}).get("canDownload", True)
    return SourceItem(
        external_id=file["id"],
        name=file["name"],
        media_type=file["mimeType"],
        version=version(file),
        error="" if allowed else NO_DOWNLOAD,
        properties=properties(file) | {"path": place[0]},
        above=place[1],
    )


def version(file: Mapping[str, Any]) -> str:
    """Of stored files their hash; Google's own kinds have only the time of the last change."""
    return str(file.get("md5Checksum") or file.get("headRevisionId") or file.get("modifiedTime") or "")


def properties(file: Mapping[str, Any]) -> dict[str, str | int]:
    """What Google Drive says of a file. Files of a shared drive have no owner; Google's own kinds are titled."""
    owner = (file.get("owners") or [{}])[0]
    known = {
        "url": file.get("webViewLink"),
        "createdAt": file.get("createdTime"),
        "modifiedAt": file.get("modifiedTime"),
        "owner": owner.get("displayName") or owner.get("emailAddress"),
        "title": file["name"] if file["mimeType"] in EXPORTS else None,
    }
    return {name: str(value) for name, value in known.items() if value}
