"""A mailbox of Gmail on loopback, checked against the discovery document: threads, labels, history, batches.

Below https://developers.google.com/workspace/gmail/api: reference/rest/v1/users.threads/list (newest first, without
SPAM and TRASH), reference/rest/v1/users.threads/get (all messages, those in trash too; format),
reference/rest/v1/users.history/list (404 for a record that is too old), guides/sync, guides/labels, guides/batch
(multipart/mixed; each request is refused by itself), guides/handle-errors (403 and 429 rateLimitExceeded),
reference/quota.
"""

from __future__ import annotations

import base64
import email
import email.policy
import email.utils
import json
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.standins import account
from tests.standins.account import Served
from tests.standins.discovery import Discovery
from tests.standins.google_drive_files import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.standins.faults import Handler

DESCRIPTION = Discovery(Path(__file__).with_name("contracts") / "google-gmail-v1.json")
ADA, BOB = "Ada Berg <ada@example.com>", "Bob Lund <bob@example.com>"
OWNER = "ada@example.com"
TOP = "Projects"
START = datetime(2026, 5, 14, 10, 32, tzinfo=UTC)
SYSTEM_LABELS = (
    *("INBOX", "SENT", "DRAFT", "SPAM", "TRASH", "UNREAD", "STARRED", "IMPORTANT", "CHAT"),
    *("CATEGORY_PERSONAL", "CATEGORY_PROMOTIONS"),
)


class Answered:
    """Handler of a request within a batch, which keeps its answer."""

    def __init__(self, path: str, headers: Any) -> None:
        self.path, self.headers = path, headers
        self.status, self.body = 500, b""

    def reply(self, code: int, body: Any, headers: dict[str, str] | None = None) -> None:
        self.status, self.body = code, body if isinstance(body, bytes) else json.dumps(body).encode()


