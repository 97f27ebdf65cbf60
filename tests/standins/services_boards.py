"""Services of boards that are read by a description, on loopback."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.standins.described_base import DescribedService

if TYPE_CHECKING:
    from tests.standins.faults import Handler

BOARD = "4711"


class Monday(DescribedService):
    """https://developer.monday.com/api-reference/docs/querying-board-items (cursor of a page, valid for 60 minutes)
    https://developer.monday.com/api-reference/reference/boards (limit, page; an empty page is the end)
    https://developer.monday.com/api-reference/docs/items (exclude_nonactive)
    https://developer.monday.com/api-reference/docs/error-handling (200 with errors)

    `about`: further fields of items by key, `updates`: their updates, the newest last; `boards`: fields by id;
    `boards_of`: boards of moved items; `archived`: keys; `has_expired`: cursors are refused.
    """

    connector, config_url = "MONDAY", f"https://acme.monday.com/boards/{BOARD}"
    lists_changes = False
    serves_files = True

    def __init__(self) -> None:
        super().__init__()
        self.about: dict[str, dict[str, Any]] = {}
        self.updates: dict[str, list[dict[str, Any]]] = {}
        self.boards: dict[str, dict[str, Any]] = {BOARD: {"name": "Zoo", "type": "board"}}
        self.boards_of: dict[str, str] = {}
        self.archived: set[str] = set()
        self.has_expired = False

    def locate(self, key: str) -> str:
        return f"https://acme.monday.com/boards/{self.boards_of.get(key, BOARD)}/pulses/{key}"

    def _bearer(self, handler: Handler) -> str:
        return handler.headers.get("authorization") or ""

    def is_open(self, path: str) -> bool:
        return path in self.downloads

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        if path in self.downloads:
            return handler.reply(200, self.downloads[path], {"Content-Type": "text/plain"})
        assert (method, path, handler.headers["api-version"]) == ("POST", "/v2", "2026-10")
        document = json.loads(body)
        operation = re.match(r"query (\w+)", document["query"])
        assert operation
        variables = document["variables"]
        if operation[1] == "Items":
            return self._list_items(handler, variables, with_urls="public_url" in document["query"])
        if operation[1] == "Boards":
            boards = [{"id": key, "workspace": None, **board} for key, board in self.boards.items()]
            return handler.reply(200, {"data": {"boards": self._page(boards, variables, 100)}})
        key = variables["item"]
        is_shown = key in self.items and (
            key not in self.archived or "exclude_nonactive: true" not in document["query"]
        )
        if operation[1] == "Updates":
            items = [{"updates": self._page(self.updates.get(key, [])[::-1], variables, 100)}] if is_shown else []
            return handler.reply(200, {"data": {"items": items}})
        shown = [self._describe(key, with_urls="public_url" in document["query"])] if is_shown else []
        return handler.reply(200, {"data": {"items": shown}})

    def _page(self, entries: list[Any], variables: dict[str, Any], size: int) -> list[Any]:
        size = min(size, self.page)
        start = (int(variables["page"]) - 1) * size
        return entries[start : start + size]

    def _list_items(self, handler: Handler, variables: dict[str, Any], *, with_urls: bool) -> None:
        if self.has_expired and variables.get("cursor"):
            error = {"message": "The cursor has expired", "extensions": {"code": "CursorExpiredError"}}
            return handler.reply(200, {"data": None, "errors": [error]})
        board = variables["board"]
        keys = [key for key in self.items if self.boards_of.get(key, BOARD) == board and key not in self.archived]
        part, following = self.cut(keys, int(variables.get("cursor") or 0), 100)
        cursor = None if following is None else str(following)
        page = {"cursor": cursor, "items": [self._describe(key, with_urls=with_urls) for key in part]}
        return handler.reply(200, {"data": {"boards": [{"items_page": page}] if board in self.boards else []}})

    def _describe(self, key: str, *, with_urls: bool) -> dict[str, Any]:
        item, about = self.items[key], self.about.get(key, {})
        board = self.boards_of.get(key, BOARD)
        assets = [
            asset if with_urls else {"id": asset["id"], "name": asset["name"]} for asset in about.get("assets", ())
        ]
        newest = [
            {"id": update["id"], "edited_at": update["created_at"], "replies": update.get("replies", [])}
            for update in self.updates.get(key, [])[::-1][:10]
        ]
        return {
            "id": key,
            "name": item.title,
            "created_at": item.created.isoformat(),
            "updated_at": item.updated.isoformat(),
            "creator": {"name": "Ada Berg"},
            "board": {"id": board, "name": self.boards[board]["name"]},
            "group": {"title": "Doing"},
            "column_values": [{"type": "long_text", "text": item.text, "column": {"title": "Text"}}],
            "subitems": [],
            **about,
            "assets": assets,
            "updates": newest,
        }


class MondayAccount(Monday):
    """`parent_requests`: requests of the list of boards, which have the address of all others."""

    config_url = "https://acme.monday.com"
    parent_requests = 2


SERVICES = {"MONDAY": Monday, "MONDAY_ACCOUNT": MondayAccount}
