"""A Google Drive account on loopback: My Drive, what others share, shared drives, trash, change logs and exports.

Its requests and answers are judged by the vendor's own discovery document. It tells of as little as the document
allows: a folder in the trash takes its files with it, and only the folder is in the change log.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.standins import account
from tests.standins.account import Served
from tests.standins.discovery import Discovery, mask_of, masked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.standins.faults import Handler

DESCRIPTION = Discovery(Path(__file__).with_name("contracts") / "google-drive-v3.json")
GOOGLES = "application/vnd.google-apps."
FOLDER = GOOGLES + "folder"
SHORTCUT = GOOGLES + "shortcut"
ROOT = "0AROOT"
START = datetime(2026, 1, 1, tzinfo=UTC)


class Refusal(Exception):
    """An error in Google's form."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        one = {"domain": "global", "reason": reason, "message": "SECRET VENDOR WORDS"}
        self.body = {"error": {"code": status, "message": "SECRET VENDOR WORDS", "errors": [one]}}


class GoogleDriveAccount(Served):
    """An `Account`. `trouble`: a Refusal for the next request whose method id it names.

    `lags`: what lies in a folder does not know yet that it is in the trash. `endless`: page tokens lead back.
    """

    connector = "GOOGLE_DRIVE"
    unauthorized = Refusal(401, "authError").body

    def __init__(self) -> None:
        super().__init__()
        self.nodes: dict[str, dict[str, Any]] = {}
        self.contents: dict[str, bytes] = {}
        self.exports: dict[str, dict[str, bytes | Refusal]] = {}
        self.drives: dict[str, str] = {}
        self.given: set[str] = set()
        self.log: list[str] = []
        self.places: dict[str, set[str]] = {}
        self.complaints: list[str] = []
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.trouble: dict[str, Refusal] = {}
        self.extra: dict[str, str] = {}
        self.lost = False
        self.lags = self.removals = False
        self.age = 0
        self.endless = False
        self._numbers = itertools.count(1)
        self._made(ROOT, "My Drive", FOLDER, "")

    # What a person does

    def put(self, path: str, text: str, drive: str = "") -> str:
        file_id = self._placed(path, "text/plain", drive)
        self._hold(file_id, text.encode())
        return file_id

    def put_native(self, path: str, kind: str, exports: dict[str, bytes | Refusal], drive: str = "") -> str:
        """A document of Google's own, such as kind "document"."""
        file_id = self._placed(path, GOOGLES + kind, drive)
        self.exports[file_id] = exports
        return file_id

    def put_shortcut(self, path: str, target: str) -> str:
        file_id = self._placed(path, SHORTCUT, "")
        kind = self.nodes[target]["mimeType"] if target in self.nodes else "text/plain"
        self.nodes[file_id]["shortcutDetails"] = {"targetId": target, "targetMimeType": kind}
        return file_id

    def share(self, name: str, text: str, *, listed: bool = True) -> str:
        """Somebody else's file: in "Shared with me", or (not `listed`) open to all who have its address."""
        file_id = self._made(f"1shared{next(self._numbers)}", name, "text/plain", "")
        self.nodes[file_id] |= {"ownedByMe": False, "owners": [{"displayName": "Grace"}]}
        self._hold(file_id, text.encode())
        if not listed:
            self.extra[file_id] = "by its address alone"
        return file_id

    def shared_drive(self, name: str) -> str:
        drive = f"0Bdrive{next(self._numbers)}"
        self.drives[drive] = name
        return drive

    def change(self, external_id: str, text: str) -> None:
        if external_id in self.exports:
            self.exports[external_id] = dict.fromkeys(self.exports[external_id], text.encode())
        else:
            self._hold(external_id, text.encode())
        self._touch(external_id)

    def rename(self, external_id: str, name: str) -> None:
        self.nodes[external_id]["name"] = name
        self._touch(external_id, content=False)

    def move(self, external_id: str, folder: str) -> None:
        drive = self.nodes[external_id].get("driveId", "")
        self.nodes[external_id]["parents"] = [self._folder(folder.split("/"), drive)]
        self._touch(external_id, content=False)

    def visit_folder(self, external_id: str) -> None:
        """A person looks into it: in the change log all the same."""
        self._touch(external_id, content=False)

    def delete(self, external_id: str) -> None:
        self.nodes[external_id]["trashed"] = True
        self._touch(external_id, content=False)

    def restore(self, external_id: str) -> None:
        self.nodes[external_id].pop("trashed")
        self._touch(external_id, content=False)

    def purge(self, external_id: str) -> None:
        """For ever."""
        self._touch(external_id, content=False)
        del self.nodes[external_id]

    def into_drive(self, external_id: str, drive: str) -> None:
        """From My Drive into a shared drive: removed from the one, new in the other."""
        self.nodes[external_id] |= {"driveId": drive, "parents": [drive]}
        self._touch(external_id, content=False)

    def out_of_drive(self, external_id: str) -> None:
        """From a shared drive into My Drive."""
        self._touch(external_id, content=False)
        del self.nodes[external_id]["driveId"]
        self.nodes[external_id]["parents"] = [ROOT]
        self._touch(external_id, content=False)

    def leave_drive(self, drive: str) -> None:
        del self.drives[drive]
        self.nodes = {key: node for key, node in self.nodes.items() if node.get("driveId") != drive}

    def folder(self, path: str) -> str:
        return self._folder(path.split("/"), "")

    def lose(self) -> None:
        self.lost = True

    def forget_cursors(self) -> None:
        self.age += 1

    # What the vendor answers

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
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
        nodes = [] if self.lost else [node for node in self.nodes.values() if self._in_corpus(node, drive)]
        nodes = [node for node in nodes if everything or "driveId" not in node]
        nodes = [node for node in nodes if node["id"] != ROOT and self._matches(node, said.get("q", ""))]
        page, more = self._page(nodes, said, "files")
        return {"kind": "drive#fileList", "incompleteSearch": False, "files": page} | more

    def _in_corpus(self, node: dict[str, Any], drive: str) -> bool:
        if drive:
            return bool(node.get("driveId") == drive)
        return node["id"] not in self.extra and ("driveId" not in node or node["id"] in self.given)

    def _matches(self, node: dict[str, Any], query: str) -> bool:
        for clause in query.split(" and "):
            if clause == "trashed = false":
                fits = not self._is_trashed(node)
            elif match := re.fullmatch(r"mimeType (!?=) '([^']+)'", clause):
                fits = (node["mimeType"] == match[2]) == (match[1] == "=")
            elif match := re.fullmatch(r"'([^']+)' in parents", clause):
                fits = match[1] in node.get("parents", [])
            else:
                raise Refusal(400, "invalid")
            if not fits:
                return False
        return True

    def _changes(self, said: dict[str, str]) -> dict[str, Any]:
        log = said.get("driveId", "")
        if log and log not in self.drives:
            raise Refusal(404, "notFound")
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
        if log not in self.places.get(file_id, set()) | {""}:
            return None
        is_left = node is None or bool(log and drive != log)
        change = {"kind": "drive#change", "changeType": "file", "fileId": file_id, "removed": is_left}
        change |= {"time": _time(len(self.log))} | ({"driveId": log or drive} if log or drive else {})
        shown = node is not None and (not is_left or self.removals)
        return change | ({"file": self._shown(node)} if node is not None and shown else {})

    def _start(self, said: dict[str, str]) -> dict[str, Any]:
        log = said.get("driveId", "")
        if log and log not in self.drives:
            raise Refusal(404, "notFound")
        return {"kind": "drive#startPageToken", "startPageToken": f"changes-{self.age}-{log}-{len(self.log)}"}

    def _drives(self, said: dict[str, str]) -> dict[str, Any]:
        drives = (
            [] if self.lost else [{"kind": "drive#drive", "id": key, "name": name} for key, name in self.drives.items()]
        )
        page, more = self._page(drives, said, "drives")
        return {"kind": "drive#driveList", "drives": page} | more

    def _file(self, said: dict[str, str]) -> dict[str, Any]:
        return self._shown(self._node(said["fileId"]))

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

    # What there is

    def _node(self, file_id: str) -> dict[str, Any]:
        node = self.nodes.get(ROOT if file_id == "root" else file_id)
        if node is None:
            raise Refusal(404, "notFound")
        return node

    def _shown(self, node: dict[str, Any]) -> dict[str, Any]:
        return node | {"trashed": self._is_trashed(node), "explicitlyTrashed": bool(node.get("trashed"))}

    def _is_trashed(self, node: dict[str, Any]) -> bool:
        above = "" if self.lags else (node.get("parents") or [""])[0]
        return bool(node.get("trashed")) or (above in self.nodes and self._is_trashed(self.nodes[above]))

    def _placed(self, path: str, media_type: str, drive: str) -> str:
        *folders, name = path.split("/")
        parent = self._folder(folders, drive)
        return self._made(f"1file{next(self._numbers)}", name, media_type, parent, drive)

    def _folder(self, names: list[str], drive: str) -> str:
        parent = drive or ROOT
        for name in [one for one in names if one]:
            known = [
                node["id"]
                for node in self.nodes.values()
                if node["mimeType"] == FOLDER and node["name"] == name and parent in node.get("parents", [])
            ]
            parent = known[0] if known else self._made(f"1folder{next(self._numbers)}", name, FOLDER, parent, drive)
        return parent

    def _made(self, file_id: str, name: str, media_type: str, parent: str, drive: str = "") -> str:
        node: dict[str, Any] = {
            "kind": "drive#file",
            "id": file_id,
            "name": name,
            "mimeType": media_type,
            "createdTime": _time(len(self.log)),
            "capabilities": {"canDownload": True},
            "webViewLink": f"https://drive.google.com/file/d/{file_id}/view",
        }
        node |= {"parents": [parent]} if parent else {}
        node |= {"driveId": drive} if drive else {"owners": [{"kind": "drive#user", "displayName": "Ada"}]}
        self.nodes[file_id] = node
        self._touch(file_id)
        return file_id

    def _hold(self, file_id: str, content: bytes) -> None:
        self.contents[file_id] = content
        digest = hashlib.md5(content).hexdigest()
        self.nodes[file_id] |= {"md5Checksum": digest, "size": str(len(content))}

    def _touch(self, file_id: str, *, content: bool = True) -> None:
        self.log.append(file_id)
        self.places.setdefault(file_id, set()).add(self.nodes[file_id].get("driveId", ""))
        if content:
            self.nodes[file_id]["modifiedTime"] = _time(len(self.log))


_ANSWERS = {
    "drive.files.list": GoogleDriveAccount._files,
    "drive.files.get": GoogleDriveAccount._file,
    "drive.changes.list": GoogleDriveAccount._changes,
    "drive.changes.getStartPageToken": GoogleDriveAccount._start,
    "drive.drives.list": GoogleDriveAccount._drives,
}


def _time(number: int) -> str:
    return (START + timedelta(seconds=number)).isoformat().replace("+00:00", ".000Z")


@contextmanager
def serving() -> Iterator[GoogleDriveAccount]:
    """A breach of the vendor's description fails the test that made it."""
    made = GoogleDriveAccount()
    with account.serving(made):
        yield made
    assert not made.complaints, made.complaints