class GmailAccount(Served):
    """Messages by id, each of a thread; `records` are the history."""

    connector = "GMAIL"
    unauthorized = Refusal(401, "authError").body

    def __init__(self, owner: str = OWNER, first: int = 1) -> None:
        super().__init__()
        self.owner = owner
        self.first = first
        self.labels = {name: (name, "system") for name in SYSTEM_LABELS}
        self.messages: dict[str, dict[str, Any]] = {}
        self.files: dict[str, bytes] = {}
        self.records: list[tuple[int, dict[str, Any]]] = []
        self.record = 100
        self.oldest = 0
        """Records up to this one are forgotten."""
        self.lost = False
        self.inner: list[str] = []
        """Requests within batches."""
        self.read: list[str] = []
        """Threads whose texts were requested."""
        self.complaints: list[str] = []

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        if path == "/batch":
            self._batch(handler, body)
            return
        match = DESCRIPTION.method(method, path)
        complaint = f"there is no {method} {path}" if match is None else ""
        if match:
            complaint = DESCRIPTION.complaint_on_request(match[0], query)
        if match is None or complaint:
            self.complaints.append(complaint)
            handler.reply(500, Refusal(500, complaint).body)
            return
        name, parameters = match
        try:
            with self.lock:
                answer = _ANSWERS[name](self, {key: unquote(value) for key, value in parameters.items()} | query)
            complaint = DESCRIPTION.complaint_on_answer(name, answer)
            self.complaints += [complaint] if complaint else []
            handler.reply(200, answer)
        except Refusal as refusal:
            handler.reply(refusal.status, refusal.body)

    def _batch(self, handler: Handler, body: bytes) -> None:
        header = f"Content-Type: {handler.headers['content-type']}\r\n\r\n".encode()
        parts, answers = email.message_from_bytes(header + body).get_payload(), []
        if len(parts) > 100:
            handler.reply(400, Refusal(400, "badRequest").body)
            return
        for part in parts:
            line = part.get_payload().splitlines()[0]
            method, target, _ = line.split(" ")
            url = urlsplit(target)
            inner = Answered(target, handler.headers)
            request = f"{method} {url.path}"
            self.inner.append(request)
            fault = self.fault(request)
            if fault is None or not fault(inner):
                self.answer(inner, method, url.path, dict(parse_qsl(url.query)), b"")  # type: ignore[arg-type]
            name = part["Content-ID"].replace("<", "<response-")
            answers.append(
                f"--b\r\nContent-Type: application/http\r\nContent-ID: {name}\r\n"
                f"\r\nHTTP/1.1 {inner.status} X\r\nContent-Type: application/json\r\n\r\n".encode()
                + inner.body
                + b"\r\n"
            )
        handler.reply(200, b"".join([*answers, b"--b--\r\n"]), {"Content-Type": "multipart/mixed; boundary=b"})

    def _profile(self, _query: dict[str, str]) -> dict[str, Any]:
        return {"emailAddress": self.owner, "historyId": str(self.record), "messagesTotal": len(self.messages)}

    def _labels(self, _query: dict[str, str]) -> dict[str, Any]:
        return {"labels": [{"id": key, "name": name, "type": kind} for key, (name, kind) in self.labels.items()]}

    def _threads(self, query: dict[str, str]) -> dict[str, Any]:
        label, threads = query.get("labelIds"), dict[str, int]()
        if label and label not in self.labels:
            raise Refusal(400, "invalidArgument")
        for message in reversed(self.messages.values()):
            shown = not {"SPAM", "TRASH"} & set(message["labelIds"]) and not self.lost
            if shown and (label is None or label in message["labelIds"]):
                threads.setdefault(message["threadId"], message["record"])
        ids, start = list(threads), int(query.get("pageToken", "0"))
        end = start + min(self.page, int(query.get("maxResults", "100")))
        answer: dict[str, Any] = {"resultSizeEstimate": len(ids)}
        if part := ids[start:end]:
            answer["threads"] = [{"id": name, "snippet": "", "historyId": str(threads[name])} for name in part]
        return answer | ({"nextPageToken": str(end)} if end < len(ids) else {})

    def _thread(self, query: dict[str, str]) -> dict[str, Any]:
        messages = self._of(query["id"])
        if not messages:
            raise Refusal(404, "notFound")
        if query.get("format", "full") == "full":
            self.read.append(query["id"])
        described = [self._describe(message, query) for message in messages]
        return {"id": query["id"], "historyId": str(self.record), "messages": described}

    def _describe(self, message: dict[str, Any], query: dict[str, str]) -> dict[str, Any]:
        payload, is_full = message["payload"], query.get("format", "full") == "full"
        if not is_full:
            wanted = query.get("metadataHeaders", "").lower()
            headers = [header for header in payload["headers"] if header["name"].lower() == wanted]
            payload = {"mimeType": payload["mimeType"], "headers": headers}
        return {
            "id": message["id"],
            "threadId": message["threadId"],
            "labelIds": list(message["labelIds"]),
            "snippet": "",
            "historyId": str(message["record"]),
            "internalDate": str(int(message["moment"].timestamp() * 1000)),
            "payload": payload,
        }

    def _history(self, query: dict[str, str]) -> dict[str, Any]:
        since = int(query["startHistoryId"])
        if since < self.oldest:
            raise Refusal(404, "notFound")
        records = [entry | {"id": str(key)} for key, entry in self.records if key > since and not self.lost]
        start = int(query.get("pageToken", "0"))
        end = start + min(self.page, int(query.get("maxResults", "100")))
        answer: dict[str, Any] = {"historyId": str(self.record)}
        if part := records[start:end]:
            answer["history"] = part
        return answer | ({"nextPageToken": str(end)} if end < len(records) else {})

    def _attachment(self, query: dict[str, str]) -> dict[str, Any]:
        data = self.files.get(query["id"])
        if data is None or query["messageId"] not in self.messages:
            raise Refusal(404, "notFound")
        return {"size": len(data), "data": base64.urlsafe_b64encode(data).decode()}

    def _note(self, kind: str, message: dict[str, Any], labels: tuple[str, ...] = ()) -> None:
        self.record += 7
        message["record"] = self.record
        about = {"id": message["id"], "threadId": message["threadId"], "labelIds": list(message["labelIds"])}
        change = {"message": about} | ({"labelIds": list(labels)} if labels else {})
        short = {"id": message["id"], "threadId": message["threadId"]}
        self.records.append((self.record, {"messages": [short], kind: [change]}))

    def receive(
        self,
        thread: str,
        text: str,
        *,
        subject: str = "",
        labels: tuple[str, ...] = ("INBOX", "UNREAD"),
        sender: str = ADA,
        to: str = BOB,
        payload: dict[str, Any] | None = None,
    ) -> str:
        """Add a message to a thread; return its id."""
        number = self.first + len(self.records)
        moment = START + timedelta(minutes=len(self.messages))
        key = f"18f{number:013x}"
        headers = {"Subject": subject, "From": sender, "To": to, "Date": email.utils.format_datetime(moment)}
        described = [{"name": name, "value": value} for name, value in headers.items()]
        content = payload or text_part(text)
        content = content | {"headers": [*described, *content.get("headers", [])]}
        message = {"id": key, "threadId": thread, "labelIds": list(labels), "moment": moment, "payload": content}
        self.messages[key] = message
        self._note("messagesAdded", message)
        return key

    def attach(self, data: bytes, name: str, kind: str, *, inline: bool = False) -> dict[str, Any]:
        """Return the part of a file whose content another request reads."""
        key = f"ANGjdJ{len(self.files)}"
        self.files[key] = data
        disposition = "inline" if inline else f'attachment; filename="{name}"'
        headers = [{"name": "Content-Disposition", "value": disposition}]
        body = {"attachmentId": key, "size": len(data)}
        return {"partId": "1", "mimeType": kind, "filename": name, "headers": headers, "body": body}

    def relabel(self, message: str, add: tuple[str, ...] = (), remove: tuple[str, ...] = ()) -> None:
        entry = self.messages[message]
        gone = tuple(name for name in remove if name in entry["labelIds"])
        entry["labelIds"] = [name for name in entry["labelIds"] if name not in gone] + list(add)
        if gone:
            self._note("labelsRemoved", entry, gone)
        if add:
            self._note("labelsAdded", entry, add)

    def erase(self, message: str) -> None:
        """Delete a message for good."""
        self._note("messagesDeleted", self.messages.pop(message))

    def label(self, name: str) -> str:
        """Return the id of a person's label; a missing one is made, with those above it."""
        parts = name.split("/")
        for end in range(1, len(parts) + 1):
            path = "/".join(parts[:end])
            if path not in [known for known, _ in self.labels.values()]:
                self.labels[f"Label_{len(self.labels)}"] = path, "user"
        return next(key for key, (known, _) in self.labels.items() if known == name)

    def folder(self, path: str) -> str:
        """Return the id of the label that stands for a folder."""
        return self.label("/".join(filter(None, [TOP, path])))

    def _of(self, thread: str) -> list[dict[str, Any]]:
        return [message for message in self.messages.values() if message["threadId"] == thread]

    def put(self, path: str, text: str) -> str:
        folders, _, name = path.rpartition("/")
        thread = f"18f{self.first + len(self.records):013x}"
        self.receive(thread, text, subject=name, labels=("INBOX", self.folder(folders)))
        return thread

    def change(self, external_id: str, text: str) -> None:
        first = self._of(external_id)[0]
        subject = next(header["value"] for header in first["payload"]["headers"] if header["name"] == "Subject")
        self.receive(external_id, text, subject=f"Re: {subject}", sender=BOB, to=ADA)

    def rename(self, external_id: str, name: str) -> None:
        """Send the mails of a thread again under another subject: Gmail changes none."""
        for message in self._of(external_id):
            text = base64.urlsafe_b64decode(message["payload"]["body"]["data"] + "==").decode()
            self.receive(external_id, text, subject=name, labels=tuple(message["labelIds"]))
            self.erase(message["id"])

    def move(self, external_id: str, folder: str) -> None:
        own = tuple(key for key, (_, kind) in self.labels.items() if kind == "user")
        for message in self._of(external_id):
            self.relabel(message["id"], remove=own)
            self.relabel(message["id"], add=(self.folder(folder),))

    def delete(self, external_id: str) -> None:
        for message in self._of(external_id):
            self.relabel(message["id"], add=("TRASH",), remove=("INBOX",))

    def lose(self) -> None:
        self.lost = True

    def forget_cursors(self) -> None:
        self.record += 1
        self.oldest = self.record


