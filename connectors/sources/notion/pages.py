"""Pages of Notion: their titles, properties and paths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from connectors.sources.notion.transport import Answer, BadRequest, Forbidden, NotFound, Request
from retrieval.ports import SourceItem

MEDIA_TYPE = "text/markdown"
UNTITLED = "Untitled"
RELATED = 10
SETTLED = timedelta(minutes=3)
"""Notion tells the time of a change by the minute: one this young may be followed by others of the same minute."""


def page_item(page: Answer, now: datetime) -> SourceItem:
    return SourceItem(
        str(page["id"]), page_title(page), MEDIA_TYPE, page_version(page, now), properties=page_properties(page)
    )


def page_version(page: Answer, now: datetime) -> str:
    """Version of a page: its time of edit and path; valid once where another edit may have the same time."""
    edited, parent = str(page["last_edited_time"]), page.get("parent") or {}
    mark = f"{edited} in {parent.get(parent.get('type'))}"
    try:
        is_settled = now - datetime.fromisoformat(edited).astimezone(UTC) > SETTLED
    except ValueError:
        is_settled = False
    return mark if is_settled else f"{mark} seen {now.isoformat()}"


def page_properties(page: Answer) -> dict[str, str | int]:
    """The properties that a listing gives."""
    fields = {"url": page.get("url"), "createdAt": page.get("created_time"), "modifiedAt": page.get("last_edited_time")}
    return {name: value for name, value in fields.items() if isinstance(value, str) and value}


def is_out(page: Answer) -> bool:
    """In the trash, or archived; Notion's versions name it differently."""
    return any(page.get(name) is True for name in ("in_trash", "archived", "is_archived"))


def page_title(thing: Answer) -> str:
    """Title of a page, a database or a data source."""
    if isinstance(thing.get("title"), list):
        return _plain(thing["title"]) or UNTITLED
    values = _properties(thing).values()
    return next((_plain(value["title"]) for value in values if value.get("type") == "title"), "") or UNTITLED


def is_row(page: Answer) -> bool:
    return (page.get("parent") or {}).get("type") in {"data_source_id", "database_id"}


def row_lines(page: Answer, ask: Callable[[Request], Answer]) -> str:
    """A database row's properties as a Markdown list, but for the title and those without a value."""
    columns = {name: value for name, value in _properties(page).items() if value.get("type") != "title"}
    values = {
        name: property_value(_whole(page, value, ask) if value.get("has_more") is True else value)
        for name, value in columns.items()
    }
    return "\n".join(f"- **{_line(name)}**: {_line(text)}" for name, text in values.items() if text)


def _whole(page: Answer, one: Mapping[str, Any], ask: Callable[[Request], Answer]) -> Mapping[str, Any]:
    """A relation of which the page names only the first 25, as far as `RELATED` requests bring it."""
    items: list[Any] = []
    at: str | None = None
    for _ in range(RELATED):
        position = at
        answer = ask(
            lambda client, token, position=position: client.pages.properties.retrieve(  # type: ignore[misc]
                str(page["id"]), str(one["id"]), auth=token, page_size=100, start_cursor=position
            )
        )
        items += [entry["relation"] for entry in answer.get("results") or () if entry.get("type") == "relation"]
        at = answer.get("next_cursor") if answer.get("has_more") else None
        if not at:
            break
    return {**one, "relation": items or one.get("relation")}


def property_value(one: Any) -> str:
    """Value of a property in words; "" for none, for kinds without words, and for unknown shapes."""
    kind = one.get("type") if isinstance(one, Mapping) else None
    content = one.get(kind) if kind else None
    try:
        return "" if content is None else _VALUES.get(str(kind), _nothing)(content)
    except (AttributeError, KeyError, TypeError):
        return ""


def _properties(page: Answer) -> dict[str, Mapping[str, Any]]:
    values = page.get("properties")
    return (
        {name: value for name, value in values.items() if isinstance(value, Mapping)}
        if isinstance(values, dict)
        else {}
    )


def _plain(texts: Any) -> str:
    return _line("".join(str(text.get("plain_text", "")) for text in texts or []))


def _line(text: str) -> str:
    return " ".join(text.split())


def _nothing(_held: Any) -> str:
    return ""


def _joined(texts: Iterable[str]) -> str:
    return ", ".join(text for text in texts if text)


def _name(held: Any) -> str:
    return str(held.get("name") or "")


def _names(held: Any) -> str:
    return _joined(_name(option) for option in held)


def _person(held: Any) -> str:
    """The name, which an integration may not see; then the address, if that."""
    return str(held.get("name") or (held.get("person") or {}).get("email") or "")


