"""Threads of a mailbox: their messages, version and place."""

# developers.google.com/workspace/gmail/api/reference/rest/v1/users.messages: `internalDate` orders a thread.

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from typing import Any

from connectors import mail_threads
from connectors.sources.gmail.labels import LEFT_OUT, Labels
from retrieval.ports import SourceItem

Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Thread:
    """Thread without its drafts, and messages in spam and trash; `messages` from the oldest."""

    id: str
    messages: list[Entry]

    @classmethod
    def read(cls, thread_id: str, answer: Entry) -> Thread:
        messages = [
            entry for entry in answer["messages"] if isinstance(entry, dict) and isinstance(entry.get("id"), str)
        ]
        received = [entry for entry in messages if LEFT_OUT.isdisjoint(read_label_ids(entry))]
        return cls(thread_id, sorted(received, key=read_moment))

    @property
    def subject(self) -> str:
        return read_header(self.messages[0], "Subject")

    @property
    def label_ids(self) -> list[str]:
        """Labels of all messages."""
        return [name for entry in self.messages for name in read_label_ids(entry)]

    def make_item(self, labels: Labels) -> SourceItem:
        """Return the item of a thread; a deleted one without messages."""
        if not self.messages:
            return SourceItem(self.id, "", deleted=True)
        name = mail_threads.clean_subject(self.subject)
        folder, above = labels.locate(self.label_ids)
        version = mail_threads.thread_version(self.subject, (entry["id"] for entry in self.messages))
        properties = {
            "url": f"https://mail.google.com/mail/#all/{self.id}",
            "path": f"{folder}/{name}",
            "createdAt": _format_moment(read_moment(self.messages[0])),
            "modifiedAt": _format_moment(read_moment(self.messages[-1])),
        }
        return SourceItem(self.id, name, mail_threads.THREAD_TYPE, version, properties=properties, above=above)


def read_label_ids(entry: Entry) -> list[str]:
    names = entry.get("labelIds")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def read_header(entry: Entry, name: str) -> str:
    """Return a header of a message as one line, "" if missing."""
    payload = entry.get("payload")
    return part_header(payload, name) if isinstance(payload, dict) else ""


def part_header(part: Entry, name: str) -> str:
    headers = part.get("headers")
    for header in headers if isinstance(headers, list) else []:
        if isinstance(header, dict) and str(header.get("name") or "").lower() == name.lower():
            return " ".join(_decode_words(str(header.get("value") or "")).split())
    return ""


def _decode_words(value: str) -> str:
    """Decode the encoded words of a header (RFC 2047), if it has any."""
    if "=?" not in value:
        return value.encode("utf-8", "replace").decode()
    try:
        return str(make_header(decode_header(value)))
    except (ValueError, LookupError, HeaderParseError):
        return value.encode("utf-8", "replace").decode()


def read_moment(entry: Entry) -> datetime:
    """Return the time of a message, 1970 without one."""
    text = str(entry.get("internalDate") or "")
    try:
        return datetime.fromtimestamp(int(text) / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)


def _format_moment(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
