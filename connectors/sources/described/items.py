"""Items of lists: id, name, version and properties of an entry, with listed content."""

from __future__ import annotations

import hashlib
import html
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from connectors.sources.described import templates
from connectors.sources.described.content import ContentReader
from connectors.sources.described.description import Stream
from connectors.sources.described.fields import fill_address, fill_text, read_field, read_value
from retrieval.errors import Skippable
from retrieval.ports import RawContent, SourceItem

MAX_NAME_LENGTH: Final = 200


@dataclass(frozen=True, slots=True)
class ItemMaker:
    """Maker of a connection's items; `folder`: of listed contents, or None."""

    content: ContentReader
    folder: Path | None = None

    def request_entry(self, stream: Stream, values: Mapping[str, str], entry: Any) -> Any:
        """Request the entry as for the content; None for a missing item."""
        fields = stream.reread_by or stream.fields
        names = {**values, **{name: str(read_value(entry, path)) for name, path in fields.items()}}
        service = self.content.names.service
        url = self.content.names.site.base + fill_address(stream.content.get, names)
        answer = service.get(self.content.names.tokens, url, passing=service.about.missing)
        if answer.status_code in service.about.missing:
            return None
        return read_field(service.read_json(answer), stream.content.entry) or None

    def make_item(self, stream: Stream, values: Mapping[str, str], entries: Sequence[Any]) -> SourceItem:
        """Return the item of an entry or group, with listed content."""
        entry, location = _first(stream, entries), values
        name = self._name(stream, values, entry)
        if (unnamed := stream.find_unnamed(entry)) is not None:
            listed_id = f"{values['url']}#{stream.name}-{digest(entry)[:16]}"
            reason = f"The service lists it without its {unnamed}, so it cannot be fetched."
            return SourceItem(listed_id, name[:MAX_NAME_LENGTH] or stream.name, error=reason)
        values = {**values, **{name: str(read_value(entry, path)) for name, path in stream.fields.items()}}
        external_id, path = fill_address(stream.id, values), fill_text(stream.path, values)
        if stream.gone:
            return SourceItem(external_id, name[:MAX_NAME_LENGTH] or path, deleted=True)
        about = {key: value for key, source in stream.properties.items() if (value := read_value(entry, source))}
        name = " ".join(name.split())
        name = name.rpartition("/")[2] if name == path else name
        type_field = stream.content.type_field
        media_type = str(read_value(entry, type_field)) if type_field else stream.content.media_type
        name = (html.unescape(name) if media_type == "text/html" else name)[:MAX_NAME_LENGTH] or path
        properties = {"url": fill_address(stream.link, values) or external_id, "path": path, **about}
        item = SourceItem(external_id, name, media_type, properties=properties, above=self._above(stream, location))
        return self._add_content(stream, values, entries, item)

    def _name(self, stream: Stream, values: Mapping[str, str], entry: Any) -> str:
        if "{{" in stream.item_name:
            return self.content.render(stream.item_name, entry, values)
        return str(read_value(entry, stream.item_name))

    def _above(self, stream: Stream, values: Mapping[str, str]) -> tuple[str, ...]:
        parents = self.content.names.service.about.parents.get(stream.parents)
        return (stream.name, *([values[next(iter(parents.fields))]] if parents else []))

    def _add_content(
        self, stream: Stream, values: Mapping[str, str], entries: Sequence[Any], item: SourceItem
    ) -> SourceItem:
        """Return the item with the version, and with listed content."""
        entry, data = _first(stream, entries), None
        version = _version(stream, entry) + self.content.names.service.about.revision
        try:
            if stream.group or self.content.is_complete(stream.content, entry):
                data = self.content.read_entries(stream, values, entries)
            elif _is_read_anew(stream, entry):
                url = self.content.names.site.base + fill_address(stream.content.get, values)
                data = self.content.read_answer(
                    stream, values, self.content.names.service.get(self.content.names.tokens, url)
                )
        except Skippable as error:
            return replace(item, error=str(error))
        if data is not None and (not stream.version or stream.recent):
            version = digest(data.decode())
        elif stream.recent and stream.recent.again:
            version += f"/{_count_periods(item.external_id, stream.recent.again)}"
        has_files = any(self.content.find_attachments(stream.content, entry, values) for entry in entries)
        if data is None or self.folder is None or has_files:
            return replace(item, version=version)
        file = self.folder / digest(item.external_id)
        file.write_bytes(data)
        raw = RawContent(file, item.name, stream.content.media_type, len(data))
        return replace(item, version=version, content=raw)


def _first(stream: Stream, entries: Sequence[Any]) -> Any:
    """Return the oldest entry of a group."""
    return entries[-1 if stream.group and stream.group.newest_first else 0]


def digest(entry: Any) -> str:
    """Return the hash of a value of JSON."""
    return hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()


def _version(stream: Stream, entry: Any) -> str:
    if "{{" in stream.version:
        return digest(templates.render(stream.version, entry))
    return str(read_value(entry, stream.version)) if stream.version else digest(entry)


def _count_periods(external_id: str, days: float) -> int:
    """Return the number of the current period of `days`; periods of different items end at different times."""
    offset = int(digest(external_id)[:8], 16) / 16**8
    return int(time.time() / 86400 / days + offset)


def _is_read_anew(stream: Stream, entry: Any) -> bool:
    """Check if changes show only in the item's text."""
    if stream.content.text and not stream.version:
        return True
    recent = stream.recent
    moment = templates.read_moment(read_value(entry, recent.time)) if recent else None
    if recent is None or moment is None:
        return False
    return moment > datetime.now(UTC) - timedelta(days=recent.days)
