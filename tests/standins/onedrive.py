"""OneDrive on loopback: one account's drive of Microsoft Graph, as for a work account."""
# Microsoft's documentation (contracts/graph-drive-items.json) checks every answer and request: a complaint turns the
# answer into a 500 and fails the test.

from __future__ import annotations

import base64
import hashlib
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from retrieval.setting_values import Endpoint
from tests.standins import graph_subscriptions
from tests.standins.account import Served
from tests.standins.account import serving as served
from tests.standins.described import Described

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from retrieval.settings import Settings
    from tests.standins.faults import Handler

CONTRACT = Described(Path(__file__).parent / "contracts" / "graph-drive-items.json")
OTHER_DRIVE = "b!other"
ROOT = "01ROOT"
SIGNED = "/signed/"
_URL = "@microsoft.graph.downloadUrl"
_DELTA = re.compile(r"/(?:root/)?delta(?:\(token='([^']*)'\))?")
_ITEM = re.compile(r"/items/([^/]+)(/content)?")
_CHILDREN = re.compile(r"/(?:root|items/([^/]+))/children")
_PERMISSIONS = re.compile(r"/items/([^/]+)/permissions")
_OTHER = re.compile(r"/v1\.0/drives/([^/]+)/items/([^/]+)/(content|permissions)")


