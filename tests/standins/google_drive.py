"""A Google Drive account on loopback, checked against the discovery document: listings, change logs, exports."""
# The change log has the minimum: a trashed folder appears without its files.
# developers.google.com/workspace/drive/api/guides/search-shareddrives: corpora "user" has files created by, opened by,
# or shared directly with the user; files in a folder shared by link appear only in a query for the folder's children.
# …/reference/rest/v3/files/export: exports have at most 10 MB; larger documents use the `exportLinks` of
# …/reference/rest/v3/files.

from __future__ import annotations

import json
import re
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.standins import account
from tests.standins.account import Served
from tests.standins.discovery import Discovery, mask_of, masked
from tests.standins.google_drive_files import GOOGLES, ROOT, Files, Refusal, moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.standins.faults import Handler

EXPORT = "/export/"
OWNER = "ada@example.com"
DESCRIPTION = Discovery(Path(__file__).with_name("contracts") / "google-drive-v3.json")


class GoogleDriveAccount(Files, Served):
    """A Google Drive account."""

    # `trouble`: a Refusal for the next request of a method id; `asked`: method id
    # and parameters of each request.

    connector = "GOOGLE_DRIVE"
    unauthorized = Refusal(401, "authError").body

    def __init__(self, owner: str = OWNER, first: int = 1) -> None:
        super().__init__(first)
        self.owner = owner
        self.complaints: list[str] = []
        self.calls: list[tuple[str, dict[str, str]]] = []
        self.trouble: dict[str, Refusal] = {}
        self.lost = self.removals = False
        self.channels: dict[str, dict[str, Any]] = {}
        """Channels of changes by id (developers.google.com/workspace/drive/api/guides/push)."""
        self.link_base = ""
        """Address of export links instead of the account's own."""
        self.age = 0
        self.untold: set[str] = set()

    def lose(self) -> None:
        self.lost = True

    def forget_cursors(self) -> None:
        self.age += 1

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        if path.startswith(EXPORT):
            handler.reply(200, self.linked[path.removeprefix(EXPORT)][query["as"]], {"Content-Type": query["as"]})
            return
        match = DESCRIPTION.method(method, path)
        if match is None:
            self._complain(handler, f"there is no {method} {path}")
            return
        name, path_parameters = match
        self.sent = json.loads(body) if body else {}
        self.calls.append((name, path_parameters | query))
        if complaint := DESCRIPTION.complaint_on_request(name, query):
            self._complain(handler, complaint)
            return
        try:
            with self.lock:
                if name in self.trouble:
                    raise self.trouble.pop(name)
                self._reply(handler, name, path_parameters | query)
        except Refusal as refusal:
            handler.reply(refusal.status, refusal.body)

    def _reply(self, handler: Handler, name: str, query: dict[str, str]) -> None:
        if name == "drive.channels.stop":
            if self.channels.get(self.sent["id"], {}).get("resourceId") != self.sent["resourceId"]:
                raise Refusal(404, "notFound")
            del self.channels[self.sent["id"]]
            handler.reply(204, b"")
        elif name == "drive.files.export":
            handler.reply(200, self._exported(query), {"Content-Type": query["mimeType"]})
        elif query.get("alt") == "media":
            self._media(handler, self._node(query["fileId"]))
        else:
            self._json(handler, name, query, _ANSWERS[name](self, query))

    def _json(self, handler: Handler, name: str, query: dict[str, str], answer: dict[str, Any]) -> None:
        mask = mask_of(query.get("fields", ""))
        complaint = DESCRIPTION.complaint_on_answer(name, answer) or DESCRIPTION.complaint_on_fields(name, mask)
        if complaint or not mask:
            self._complain(handler, complaint or f"{name} without fields")
        else:
            handler.reply(200, masked(answer, mask))

    def answer_files(self, query: dict[str, str]) -> dict[str, Any]:
        drive = query.get("driveId", "")
        if (query.get("corpora") == "drive") != bool(drive) or (drive and drive not in self.drives):
            raise Refusal(404, "notFound")
        everything = query.get("includeItemsFromAllDrives") == "true" and query.get("supportsAllDrives") == "true"
        if drive in self.barred:
            raise Refusal(403, "forbidden")
        parent_query = re.search(r"'([^']+)' in parents", query.get("q", ""))
        if parent_query and parent_query[1] not in {"root", *self.nodes, *self.drives}:
            raise Refusal(404, "notFound")
        nodes = [
            node for node in self.nodes.values() if not self.lost and (parent_query or self._in_corpus(node, drive))
        ]
        nodes = [node for node in nodes if everything or "driveId" not in node]
        nodes = [node for node in nodes if node["id"] != ROOT and self._matches(node, query.get("q", ""))]
        page, continuation = self._page(nodes, query, "files")
        return {"kind": "drive#fileList", "incompleteSearch": False, "files": page} | continuation

    def _in_corpus(self, node: dict[str, Any], drive: str) -> bool:
        if drive:
            return bool(node.get("driveId") == drive)
        return node["id"] not in self.hidden and ("driveId" not in node or node["id"] in self.given)

    def _matches(self, node: dict[str, Any], query: str) -> bool:
        for clause in query.split(" and "):
            if clause == "trashed = false":
                fits = not self._is_trashed(node)
            elif match := re.fullmatch(r"mimeType (!?=) '([^']+)'", clause):
                fits = (node["mimeType"] == match[2]) == (match[1] == "=")
            elif match := re.fullmatch(r"'([^']+)' in parents", clause):
                fits = (ROOT if match[1] == "root" else match[1]) in node.get("parents", [])
            elif clause == "'me' in owners":
                fits = node.get("ownedByMe") is True
            elif clause == "sharedWithMe":
                fits = node.get("ownedByMe") is False and not node.get("parents")
            else:
                raise Refusal(400, "invalid")
            if not fits:
                return False
        return True

    def answer_changes(self, query: dict[str, str]) -> dict[str, Any]:
        log = query.get("driveId", "")
        if log and log not in self.drives:
            raise Refusal(404, "notFound")
        if log in self.barred:
            raise Refusal(403, "forbidden")
        self.removals = query.get("includeCorpusRemovals") == "true"
        last = {file_id: number for number, file_id in enumerate(self.log)}
        start, _, page = query["pageToken"].removeprefix(f"changes-{self.age}-{log}-").partition(".")
        if not start.isdigit():
            raise Refusal(400, "invalid")
        ids = [
            file_id
            for file_id, number in sorted(last.items(), key=lambda changed_id: changed_id[1])
            if number >= int(start)
        ]
        changes = (
            []
            if self.lost
            else [change for changed_id in ids if (change := self._change_entry(changed_id, log)) is not None]
        )
        at = int(page or 0)
        size = min(self.page, int(query.get("pageSize", "100")))
        has_more = at + size < len(changes)
        token = f"changes-{self.age}-{log}-"
        turn = (
            {"nextPageToken": f"{token}{start}.{at + size}"}
            if has_more
            else {"newStartPageToken": f"{token}{len(self.log)}"}
        )
        return {"kind": "drive#changeList", "changes": changes[at : at + size]} | turn

    def _change_entry(self, file_id: str, log: str) -> dict[str, Any] | None:
        """Return the log entry of a file: the account's log has all files, a shared drive's log only its own."""
        node = self.nodes.get(file_id)
        drive = (node or {}).get("driveId", "")
        if log not in self.places.get(file_id, set()) | {""} or file_id in self.hidden:
            return None
        is_left = node is None or bool(log and drive != log)
        change = {"kind": "drive#change", "changeType": "file", "fileId": file_id, "removed": is_left}
        change |= {"time": moment(len(self.log))} | ({"driveId": log or drive} if log or drive else {})
        has_file = node is not None and (not is_left or self.removals)
        return change | ({"file": self._node_json(node)} if node is not None and has_file else {})

    def answer_start(self, query: dict[str, str]) -> dict[str, Any]:
        log = query.get("driveId", "")
        if log and log not in self.drives:
            raise Refusal(404, "notFound")
        if log in self.barred:
            raise Refusal(403, "forbidden")
        return {"kind": "drive#startPageToken", "startPageToken": f"changes-{self.age}-{log}-{len(self.log)}"}

    def answer_watch(self, query: dict[str, str]) -> dict[str, Any]:
        log = query.get("driveId", "")
        if not query["pageToken"].startswith(f"changes-{self.age}-{log}-") or self.sent["type"] != "web_hook":
            raise Refusal(400, "invalid")
        seconds = int(self.sent["expiration"]) / 1000 - time.time()
        if seconds > 604_800:
            raise Refusal(400, "invalid")
        self.channels[self.sent["id"]] = {**self.sent, "resourceId": f"resource-{log}"}
        about = {name: self.channels[self.sent["id"]][name] for name in ("id", "resourceId", "expiration", "token")}
        return {"kind": "api#channel", **about}

    def answer_drives(self, query: dict[str, str]) -> dict[str, Any]:
        drives = (
            [] if self.lost else [{"kind": "drive#drive", "id": key, "name": name} for key, name in self.drives.items()]
        )
        page, continuation = self._page(drives, query, "drives")
        return {"kind": "drive#driveList", "drives": page} | continuation

    def answer_file(self, query: dict[str, str]) -> dict[str, Any]:
        node = self._node(query["fileId"])
        links = {
            kind: f"{self.link_base or self.base}{EXPORT}{node['id']}?as={kind}"
            for kind in self.linked.get(node["id"], {})
        }
        return self._node_json(node) | ({"exportLinks": links} if links else {})

    def answer_permissions(self, query: dict[str, str]) -> dict[str, Any]:
        """Return permissions with the inherited
        (developers.google.com/workspace/drive/api/reference/rest/v3/permissions/list)."""
        node: dict[str, Any] | None = self._node(query["fileId"])
        if query["fileId"] in self.untold:
            raise Refusal(403, "insufficientFilePermissions")
        owner = self.owners.get(query["fileId"], self.owner)
        permissions = [{"kind": "drive#permission", "id": "1", "type": "user", "role": "owner", "emailAddress": owner}]
        while node is not None:
            permissions += self.grants.get(node["id"], [])
            node = self.nodes.get((node.get("parents") or [""])[0])
        return {"kind": "drive#permissionList", "permissions": permissions}

    def _page(self, nodes: list[dict[str, Any]], query: dict[str, str], kind: str) -> tuple[list[Any], dict[str, str]]:
        token = query.get("pageToken", f"{kind}-{self.age}-0")
        if not token.startswith(f"{kind}-{self.age}-"):
            raise Refusal(400, "invalid")
        at = int(token.rpartition("-")[2])
        end = at + min(self.page, int(query.get("pageSize", "100")))
        page_nodes = [self._node_json(node) if "mimeType" in node else node for node in nodes[at:end]]
        return page_nodes, {"nextPageToken": f"{kind}-{self.age}-{end}"} if end < len(nodes) else {}

    def _exported(self, query: dict[str, str]) -> bytes:
        content = self.exports[self._node(query["fileId"])["id"]].get(query["mimeType"])
        if content is None:
            raise Refusal(400, "badRequest")
        if isinstance(content, Refusal):
            raise content
        return content

    def _media(self, handler: Handler, node: dict[str, Any]) -> None:
        if node["mimeType"].startswith(GOOGLES):
            raise Refusal(403, "fileNotDownloadable")
        content = self.contents[node["id"]]
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", handler.headers.get("range") or "")
        if match is None:
            handler.reply(200, content, {"Content-Type": node["mimeType"]})
            return
        start, end = int(match[1]), min(int(match[2]) + 1, len(content))
        content_range = f"bytes {start}-{end - 1}/{len(content)}"
        handler.reply(206, content[start:end], {"Content-Type": node["mimeType"], "Content-Range": content_range})

    def _complain(self, handler: Handler, complaint: str) -> None:
        self.complaints.append(complaint)
        handler.reply(500, {"error": {"code": 500, "message": complaint}})


_ANSWERS = {
    "drive.files.list": GoogleDriveAccount.answer_files,
    "drive.files.get": GoogleDriveAccount.answer_file,
    "drive.permissions.list": GoogleDriveAccount.answer_permissions,
    "drive.changes.list": GoogleDriveAccount.answer_changes,
    "drive.changes.watch": GoogleDriveAccount.answer_watch,
    "drive.changes.getStartPageToken": GoogleDriveAccount.answer_start,
    "drive.drives.list": GoogleDriveAccount.answer_drives,
}


@contextmanager
def serving() -> Iterator[GoogleDriveAccount]:
    """Yield an account; violations of the description fail the test."""
    drive_account = GoogleDriveAccount()
    with account.serving(drive_account):
        yield drive_account
    assert not drive_account.complaints, drive_account.complaints
