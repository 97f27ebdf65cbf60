"""Microsoft Teams on loopback, by Microsoft Graph.

https://learn.microsoft.com/en-us/graph/api/channel-list-messages ($top: at most 50, $expand=replies, other parameters
are refused) https://learn.microsoft.com/en-us/graph/api/chatmessage-delta ($filter on lastModifiedDateTime: reply
chains that were created or changed) https://learn.microsoft.com/en-us/graph/api/chatmessage-get (a deleted message has
deletedDateTime) https://learn.microsoft.com/en-us/graph/api/chatmessage-list-replies
https://learn.microsoft.com/en-us/graph/api/user-list-joinedteams https://learn.microsoft.com/en-us/graph/api/teams-list
https://learn.microsoft.com/en-us/graph/api/channel-list https://learn.microsoft.com/en-us/graph/paging
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlencode

from tests.standins.described_base import DescribedService, Item

if TYPE_CHECKING:
    from tests.standins.faults import Handler

TEAM, CHANNEL = "fbe2bf47-16c8-47cf-b4a5-4b9b187c508b", "19:4a95f7d8@thread.tacv2"
MAX_TOP, MAX_EXPANDED = 50, 1000


class Teams(DescribedService):
    """Teams of a person. `items` are posts of the first channel; `deleted` keeps their times.

    `channels`: names by team and channel; `replies` and `fields`: of posts; `others`: posts of other channels.
    """

    connector, config_url = "TEAMS", "https://teams.microsoft.com"
    teams_path = "/me/joinedTeams"

    def __init__(self) -> None:
        super().__init__()
        self.teams = {TEAM: "Engineering"}
        self.channels = {TEAM: {CHANNEL: "General"}}
        self.deleted: dict[str, tuple[Item, datetime]] = {}
        self.replies: dict[str, list[dict[str, Any]]] = {}
        self.fields: dict[str, dict[str, Any]] = {}
        self.others: dict[str, list[dict[str, Any]]] = {}
        self.expanded = MAX_EXPANDED

    def make_key(self, number: int) -> str:
        return str(1606515480000 + number)

    def locate(self, key: str) -> str:
        return f"https://teams.microsoft.com/l/message/{quote(CHANNEL, '')}/{key}?groupId={TEAM}"

    def reply(self, key: str, content: str, moment: datetime, name: str = "Bob Lund", **fields: Any) -> None:
        """Reply to a post; the newest is listed first."""
        number = len(self.replies.setdefault(key, [])) + 1
        body = {"contentType": "html", "content": content}
        message = make_message(f"{key}{number}", body, name, moment, moment, **fields)
        self.replies[key].insert(0, message)

    def delete(self, key: str) -> None:
        self.deleted[key] = self.items.pop(key), datetime.now(UTC)

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        if path == self.teams_path:
            teams = [{"id": key, "displayName": name} for key, name in self.teams.items()]
            return handler.reply(200, {"value": teams})
        _, kind, team, *rest = map(unquote, path.split("/"))
        if kind != "teams" or team not in self.teams:
            return self.refuse(handler, 404, "NotFound", "Resource not found.")
        channels = [{"id": key, "displayName": name} for key, name in self.channels[team].items()]
        described = {(): {"id": team, "displayName": self.teams[team]}, ("channels",): {"value": channels}}
        described |= {("channels", channel["id"]): channel for channel in channels}
        if tuple(rest) in described:
            return handler.reply(200, described[tuple(rest)])
        if tuple(rest[:2]) not in described:
            return self.refuse(handler, 404, "NotFound", "Channel not found.")
        return self._answer_channel(handler, path, query, rest[1], rest[3:])

    def _answer_channel(
        self, handler: Handler, path: str, query: dict[str, str], channel: str, place: list[str]
    ) -> None:
        posts = self.list_posts() if channel == CHANNEL else self.others.get(channel, [])
        if not place or place == ["delta"]:
            return self._list(handler, path, query, posts, is_delta=bool(place))
        post = next((post for post in posts if post["id"] == place[0]), None)
        if post is None:
            return self.refuse(handler, 404, "NotFound", "Message not found.")
        if place[1:] == ["replies"]:
            return self._page(handler, path, query, self.replies.get(place[0], []))
        if query:
            return self.refuse(handler, 400, "BadRequest", "Query options are not allowed.")
        return handler.reply(200, post)

    def list_posts(self) -> list[dict[str, Any]]:
        everything = {key: (item, None) for key, item in self.items.items()} | self.deleted
        return [self._describe(key, item, moment) for key, (item, moment) in sorted(everything.items())]

    def refuse(self, handler: Handler, status: int, code: str, message: str) -> None:
        return handler.reply(status, {"error": {"code": code, "message": message, "innerError": {}}})

    def _list(
        self, handler: Handler, path: str, query: dict[str, str], posts: list[dict[str, Any]], *, is_delta: bool
    ) -> None:
        known = {"$top", "$expand", "$skiptoken", *(["$filter"] if is_delta else [])}
        if not set(query) <= known:
            return self.refuse(handler, 400, "BadRequest", f"Query option {min(set(query) - known)} is not supported.")
        if "$filter" in query:
            name, operator, time = query["$filter"].split(" ")
            assert (name, operator) == ("lastModifiedDateTime", "gt")
            posts = [post for post in posts if self._changed(post) > time]
        entries = []
        for post in posts:
            replies = self.replies.get(post["id"], [])
            more = {"replies@odata.nextLink": f"{self.base}{path}/x"} if len(replies) > self.expanded else {}
            entries.append({**post, "replies": replies[: self.expanded], **more} if "$expand" in query else post)
        return self._page(handler, path, query, entries)

    def _changed(self, post: dict[str, Any]) -> str:
        return max(message["lastModifiedDateTime"] for message in (post, *self.replies.get(post["id"], [])))

    def _page(self, handler: Handler, path: str, query: dict[str, str], entries: list[Any]) -> None:
        top = int(query.get("$top", 20))
        if top > MAX_TOP:
            return self.refuse(handler, 400, "BadRequest", "The limit of '50' for Top query has been exceeded.")
        part, following = self.cut(entries, int(query.get("$skiptoken", 0)), top)
        address = f"{self.base}{path}?{urlencode({**query, '$skiptoken': following})}"
        return handler.reply(200, {"value": part, **({"@odata.nextLink": address} if following is not None else {})})

    def _describe(self, key: str, item: Item, deleted: datetime | None) -> dict[str, Any]:
        body = {"contentType": "html", "content": "" if deleted else f"<p>{item.text}</p>"}
        fields = {"subject": None if deleted else item.title, **self.fields.get(key, {})}
        message = make_message(key, body, "Ada Berg", item.created, deleted or item.updated, **fields)
        return {**message, "deletedDateTime": stamp(deleted) if deleted else None}


class TeamsOfOrganization(Teams):
    """https://learn.microsoft.com/en-us/graph/api/teams-list, for an app of its own."""

    config_url = "https://teams.microsoft.com/?tenantId=2432b57b-0abd-43db-aa7b-16eadd115d34"
    teams_path = "/teams"


def make_message(
    key: str, body: dict[str, str], name: str, created: datetime, changed: datetime, **fields: Any
) -> dict[str, Any]:
    about = {"id": key, "messageType": "message", "deletedDateTime": None, "body": body, "attachments": []}
    times = {"createdDateTime": stamp(created), "lastModifiedDateTime": stamp(changed), "lastEditedDateTime": None}
    sender = {"from": {"application": None, "user": {"id": "8ea0e38b", "displayName": name}}}
    return {**about, **times, **sender, "importance": "normal", **fields}


def stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