def _number(held: Any) -> str:
    return f"{held:.15g}" if isinstance(held, float) else str(held)


def _date(held: Any) -> str:
    start, end = held.get("start"), held.get("end")
    return f"{start} to {end}" if end else str(start or "")


def _rollup(held: Any) -> str:
    return (
        _joined(property_value(value) for value in held["array"])
        if held.get("type") == "array"
        else property_value(held)
    )


def _unique(held: Any) -> str:
    return "-".join(str(part) for part in (held.get("prefix"), held.get("number")) if part not in {None, ""})


_VALUES: Mapping[str, Callable[[Any], str]] = {
    "title": _plain,
    "rich_text": _plain,
    "number": _number,
    "select": _name,
    "status": _name,
    "multi_select": _names,
    "date": _date,
    "people": lambda held: _joined(_person(one) for one in held),
    "files": _names,
    "checkbox": lambda held: "yes" if held else "no",
    "boolean": lambda held: "yes" if held else "no",
    "string": str,
    "url": str,
    "email": str,
    "phone_number": str,
    "relation": lambda held: _joined(str(one.get("id", "")) for one in held),
    "formula": property_value,
    "rollup": _rollup,
    "created_time": str,
    "last_edited_time": str,
    "created_by": _person,
    "last_edited_by": _person,
    "unique_id": _unique,
    "verification": lambda held: str(held.get("state") or ""),
    "place": lambda held: _joined(str(held.get(name) or "") for name in ("name", "address")),
}


DEPTH = 30

_ASKED: Mapping[str, Callable[[str], Request]] = {
    "page_id": lambda one: lambda client, token: client.pages.retrieve(one, auth=token),
    "database_id": lambda one: lambda client, token: client.databases.retrieve(one, auth=token),
    "data_source_id": lambda one: lambda client, token: client.data_sources.retrieve(one, auth=token),
    "block_id": lambda one: lambda client, token: client.blocks.retrieve(one, auth=token),
}
"""By a parent's type: how it is asked for. A block, such as a column, has no title of its own."""


@dataclass(frozen=True, slots=True)
class Paths:
    """Paths of pages, by requests that are cached. Safe to use from several threads; one instance per connection."""

    _known: dict[str, tuple[str, Any]] = field(default_factory=dict)

    def of(self, page: Answer, ask: Callable[[Request], Answer]) -> str:
        """Titles with `/` between them, the page's own at the end; they begin below what is not shared."""
        return self.place(page, ask)[0]

    def place(self, page: Answer, ask: Callable[[Request], Answer]) -> tuple[str, tuple[str, ...]]:
        """Path, and the ids of everything above, each also as addresses have it, without hyphens."""
        titles, ids = [page_title(page)], list[str]()
        parent = page.get("parent")
        for _ in range(DEPTH):
            kind, parent_id = _parent_name(parent)
            if parent_id is None:
                break
            ids += join_path(str(parent["data_source_id"])) if parent and parent.get("data_source_id") else []
            title, parent = self._known.get(parent_id) or self._asked(kind, parent_id, ask)
            titles += [title] if title else []
            ids += join_path(parent_id)
        return "/".join(reversed(titles)), tuple(ids)

    def lies_in(self, thing: Answer, ask: Callable[[Request], Answer]) -> bool:
        """Tell whether the page is in a visible page or database, through blocks without a title too."""
        parent = thing.get("parent")
        for _ in range(DEPTH):
            kind, parent_id = _parent_name(parent)
            if parent_id is None:
                return False
            title, parent = self._known.get(parent_id) or self._asked(kind, parent_id, ask)
            if title:
                return True
        return False

    def _asked(self, kind: str, one: str, ask: Callable[[Request], Answer]) -> tuple[str, Any]:
        try:
            thing = ask(_ASKED[kind](one))
            title_and_parent = ("" if kind == "block_id" else page_title(thing), thing.get("parent"))
        except (NotFound, BadRequest, Forbidden):
            title_and_parent = ("", None)
        return self._known.setdefault(one, title_and_parent)


def join_path(one: str) -> list[str]:
    """Join an id with its form in addresses."""
    return list(dict.fromkeys([one, one.replace("-", "")]))


def _parent_name(parent: Any) -> tuple[str, str | None]:
    """Return type and id of a parent. A row's parent is its data source; the database of that is more useful."""
    if not isinstance(parent, Mapping):
        return "", None
    kind = "database_id" if parent.get("database_id") else str(parent.get("type"))
    parent_id = parent.get(kind) if kind in _ASKED else None
    return kind, str(parent_id) if parent_id else None
