"""Folders of Dropbox by their ids: where those lie that a choice names, for files are listed with their paths alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from retrieval.ports import Page, SourceItem

if TYPE_CHECKING:
    from connectors.sources.dropbox.client import DropboxSession
    from retrieval.ports import TokenSource


def told(
    pages: Iterator[Page[SourceItem]], client: DropboxSession, tokens: TokenSource, ids: Sequence[str]
) -> Iterator[Page[SourceItem]]:
    """The pages, each item with those of these folders that it lies in."""
    folders = {one: path for one in ids if (path := _path(client, tokens, one)) is not None}
    for page in pages:
        yield replace(page, items=[replace(item, above=_above(item, folders)) for item in page.items])


def _above(item: SourceItem, folders: Mapping[str, str]) -> tuple[str, ...]:
    path = "/" + str(item.properties.get("path") or "").casefold()
    return tuple(one for one, folder in folders.items() if path.startswith(folder + "/"))


def _path(client: DropboxSession, tokens: TokenSource, folder: str) -> str | None:
    """Where a folder lies, in small letters; None for a file, and for what is not there."""

    def request(sdk: Any) -> str | None:
        from dropbox.exceptions import ApiError
        from dropbox.files import FolderMetadata
        from dropbox.stone_validators import ValidationError

        try:
            found = sdk.files_get_metadata(folder)
        except (ApiError, ValidationError):
            return None
        lies = found.path_display or found.path_lower
        return str(lies).casefold() if isinstance(found, FolderMetadata) and lies else None

    return client.ask(tokens, request) if folder.startswith("id:") else None
