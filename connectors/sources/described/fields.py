"""Fields of JSON by their dotted names, and templates of addresses with names in braces."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

_FIELD = re.compile(r"\{(\w+)(?::(all|digits|start|end))?\}")


def find_names(template: str) -> set[str]:
    """Return the names in a template of an address."""
    return {match[1] for match in _FIELD.finditer(template.partition("\n")[0])}


def fill_address(template: str, values: Mapping[str, str]) -> str:
    """Fill a template of a URL: values are quoted; slashes stay, except in {name:all}; of {name:digits} only the digits
    are taken, of a day {name:start} and {name:end} as Unix time. Further lines are JSON, the body of a POST."""
    address, newline, body = template.partition("\n")
    address = _FIELD.sub(lambda found: quote_value(found[1], values[found[1]], found[2] or ""), address)
    escaped = {name: json.dumps(value)[1:-1] for name, value in values.items()} if body else {}
    return address + newline + fill_known(body, escaped)


def fill_text(template: str, values: Mapping[str, str]) -> str:
    """Fill a template of a text."""
    return _FIELD.sub(lambda found: values[found[1]], template)


def read_field(item: Any, name: str) -> Any:
    """Return a field by dotted name, with numbers as positions in lists; "" if missing or null."""
    if isinstance(item, Mapping) and name in item:  # such as `@odata.nextLink`
        return "" if item[name] is None else item[name]
    for part in name.split(".") if name else ():
        if isinstance(item, list) and part.isdecimal():
            item = item[int(part)] if int(part) < len(item) else None
        else:
            item = item.get(part) if isinstance(item, Mapping) else None
    return "" if item is None else item


def read_value(item: Any, field: str) -> Any:
    """Return a field by its dotted name, or the value of an expression over the fields of the item."""
    if "|" not in field:
        return read_field(item, field)
    from connectors.sources.described import templates

    return templates.evaluate(field, item)


def has_field(item: Any, name: str) -> bool:
    """Check for a field by dotted name, null included."""
    above, _, last = name.rpartition(".")
    parent = read_field(item, above)
    return isinstance(parent, Mapping) and last in parent


def is_kept(item: Any, keep: Mapping[str, str], location: Mapping[str, str]) -> bool:
    """Tell if the fields of an item match their patterns, in which names of the location are filled in."""
    names = {name: re.escape(value) for name, value in location.items()}
    return all(re.fullmatch(fill_known(text, names), str(read_value(item, name))) for name, text in keep.items())


def fill_known(template: str, values: Mapping[str, str]) -> str:
    """Fill the names that have a value; `{2}` of a pattern stays."""
    return _FIELD.sub(lambda found: values.get(found[1], found[0]), template)


def quote_value(name: str, value: str, part: str = "") -> str:
    """Quote a value of a URL, or its digits; addresses stay as they are."""
    if part == "digits":
        return re.sub(r"\D", "", value)
    if part in {"start", "end"}:
        with suppress(ValueError):
            moment = datetime.fromisoformat(value).replace(tzinfo=UTC) + timedelta(days=part == "end")
            return str(int(moment.timestamp()))
    is_address = name in {"url", "site"} and not part
    return value if is_address else quote(value, "" if part == "all" else "/")


def split_template(template: str) -> list[str]:
    """Split a template into text, name and part of a name, in turn."""
    return _FIELD.split(template)
