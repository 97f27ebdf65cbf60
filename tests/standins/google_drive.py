"""A Google Drive account on loopback, judged by the vendor's own discovery document: listings, change logs, exports.

It tells of as little as the document allows: a folder in the trash takes its files with it, and only the folder is in
the change log. By developers.google.com/workspace/drive/api/guides/search-shareddrives corpora "user" holds what was
created by, opened by, or shared directly with the user: what lies in a folder shared by its link is found by asking for
that folder's children alone. By …/reference/rest/v3/files/export 10 MB are exported at most, larger documents by the
`exportLinks` of …/reference/rest/v3/files.
"""

from __future__ import annotations

import re
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
    """An `Account`. `trouble`: a Refusal for the next request whose method id it names.

    `endless`: page tokens lead back to each other. `asked`: each request's method id and parameters.
    """

    connector = "GOOGLE_DRIVE"
    unauthorized = Refusal(401, "authError").body

    def __init__(self) -> None:
        super().__init__()
        self.complaints: list[str] = []
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.trouble: dict[str, Refusal] = {}
        self.lost = self.removals = self.endless = False
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
        found = DESCRIPTION.method(method, path)
        if found is None:
            self._complain(handler, f"there is no {method} {path}")
            return
        name, said = found
        self.asked.append((name, said | query))
        if complaint := DESCRIPTION.complaint_on_request(name, query):
            self._complain(handler, complaint)
            return
        try:
            with self.lock:
                if name in self.trouble:
                    raise self.trouble.pop(name)
                self._reply(handler, name, said | query)
        except Refusal as refusal:
            handler.reply(refusal.status, refusal.body)

    def _reply(self, handler: Handler, name: str, said: dict[str, str]) -> None:
        if name == "drive.files.export":
            handler.reply(200, self._exported(said), {"Content-Type": said["mimeType"]})
        elif said.get("alt") == "media":
            self._media(handler, self._node(said["fileId"]))
        else:
            self._json(handler, name, said, _ANSWERS[name](self, said))

    def _json(self, handler: Handler, name: str, said: dict[str, str], answer: dict[str, Any]) -> None:
        mask = mask_of(said.get("fields", ""))
        complaint = DESCRIPTION.complaint_on_answer(name, answer) or DESCRIPTION.complaint_on_fields(name, mask)
        if complaint or not mask:
            self._complain(handler, complaint or f"{name} without fields")
        else:
            handler.reply(200, masked(answer, mask))

    def _files(self, said: dict[str, str]) -> dict[str, Any]:
        drive = said.get("driveId", "")
        if (said.get("corpora") == "drive") != bool(drive) or (drive and drive not in self.drives):
            raise Refusal(404, "notFound")
        everything = said.get("includeItemsFromAllDrives") == "true" and said.get("supportsAllDrives") == "true"
        if drive in self.barred:
            raise Refusal(403, "forbidden")
        asked = re.search(r"'([^']+)' in parents", said.get("q", ""))
        if asked and asked[1] not in {"root", *self.nodes, *self.drives}:
            raise Refusal(404, "notFound")
        nodes = [node for node in self.nodes.values() if not self.lost and (asked or self._in_corpus(node, drive))]
        nodes = [node for node in nodes if everything or "driveId" not in node]
        nodes = [node for node in nodes if node["id"] != ROOT and self._matches(node, said.get("q", ""))]
        page, more = self._page(nodes, said, "files")
        return {"kind": "drive#fileList", "incompleteSearch": False, "files": page} | more

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
            elif clause == "sharedWithMe":
                fits = node.get("ownedByMe") is False and not node.get("parents")
            else:
                raise Refusal(400, "invalid")
            if not fits:
                return False
        return True

    def _changes(self, said: dict[str, str]) -> dict[str, Any]:
        log = said.get("driveId", "")
        if log and log not in self.drives:
            raise Refusal(404, "notFound")
        if log in self.barred:
            raise Refusal(403, "forbidden")
        self.removals = said.get("includeCorpusRemovals") == "true"
        last = {file_id: number for number, file_id in enumerate(self.log)}
        start, _, page = said["pageToken"].removeprefix(f"changes-{self.age}-{log}-").partition(".")
        if not start.isdigit():
            raise Refusal(400, "invalid")
        ids = [file_id for file_id, number in sorted(last.items(), key=lambda one: one[1]) if number >= int(start)]
        changes = [] if self.lost else [change for one in ids if (change := self._told(one, log)) is not None]
        at = int(page or 0)
        size = min(self.page, int(said.get("pageSize", "100")))
        more = at + size < len(changes)
        token = f"changes-{self.age}-{log}-"
        turn = (
            {"nextPageToken": f"{token}{start}.{at + size}"}
            if more
            else {"newStartPageToken": f"{token}{len(self.log)}"}
        )
        return {"kind": "drive#changeList", "changes": changes[at : at + size]} | turn

    def _told(self, file_id: str, log: str) -> dict[str, Any] | None:
        """A change as it is in a log: the account's own knows of all, a shared drive's of its files alone."""
        node = self.nodes.get(file_id)
        drive = (node or {}).get("driveId", "")
        if log not in self.places.get(file_id, set()) | {""} or file_id in self.hidden:
            return None
        is_left = node is None or bool(log and drive != log)
        change = {"kind": "drive#change", "changeType": "file", "fileId": file_id, "removed": is_left}
        change |= {"time": moment(len(self.log))} | ({"driveId": log or drive} if log or drive else {})
        shown = node is not None and (not is_left or self.removals)
        return change | ({"file": self._shown(node)} if node is not None and shown else {})

    def _start(self, said: dict[str, str]) -> dict[str, Any]:
        log = said.get("driveId", "")
        if log and log not in self.drives:
            raise Refusal(404, "notFound")
        if log in self.barred:
            raise Refusal(403, "forbidden")
        return {"kind": "drive#startPageToken", "startPageToken": f"changes-{self.age}-{log}-{len(self.log)}"}

    def _drives(self, said: dict[str, str]) -> dict[str, Any]:
        drives = (
            [] if self.lost else [{"kind": "drive#drive", "id": key, "name": name} for key, name in self.drives.items()]
        )
        page, more = self._page(drives, said, "drives")
        return {"kind": "drive#driveList", "drives": page} | more

    def _file(self, said: dict[str, str]) -> dict[str, Any]:
        node = self._node(said["fileId"])
        links = {kind: f"{self.base}{EXPORT}{node['id']}?as={kind}" for kind in self.linked.get(node["id"], {})}
        return self._shown(node) | ({"exportLinks": links} if links else {})

    def _permissions(self, said: dict[str, str]) -> dict[str, Any]:
        """With what is inherited, as developers.google.com/workspace/drive/api/reference/rest/v3/permissions/list."""
        node: dict[str, Any] | None = self._node(said["fileId"])
        if said["fileId"] in self.untold:
            raise Refusal(403, "insufficientFilePermissions")
        owner = self.owners.get(said["fileId"], OWNER)
        found = [{"kind": "drive#permission", "id": "1", "type": "user", "role": "owner", "emailAddress": owner}]
        while node is not None:
            found += self.grants.get(node["id"], [])
            node = self.nodes.get((node.get("parents") or [""])[0])
        return {"kind": "drive#permissionList", "permissions": found}

    def _page(self, found: list[dict[str, Any]], said: dict[str, str], what: str) -> tuple[list[Any], dict[str, str]]:
        token = said.get("pageToken", f"{what}-{self.age}-0")
        if self.endless and what == "files":
            return [], {"nextPageToken": f"files-{self.age}-{next(self._numbers) % 2}"}
        if not token.startswith(f"{what}-{self.age}-"):
            raise Refusal(400, "invalid")
        at = int(token.rpartition("-")[2])
        end = at + min(self.page, int(said.get("pageSize", "100")))
        shown = [self._shown(one) if "mimeType" in one else one for one in found[at:end]]
        return shown, {"nextPageToken": f"{what}-{self.age}-{end}"} if end < len(found) else {}

    def _exported(self, said: dict[str, str]) -> bytes:
        content = self.exports[self._node(said["fileId"])["id"]].get(said["mimeType"])
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
        where = f"bytes {start}-{end - 1}/{len(content)}"
        handler.reply(206, content[start:end], {"Content-Type": node["mimeType"], "Content-Range": where})

    def _complain(self, handler: Handler, complaint: str) -> None:
        self.complaints.append(complaint)
        handler.reply(500, {"error": {"code": 500, "message": complaint}})


_ANSWERS = {
    "drive.files.list": GoogleDriveAccount._files,
    "drive.files.get": GoogleDriveAccount._file,
    "drive.permissions.list": GoogleDriveAccount._permissions,
    "drive.changes.list": GoogleDriveAccount._changes,
    "drive.changes.getStartPageToken": GoogleDriveAccount._start,
    "drive.drives.list": GoogleDriveAccount._drives,
}


@contextmanager
def serving() -> Iterator[GoogleDriveAccount]:
    """A breach of the vendor's description fails the test that made it."""
    made = GoogleDriveAccount()
    with account.serving(made):
        yield made
    assert not made.complaints, made.complaints
