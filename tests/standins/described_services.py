"""Services that are read by a description, on loopback: as much of each API as its description requests.

The pages of the documentation that each follows are named by the class.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from tests.standins import confluence, jira, slack
from tests.standins.account import serving as served
from tests.standins.described_base import DescribedService

if TYPE_CHECKING:
    from tests.standins.faults import Handler


class GitLab(DescribedService):
    """https://docs.gitlab.com/api/issues/#list-project-issues (updated_after), https://docs.gitlab.com/api/wikis/,
    https://docs.gitlab.com/api/repositories/#list-repository-tree, https://docs.gitlab.com/api/rest/#pagination"""

    connector, config_url, hosted = "GITLAB", "{base}/acme/handbook", True

    def locate(self, key: str) -> str:
        return f"{self.base}/acme/handbook/-/issues/{key}"

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        project, _, place = path.removeprefix("/api/v4/projects/").partition("/")
        assert project == "acme%2Fhandbook"
        if place == "issues":
            since = query.get("updated_after", "")
            keys = [key for key, item in self.items.items() if _stamp(item.updated) >= since]
            part, following = self.cut(keys, int(query.get("page", 0)), int(query["per_page"]))
            address = f"{self.base}{path}?{urlencode({**query, 'page': following})}"
            links = {} if following is None else {"Link": f'<{address}>; rel="next"'}
            return handler.reply(200, [self._describe(key) for key in part], links)
        area, _, key = place.partition("/")
        if area == "issues" and key in self.items:
            return handler.reply(200, self._describe(key))
        others: dict[str, Any] = {
            "wikis": [{"slug": "a/b", "title": "b", "content": "wiki", "format": "markdown"}],
            "wikis/a%2Fb": {"title": "b", "content": "wiki"},
            "repository/tree": [{"path": "docs/a.md", "type": "blob", "id": "1"}],
            "repository/files/docs%2Fa.md/raw": b"text of a file",
        }
        return handler.reply(200 if place in others else 404, others.get(place, {"message": "404 Not found"}))

    def _describe(self, key: str) -> dict[str, Any]:
        item = self.items[key]
        about = {"iid": int(key), "title": item.title, "description": item.text, "user_notes_count": 0}
        return {**about, "created_at": _stamp(item.created), "updated_at": item.updated.isoformat()}


class Zendesk(DescribedService):
    """https://developer.zendesk.com/api-reference/help_center/help-center-api/articles/ (sort_by, sort_order) and
    https://developer.zendesk.com/api-reference/introduction/pagination/ (page[size], links.next, meta.has_more)"""

    connector, config_url = "ZENDESK", "https://acme.zendesk.com"
    names = ("user", "token")

    def locate(self, key: str) -> str:
        return f"https://acme.zendesk.com/hc/articles/{key}"

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        key = path.removeprefix("/api/v2/help_center/articles").strip("/")
        if key in self.items:
            return handler.reply(200, {"article": self._describe(key)})
        if key:
            return handler.reply(404, {"error": "RecordNotFound"})
        keys = sorted(self.items, key=lambda key: self.items[key].updated, reverse=True)
        part, following = self.cut(keys, int(query.get("page[after]", 0)), int(query["page[size]"]))
        address = f"{self.base}{path}?{urlencode({**query, 'page[after]': following})}"
        paging = {"meta": {"has_more": following is not None}, "links": {"next": address}}
        return handler.reply(200, {"articles": [self._describe(key) for key in part], **paging})

    def _describe(self, key: str) -> dict[str, Any]:
        item = self.items[key]
        about = {"id": int(key), "title": item.title, "body": f"<p>{item.text}</p>", "draft": False}
        return {**about, "created_at": _stamp(item.created), "updated_at": item.updated.isoformat()}

    def _bearer(self, handler: Handler) -> str:
        user = base64.b64decode((handler.headers.get("authorization") or "").removeprefix("Basic ")).decode()
        return super()._bearer(handler) if user.startswith("ann@example.com/token:") else ""


class Discourse(DescribedService):
    """https://docs.discourse.org/#tag/Topics/operation/listLatestTopics (page from 0, more_topics_url; Api-Key) and
    https://meta.discourse.org/t/22706 (raw texts of topics, 100 posts on a page)"""

    connector, config_url, hosted = "DISCOURSE", "{base}", True
    names = ("user", "token")

    def locate(self, key: str) -> str:
        return f"{self.base}/t/{key}"

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        key = path.rpartition("/")[2].removesuffix(".json")
        if path == "/latest.json":
            keys = sorted(self.items, key=lambda key: self.items[key].updated, reverse=True)
            number = int(query.get("page", 0))
            part, following = self.cut(keys, number * self.page, self.page)
            more = {} if following is None else {"more_topics_url": f"/latest?page={number + 1}"}
            topics = {"topics": [self._describe(key) for key in part], "per_page": 30, **more}
            return handler.reply(200, {"topic_list": topics})
        if key not in self.items:
            return handler.reply(404, {"errors": ["The requested URL or resource could not be found."]})
        if path.startswith("/raw/"):
            item = self.items[key]
            text = f"ann | 2026 | #1\n\n{item.title} {item.text}" if query.get("page", "1") == "1" else ""
            return handler.reply(200, text.encode())
        return handler.reply(200, self._describe(key) | {"deleted_at": None})

    def _describe(self, key: str) -> dict[str, Any]:
        item = self.items[key]
        bumped = item.updated.isoformat().replace("+00:00", "Z")
        return {"id": int(key), "title": item.title, "created_at": _stamp(item.created), "bumped_at": bumped}