def text_part(text: str, kind: str = "text/plain", charset: str = "utf-8") -> dict[str, Any]:
    data = text.replace("\n", "\r\n").encode(charset)
    headers = [{"name": "Content-Type", "value": f'{kind}; charset="{charset}"'}]
    # Google leaves the padding out in places.
    body = {"size": len(data), "data": base64.urlsafe_b64encode(data).decode().rstrip("=") if data else ""}
    return {"partId": "0", "mimeType": kind, "filename": "", "headers": headers, "body": body}


def mixed(*parts: dict[str, Any], kind: str = "mixed") -> dict[str, Any]:
    return {"partId": "", "mimeType": f"multipart/{kind}", "filename": "", "body": {"size": 0}, "parts": list(parts)}


_ANSWERS = {
    "gmail.users.getProfile": GmailAccount._profile,
    "gmail.users.labels.list": GmailAccount._labels,
    "gmail.users.threads.list": GmailAccount._threads,
    "gmail.users.threads.get": GmailAccount._thread,
    "gmail.users.history.list": GmailAccount._history,
    "gmail.users.messages.attachments.get": GmailAccount._attachment,
}


@contextmanager
def serving() -> Iterator[GmailAccount]:
    """Serve a mailbox; violations of the description fail the test."""
    mailbox = GmailAccount()
    with account.serving(mailbox):
        yield mailbox
    assert not mailbox.complaints, mailbox.complaints
