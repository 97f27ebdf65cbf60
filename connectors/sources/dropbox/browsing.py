"""One folder of Dropbox for people who choose."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any, Final

from connectors.sources.dropbox import files
from retrieval.errors import Skippable
from retrieval.ports import Entry, Level

if TYPE_CHECKING:
    from connectors.sources.dropbox.client import DropboxSession
    from retrieval.ports import TokenSource

PAGE: Final = 500
NOT_THERE: Final = "There is no such folder in Dropbox, or the account may not read it."


def level(client: DropboxSession, tokens: TokenSource, parent: str | None, cursor: str | None) -> Level:
    """The cursor is Dropbox's own."""

    def request(sdk: Any) -> Any:
        from dropbox.exceptions import ApiError
        from dropbox.stone_validators import ValidationError

        try:
            if cursor is not None:
                return sdk.files_list_folder_continue(cursor)
            return sdk.files_list_folder(parent or "", include_mounted_folders=True, limit=PAGE)
        except (ApiError, ValidationError) as error:
            raise Skippable(NOT_THERE) from error

    answer = client.ask(tokens, request)
    entries = [entry for one in answer.entries if (entry := _entry(one)) is not None]
    return Level(entries, answer.cursor if answer.has_more else None)


def _entry(found: Any) -> Entry | None:
    """None for what was deleted meanwhile or is never brought. Whether a folder is empty is not said."""
    from dropbox.files import FileMetadata, FolderMetadata

    path = str(getattr(found, "path_display", None) or f"/{found.name}").lstrip("/")
    if isinstance(found, FolderMetadata):
        return Entry(found.id, found.name, is_folder=True, path=path, has_children=True)
    item = files.item(found) if isinstance(found, FileMetadata) else ""
    if isinstance(item, str):
        return None
    changed = found.server_modified.replace(tzinfo=UTC).isoformat().replace("+00:00", "Z")
    return Entry(found.id, found.name, False, path, item.media_type, found.size, changed)  # noqa: FBT003
