"""Lists that are answered whole (D34) or, where somebody asks for it, in parts: by age, then by id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar

from retrieval import cursors
from retrieval.errors import ErrorCode
from retrieval.ports import Scope

PAGE = 50


class Listed(Protocol):
    """What stands in such a list."""

    @property
    def id(self) -> str: ...

    @property
    def created_at(self) -> datetime: ...


T = TypeVar("T", bound=Listed)


@dataclass(frozen=True, slots=True)
class Part:
    """So many from a cursor on, or from the start."""

    size: int = PAGE
    cursor: str | None = None


def values(scope: Scope, listing: str, part: Part | None) -> dict[str, Any]:
    """`after_time`, `after_id` and `limit` of the statement, all None for the whole. INVALID_REQUEST: a bad cursor."""
    if part is None:
        return {"after_time": None, "after_id": None, "limit": None}
    place = None if part.cursor is None else cursors.read_text(scope, listing, part.cursor, ErrorCode.INVALID_REQUEST)
    moment, _, last = (place or "").partition("/")
    return {"after_time": moment or None, "after_id": last or None, "limit": part.size + 1}


def cut(scope: Scope, listing: str, found: Sequence[T], part: Part | None) -> tuple[list[T], str | None]:
    """The items of the part, and the cursor of the next one, None at the end."""
    if part is None or len(found) <= part.size:
        return list(found), None
    last = found[part.size - 1]
    return list(found[: part.size]), cursors.write(scope, listing, f"{last.created_at.isoformat()}/{last.id}")
