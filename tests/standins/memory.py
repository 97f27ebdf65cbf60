"""A minimal content service with its connector, the example of docs/adding-a-connector.md."""
# The service keeps files in memory. `GET /changes?since=N` lists changes after change N; `GET /items/ID` describes an
# item; `GET /items/ID/content` returns the content.

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from connectors.http import oauth
from connectors.http.oauth import OAuth, Service
from connectors.http.retries import RateLimited, ServicePolicy, TransientError, Unauthorized, retry_after
from retrieval.errors import Fatal, ItemMissing, Skippable
from retrieval.ports import FolderEntry, FolderPage, Page, RawContent, SourceItem, TokenSource
from retrieval.settings import Settings
from tests.standins.account import Served
from tests.standins.account import serving as served

if TYPE_CHECKING:
    from pathlib import Path

    from tests.standins.faults import Handler

SERVICE = Service("Memory", "https://memory.example/authorize", "https://memory.example/token", account="account_id")
POLICY = ServicePolicy("Memory", per_minute=60_000, burst=100)


def make(app: Mapping[str, Any], settings: Settings) -> Memory:
    """The connector of a namespace's app."""
    (name,) = settings.endpoints  # a real one: its own name, and its public address where no endpoint is set
    return Memory(oauth.make_oauth(name, SERVICE, app, settings), settings.endpoints[name].base_url or "")


@dataclass(frozen=True, slots=True)
class Memory:
    """A `Connector`."""

    authorizer: OAuth
    base: str

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        """List changes after a cursor of the last change and the listing's start."""
        position = json.loads(cursor) if cursor else {"since": 0, "whole": True}
        while True:
            answer = self._get(tokens, "/changes", since=position["since"])
            if answer is None:  # the service has forgotten that change
                answer, position = self._get(tokens, "/changes", since=0), {"since": 0, "whole": True}
            page = json.loads(answer or b"{}")
            done = not page["more"]
            next_position = {"since": page["next"], "whole": position["whole"] and not done}
            yield Page(
                [_item(entry) for entry in page["items"]], json.dumps(next_position), done=done, whole=position["whole"]
            )
            if done:
                return
            position = next_position

    def browse(self, tokens: TokenSource, parent: str | None, cursor: str | None) -> FolderPage:
        """Folders are names in paths here, and have the paths as their ids."""
        above, entries = f"{parent}/" if parent else "", dict[str, FolderEntry]()
        for item in (item for page in self.iter_changes(tokens, None) for item in page.items if not item.deleted):
            path = str(item.properties["path"])
            name, below, _ = path.removeprefix(above).partition("/")
            if path.startswith(above) and below:
                entries[above + name] = FolderEntry(above + name, name, True, above + name, has_children=True)
            elif path.startswith(above):
                changed = str(item.properties["modifiedAt"])
                entries[item.external_id] = FolderEntry(
                    item.external_id, name, False, path, "text/plain", None, changed
                )
        if parent and not entries:
            raise Skippable("There is no such folder.")
        return FolderPage(list(entries.values()))

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        content = self._get(tokens, f"/items/{item.external_id}/content")
        if content is None:
            raise ItemMissing("The file is no longer there.")
        to.write_bytes(content)
        return RawContent(to, item.name, "text/plain", len(content))

    def is_deleted(self, tokens: TokenSource, external_id: str) -> bool:
        return self._get(tokens, f"/items/{external_id}") is None

    def _get(self, tokens: TokenSource, path: str, **query: Any) -> bytes | None:
        """The answer's body; None for 404 and 410."""
        return POLICY.call(tokens, lambda token: self._ask(token, path, query))

    def _ask(self, token: str, path: str, query: Mapping[str, Any]) -> bytes | None:
        try:
            answer = httpx.get(
                self.base + path, params=query, headers={"Authorization": f"Bearer {token}"}, trust_env=False
            )
        except httpx.HTTPError as error:
            raise TransientError("Memory cannot be reached.") from error
        if answer.status_code == 401:
            raise Unauthorized
        if answer.status_code == 429:
            raise RateLimited(retry_after(answer.headers))
        if answer.status_code >= 500 or "html" in answer.headers.get("content-type", ""):
            raise TransientError("Memory answers with trouble.")
        if answer.status_code in {404, 410}:
            return None
        if answer.status_code != 200:
            raise Fatal("Memory refuses the request.")
        return answer.content


def _item(entry: Mapping[str, Any]) -> SourceItem:
    properties = {
        "url": f"https://memory.example/{entry['id']}",
        "path": entry["path"],
        "modifiedAt": entry["modified"],
    }
    return SourceItem(
        entry["id"],
        entry["path"].rpartition("/")[2],
        "text/plain",
        entry["version"],
        entry["deleted"],
        properties=properties,
    )


class MemoryAccount(Served):
    """Files by id with the number of the last change."""

    connector = "MEMORY"

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, dict[str, Any]] = {}
        self.changes = 0
        self.oldest = 0
        self.lost = False

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        with self.lock:
            parts = path.strip("/").split("/")
            if parts == ["changes"]:
                return self._changes(handler, int(query["since"]))
            file = self.files.get(parts[1])
            if file is None or file["deleted"]:
                return handler.reply(404, {})
            if parts[2:] == ["content"]:
                return handler.reply(200, file["text"].encode(), {"Content-Type": "text/plain"})
            return handler.reply(200, _file_json(file))

    def _changes(self, handler: Handler, since: int) -> None:
        if 0 < since < self.oldest:
            return handler.reply(410, {})
        changed = sorted(
            (file for file in self.files.values() if file["change"] > since), key=lambda file: file["change"]
        )
        if self.lost:
            changed, since = [], 0
        elif since == 0:
            changed = [file for file in changed if not file["deleted"]]
        page_files, has_more = changed[: self.page], len(changed) > self.page
        next_position = page_files[-1]["change"] if has_more else self.changes
        return handler.reply(
            200, {"items": [_file_json(file) for file in page_files], "next": next_position, "more": has_more}
        )

    def put(self, path: str, text: str) -> str:
        with self.lock:
            name = f"file-{len(self.files) + 1}"
            self.files[name] = {"id": name, "path": path, "text": text, "version": 0, "deleted": False}
            self._touch(name, version=1)
        return name

    def change(self, external_id: str, text: str) -> None:
        self._touch(external_id, text=text, version=self.files[external_id]["version"] + 1)

    def rename(self, external_id: str, name: str) -> None:
        folder = self.files[external_id]["path"].rpartition("/")
        self._touch(external_id, path="".join(folder[:2]) + name)

    def move(self, external_id: str, folder: str) -> None:
        self._touch(external_id, path=folder + "/" + self.files[external_id]["path"].rpartition("/")[2])

    def delete(self, external_id: str) -> None:
        self._touch(external_id, deleted=True)

    def lose(self) -> None:
        self.lost = True

    def forget_cursors(self) -> None:
        with self.lock:
            self.changes += 1
            self.oldest = self.changes

    def _touch(self, external_id: str, **fields: Any) -> None:
        with self.lock:
            self.changes += 1
            self.files[external_id] |= {**fields, "change": self.changes}


def _file_json(file: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": file["id"],
        "path": file["path"],
        "version": str(file["version"]),
        "deleted": file["deleted"],
        "modified": f"2026-01-01T00:00:{file['change'] % 60:02}Z",
    }


@contextmanager
def serving(connector: str = "MEMORY") -> Iterator[MemoryAccount]:
    account = MemoryAccount()
    account.connector = connector
    with served(account):
        yield account
