"""A mailbox of Outlook on loopback, by Microsoft Graph.

https://learn.microsoft.com/en-us/graph/api/message-delta (changes of a folder, `@removed`, $select, odata.maxpagesize)
https://learn.microsoft.com/en-us/graph/delta-query-messages https://learn.microsoft.com/en-us/graph/delta-query-overview
(410 for an expired token) https://learn.microsoft.com/en-us/graph/api/mailfolder-delta (folders of all depths)
https://learn.microsoft.com/en-us/graph/api/mailfolder-get (names such as deleteditems)
https://learn.microsoft.com/en-us/graph/api/user-list-messages (all folders, deleted mails included; $filter, $top)
https://learn.microsoft.com/en-us/graph/outlook-immutable-id (other ids without the preference, and after a move)
https://learn.microsoft.com/en-us/graph/api/message-list-attachments https://learn.microsoft.com/en-us/graph/api/attachment-get
https://learn.microsoft.com/en-us/graph/api/user-get
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from retrieval.setting_values import Endpoint
from tests.standins import graph_subscriptions
from tests.standins.account import Served
from tests.standins.account import serving as served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from retrieval.settings import Settings
    from tests.standins.faults import Handler

ROOT, INBOX, SENT, DELETED, JUNK, DRAFTS = "f-root", "f-inbox", "f-sent", "f-deleted", "f-junk", "f-drafts"
WELL_KNOWN = {"inbox": INBOX, "sentitems": SENT, "deleteditems": DELETED, "junkemail": JUNK, "drafts": DRAFTS}
ADA, BOB = ("Ada Berg", "ada@example.com"), ("Bob Lund", "bob@example.com")
START = datetime(2026, 5, 14, 10, 32, tzinfo=UTC)


def _person(person: tuple[str, str]) -> dict[str, Any]:
    return {"emailAddress": {"name": person[0], "address": person[1]}}


class OutlookMailAccount(Served):
    """Messages by id, each in a folder; a token of changes holds the folder, a change number, a page and an epoch."""

    connector = "OUTLOOK_MAIL"

    def __init__(self) -> None:
        super().__init__()
        self.subscriptions = graph_subscriptions.Subscriptions()
        self.unauthorized = _error("InvalidAuthenticationToken")
        self.folders = {
            INBOX: ("Posteingang", ROOT),
            SENT: ("Gesendete Elemente", ROOT),
            DELETED: ("Gel\u00f6schte Elemente", ROOT),
            JUNK: ("Junk-E-Mail", ROOT),
            DRAFTS: ("Entw\u00fcrfe", ROOT),
        }
        self.mails: dict[str, dict[str, Any]] = {}
        self.removals: list[tuple[int, str, str]] = []
        """Change number, folder and message of what left a folder."""
        self.attachments: dict[str, list[dict[str, Any]]] = {}
        self.changes = 0
        self.epoch = 0
        self.lost = False
        self.owner: dict[str, Any] = {"mail": ADA[1], "userPrincipalName": "ada@contoso.onmicrosoft.com"}
        self.read: list[str] = []
        """Threads whose texts were requested."""
        self.complaints: list[str] = []

    @property
    def settings(self) -> Settings:
        endpoint = Endpoint(base_url=self.base + "/v1.0")
        return super().settings.model_copy(update={"endpoints": {self.connector: endpoint}})

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        if path.startswith(graph_subscriptions.PATH):
            self.subscriptions.answer(handler, method, path, body)
            return
        within, preferred = path.removeprefix("/v1.0/me"), handler.headers.get("prefer") or ""
        with self.lock:
            self.immutable = 'IdType="ImmutableId"' in preferred
            size = re.search(r"odata\.maxpagesize=(\d+)", preferred)
            self.size = min(self.page, int(query.get("$top") or (size[1] if size else 10)))
            if not within:
                handler.reply(200, _select(self.owner, query))
            elif within == "/messages":
                self._messages(handler, query, within)
            elif within == "/mailFolders/delta":
                self._folders(handler, query)
            elif match := re.fullmatch(r"/mailFolders/([^/]+)", within):
                folder = WELL_KNOWN.get(match[1], match[1])
                self._answer(handler, {"id": folder} if folder in self.folders else None)
            elif match := re.fullmatch(r"/mailFolders/([^/]+)/messages(/delta)?", within):
                folder = unquote(match[1])
                if folder not in self.folders:
                    self._answer(handler, None)
                elif match[2]:
                    self._delta(handler, folder, query)
                else:
                    self._messages(handler, query, within, folder)
            elif match := re.fullmatch(r"/messages/([^/]+)(?:/attachments(?:/([^/]+)/\$value)?)?", within):
                self._message(handler, unquote(match[1]), unquote(match[2] or ""), query, listed="/attach" in within)
            else:
                self.complaints.append(f"no such path: {path}")
                handler.reply(500, _error("generalException"))

    def _answer(self, handler: Handler, body: dict[str, Any] | None) -> None:
        handler.reply(404 if body is None else 200, body if body is not None else _error("ErrorItemNotFound"))

    def _page(self, handler: Handler, path: str, values: list[dict[str, Any]], query: dict[str, str]) -> None:
        at = int(query.get("$skip", 0))
        body: dict[str, Any] = {"value": [_select(value, query) for value in values[at : at + self.size]]}
        if at + self.size < len(values):
            kept = "&".join(f"{name}={quote(value)}" for name, value in query.items() if name != "$skip")
            body["@odata.nextLink"] = f"{self.base}/v1.0/me{path}?{kept}&$skip={at + self.size}"
        handler.reply(200, body)

    def _folders(self, handler: Handler, query: dict[str, str]) -> None:
        values = [
            {
                "id": folder,
                "displayName": name,
                "parentFolderId": above,
                "childFolderCount": sum(other == folder for _, other in self.folders.values()),
                "totalItemCount": sum(mail["folder"] == folder for mail in self.mails.values()),
            }
            for folder, (name, above) in self.folders.items()
        ]
        self._page(handler, "/mailFolders/delta", values, query)

    def _messages(self, handler: Handler, query: dict[str, str], path: str, folder: str = "") -> None:
        condition = query.get("$filter", "")
        match = re.fullmatch(r"conversationId eq '(.*)'", condition, re.DOTALL)
        if condition and not match:
            return handler.reply(400, _error("ErrorInvalidUrlQueryFilter"))
        thread = match[1].replace("''", "'") if match else None
        if thread is not None and "body" in query.get("$select", ""):
            self.read.append(thread)
        mails = [
            self._describe(mail)
            for mail in self.mails.values()
            if (thread is None or mail["thread"] == thread) and folder in {"", mail["folder"]}
        ]
        return self._page(handler, path, mails, query)

    def _delta(self, handler: Handler, folder: str, query: dict[str, str]) -> None:
        token = query.get("$deltatoken") or query.get("$skiptoken") or ""
        state = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)\.(\d+)\.(.*)", token)
        since, at, upto, epoch = map(int, state.groups()[:4]) if state else (0, 0, self.changes, self.epoch)
        upto, chosen = upto or self.changes, state[5] if state else query.get("$select", "")
        if epoch != self.epoch:
            return handler.reply(410, _error("syncStateNotFound"))
        present = [
            (mail["change"], _select(self._describe(mail), {"$select": chosen}))
            for mail in self.mails.values()
            if mail["folder"] == folder and since < mail["change"] <= upto and not self.lost
        ]
        gone = [
            (number, {"id": self._id(name, folder), "@removed": {"reason": "deleted"}})
            for number, left, name in self.removals
            if left == folder and since < number <= upto and since and not self.lost
        ]
        # Microsoft promises no order.
        values = [value for _, value in sorted([*present, *gone], key=lambda pair: -pair[0])]
        address, part = f"{self.base}/v1.0/me/mailFolders/{quote(folder)}/messages/delta", values[at : at + self.size]
        body: dict[str, Any] = {"value": part}
        if at + self.size < len(values):
            following = f"{since}.{at + self.size}.{upto}.{epoch}.{chosen}"
            body["@odata.nextLink"] = f"{address}?$skiptoken={following}"
        else:
            body["@odata.deltaLink"] = f"{address}?$deltatoken={upto}.0.0.{epoch}.{chosen}"
        return handler.reply(200, body)

    def _message(self, handler: Handler, name: str, file: str, query: dict[str, str], *, listed: bool) -> None:
        found = next((key for key, mail in self.mails.items() if self._id(key, mail["folder"]) == name), None)
        if found is None:
            return self._answer(handler, None)
        files = self.attachments.get(found, [])
        if file:
            content = next((entry["content"] for entry in files if entry["id"] == file), None)
            if content is None:
                return self._answer(handler, None)
            return handler.reply(200, content, {"Content-Type": "application/octet-stream"})
        if listed:
            values = [{name: value for name, value in entry.items() if name != "content"} for entry in files]
            return self._page(handler, f"/messages/{quote(name)}/attachments", values, query)
        return handler.reply(200, _select(self._describe(self.mails[found]), query))

    def _id(self, name: str, folder: str) -> str:
        return name if self.immutable else f"{name}-{folder}"

    def _describe(self, mail: dict[str, Any]) -> dict[str, Any]:
        files = self.attachments.get(mail["id"], [])
        return {
            "id": self._id(mail["id"], mail["folder"]),
            "conversationId": mail["thread"],
            "subject": mail["subject"],
            "receivedDateTime": mail["moment"].strftime("%Y-%m-%dT%H:%M:%SZ"),
            "isDraft": mail["folder"] == DRAFTS,
            "isRead": mail["read"],
            "parentFolderId": mail["folder"],
            "webLink": f"https://outlook.office365.com/owa/?ItemID={mail['id']}",
            "from": _person(mail["sender"]),
            "toRecipients": [_person(person) for person in mail["to"]],
            "ccRecipients": [],
            # By the page on messages, pictures within the text do not count.
            "hasAttachments": any(not entry["isInline"] for entry in files),
            "body": {"contentType": "text", "content": mail["text"].replace("\n", "\r\n")},
        }

    def receive(
        self,
        thread: str,
        text: str,
        *,
        subject: str = "",
        folder: str = INBOX,
        sender: tuple[str, str] = ADA,
        to: tuple[tuple[str, str], ...] = (BOB,),
    ) -> str:
        """Add a message to a thread; return its id."""
        number = len(self.mails) + 1
        mail = {"id": f"m{number}", "thread": thread, "subject": subject, "folder": folder, "text": text}
        self.mails[f"m{number}"] = mail | {
            "sender": sender,
            "to": to,
            "moment": START + timedelta(minutes=number - 1),
            "read": False,
        }
        self.touch(f"m{number}")
        return f"m{number}"

    def attach(
        self, message: str, name: str, content: bytes, kind: str, *, inline: bool = False, of: str = "file"
    ) -> None:
        entries = self.attachments.setdefault(message, [])
        entries.append(
            {
                "@odata.type": f"#microsoft.graph.{of}Attachment",
                "id": f"{message}-a{len(entries)}",
                "name": name,
                "contentType": kind,
                "size": len(content),
                "isInline": inline,
                "content": content,
            }
        )

    def touch(self, message: str, **fields: Any) -> None:
        self.changes += 1
        self.mails[message] |= {**fields, "change": self.changes}

    def move_mail(self, message: str, folder: str) -> None:
        left = self.mails[message]["folder"]
        self.touch(message, folder=folder)
        self.removals.append((self.changes, left, message))

    def erase(self, message: str) -> None:
        """Delete a message for good."""
        self.changes += 1
        self.removals.append((self.changes, self.mails.pop(message)["folder"], message))

    def folder(self, path: str) -> str:
        """Return the id of a folder below the inbox; missing ones are made."""
        above = INBOX
        for name in filter(None, path.split("/")):
            known = [key for key, value in self.folders.items() if value == (name, above)]
            above = known[0] if known else self._new_folder(name, above)
        return above

    def _new_folder(self, name: str, above: str) -> str:
        key = f"f-{len(self.folders)}"
        self.folders[key] = name, above
        return key

    def _of(self, thread: str) -> list[str]:
        return [key for key, mail in self.mails.items() if mail["thread"] == thread]

    def put(self, path: str, text: str) -> str:
        folders, _, name = path.rpartition("/")
        thread = f"AAQkAG'{len(self.mails):05}=="
        self.receive(thread, text, subject=name, folder=self.folder(folders))
        return thread

    def change(self, external_id: str, text: str) -> None:
        first = self.mails[self._of(external_id)[0]]
        self.receive(
            external_id, text, subject=f"RE: {first['subject']}", folder=first["folder"], sender=BOB, to=(ADA,)
        )

    def rename(self, external_id: str, name: str) -> None:
        for message in self._of(external_id):
            self.touch(message, subject=name)

    def move(self, external_id: str, folder: str) -> None:
        for message in self._of(external_id):
            self.move_mail(message, self.folder(folder))

    def delete(self, external_id: str) -> None:
        for message in self._of(external_id):
            self.move_mail(message, DELETED)

    def lose(self) -> None:
        self.lost = True

    def forget_cursors(self) -> None:
        self.epoch += 1


def _select(entry: dict[str, Any], query: dict[str, str]) -> dict[str, Any]:
    names = {"id", "@odata.type", *filter(None, query.get("$select", "").split(","))}
    return {name: value for name, value in entry.items() if name in names or "$select" not in query}


def _error(code: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": "SECRET VENDOR WORDS"}}


@contextmanager
def serving() -> Iterator[OutlookMailAccount]:
    """Serve a mailbox; requests for unknown paths fail the test."""
    mailbox = OutlookMailAccount()
    with served(mailbox):
        yield mailbox
    assert not mailbox.complaints, mailbox.complaints