class WordPress(DescribedService):
    """https://developer.wordpress.org/rest-api/reference/posts/ (orderby, rendered texts) and
    https://developer.wordpress.org/rest-api/using-the-rest-api/pagination/ (page, Link)"""

    connector, config_url, hosted = "WORDPRESS", "{base}", True
    names = ("user", "token")

    def locate(self, key: str) -> str:
        return f"{self.base}/?p={key}"

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        area, _, key = path.removeprefix("/wp-json/wp/v2/").partition("/")
        items = self.items if area == "posts" else {}
        if key in items:
            return handler.reply(200, self._describe(key))
        if key:
            return handler.reply(404, {"code": "rest_post_invalid_id"})
        assert (query["orderby"], query["order"], query["status"]) == ("modified", "desc", "publish")
        keys = sorted(items, key=lambda key: items[key].updated, reverse=True)
        number = int(query.get("page", 1))
        part, following = self.cut(keys, (number - 1) * self.page, int(query["per_page"]))
        following = number if self.circular else number + 1 if following else None
        address = f"{self.base}{path}?{urlencode({**query, 'page': following})}"
        links = {"Link": f'<{address}>; rel="next"'} if following else {}
        return handler.reply(200, [self._describe(key) for key in part], links)

    def _describe(self, key: str) -> dict[str, Any]:
        item = self.items[key]
        updated = item.updated.isoformat().removesuffix("+00:00")
        about = {"id": int(key), "title": {"rendered": item.title}, "status": "publish", "modified_gmt": updated}
        return {**about, "content": {"rendered": f"<p>{item.text}</p>"}, "date_gmt": _stamp(item.created)[:-1]}


class Freshdesk(DescribedService):
    """https://developers.freshdesk.com/api/#list_all_tickets (updated_since, Link), #view_a_ticket (`deleted` is there
    only of a ticket in the trash), #conversations, #authentication (the key as the user name, any password)"""

    connector, config_url = "FRESHDESK", "https://acme.freshdesk.com"

    def locate(self, key: str) -> str:
        return f"https://acme.freshdesk.com/a/tickets/{key}"

    def delete(self, key: str) -> None:
        self.trash.add(key)

    def __init__(self) -> None:
        super().__init__()
        self.trash: set[str] = set()

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        key, _, area = path.removeprefix("/tickets").strip("/").partition("/")
        if area == "conversations":
            replies = [{"body": "<p>A reply.</p>", "private": False}, {"body": "<p>SECRET note</p>", "private": True}]
            return handler.reply(200, replies)
        if key:
            return handler.reply(200 if key in self.items else 404, self._describe(key) if key in self.items else b"")
        keys = [key for key in self.items if self._is_listed(key, query["updated_since"])]
        return self._page(handler, path, query, keys)

    def _page(self, handler: Handler, path: str, query: dict[str, str], keys: list[str]) -> None:
        number = int(query.get("page", 1))
        part, following = self.cut(keys, (number - 1) * self.page, int(query["per_page"]))
        following = number if self.circular else number + 1 if following else None
        address = f"{self.base}{path}?{urlencode({**query, 'page': following})}"
        links = {"Link": f'<{address}>; rel="next"'} if following else {}
        handler.reply(200, [self._describe(key) for key in part], links)

    def _is_listed(self, key: str, since: str) -> bool:
        return key not in self.trash and _stamp(self.items[key].updated) >= since

    def _describe(self, key: str) -> dict[str, Any]:
        item = self.items[key]
        about = {"id": int(key), "subject": item.title, "description": f"<p>{item.text}</p>", "spam": False}
        trashed = {"deleted": True} if key in self.trash else {}
        return {**about, **trashed, "created_at": _stamp(item.created), "updated_at": item.updated.isoformat()}

    def _bearer(self, handler: Handler) -> str:
        sent = (handler.headers.get("authorization") or "").removeprefix("Basic ")
        return base64.b64decode(sent).decode().partition(":")[0]


class FreshdeskFolder(Freshdesk):
    """https://developers.freshdesk.com/api/#solution_article_attributes (status: 1 for a draft, 2 published)"""

    config_url, lists_changes = "https://acme.freshdesk.com/support/solutions/folders/4", False

    def locate(self, key: str) -> str:
        return f"https://acme.freshdesk.com/support/solutions/articles/{key}"

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        if path == "/solutions/folders/4/articles":
            return self._page(handler, path, query, list(self.items))
        key = path.removeprefix("/solutions/articles/")
        return handler.reply(200 if key in self.items else 404, self._describe(key) if key in self.items else b"")

    def _describe(self, key: str) -> dict[str, Any]:
        about = super()._describe(key)
        status = 1 if key in self.trash else 2
        return {**about, "title": about.pop("subject"), "folder_id": 4, "status": status}


SERVICES = {
    "FRESHDESK": Freshdesk,
    "FRESHDESK_FOLDER": FreshdeskFolder,
    "JIRA": jira.Jira,
    "JIRA_SITE": jira.JiraSite,
    "JIRA_DATA_CENTER": jira.JiraDataCenter,
    "CONFLUENCE": confluence.Confluence,
    "CONFLUENCE_SITE": confluence.ConfluenceSite,
    "CONFLUENCE_GATEWAY": confluence.ConfluenceGateway,
    "CONFLUENCE_DATA_CENTER": confluence.ConfluenceDataCenter,
    "GITLAB": GitLab,
    "ZENDESK": Zendesk,
    "DISCOURSE": Discourse,
    "WORDPRESS": WordPress,
    "SLACK": slack.Slack,
    "SLACK_CHANNEL": slack.SlackChannel,
}


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


@contextmanager
def serving(name: str) -> Iterator[DescribedService]:
    account = SERVICES[name]()
    with served(account):
        yield account
