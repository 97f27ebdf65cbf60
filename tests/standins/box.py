"""A Box account on loopback, checked against Box's API description (`contracts/box-2024.0.json`)."""
# As at Box, events arrive twice, out of order, and some with the previous state of the item.

from __future__ import annotations

import hashlib
import itertools
import re
import secrets
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.standins import account
from tests.standins.described import Described

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.standins.faults import Handler

DESCRIPTION = Described(Path(__file__).with_name("contracts") / "box-2024.0.json")
PERSON = {"type": "user", "id": "77", "name": "Ada", "login": "ada@example.com"}
FIRST = 1_408_838_928_446_360
ROUTES = {
    r"/2\.0/folders/(\d+)/items": "/2.0/folders/{folder_id}/items",
    r"/2\.0/files/(\d+)": "/2.0/files/{file_id}",
    r"/2\.0/files/(\d+)/content": "/2.0/files/{file_id}/content",
    r"/2\.0/files/(\d+)/collaborations": "/2.0/files/{file_id}/collaborations",
    r"/2\.0/folders/(\d+)/collaborations": "/2.0/folders/{folder_id}/collaborations",
    r"/2\.0/(events)": "/2.0/events",
    r"/2\.0/users/(me)": "/2.0/users/me",
}


@dataclass
class Node:
    """A file or folder; `closed`: visible without access; `marked`: served with a watermark."""

    id: str
    kind: str
    name: str
    parent: Node | None
    content: bytes = b""
    etag: int = 0
    trashed: bool = False
    closed: bool = False
    marked: bool = False
    owner: dict[str, str] = field(default_factory=lambda: PERSON)
    is_foreign: bool = False

    @property
    def above(self) -> list[Node]:
        return [*self.parent.above, self.parent] if self.parent else []

    @property
    def is_gone(self) -> bool:
        return any(node.trashed for node in (*self.above, self))