class OneDriveAccount(Served):
    """Items by id; a feed token holds a change number, a page and an epoch."""

    connector = "ONEDRIVE"
    drive = "b!drive"
    place = "/me/drive"
    """Graph path of the drive."""

    def __init__(self) -> None:
        super().__init__()
        self.subscriptions = graph_subscriptions.Subscriptions()
        self.unauthorized = error_answer("InvalidAuthenticationToken")
        self.items: dict[str, dict[str, Any]] = {ROOT: {"id": ROOT, "name": "root", "parent": "", "change": 1}}
        self.changes = 1
        self.epoch = 0
        self.lost = False
        self.foreign: dict[str, str] = {}
        """Files of another drive, by id."""
        self.personal = False
        self.hashed = True
        self.complaints: list[str] = []
        self.grants: dict[str, list[dict[str, Any]]] = {}
        self.owners: dict[str, str] = {}
        """Owners of transferred files by id."""
        self.untold: set[str] = set()
        self.told = True
        """True if items include the signed download address; a request for the content always works."""
        self.locations: list[str] = []
        """Targets of the next downloads."""
        self.short = 0
        """Bytes missing from the end of downloads, with a matching length."""
        self.twist = lambda body: body
        """Function applied to each feed answer."""

    @property
    def settings(self) -> Settings:
        endpoint = Endpoint(base_url=self.base + "/v1.0")
        return super().settings.model_copy(update={"endpoints": {self.connector: endpoint}})

    def is_open(self, path: str) -> bool:
        return path.startswith(SIGNED)

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        if path.startswith(graph_subscriptions.PATH):
            self.subscriptions.answer(handler, method, path, body)
            return
        within = path.removeprefix("/v1.0" + quote(self.place))
        with self.lock:
            if path.startswith(SIGNED):
                self._download(handler, path.removeprefix(SIGNED), query.pop("sig", ""))
            elif match := _DELTA.fullmatch(within):
                self._delta(handler, match[1] or query.pop("token", ""))
            elif match := _PERMISSIONS.fullmatch(within):
                self._permissions(handler, match[1])
            elif match := _CHILDREN.fullmatch(within):
                self._children(handler, match[1] or ROOT, int(query.pop("$skiptoken", 0)))
            elif match := _ITEM.fullmatch(within):
                self._item(handler, match[1], content=bool(match[2]))
            elif (match := _OTHER.fullmatch(path)) and unquote(match[1]) == OTHER_DRIVE:
                (self._moved if match[3] == "content" else self._permissions_there)(handler, match[2])
            else:
                self._complain(handler, f"no such path: {path}")
            if query:
                self._complain(handler, f"unknown parameters: {query}")

    @property
    def _drive_url(self) -> str:
        return f"{self.base}/v1.0{quote(self.place)}"

    def _delta(self, handler: Handler, token: str) -> None:
        since, done_change, upto, epoch = (int(part) for part in token.split("-")) if token else (0, 0, 0, self.epoch)
        if epoch != self.epoch:
            fresh = f"{self._drive_url}/root/delta?token=0-0-{self.changes}-{self.epoch}"
            return handler.reply(410, error_answer("resyncChangesApplyDifferences"), {"Location": fresh})
        upto = upto or self.changes
        changed = sorted(
            (
                item
                for item in self.items.values()
                if max(since, done_change) < item["change"] <= upto and item["id"] != ROOT
            ),
            key=lambda item: item["change"],
        )
        changed = [item for item in changed if not self.lost and (since or "deleted" not in item)]
        page_items, has_more = changed[: self.page], len(changed) > self.page
        body: dict[str, Any] = {"value": [self._feed_item(item) for item in [*self._above(page_items), *page_items]]}
        if has_more:
            following = f"{since}-{page_items[-1]['change']}-{upto}-{epoch}"
            body["@odata.nextLink"] = f"{self._drive_url}/delta(token='{following}')"
        else:
            body["@odata.deltaLink"] = f"{self._drive_url}/root/delta?token={upto}-0-0-{epoch}"
        return self._reply(handler, "/me/drive/root/delta", body)

    def _above(self, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the parent folders of changed items, the root first."""
        ancestors: dict[str, dict[str, Any]] = {} if self.lost else {ROOT: self.items[ROOT]}
        for item in items:
            ancestors |= {ancestor["id"]: ancestor for ancestor in reversed(self._chain(item)[1:])}
        return list(ancestors.values())

    def _chain(self, item: dict[str, Any]) -> list[dict[str, Any]]:
        return [item, *self._chain(self.items[item["parent"]])] if item["parent"] else [item]

    def _item(self, handler: Handler, item_id: str, *, content: bool) -> None:
        item = self.items.get(item_id)
        if item is None or "deleted" in item:
            return handler.reply(404, error_answer("itemNotFound"))
        if content:
            return self._moved(handler, item_id)
        fields = self._item_json(item)
        if "text" in item and self.told:
            fields[_URL] = self._signed(item_id)
        return self._reply(handler, "/me/drive/items/{item-id}", fields)

    def _children(self, handler: Handler, item_id: str, at: int) -> None:
        """Return a folder's children: learn.microsoft.com/graph/api/driveitem-list-children."""
        folder = self.items.get(item_id)
        if folder is None or "deleted" in folder:
            return handler.reply(404, error_answer("itemNotFound"))
        children = [child for child in self.items.values() if child["parent"] == item_id and "deleted" not in child]
        body: dict[str, Any] = {"value": [self._item_json(child) for child in children[at : at + self.page]]}
        if at + self.page < len(children):
            drive_path = "root" if item_id == ROOT else f"items/{item_id}"
            body["@odata.nextLink"] = f"{self._drive_url}/{drive_path}/children?$skiptoken={at + self.page}"
        return self._reply(handler, "/me/drive/items/{item-id}/children", body)

    def _permissions(self, handler: Handler, item_id: str) -> None:
        """Return permissions with the inherited: learn.microsoft.com/graph/api/driveitem-list-permissions."""
        item = self.items.get(item_id)
        if item is None or "deleted" in item or item_id in self.untold:
            return handler.reply(403, error_answer("accessDenied"))
        whose = {"id": "u1", "email": self.owners.get(item_id, "ada@example.com")}
        owner = {"id": "0", "roles": ["owner"], "grantedToV2": {"user": whose}}
        permissions = [
            owner,
            *(permission for above in self._chain(item) for permission in self.grants.get(above["id"], [])),
        ]
        return self._reply(handler, "/me/drive/items/{item-id}/permissions", {"value": permissions})

    def _permissions_there(self, handler: Handler, item_id: str) -> None:
        """Return permissions of a file of another drive."""
        if item_id not in self.foreign:
            return handler.reply(403, error_answer("accessDenied"))
        return self._reply(handler, "/me/drive/items/{item-id}/permissions", {"value": self.grants.get(item_id, [])})

    def grant(self, file_id: str, *users: str, groups: Sequence[str] = (), public: bool = False) -> None:
        """Replace the sharing of a file or folder."""
        grantees: list[dict[str, Any]] = [{"grantedToV2": {"user": {"id": name, "email": name}}} for name in users]
        grantees += [{"grantedToV2": {"group": {"id": name, "displayName": "x"}}} for name in groups]
        grantees += [{"link": {"type": "view", "scope": "anonymous"}}] * public
        self.grants[file_id] = [
            {"id": str(number), "roles": ["read"], **grantee} for number, grantee in enumerate(grantees)
        ]

    def _moved(self, handler: Handler, item_id: str) -> None:
        """Redirect to the signed address, as Graph does for content."""
        handler.reply(302, b"", {"Location": self.locations.pop(0) if self.locations else self._signed(item_id)})

    def _signed(self, item_id: str) -> str:
        return f"{self.base}{SIGNED}{quote(item_id)}?sig=canary"

    def _download(self, handler: Handler, item_id: str, signature: str) -> None:
        if handler.headers.get("authorization") or signature != "canary":
            return self._complain(handler, "a bearer, or no signature, came to a signed address")
        text = (self.foreign.get(item_id) or self.items[item_id]["text"]).encode()
        return handler.reply(200, text[: len(text) - self.short], {"Content-Type": "application/octet-stream"})

    def _reply(self, handler: Handler, path: str, body: Any) -> None:
        if complaint := CONTRACT.complaint_on_answer(path, "get", body):
            return self._complain(handler, complaint)
        if _URL in body and self.locations:
            body[_URL] = self.locations.pop(0)
        return handler.reply(200, self.twist(body) if "delta" in path else body)

    def _complain(self, handler: Handler, complaint: str) -> None:
        self.complaints.append(complaint)
        handler.reply(500, error_answer("generalException"))

    def _feed_item(self, item: dict[str, Any]) -> dict[str, Any]:
        """Return the item as in the feed: without a path, with fewer fields for work accounts and deletions."""
        fields = self._item_json(item)
        fields["parentReference"].pop("path", None)
        if "deleted" in item:
            fields["deleted"] = {"state": "deleted"}
        lacking = {"size"} if self.personal else {"name"}
        for name in lacking | {"cTag"} if "deleted" in item else set() if self.personal else {"cTag"}:
            fields.pop(name, None)
        if item["id"] == ROOT:
            fields["parentReference"] = {"driveId": self.drive, "driveType": "business"}
        return fields

    def _item_json(self, item: dict[str, Any]) -> dict[str, Any]:
        above = [quote(ancestor["name"]) for ancestor in reversed(self._chain(item)[1:-1])]
        parent = {"driveType": "business", "driveId": self.drive, "id": item["parent"], "path": "/drive/root:"}
        parent["path"] += "".join("/" + name for name in above)
        fields: dict[str, Any] = {
            **self._dated(item),
            "eTag": f'"{{{item["id"]}}},{item["change"]}"',
            "parentReference": parent,
        }
        if item["id"] == ROOT:
            return {**fields, "root": {}, "folder": {"childCount": 1}, "size": 0}
        return {**fields, **self._facets(item), **item.get("more", {})}

    def _dated(self, item: dict[str, Any]) -> dict[str, Any]:
        moment = f"2026-01-01T{item['change'] // 3600:02}:{item['change'] // 60 % 60:02}:{item['change'] % 60:02}Z"
        person = {"user": {"displayName": "Ada Example", "email": "ada@example.com", "id": "u1"}}
        return {
            "id": item["id"],
            "name": item["name"],
            "createdBy": person,
            "createdDateTime": "2025-12-31T12:00:00Z",
            "lastModifiedBy": person,
            "lastModifiedDateTime": moment,
            "webUrl": f"https://example-my.sharepoint.com/personal/ada/Documents/{item['id']}",
        }

    def _facets(self, item: dict[str, Any]) -> dict[str, Any]:
        if "text" not in item:
            child_count = sum(entry["parent"] == item["id"] and "deleted" not in entry for entry in self.items.values())
            return {"size": 0} if "more" in item else {"folder": {"childCount": child_count}, "size": 0}
        data = item["text"].encode()
        digest = base64.b64encode(hashlib.sha1(data).digest()).decode()
        return {
            "file": {"mimeType": "text/plain", "hashes": {"quickXorHash": digest} if self.hashed else {}},
            "size": len(data),
            "cTag": f'"c:{{{item["id"]}}},{item["version"]}"',
        }

    def put(self, path: str, text: str) -> str:
        *folders, name = path.split("/")
        return self._new(name, self._folder("/".join(folders)), text=text, version=1)

    def change(self, external_id: str, text: str) -> None:
        self._touch(external_id, text=text, version=self.items[external_id]["version"] + 1)

    def rename(self, external_id: str, name: str) -> None:
        self._touch(external_id, name=name)

    def move(self, external_id: str, folder: str) -> None:
        self._touch(external_id, parent=self._folder(folder))

    def delete(self, external_id: str) -> None:
        """Delete an item with its children; the feed omits the children."""
        self._touch(external_id, deleted=True)
        for item in self.items.values():
            if any(ancestor["id"] == external_id for ancestor in self._chain(item)):
                item["deleted"] = True

    def add(self, path: str, **facets: Any) -> str:
        """Add an item with facets, for example `package`."""
        *folders, name = path.split("/")
        return self._new(name, self._folder("/".join(folders)), more=facets)

    def share(self, path: str, text: str) -> str:
        """Add a file of another drive to this drive."""
        name = f"02OTHER{len(self.foreign)}"
        self.foreign[name] = text
        facets = self._facets({"id": name, "text": text, "version": 1})
        parent = {"driveId": OTHER_DRIVE, "driveType": "business", "id": "02ROOT"}
        return self.add(
            path, remoteItem={"id": name, **{k: facets[k] for k in ("file", "size")}, "parentReference": parent}
        )

    def folder(self, path: str) -> str:
        return self._folder(path)

    def lose(self) -> None:
        self.lost = True

    def forget_cursors(self) -> None:
        self.epoch += 1

    def _folder(self, path: str) -> str:
        parent_id = ROOT
        for name in filter(None, path.split("/")):
            folder_ids = [
                entry["id"] for entry in self.items.values() if entry["name"] == name and entry["parent"] == parent_id
            ]
            parent_id = folder_ids[0] if folder_ids else self._new(name, parent_id)
        return parent_id

    def _new(self, name: str, parent: str, **fields: Any) -> str:
        with self.lock:
            item_id = f"01ITEM{len(self.items)}"
            self.items[item_id] = {"id": item_id, "name": name, "parent": parent, "change": 0}
            self._touch(item_id, **fields)
        return item_id

    def _touch(self, item_id: str, **fields: Any) -> None:
        with self.lock:
            self.changes += 1
            self.items[item_id] |= {**fields, "change": self.changes}


def error_answer(code: str) -> dict[str, Any]:
    error = {"error": {"code": code, "message": "SECRET VENDOR WORDS", "innerError": {"request-id": "r"}}}
    assert not CONTRACT.complaint_on_answer("error", "get", error)
    return error


@contextmanager
def serving() -> Iterator[OneDriveAccount]:
    account = OneDriveAccount()
    with served(account):
        yield account
    assert not account.complaints, account.complaints
