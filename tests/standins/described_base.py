"""Half of the stand-in of every described service that is the same: items by key, pages, credentials."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from retrieval.setting_values import Endpoint
from retrieval.settings import Settings
from tests.standins.account import Served

if TYPE_CHECKING:
    from tests.standins.faults import Handler

START = datetime.now(UTC) - timedelta(days=30)


@dataclass
class Item:
    title: str
    text: str
    created: datetime
    updated: datetime


class DescribedService(Served):
    """A place with items by key. `circular`: each page of a list leads to itself; `changes`: whether a change of an
    item is listed at once; `lists_changes`: whether there is a list of changes; `hosted`: whether the URL of a
    connection names the server itself; `serves_files`: whether attached files have an address on loopback."""

    config_url = ""
    hosted: ClassVar[bool] = False
    serves_files: ClassVar[bool] = False
    changes: ClassVar[bool] = True
    lists_changes: ClassVar[bool] = True
    names: ClassVar[tuple[str, ...]] = ("token",)

    def __init__(self) -> None:
        super().__init__()
        self.items: dict[str, Item] = {}
        self.circular = False
        self.extra_config: dict[str, Any] = {}
        # Content of downloads by path.
        self.downloads: dict[str, bytes] = {}
        self._count = 0
        self._token = self.token()

    @property
    def settings(self) -> Settings:
        if self.hosted:
            return Settings(_env_file=None, fetch_allow="127.0.0.0/8")
        endpoints = {self.connector: Endpoint(base_url=self.base + self.prefix)}
        return Settings(_env_file=None, endpoints=endpoints, fetch_allow="127.0.0.0/8" if self.serves_files else "")

    prefix: ClassVar[str] = ""

    @property
    def config(self) -> dict[str, Any]:
        credentials = {"user": "ann@example.com", "token": self._token}
        url = self.config_url.format(base=self.base)
        return {"url": url, "credentials": {name: credentials[name] for name in self.names}, **self.extra_config}

    def put(self, title: str, text: str) -> str:
        self._count += 1
        moment = START + timedelta(minutes=self._count)
        self.items[key := self.make_key(self._count)] = Item(title, text, moment, moment)
        return key

    def make_key(self, number: int) -> str:
        return str(number)

    def change(self, key: str, text: str) -> None:
        self.items[key].text, self.items[key].updated = text, datetime.now(UTC)

    def rename(self, key: str, title: str) -> None:
        self.items[key].title, self.items[key].updated = title, datetime.now(UTC)

    def delete(self, key: str) -> None:
        del self.items[key]

    def locate(self, key: str) -> str:
        raise NotImplementedError

    def cut(self, entries: list[Any], start: int, size: int) -> tuple[list[Any], int | None]:
        """A page of entries and where the next begins."""
        size = min(size, self.page)
        if self.circular:
            return entries[:size], start
        following = start + size
        return entries[start:following], following if following < len(entries) else None

    def _bearer(self, handler: Handler) -> str:
        sent = handler.headers.get("authorization") or ""
        if sent.startswith("Basic "):
            return base64.b64decode(sent.removeprefix("Basic ")).decode().rpartition(":")[2]
        return handler.headers.get("api-key") or super()._bearer(handler)