class BoxAccount(account.Served):
    connector = "BOX"

    def __init__(self, person: dict[str, str] = PERSON, first_id: int = 1000) -> None:
        super().__init__()
        self.person = person
        self.ids = itertools.count(first_id)
        self.root = Node("0", "folder", "All Files", None)
        self.nodes = {"0": self.root}
        self.log: list[dict[str, Any]] = []
        self.oldest = 0
        self.lost = False
        self.complaints: list[str] = []
        self.grants: dict[str, list[dict[str, Any]]] = {}
        self.links: dict[str, dict[str, Any] | None] = {}
        self.owners: dict[str, str] = {}
        """Owners of transferred files by id."""
        self.foreign: set[str] = set()
        """Ids of files owned by another enterprise."""
        self.untold: set[str] = set()
        self._signed: dict[str, Node] = {}

    def put(self, path: str, text: str | bytes) -> str:
        folder, _, name = path.rpartition("/")
        content = text.encode() if isinstance(text, str) else text
        return self._add("file", name, self._folder(folder), content).id

    def change(self, external_id: str, text: str | bytes) -> None:
        content = text.encode() if isinstance(text, str) else text
        self._alter(external_id, "ITEM_UPLOAD", content=content)

    def rename(self, external_id: str, name: str) -> None:
        self._alter(external_id, "ITEM_RENAME", name=name)

    def move(self, external_id: str, folder: str) -> None:
        self._alter(external_id, "ITEM_MOVE", parent=self._folder(folder))

    def put_into(self, external_id: str, folder_id: str) -> None:
        self._alter(external_id, "ITEM_MOVE", parent=self.nodes[folder_id])

    def delete(self, external_id: str) -> None:
        self._alter(external_id, "ITEM_TRASH", trashed=True)

    def restore(self, external_id: str) -> None:
        self._alter(external_id, "ITEM_UNDELETE_VIA_TRASH", trashed=False)

    def close(self, external_id: str) -> None:
        self.nodes[external_id].closed = True

    def link(self, name: str) -> str:
        return self._add("web_link", name, self.root).id

    def folder(self, path: str) -> str:
        return self._folder(path).id

    def lose(self) -> None:
        self.lost = True

    def forget_cursors(self) -> None:
        self.oldest = len(self.log) + 1
        self._note("LOCK_CREATE", None)

    def is_open(self, path: str) -> bool:
        return path.startswith("/dl/")

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        if self.is_open(path):
            self._stream(handler, path)
            return
        for pattern, described in ROUTES.items():
            if match := re.fullmatch(pattern, path):
                with self.lock:
                    self._judged(handler, described, match[1], query)
                return
        self._fail(handler, f"no such call: {path}")

    def _judged(self, handler: Handler, described: str, its: str, query: dict[str, str]) -> None:
        if complaint := DESCRIPTION.complaint_on_query(described, "get", query):
            self._fail(handler, f"{described}: {complaint}")
            return
        if described.endswith("/content"):
            self._content(handler, self.nodes[its])
            return
        calls = {"/2.0/events": self._events, "/2.0/files/{file_id}": self._file, "/2.0/users/me": self._person}
        answering = self._collaborations if described.endswith("/collaborations") else calls.get(described, self._items)
        status, body = answering(its, query)
        if status == 200 and (complaint := DESCRIPTION.complaint_on_answer(described, "get", body)):
            self._fail(handler, f"answer of {described}: {complaint}")
            return
        handler.reply(status, body)

    def _fail(self, handler: Handler, complaint: str) -> None:
        self.complaints.append(complaint)
        handler.reply(500, {"type": "error", "status": 500, "message": complaint})

    def _items(self, its: str, query: dict[str, str]) -> tuple[int, Any]:
        folder = self.nodes.get(its)
        if folder is None or folder.kind != "folder":
            return _refusal(404)
        if folder.is_gone or folder.closed:
            return _refusal(403 if folder.closed else 404)
        kinds = ["folder", "file", "web_link"]
        children = [
            node for node in self.nodes.values() if node.parent is folder and not node.trashed and not self.lost
        ]
        children.sort(key=lambda node: (kinds.index(node.kind), node.name))
        belongs, _, start = query.get("marker", f"{its}-0").partition("-")
        if belongs != its or query.get("usemarker") != "true":
            return _refusal(400)
        end = int(start) + min(self.page, int(query.get("limit", 100)))
        entries = [_selected_fields(node, query["fields"]) for node in children[int(start) : end]]
        return 200, {"limit": 1000, "entries": entries, "next_marker": f"{its}-{end}" if end < len(children) else None}

    def grant(
        self,
        file_id: str,
        *users: str,
        groups: Sequence[str] = (),
        public: bool = False,
        role: str = "viewer",
        expires_at: str | None = None,
        **link: Any,
    ) -> None:
        """Replace the sharing of a file or folder; `link` adds fields of the public link."""
        kinds = [("user", name) for name in users] + [("group", name) for name in groups]
        self.grants[file_id] = [
            {
                "type": "collaboration",
                "id": f"{file_id}{number}",
                "role": role,
                "status": "accepted",
                "accessible_by": {"type": kind, "id": name, **({"login": name} if kind == "user" else {})},
                "expires_at": expires_at,
            }
            for number, (kind, name) in enumerate(kinds)
        ]
        self.links[file_id] = link if public else None

    def _collaborations(self, its: str, _query: dict[str, str]) -> tuple[int, Any]:
        if its in self.untold:
            return _refusal(403)
        return 200, {"entries": self.grants.get(its, []), "next_marker": None}

    def _file(self, its: str, query: dict[str, str]) -> tuple[int, Any]:
        node = self.nodes.get(its)
        if node is None or node.kind != "file" or node.is_gone:
            return _refusal(404)
        file_fields = _selected_fields(node, query["fields"])
        if "owned_by" in file_fields and its in self.owners:
            file_fields["owned_by"] = {**file_fields["owned_by"], "login": self.owners[its]}
        if "is_externally_owned" in query["fields"].split(","):
            file_fields["is_externally_owned"] = node.is_foreign or its in self.foreign
        if "shared_link" in query["fields"] and (link_settings := self.links.get(its)) is not None:
            link = {"url": "https://app.box.com/s/x", "access": "open", "effective_access": "open", "accessed": "open"}
            link_defaults = {"effective_permission": "can_download", "is_password_enabled": False, "download_count": 0}
            file_fields["shared_link"] = {**link, **link_defaults, "preview_count": 0, **link_settings}
        return 200, file_fields

    def _events(self, _its: str, query: dict[str, str]) -> tuple[int, Any]:
        if query.get("stream_type") != "changes":
            return _refusal(400)
        position = query["stream_position"]
        start = len(self.log) if position == "now" else int(position) - FIRST
        if start < self.oldest and position != "now":
            return _refusal(400)
        end = start if self.lost else min(start + min(self.page, int(query["limit"])), len(self.log))
        entries = [event for event in reversed(self.log[start:end]) for _ in range(2)]
        return 200, {"chunk_size": len(entries), "next_stream_position": FIRST + end, "entries": entries}

    def _person(self, _its: str, _query: dict[str, str]) -> tuple[int, Any]:
        return 200, {"type": "user", "id": self.vendor.account}

    def _content(self, handler: Handler, node: Node) -> None:
        if node.is_gone or node.closed:
            handler.reply(*_refusal(404 if node.is_gone else 403))
            return
        ticket = secrets.token_hex(8)
        self._signed[ticket] = node
        elsewhere = self.base.replace("127.0.0.1", "localhost")
        handler.reply(302, b"", {"Location": f"{elsewhere}/dl/{ticket}"})

    def holds_ticket(self, path: str) -> bool:
        return path.rpartition("/")[2] in self._signed

    def _stream(self, handler: Handler, path: str) -> None:
        if handler.headers.get("authorization"):
            self._fail(handler, "a bearer came to the download host")
            return
        node = self._signed.pop(path.rpartition("/")[2], None)
        if node is None:
            handler.reply(403, b"")
            return
        handler.reply(200, node.content, {"Content-Type": "application/octet-stream"})

    def _folder(self, path: str) -> Node:
        folder = self.root
        for name in filter(None, path.split("/")):
            inside = (
                node for node in self.nodes.values() if node.parent is folder and node.name == name and not node.trashed
            )
            folder = next(inside, None) or self._add("folder", name, folder)
        return folder

    def _add(self, kind: str, name: str, parent: Node, content: bytes = b"") -> Node:
        with self.lock:
            node = Node(str(next(self.ids)), kind, name, parent, content, owner=self.person)
            self.nodes[node.id] = node
            self._note("ITEM_UPLOAD" if kind == "file" else "ITEM_CREATE", node)
        return node

    def _alter(self, its: str, event: str, **changes: Any) -> None:
        with self.lock:
            node = self.nodes[its]
            previous = whole(node)
            for name, value in changes.items():
                setattr(node, name, value)
            node.etag += 1
            self._note(event, node)
            if len(self.log) % 2:
                self.log[-1]["source"] = previous

    def _note(self, kind: str, node: Node | None) -> None:
        event = {"type": "event", "event_id": secrets.token_hex(16), "event_type": kind, "created_by": PERSON}
        event |= {"created_at": "2026-05-01T10:00:00-07:00", "session_id": "70090280850c8d2a1933c1"}
        if node is not None and node.kind != "web_link":
            event["source"] = whole(node)
        self.log.append(event)


