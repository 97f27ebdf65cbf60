"""Lists that are returned whole (D34) or, on request, in pages: by age, then by id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar

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
    """So many from a place on (what `cut` gave), or from the start."""

    size: int = PAGE
    cursor: str | None = None


def values(part: Part | None) -> dict[str, Any]:
    """`after_time`, `after_id` and `limit` of the statement, all None for the whole."""
    if part is None:
        return {"after_time": None, "after_id": None, "limit": None}
    moment, _, last = (part.cursor or "").partition("/")
    return {"after_time": moment or None, "after_id": last or None, "limit": part.size + 1}


def cut(found: Sequence[T], part: Part | None) -> tuple[list[T], str | None]:
    """The items of the part, and the place after it, None at the end."""
    if part is None or len(found) <= part.size:
        return list(found), None
    last = found[part.size - 1]
    return list(found[: part.size]), f"{last.created_at.isoformat()}/{last.id}"
