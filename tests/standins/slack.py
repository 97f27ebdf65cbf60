"""Slack's Web API on loopback, for a workspace that one app is in.

https://docs.slack.dev/reference/methods/conversations.list (is_member; missing_scope for types that the token may not
list) https://docs.slack.dev/reference/methods/conversations.history (newest first, oldest, latest, inclusive; at most
999; not_in_channel) https://docs.slack.dev/reference/methods/conversations.replies (oldest first, the parent first)
https://docs.slack.dev/messaging/retrieving-messages (reply_count, latest_reply, thread_ts, tombstone)
https://docs.slack.dev/reference/methods/users.list https://docs.slack.dev/reference/methods/usergroups.list
https://docs.slack.dev/reference/methods/conversations.info https://docs.slack.dev/reference/methods/conversations.members
https://docs.slack.dev/reference/methods/users.info (profile.email with the scope users:read.email)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tests.standins.described_base import START, DescribedService, Item

if TYPE_CHECKING:
    from tests.standins.faults import Handler

MAX_LIMIT = 999


@dataclass
class Channel:
    """`messages` and `replies` by the time of the message, and of the parent."""

    name: str
    is_private: bool = False
    is_member: bool = True
    messages: dict[str, dict[str, Any]] = field(default_factory=dict)
    replies: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)


class Slack(DescribedService):
    """A workspace. `items` of the suite of all services are threads of the first channel, with a reply each.

    `members`: addresses of the members of every channel; one that is hidden has none.
    """

    connector, config_url, lists_changes = "SLACK", "https://acme.slack.com", False
    first = "C0123456789"

    def __init__(self) -> None:
        super().__init__()
        self.channels = {self.first: Channel("general", is_private=True)}
        self.people = {"U1": "Ada Berg", "U2": "Bob Lund"}
        self.groups = {"S1": "on-call"}
        self.scopes = {"channels:read", "groups:read", "users:read"}
        self.members: list[str] = ["ada@example.com"]
        self.may_read_members = True
        self.hidden_addresses: set[str] = set()
        self.deactivated: set[str] = set()

    def show_to(self, key: str, *users: str) -> None:
        self.members = list(users)

    @property
    def is_private(self) -> bool:
        return self.channels[self.first].is_private

    @is_private.setter
    def is_private(self, value: bool) -> None:
        self.channels[self.first].is_private = value

    def make_key(self, number: int) -> str:
        return f"{int(START.timestamp()) + number}.{number:06}"

    def locate(self, key: str) -> str:
        return f"https://acme.slack.com/archives/{self.first}/p{key}"

    def put(self, title: str, text: str) -> str:
        key = super().put(title, text)
        self.channels[self.first].replies[key] = {f"{key}1": {"ts": f"{key}1", "text": "A reply.", "user": "U2"}}
        return key

    def delete(self, key: str) -> None:
        super().delete(key)
        del self.channels[self.first].replies[key]

    def post(self, text: str, moment: datetime | str, user: str = "U1", channel: str = "", **fields: Any) -> str:
        """Post a message; its time, which is its id."""
        ts = f"{moment.timestamp():.6f}" if isinstance(moment, datetime) else moment
        message = {"type": "message", "ts": ts, "text": text, "user": user, **fields}
        self.channels[channel or self.first].messages[ts] = message
        return ts

    def reply(self, parent: str, text: str, moment: datetime, user: str = "U2", channel: str = "") -> str:
        ts = f"{moment.timestamp():.6f}"
        message = {"type": "message", "ts": ts, "thread_ts": parent, "text": text, "user": user}
        self.channels[channel or self.first].replies.setdefault(parent, {})[ts] = message
        return ts

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        if path.startswith("/files-pri/"):  # https://docs.slack.dev/reference/objects/file-object
            is_file = path in self.downloads
            kind = {"Content-Type": "text/plain" if is_file else "text/html"}
            return handler.reply(200, self.downloads.get(path, b"<html>Sign in</html>"), kind)
        name = path.removeprefix("/").replace(".", "_")
        answers = {
            "users_list": self._list_users,
            "users_info": lambda query: {"user": self._user(query["user"])},
            "usergroups_list": lambda _query: {
                "usergroups": [{"id": key, "handle": name} for key, name in self.groups.items()]
            },
            "conversations_list": self.list_channels,
            "conversations_info": self._describe_channel,
            "conversations_members": self._list_members,
            "conversations_history": self._list_history,
            "conversations_replies": self._list_replies,
        }
        if name not in answers:
            return handler.reply(200, {"ok": False, "error": "unknown_method"})
        if name.startswith("users") and "users:read" not in self.scopes:
            return handler.reply(200, {"ok": False, "error": "missing_scope"})
        try:
            return handler.reply(200, {"ok": True, **answers[name](query)})
        except Refusal as error:
            return handler.reply(200, {"ok": False, "error": str(error)})

    def _list_users(self, query: dict[str, str]) -> dict[str, Any]:
        return self._page("members", [self._user(key) for key in self.people], query)

    def list_channels(self, query: dict[str, str]) -> dict[str, Any]:
        types = query["types"].split(",")
        for kind, scope in (("public_channel", "channels:read"), ("private_channel", "groups:read")):
            if kind in types and scope not in self.scopes:
                raise Refusal("missing_scope")
        # Private channels without the app are in no answer.
        keys = [key for key, channel in self.channels.items() if channel.is_member or not channel.is_private]
        return self._page("channels", [self._channel(key) for key in keys], query)

    def _describe_channel(self, query: dict[str, str]) -> dict[str, Any]:
        if query["channel"] not in self.channels or "channels:read" not in self.scopes:
            raise Refusal("channel_not_found" if "channels:read" in self.scopes else "missing_scope")
        return {"channel": self._channel(query["channel"])}

    def _list_members(self, query: dict[str, str]) -> dict[str, Any]:
        if not self.may_read_members:
            raise Refusal("missing_scope")
        return self._page("members", [f"U-{name}" for name in self.members], query)

    def _list_history(self, query: dict[str, str]) -> dict[str, Any]:
        channel = self._require(query)
        messages = dict(channel.messages)
        if query["channel"] == self.first:
            messages |= {key: self._describe(key, item) for key, item in self.items.items()}
        kept = [
            self._with_replies(channel, message)
            for ts, message in sorted(messages.items(), key=lambda pair: float(pair[0]), reverse=True)
            if is_within(float(ts), query)
        ]
        return {**self._page("messages", kept, query), "has_more": False}

    def _list_replies(self, query: dict[str, str]) -> dict[str, Any]:
        channel, ts = self._require(query), query["ts"]
        item = self.items.get(ts) if query["channel"] == self.first else None
        parent = self._describe(ts, item) if item else channel.messages.get(ts)
        if parent is None:
            raise Refusal("thread_not_found")
        replies = sorted(channel.replies.get(ts, {}).values(), key=lambda reply: float(reply["ts"]))
        return self._page("messages", [self._with_replies(channel, parent), *map(_as_message, replies)], query)

    def _require(self, query: dict[str, str]) -> Channel:
        channel = self.channels.get(query["channel"])
        if channel is None or (channel.is_private and not channel.is_member):
            raise Refusal("channel_not_found")
        if not channel.is_member:
            raise Refusal("not_in_channel")
        return channel

    def _page(self, name: str, entries: list[Any], query: dict[str, str]) -> dict[str, Any]:
        limit = int(query.get("limit", 100))
        if limit > MAX_LIMIT:
            raise Refusal("invalid_limit")
        part, following = self.cut(entries, int(query.get("cursor", 0)), limit)
        cursor = "" if following is None else str(following)
        return {name: part, "response_metadata": {"next_cursor": cursor}}

    def _channel(self, key: str) -> dict[str, Any]:
        channel = self.channels[key]
        return {"id": key, "name": channel.name, "is_private": channel.is_private, "is_member": channel.is_member}

    def _user(self, user: str) -> dict[str, Any]:
        if user in self.people:
            return {"id": user, "name": self.people[user].lower(), "profile": {"real_name": self.people[user]}}
        name = user.removeprefix("U-")
        profile = {} if name in self.hidden_addresses else {"email": name}
        return {"id": user, "deleted": name in self.deactivated, "profile": {"real_name": "Ann", **profile}}

    def _with_replies(self, channel: Channel, message: dict[str, Any]) -> dict[str, Any]:
        replies = channel.replies.get(message["ts"])
        if not replies:
            return message
        about = {"reply_count": len(replies), "latest_reply": max(replies), "thread_ts": message["ts"]}
        return {**message, **about, "reply_users": ["U2"]}

    def _describe(self, key: str, item: Item) -> dict[str, Any]:
        return {"type": "message", "ts": key, "text": f"{item.title} {item.text}", "user": "U1"}

    def handle(self, handler: Handler, method: str) -> None:
        if self._bearer(handler) in self.good:
            return super().handle(handler, method)
        self.requests.append(f"{method} {handler.path}")
        return handler.reply(200, {"ok": False, "error": "invalid_auth"})


class SlackChannel(Slack):
    config_url = "https://acme.slack.com/archives/C0123456789"


class SlackClient(Slack):
    """The address that a browser shows, https://slack.com/help/articles/221769328-Locate-your-Slack-URL-or-ID"""

    config_url = "https://app.slack.com/client/T0123ABC/C0123456789"

    def locate(self, key: str) -> str:
        return f"https://app.slack.com/client/T0123ABC/{self.first}/p{key}"


class Refusal(Exception):
    """An error in an answer of 200."""


def at(day: str, time: str) -> datetime:
    """Moment of a day and time in UTC."""
    return datetime.fromisoformat(f"{day}T{time}").replace(tzinfo=UTC)


def days_ago(days: float) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)


def is_within(moment: float, query: dict[str, str]) -> bool:
    """Whether a message is in the range of `oldest` and `latest`, whose ends belong to it if it is `inclusive`."""
    oldest, latest = float(query.get("oldest", 0)), float(query.get("latest", "inf"))
    return oldest <= moment <= latest if "inclusive" in query else oldest < moment < latest


def _as_message(reply: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", **reply}
