"""Pages of Notion: their titles, properties and paths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from connectors.sources.notion.transport import Answer, BadRequest, Forbidden, NotFound, Request, RequestSender
from retrieval.ports import SourceItem

PAGE_MEDIA_TYPE = "text/markdown"
DEFAULT_TITLE = "Untitled"
MAX_RELATION_REQUESTS = 10
# Notion rounds the time of a change to the minute: a younger change may be followed by another of the same minute.
SETTLING_TIME = timedelta(minutes=3)


def page_item(page: Answer, now: datetime) -> SourceItem:
    return SourceItem(
        str(page["id"]), page_title(page), PAGE_MEDIA_TYPE, page_version(page, now), properties=page_properties(page)
    )


def page_version(page: Answer, now: datetime) -> str:
    """Return the version of a page: time of edit and parent; unique while another edit may have the same time."""
    edited, parent = str(page["last_edited_time"]), page.get("parent") or {}
    mark = f"{edited} in {parent.get(parent.get('type'))}"
    try:
        is_settled = now - datetime.fromisoformat(edited).astimezone(UTC) > SETTLING_TIME
    except ValueError:
        is_settled = False
    return mark if is_settled else f"{mark} seen {now.isoformat()}"


def page_properties(page: Answer) -> dict[str, str | int]:
    """Return the properties that listings return."""
    fields = {"url": page.get("url"), "createdAt": page.get("created_time"), "modifiedAt": page.get("last_edited_time")}
    return {name: value for name, value in fields.items() if isinstance(value, str) and value}


def is_trashed(page: Answer) -> bool:
    """Return True for a trashed or archived page."""
    # The field's name depends on the version of Notion's API.
    return any(page.get(name) is True for name in ("in_trash", "archived", "is_archived"))


def page_title(content: Answer) -> str:
    """Title of a page, a database or a data source."""
    if isinstance(content.get("title"), list):
        return _plain(content["title"]) or DEFAULT_TITLE
    values = _properties(content).values()
    return next((_plain(value["title"]) for value in values if value.get("type") == "title"), "") or DEFAULT_TITLE


def is_row(page: Answer) -> bool:
    return (page.get("parent") or {}).get("type") in {"data_source_id", "database_id"}


def row_lines(page: Answer, send: RequestSender) -> str:
    """Format a database row's properties, without title and empty values, as a Markdown list."""
    columns = {name: value for name, value in _properties(page).items() if value.get("type") != "title"}
    values = {
        name: property_value(_read_relation(page, value, send) if value.get("has_more") is True else value)
        for name, value in columns.items()
    }
    return "\n".join(f"- **{_line(name)}**: {_line(text)}" for name, text in values.items() if text)


def _read_relation(page: Answer, relation: Mapping[str, Any], send: RequestSender) -> Mapping[str, Any]:
    """Return the entries of a relation, at most 100 for each of MAX_RELATION_REQUESTS requests."""
    # A page contains only the first 25.
    items: list[Any] = []
    at: str | None = None
    for _ in range(MAX_RELATION_REQUESTS):
        position = at
        answer = send(
            lambda client, token, position=position: client.pages.properties.retrieve(  # type: ignore[misc]
                str(page["id"]), str(relation["id"]), auth=token, page_size=100, start_cursor=position
            )
        )
        items += [entry["relation"] for entry in answer.get("results") or () if entry.get("type") == "relation"]
        at = answer.get("next_cursor") if answer.get("has_more") else None
        if not at:
            break
    return {**relation, "relation": items or relation.get("relation")}


def property_value(prop: Any) -> str:
    """Return a property as text; "" for an empty, unknown or non-text one."""
    kind = prop.get("type") if isinstance(prop, Mapping) else None
    content = prop.get(kind) if kind else None
    try:
        return "" if content is None else _PROPERTY_FORMATS.get(str(kind), _empty_text)(content)
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


def _empty_text(_value: Any) -> str:
    return ""


def _join_texts(texts: Iterable[str]) -> str:
    return ", ".join(text for text in texts if text)


def _name(value: Any) -> str:
    return str(value.get("name") or "")


def _names(value: Any) -> str:
    return _join_texts(_name(option) for option in value)


def _person(value: Any) -> str:
    """Return the name or, if hidden from the integration, the address of a person."""
    return str(value.get("name") or (value.get("person") or {}).get("email") or "")


def _number(value: Any) -> str:
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _date(value: Any) -> str:
    start, end = value.get("start"), value.get("end")
    return f"{start} to {end}" if end else str(start or "")