def whole(node: Node) -> dict[str, Any]:
    """Return all fields of a node."""
    fields: dict[str, Any] = {"type": node.kind, "id": node.id, "etag": str(node.etag), "sequence_id": str(node.etag)}
    above = [Node("1", "folder", "Trash", None)] if node.trashed else node.above
    path = [
        {"type": "folder", "id": ancestor.id, "sequence_id": None, "etag": None, "name": ancestor.name}
        for ancestor in above
    ]
    moment = f"2026-03-04T05:06:{node.etag % 60:02}-08:00"
    fields |= {"watermark_info": {"is_watermarked": node.marked}} if node.kind == "file" else {}
    fields |= {"name": node.name, "created_at": "2026-01-02T03:04:05-08:00", "modified_at": moment}
    fields |= {"path_collection": {"total_count": len(path), "entries": path}, "parent": path[-1] if path else None}
    fields |= {"item_status": "trashed" if node.trashed else "active", "size": len(node.content)}
    fields |= {"owned_by": node.owner, "is_externally_owned": node.is_foreign}
    if node.kind == "file":
        sha1 = hashlib.sha1(node.content).hexdigest()
        fields |= {"sha1": sha1, "content_created_at": "2026-01-01T00:00:00-08:00", "content_modified_at": moment}
    return fields


def _selected_fields(node: Node, fields: str) -> dict[str, Any]:
    """Return the node's minimal fields and the requested fields."""
    return {name: value for name, value in whole(node).items() if name in {"type", "id", "etag", *fields.split(",")}}


def _refusal(status: int) -> tuple[int, Any]:
    codes = {400: "bad_request", 403: "forbidden", 404: "not_found"}
    return status, {"type": "error", "status": status, "code": codes[status], "message": "SECRET VENDOR WORDS"}


@contextmanager
def serving() -> Iterator[BoxAccount]:
    """Yield an empty account; violations of Box's description fail the test."""
    with account.serving(BoxAccount()) as box_account:
        assert isinstance(box_account, BoxAccount)
        yield box_account
        assert box_account.complaints == []
