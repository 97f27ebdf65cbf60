"""A Box file as a source item, and its content."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Final

from connectors.http import responses
from connectors.sources.box import notes
from connectors.sources.box.client import BoxSession, Closed, Download, Missing
from connectors.sources.box.responses import BoxItem
from retrieval.errors import Retryable, Skippable
from retrieval.ports import RawContent, SourceItem, TokenSource

TRIES = 3
NOTE: Final = ".boxnote"
_GOOGLES = (".gdoc", ".gsheet", ".gslides")
_GONE = "The file is no longer in Box, or no longer shared with this account."


def item(entry: BoxItem) -> SourceItem:
    """As it is listed. Its version is the hash of its content: a new name or place is no new content."""
    if is_gone(entry):
        return SourceItem(entry.id, entry.name or "", deleted=True)
    kind = "text/markdown" if _is_note(entry) else ""
    above = tuple(folder.id for folder in entry.path_collection.entries) if entry.path_collection else ()
    return SourceItem(entry.id, entry.name or entry.id, kind, version(entry), properties=properties(entry), above=above)


def is_gone(entry: BoxItem) -> bool:
    return entry.item_status not in (None, "active")


def properties(entry: BoxItem) -> dict[str, str | int]:
    """What Box says of a file, under our names. The times are the content's, where Box knows them."""
    folders = entry.path_collection.entries if entry.path_collection else ()
    names = [folder.name for folder in folders if folder.id != "0" and folder.name]
    owner = entry.owned_by and (entry.owned_by.name or entry.owned_by.login)
    said = {
        "url": f"https://app.box.com/file/{entry.id}",
        "path": "/".join([*names, entry.name or entry.id]),
        "owner": owner,
        "createdAt": entry.content_created_at or entry.created_at,
        "modifiedAt": entry.content_modified_at or entry.modified_at,
        "title": PurePosixPath(entry.name or "").stem if _is_note(entry) else None,
    }
    return {name: value for name, value in said.items() if value}


def fetch(client: BoxSession, tokens: TokenSource, file_id: str, to: Path) -> RawContent:
    """The content, compared with the hash that Box names; Box Notes as Markdown."""
    try:
        entry, got = _downloaded(client, tokens, file_id, to)
    except Missing as error:
        raise Skippable(_GONE) from error
    except Closed as error:
        raise Skippable(
            "Box does not let this account download the file: ask its owner for more than a preview."
        ) from error
    raw = RawContent(to, entry.name or entry.id, got.media_type, got.size, version(entry), properties=properties(entry))
    return _as_markdown(raw) if _is_note(entry) else raw


def _downloaded(client: BoxSession, tokens: TokenSource, file_id: str, to: Path) -> tuple[BoxItem, Download]:
    """Again if it changed meanwhile."""
    for _ in range(TRIES):
        entry = client.file(tokens, file_id)
        if is_gone(entry):
            raise Skippable(_GONE)
        if (entry.size or 0) > client.most:
            raise responses.too_large(client.most)
        got = client.download(tokens, file_id, to)
        if got.sha1 == entry.sha1 or _is_remade(entry):
            return entry, got
    raise Retryable("The file's content does not match its checksum at Box; it is probably being changed.")


def _is_remade(entry: BoxItem) -> bool:
    """Whether Box sends other bytes than it keeps: with a watermark, or Google's documents in an Office format."""
    is_marked = entry.watermark_info is not None and entry.watermark_info.is_watermarked
    return bool(is_marked) or (entry.name or "").lower().endswith(_GOOGLES) or entry.sha1 is None


def _as_markdown(raw: RawContent) -> RawContent:
    raw.path.write_text(notes.markdown(raw.path.read_bytes()), encoding="utf-8")
    return replace(raw, media_type="text/markdown", size=raw.path.stat().st_size)


def _is_note(entry: BoxItem) -> bool:
    return (entry.name or "").lower().endswith(NOTE)


def version(entry: BoxItem) -> str:
    return entry.sha1 or entry.etag or ""
