"""Pages of listings: where one ends, as text for a cursor, and what a statement needs to go on from there.

A listing goes by age and then by id, or by a number. `cursors` signs the text for the client.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, LiteralString, Protocol, TypeVar

PAGE = 50


class Aged(Protocol):
    """Item of a listing by age."""

    @property
    def id(self) -> str: ...

    @property
    def created_at(self) -> datetime: ...


@dataclass(frozen=True, slots=True)
class Place:
    """Place of an item in a listing by age. The item may be deleted."""

    id: str
    created_at: datetime


T = TypeVar("T")
A = TypeVar("A", bound=Aged)


@dataclass(frozen=True, slots=True)
class Part:
    """So many from a place on (what a `Page` gave), or from the start."""

    size: int = PAGE
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a listing. `cursor`: the place after it, where the next one begins; None at the end."""

    items: list[T]
    cursor: str | None


def take_page(found: Sequence[T], size: int | None, place: Callable[[T], str]) -> Page[T]:
    """Return a page of rows selected with a limit of `size` + 1; all of them without a size."""
    if size is None or len(found) <= size:
        return Page(list(found), None)
    return Page(list(found[:size]), place(found[size - 1]))


def by_age(item: Aged) -> str:
    """The place after an item of a listing by age."""
    return f"{item.created_at.isoformat()}/{item.id}"


def after_age(cursor: str | None, size: int | None) -> dict[str, Any]:
    """`after_time`, `after_id` and `limit` for `older` or `newer`, from a place."""
    time, name = (None, None) if cursor is None else _age(cursor)
    return {"after_time": time, "after_id": name, "limit": None if size is None else size + 1}


def after_number(cursor: str | None, size: int) -> dict[str, Any]:
    """`after` and `limit` of a listing by number."""
    return {"after": None if cursor is None else int(cursor), "limit": size + 1}


def part_by_age(part: Part | None) -> dict[str, Any]:
    """`after_age` of a part, or of the whole listing."""
    return after_age(None, None) if part is None else after_age(part.cursor, part.size)


def part_cut(found: Sequence[A], part: Part | None) -> Page[A]:
    """The page that is a part of a listing by age, or the whole listing."""
    return take_page(found, None if part is None else part.size, by_age)


def order_desc(table: LiteralString = "") -> LiteralString:
    """The end of a statement that lists rows of `table` newest first: after its other conditions."""
    return _follow(table, "<", " desc")


def order_asc(table: LiteralString = "") -> LiteralString:
    """Return the end of a statement that lists rows of `table` oldest first."""
    return _follow(table, ">", "")


def order_by_age(table: LiteralString = "", *, oldest_first: bool) -> LiteralString:
    """Return `order_asc` or `order_desc`."""
    return order_asc(table) if oldest_first else order_desc(table)


def _follow(table: LiteralString, than: LiteralString, order: LiteralString) -> LiteralString:
    name: LiteralString = f"{table}." if table else ""
    return (
        f" and (%(after_id)s::text is null or ({name}created_at, {name}id) {than} (%(after_time)s::timestamptz,"
        f" %(after_id)s)) order by {name}created_at{order}, {name}id{order} limit %(limit)s"
    )


def _age(place: str) -> tuple[datetime, str]:
    moment, _, name = place.partition("/")
    return datetime.fromisoformat(moment), name