def _rollup(value: Any) -> str:
    return (
        _join_texts(property_value(value) for value in value["array"])
        if value.get("type") == "array"
        else property_value(value)
    )


def _unique_id(value: Any) -> str:
    return "-".join(str(part) for part in (value.get("prefix"), value.get("number")) if part not in {None, ""})


_PROPERTY_FORMATS: Mapping[str, Callable[[Any], str]] = {
    "title": _plain,
    "rich_text": _plain,
    "number": _number,
    "select": _name,
    "status": _name,
    "multi_select": _names,
    "date": _date,
    "people": lambda people: _join_texts(_person(person) for person in people),
    "files": _names,
    "checkbox": lambda value: "yes" if value else "no",
    "boolean": lambda value: "yes" if value else "no",
    "string": str,
    "url": str,
    "email": str,
    "phone_number": str,
    "relation": lambda pages: _join_texts(str(page.get("id", "")) for page in pages),
    "formula": property_value,
    "rollup": _rollup,
    "created_time": str,
    "last_edited_time": str,
    "created_by": _person,
    "last_edited_by": _person,
    "unique_id": _unique_id,
    "verification": lambda value: str(value.get("state") or ""),
    "place": lambda value: _join_texts(str(value.get(name) or "") for name in ("name", "address")),
}


MAX_PARENT_DEPTH = 30

# Request of a parent by its type. A block, such as a column, has no title.
_PARENT_REQUESTS: Mapping[str, Callable[[str], Request]] = {
    "page_id": lambda page_id: lambda client, token: client.pages.retrieve(page_id, auth=token),
    "database_id": lambda database_id: lambda client, token: client.databases.retrieve(database_id, auth=token),
    "data_source_id": lambda source_id: lambda client, token: client.data_sources.retrieve(source_id, auth=token),
    "block_id": lambda block_id: lambda client, token: client.blocks.retrieve(block_id, auth=token),
}


@dataclass(frozen=True, slots=True)
class Paths:
    """Cache of the paths of pages, one for each connection. Thread-safe."""

    _parents: dict[str, tuple[str, Any]] = field(default_factory=dict)

    def read_path(self, page: Answer, send: RequestSender) -> str:
        """Join the titles of the shared ancestors and of the page by `/`."""
        return self.locate(page, send)[0]

    def locate(self, page: Answer, send: RequestSender) -> tuple[str, tuple[str, ...]]:
        """Return the path, and the ids of all ancestors with and without hyphens."""
        titles, ids = [page_title(page)], list[str]()
        parent = page.get("parent")
        for _ in range(MAX_PARENT_DEPTH):
            kind, parent_id = _parent_name(parent)
            if parent_id is None:
                break
            ids += id_forms(str(parent["data_source_id"])) if parent and parent.get("data_source_id") else []
            title, parent = self._parents.get(parent_id) or self._read_parent(kind, parent_id, send)
            titles += [title] if title else []
            ids += id_forms(parent_id)
        return "/".join(reversed(titles)), tuple(ids)

    def is_nested(self, page: Answer, send: RequestSender) -> bool:
        """Return True if a visible page or database contains the page, directly or through blocks."""
        parent = page.get("parent")
        for _ in range(MAX_PARENT_DEPTH):
            kind, parent_id = _parent_name(parent)
            if parent_id is None:
                return False
            title, parent = self._parents.get(parent_id) or self._read_parent(kind, parent_id, send)
            if title:
                return True
        return False

    def _read_parent(self, kind: str, parent_id: str, send: RequestSender) -> tuple[str, Any]:
        try:
            parent = send(_PARENT_REQUESTS[kind](parent_id))
            title_and_parent = ("" if kind == "block_id" else page_title(parent), parent.get("parent"))
        except (NotFound, BadRequest, Forbidden):
            title_and_parent = ("", None)
        return self._parents.setdefault(parent_id, title_and_parent)


def id_forms(page_id: str) -> list[str]:
    """Return an id in both forms, with and without hyphens."""
    # Addresses of pages contain no hyphens.
    return list(dict.fromkeys([page_id, page_id.replace("-", "")]))


def _parent_name(parent: Any) -> tuple[str, str | None]:
    """Return type and id of a parent."""
    # A row's parent is its data source; the database has the useful title.
    if not isinstance(parent, Mapping):
        return "", None
    kind = "database_id" if parent.get("database_id") else str(parent.get("type"))
    parent_id = parent.get(kind) if kind in _PARENT_REQUESTS else None
    return kind, str(parent_id) if parent_id else None
