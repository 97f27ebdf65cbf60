"""Paths of Notion pages: the titles of their parents, each asked for once in a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from connectors.sources.notion import pages
from connectors.sources.notion.transport import Answer, Closed, Missing, Request, Unfit

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
    """Safe to use from several threads: what is asked for twice is the same. An instance serves one connection."""

    _known: dict[str, tuple[str, Any]] = field(default_factory=dict)

    def of(self, page: Answer, ask: Callable[[Request], Answer]) -> str:
        """Titles with `/` between them, the page's own at the end; they begin below what is not shared."""
        return self.place(page, ask)[0]

    def place(self, page: Answer, ask: Callable[[Request], Answer]) -> tuple[str, tuple[str, ...]]:
        """The same, and the ids of what it lies in, each also as addresses have it, without hyphens."""
        titles, ids = [pages.title(page)], list[str]()
        parent = page.get("parent")
        for _ in range(DEPTH):
            kind, one = _named(parent)
            if one is None:
                break
            ids += both(str(parent["data_source_id"])) if parent and parent.get("data_source_id") else []
            title, parent = self._known.get(one) or self._asked(kind, one, ask)
            titles += [title] if title else []
            ids += both(one)
        return "/".join(reversed(titles)), tuple(ids)

    def lies_in(self, thing: Answer, ask: Callable[[Request], Answer]) -> bool:
        """Whether it lies in a page or database that can be seen, through blocks without a title too."""
        parent = thing.get("parent")
        for _ in range(DEPTH):
            kind, one = _named(parent)
            if one is None:
                return False
            title, parent = self._known.get(one) or self._asked(kind, one, ask)
            if title:
                return True
        return False

    def _asked(self, kind: str, one: str, ask: Callable[[Request], Answer]) -> tuple[str, Any]:
        try:
            thing = ask(_ASKED[kind](one))
            found = ("" if kind == "block_id" else pages.title(thing), thing.get("parent"))
        except (Missing, Unfit, Closed):
            found = ("", None)
        return self._known.setdefault(one, found)


def both(one: str) -> list[str]:
    """An id, and as it stands in an address."""
    return list(dict.fromkeys([one, one.replace("-", "")]))


def _named(parent: Any) -> tuple[str, str | None]:
    """A parent's type and id. A row's is its data source; the database that holds it says more."""
    if not isinstance(parent, Mapping):
        return "", None
    kind = "database_id" if parent.get("database_id") else str(parent.get("type"))
    one = parent.get(kind) if kind in _ASKED else None
    return kind, str(one) if one else None
