"""Pages of listings by age and id, or by number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, LiteralString, Protocol, TypeVar

PAGE_SIZE = 50


class Aged(Protocol):
    """Item of a listing by age."""

    @property
    def id(self) -> str: ...

    @property
    def created_at(self) -> datetime: ...


@dataclass(frozen=True, slots=True)
class ListPosition:
    """Position in a listing by age, also of a deleted item."""

    id: str
    created_at: datetime


ItemT = TypeVar("ItemT")
AgedT = TypeVar("AgedT", bound=Aged)


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Page size and cursor; the first page without cursor."""

    size: int = PAGE_SIZE
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Page(Generic[ItemT]):
    """Page of a listing with the next cursor, None on the last page."""

    items: list[ItemT]
    cursor: str | None


def take_page(rows: Sequence[ItemT], size: int | None, find_position: Callable[[ItemT], str]) -> Page[ItemT]:
    """Cut a page from rows selected with limit `size` + 1; all rows without size."""
    if size is None or len(rows) <= size:
        return Page(list(rows), None)
    return Page(list(rows[:size]), find_position(rows[size - 1]))


def age_cursor(item: Aged) -> str:
    """Return the position after an item: `created_at/id`."""
    return f"{item.created_at.isoformat()}/{item.id}"


def age_params(cursor: str | None, size: int | None) -> dict[str, Any]:
    """Return `after_time`, `after_id` and `limit` for a cursor."""
    time, name = (None, None) if cursor is None else _parse_age(cursor)
    return {"after_time": time, "after_id": name, "limit": None if size is None else size + 1}


def number_params(cursor: str | None, size: int) -> dict[str, Any]:
    """Return `after` and `limit` of a listing by number."""
    return {"after": None if cursor is None else int(cursor), "limit": size + 1}


def page_params(page: PageRequest | None) -> dict[str, Any]:
    """Return `age_params` of a page, or of the whole listing."""
    return age_params(None, None) if page is None else age_params(page.cursor, page.size)


def cut_page(rows: Sequence[AgedT], page: PageRequest | None) -> Page[AgedT]:
    """Cut the requested page from a listing by age."""
    return take_page(rows, None if page is None else page.size, age_cursor)


def order_desc(table: LiteralString = "") -> LiteralString:
    """Return the end of a statement for rows of `table`, newest first."""
    return _after_position(table, "<", " desc")


def order_asc(table: LiteralString = "") -> LiteralString:
    """Return the end of a statement for rows of `table`, oldest first."""
    return _after_position(table, ">", "")


def order_by_age(table: LiteralString = "", *, oldest_first: bool) -> LiteralString:
    return order_asc(table) if oldest_first else order_desc(table)


def _after_position(table: LiteralString, than: LiteralString, order: LiteralString) -> LiteralString:
    name: LiteralString = f"{table}." if table else ""
    return (
        f" and (%(after_id)s::text is null or ({name}created_at, {name}id) {than} (%(after_time)s::timestamptz,"
        f" %(after_id)s)) order by {name}created_at{order}, {name}id{order} limit %(limit)s"
    )


def _parse_age(position: str) -> tuple[datetime, str]:
    moment, _, name = position.partition("/")
    return datetime.fromisoformat(moment), name
