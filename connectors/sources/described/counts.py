"""Numbers of the items of lists, which are lower than expected after a deletion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from connectors.sources.described import templates
from connectors.sources.described.description import Count
from connectors.sources.described.fields import fill_address, read_field, read_value
from connectors.sources.described.position import Position, Target
from connectors.sources.described.service import Refused
from retrieval.errors import Skippable

if TYPE_CHECKING:
    from connectors.sources.described.names import NameReader


def read_total(names: NameReader, target: Target, expected: int) -> int | None:
    """Return the number of items of a list; None without permission to read the number."""
    count, service = target.stream.count, names.service
    if count is None:
        return None
    try:
        if count.size:
            return _find_end(names, target, count, expected)
        answer = service.get(names.tokens, names.site.base + fill_address(count.get, target.values))
    except (Refused, Skippable):
        return None
    total = answer.headers.get(count.header) if count.header else read_field(service.read_json(answer), count.field)
    return int(total) if str(total).isdecimal() else None


def count_created(target: Target, entries: Sequence[Any], position: Position) -> int:
    """Return the number of entries after the last count, in a full listing of all."""
    if position.full or target.stream.count is None:
        return len(entries)
    created = target.stream.count.created
    counted_at = templates.read_moment(position.totals.get(target.mark, (0, ""))[1])
    times = [templates.read_moment(read_value(entry, created)) for entry in entries]
    return sum(1 for time in times if time and counted_at and time > counted_at)


def _find_end(names: NameReader, target: Target, count: Count, expected: int) -> int:
    """Return the number of entries up to the last page, searched from the page of the last expected entry."""
    page, is_below_empty, is_above_full = max(0, expected - 1) // count.size, False, False
    while True:
        address = fill_address(count.get, {**target.values, "page": str(page)})
        answer = names.service.get(names.tokens, names.site.base + address)
        entries = len(names.service.read_list(answer, target.stream.items))
        is_last = 0 < entries < count.size or (is_below_empty if entries else is_above_full or page == 0)
        if is_last:
            return page * count.size + entries
        is_below_empty, is_above_full = not entries, bool(entries)
        page += 1 if entries else -1
