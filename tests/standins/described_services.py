"""Services that are read by a description, on loopback: as much of each API as its description requests.

The pages of the documentation that each follows are named by the class.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlencode

from tests.standins import (
    azure_devops,
    confluence,
    jira,
    services_boards,
    services_business,
    services_crm,
    services_mail,
    services_records,
    services_sales,
    services_tasks,
    services_work,
    slack,
)
from tests.standins.account import serving as served
from tests.standins.described_base import START, DescribedService

if TYPE_CHECKING:
    from tests.standins.faults import Handler


class GitLab(DescribedService):
    """https://docs.gitlab.com/api/issues/#list-project-issues (updated_after), https://docs.gitlab.com/api/merge_requests/,
    https://docs.gitlab.com/api/notes/ (system, internal), https://docs.gitlab.com/api/issues_statistics/,
    https://docs.gitlab.com/api/wikis/, https://docs.gitlab.com/api/repositories/#list-repository-tree,
    https://docs.gitlab.com/api/project_markdown_uploads/, https://docs.gitlab.com/api/rest/#pagination

    `notes`: of issues; `requests`: merge requests by number.
    """

    connector, config_url, hosted = "GITLAB", "{base}/acme/handbook", True

    def __init__(self) -> None:
        super().__init__()
        self.notes: dict[str, list[dict[str, Any]]] = {}
        self.requests_of_merge: dict[str, dict[str, Any]] = {}
        self.fields: dict[str, dict[str, Any]] = {}

    def locate(self, key: str) -> str:
        return f"{self.base}/acme/handbook/-/issues/{key}"

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        project, _, place = path.removeprefix("/api/v4/projects/").partition("/")
        assert project == "acme%2Fhandbook"
        return self.answer_place(handler, path, query, place)

    def answer_place(self, handler: Handler, path: str, query: dict[str, str], place: str) -> None:
        if place == "issues":
            return self.list_page(handler, path, query, self.list_issues(query.get("updated_after", "")))
        if place == "merge_requests":
            return self.list_page(handler, path, query, self.list_requests(query.get("updated_after", "")))
        area, _, key = place.partition("/")
        if place in self.downloads:
            return handler.reply(200, self.downloads[place], {"Content-Type": "text/plain"})
        if area == "issues" and key in self.items:
            return handler.reply(200, self._describe(key))
        if key.endswith("/notes"):
            return self.list_page(handler, path, query, self.notes.get(key.removesuffix("/notes"), []))
        others: dict[str, Any] = {
            "issues_statistics": {"statistics": {"counts": {"all": len(self.items)}}},
            "wikis": [{"slug": "a/b", "title": "b", "content": "wiki", "format": "markdown"}],
            "wikis/a%2Fb": {"title": "b", "content": "wiki"},
            "repository/tree": [{"path": "docs/a.md", "type": "blob", "id": "1"}],
            "repository/files/docs%2Fa.md/raw": b"text of a file",
            **{f"merge_requests/{key}": request for key, request in self.requests_of_merge.items()},
        }
        return handler.reply(200 if place in others else 404, others.get(place, {"message": "404 Not found"}))

    def list_page(self, handler: Handler, path: str, query: dict[str, str], entries: list[Any]) -> None:
        part, following = self.cut(entries, int(query.get("page", 0)), int(query["per_page"]))
        address = f"{self.base}{path}?{urlencode({**query, 'page': following})}"
        links = {} if following is None else {"Link": f'<{address}>; rel="next"'}
        return handler.reply(200, part, links)

    def list_issues(self, since: str) -> list[dict[str, Any]]:
        return [self._describe(key) for key, item in self.items.items() if _stamp(item.updated) >= since]

    def list_requests(self, since: str) -> list[dict[str, Any]]:
        return [request for request in self.requests_of_merge.values() if request["updated_at"] >= since]

    def _describe(self, key: str) -> dict[str, Any]:
        item = self.items[key]
        count = len(self.notes.get(key, []))
        about = {"iid": int(key), "title": item.title, "description": item.text, "user_notes_count": count}
        people = {"author": {"name": "Ada Berg"}, "state": "opened", **self.fields.get(key, {})}
        return {**about, **people, "created_at": _stamp(item.created), "updated_at": item.updated.isoformat()}


class GitLabGroup(DescribedService):
    """https://docs.gitlab.com/api/groups/#list-projects (path_with_namespace, last_activity_at),
    https://docs.gitlab.com/api/issues/#list-group-issues (references.full),
    https://docs.gitlab.com/api/issues_statistics/#get-group-issues-statistics

    `projects`: by path, each as `GitLab` has one; `active`: when something changed in them; `listed_projects`: those
    that the list of the group names, None for all.
    """

    connector, config_url, hosted = "GITLAB", "{base}/acme", True

    def __init__(self) -> None:
        super().__init__()
        self.projects: dict[str, GitLab] = {}
        self.active: dict[str, datetime] = {}
        self.listed_projects: set[str] | None = None

    def add(self, path: str) -> GitLab:
        self.projects[path], self.active[path] = GitLab(), START
        return self.projects[path]

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        _, _, _, kind, name, *rest = path.split("/")
        maker = GitLab()
        maker.page, maker.base = self.page, self.base
        if kind == "projects":
            project = self.projects.get(unquote(name))
            if project is None:
                return handler.reply(404, {"message": "404 Project Not Found"})
            project.page, project.base = self.page, self.base
            return project.answer_place(handler, path, query, "/".join(rest))
        assert (kind, name) == ("groups", "acme")
        if rest == ["issues_statistics"]:
            count = sum(len(project.items) for project in self.projects.values())
            return handler.reply(200, {"statistics": {"counts": {"all": count}}})
        if rest == ["projects"]:
            entries = [
                {"path_with_namespace": path, "last_activity_at": _stamp(self.active[path])}
                for path in self.projects
                if self.listed_projects is None or path in self.listed_projects
            ]
            return maker.list_page(handler, path, query, entries)
        sign = "#" if rest == ["issues"] else "!"
        entries = [
            {**entry, "references": {"full": f"{name}{sign}{entry['iid']}"}}
            for name, project in self.projects.items()
            for entry in (project.list_issues if sign == "#" else project.list_requests)(query["updated_after"])
        ]
        return maker.list_page(handler, path, query, entries)


class Zendesk(DescribedService):
    """https://developer.zendesk.com/api-reference/help_center/help-center-api/articles/ (sort_by, sort_order) and
    https://developer.zendesk.com/api-reference/introduction/pagination/ (page[size], links.next, meta.has_more)"""

    connector, config_url = "ZENDESK", "https://acme.zendesk.com"
    names = ("user", "token")

    def locate(self, key: str) -> str:
        return f"https://acme.zendesk.com/hc/articles/{key}"

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        area = path.removeprefix("/api/v2/help_center/").partition("/")[0]
        if area in {"sections", "categories"}:
            names = {
                "sections": {"id": 5, "name": "Birds", "category_id": 6},
                "categories": {"id": 6, "name": "Animals"},
            }
            return handler.reply(200, {area: [names[area]], "meta": {"has_more": False}, "links": {"next": None}})
        if path.startswith("/api/v2/users/"):
            return handler.reply(200, {"user": {"id": 7, "name": "Ada Berg"}})
        key = path.removeprefix("/api/v2/help_center/articles").strip("/")
        if key in self.items:
            return handler.reply(200, {"article": self._describe(key)})
        if key:
            return handler.reply(404, {"error": "RecordNotFound"})
        if "per_page" in query:
            return handler.reply(200, {"articles": [], "count": len(self.items)})
        return self._page(handler, path, query, "articles")

    def _page(self, handler: Handler, path: str, query: dict[str, str], name: str) -> None:
        keys = sorted(self.items, key=lambda key: self.items[key].updated, reverse=True)
        part, following = self.cut(keys, int(query.get("page[after]", 0)), int(query["page[size]"]))
        address = f"{self.base}{path}?{urlencode({**query, 'page[after]': following})}"
        paging = {"meta": {"has_more": following is not None}, "links": {"next": address}}
        return handler.reply(200, {name: [self._describe(key) for key in part], **paging})

    def _describe(self, key: str) -> dict[str, Any]:
        item = self.items[key]
        about = {"id": int(key), "title": item.title, "body": f"<p>{item.text}</p>", "draft": False}
        about |= {"section_id": 5, "author_id": 7, "label_names": ["night"]}
        return {**about, "created_at": _stamp(item.created), "updated_at": item.updated.isoformat()}

    def _bearer(self, handler: Handler) -> str:
        user = base64.b64decode((handler.headers.get("authorization") or "").removeprefix("Basic ")).decode()
        return super()._bearer(handler) if user.startswith("ann@example.com/token:") else ""


class ZendeskTickets(Zendesk):
    """https://developer.zendesk.com/api-reference/ticketing/tickets/tickets/ (sort, status deleted, count) and
    https://developer.zendesk.com/api-reference/ticketing/tickets/ticket_comments/ (public, attachments)

    `comments`: of tickets, besides the first one and an internal note.
    """

    config_url = "https://acme.zendesk.com/agent/tickets"

    def __init__(self) -> None:
        super().__init__()
        self.comments: dict[str, list[dict[str, Any]]] = {}

    def locate(self, key: str) -> str:
        return f"https://acme.zendesk.com/agent/tickets/{key}"

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        if path in self.downloads:
            return handler.reply(200, self.downloads[path], {"Content-Type": "text/plain"})
        key, _, area = path.removeprefix("/api/v2/tickets").strip("/").partition("/")
        if path.startswith("/api/v2/users/"):
            return handler.reply(200, {"user": {"id": 7, "name": "Ada Berg"}})
        if key == "count":
            return handler.reply(200, {"count": {"value": len(self.items)}})
        if area == "comments" and key in self.items:
            return handler.reply(200, {"comments": self._list_comments(key), "meta": {"has_more": False}})
        if key:
            ticket = {"ticket": self._describe(key)} if key in self.items else {"error": "RecordNotFound"}
            return handler.reply(200 if key in self.items else 404, ticket)
        assert query["sort"] == "-updated_at"
        return self._page(handler, path, query, "tickets")

    def _list_comments(self, key: str) -> list[dict[str, Any]]:
        about = {"author_id": 7, "created_at": "2026-05-14T10:32:00Z"}
        first = {**about, "public": True, "html_body": f"<p>{self.items[key].text}</p>"}
        note = {**about, "public": False, "html_body": "<p>SECRET note</p>"}
        return [first, note, *({**about, **comment} for comment in self.comments.get(key, []))]

    def _describe(self, key: str) -> dict[str, Any]:
        about = super()._describe(key)
        return {**about, "subject": about.pop("title"), "status": "open", "requester_id": 7, "tags": ["tide"]}


class Discourse(DescribedService):
    """https://docs.discourse.org/#tag/Topics/operation/listLatestTopics (page from 0, more_topics_url; Api-Key) and
    https://meta.discourse.org/t/22706 (raw texts of topics, 100 posts on a page)"""

    connector, config_url, hosted = "DISCOURSE", "{base}", True
    names = ("user", "token")

    def locate(self, key: str) -> str:
        return f"{self.base}/t/{key}"

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        key = path.rpartition("/")[2].removesuffix(".json")
        if path in {"/about.json", "/site.json"}:
            about = {"about": {"stats": {"topics_count": len(self.items)}}}
            return handler.reply(200, about | {"categories": [{"id": 3, "name": "Support"}]})
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
        about = {"category_id": 3, "tags": ["night"], "details": {"created_by": {"name": "Ada Berg"}}}
        return {"id": int(key), "title": item.title, "created_at": _stamp(item.created), "bumped_at": bumped, **about}


class WordPress(DescribedService):
    """https://developer.wordpress.org/rest-api/reference/posts/ (orderby, rendered texts) and
    https://developer.wordpress.org/rest-api/using-the-rest-api/pagination/ (page, Link, X-WP-Total) and
    https://developer.wordpress.org/rest-api/using-the-rest-api/linking-and-embedding/ (_embed) and
    https://developer.wordpress.org/rest-api/reference/comments/"""

    connector, config_url, hosted = "WORDPRESS", "{base}", True
    names = ("user", "token")

    def locate(self, key: str) -> str:
        return f"{self.base}/?p={key}"

    def __init__(self) -> None:
        super().__init__()
        self.comments: list[dict[str, Any]] = []

    def put_comment(self, key: str, author: str, text: str) -> None:
        """Add a comment, which does not change the time of the post."""
        now = datetime.now(UTC).isoformat().removesuffix("+00:00")
        content = {"rendered": f"<p>{text}</p>"}
        comment = {"id": len(self.comments) + 1, "post": int(key), "author_name": author, "date_gmt": now}
        self.comments.append({**comment, "content": content})

    def _answer_comments(self, handler: Handler, path: str, query: dict[str, str]) -> None:
        if "post" in query:
            return handler.reply(200, [one for one in self.comments if str(one["post"]) == query["post"]])
        comments = self.comments[::-1] if query["per_page"] != "1" else []
        return handler.reply(200, comments, {"X-WP-Total": str(len(self.comments))})

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        area, _, key = path.removeprefix("/wp-json/wp/v2/").partition("/")
        items = self.items if area == "posts" else {}
        if area == "comments":
            return self._answer_comments(handler, path, query)
        if key in items:
            return handler.reply(200, self._describe(key))
        if key:
            return handler.reply(404, {"code": "rest_post_invalid_id"})
        if query["per_page"] == "1":
            return handler.reply(200, [], {"X-WP-Total": str(len(items))})
        assert (query["orderby"], query["order"], query["status"]) == ("modified", "desc", "publish")
        keys = sorted(items, key=lambda key: items[key].updated, reverse=True)
        number = int(query.get("page", 1))
        part, following = self.cut(keys, (number - 1) * min(self.page, int(query["per_page"])), int(query["per_page"]))
        following = number if self.circular else number + 1 if following else None
        address = f"{self.base}{path}?{urlencode({**query, 'page': following})}"
        links = {"Link": f'<{address}>; rel="next"'} if following else {}
        return handler.reply(200, [self._describe(key) for key in part], links)

    def _describe(self, key: str) -> dict[str, Any]:
        item = self.items[key]
        updated = item.updated.isoformat().removesuffix("+00:00")
        about = {"id": int(key), "title": {"rendered": item.title}, "status": "publish", "modified_gmt": updated}
        replies = [{"id": comment["id"]} for comment in self.comments if comment["post"] == int(key)]
        terms = [[{"name": "News"}], [{"name": "owls"}, {"name": "night"}]]
        embedded = {"author": [{"name": "Ada Berg"}], "wp:term": terms, **({"replies": [replies]} if replies else {})}
        about["_embedded"] = embedded
        return {**about, "content": {"rendered": f"<p>{item.text}</p>"}, "date_gmt": _stamp(item.created)[:-1]}


class Freshdesk(DescribedService):
    """https://developers.freshdesk.com/api/#list_all_tickets (updated_since, filter=deleted, Link), #view_a_ticket
    (`deleted` is there only of a ticket in the trash; include=requester), #conversations, #agents, #contacts,
    #solution_category_attributes, #solution_folder_attributes, #authentication (the key as the user name)

    `replies`: further conversations by ticket; `folders`: articles by folder, in one category.
    """

    connector, config_url = "FRESHDESK", "https://acme.freshdesk.com"
    serves_files = True

    def locate(self, key: str) -> str:
        return f"https://acme.freshdesk.com/a/tickets/{key}"

    def delete(self, key: str) -> None:
        self.trash.add(key)
        self.items[key].updated = datetime.now(UTC)

    def __init__(self) -> None:
        super().__init__()
        self.trash: set[str] = set()
        self.replies: dict[str, list[dict[str, Any]]] = {}
        self.attachments: dict[str, list[dict[str, Any]]] = {}
        self.folders: dict[str, list[dict[str, Any]]] = {}

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        if path in self.downloads:
            return handler.reply(200, self.downloads[path], {"Content-Type": "text/plain"})
        if path.startswith(("/solutions", "/agents", "/contacts")):
            return self._answer_around(handler, path, query)
        key, _, area = path.removeprefix("/tickets").strip("/").partition("/")
        if area == "conversations":
            about = {"user_id": 7, "created_at": "2026-05-14T10:32:00Z"}
            replies = [{"body": "<p>A reply.</p>", "private": False}, {"body": "<p>SECRET note</p>", "private": True}]
            return handler.reply(200, [{**about, **reply} for reply in (*replies, *self.replies.get(key, []))])
        if key:
            about = {**self._describe(key), "requester": {"name": "Bob Lund"}} if key in self.items else b""
            return handler.reply(200 if key in self.items else 404, about)
        is_deleted = query.get("filter") == "deleted"
        keys = [key for key in self.items if self._is_listed(key, query["updated_since"], is_deleted=is_deleted)]
        return self._page(handler, path, query, keys)

    def _answer_around(self, handler: Handler, path: str, query: dict[str, str]) -> None:
        folder = path.removeprefix("/solutions/folders/").partition("/")[0]
        answers: dict[str, Any] = {
            "/agents": [{"id": 7, "contact": {"name": "Ada Berg"}}],
            "/contacts/8": {"id": 8, "name": "Bob Lund"},
            "/solutions/categories": [{"id": 3, "name": "Animals"}],
            "/solutions/categories/3/folders": [{"id": int(key), "name": f"Folder {key}"} for key in self.folders],
            f"/solutions/folders/{folder}": {"id": folder, "name": f"Folder {folder}"},
            f"/solutions/folders/{folder}/articles": self.folders.get(folder, []),
            **{f"/solutions/articles/{one['id']}": one for listed in self.folders.values() for one in listed},
        }
        return handler.reply(200 if path in answers else 404, answers.get(path, b""))

    def _page(self, handler: Handler, path: str, query: dict[str, str], keys: list[str]) -> None:
        number = int(query.get("page", 1))
        part, following = self.cut(keys, (number - 1) * min(self.page, int(query["per_page"])), int(query["per_page"]))
        following = number if self.circular else number + 1 if following else None
        address = f"{self.base}{path}?{urlencode({**query, 'page': following})}"
        links = {"Link": f'<{address}>; rel="next"'} if following else {}
        handler.reply(200, [self._describe(key) for key in part], links)

    def _is_listed(self, key: str, since: str, *, is_deleted: bool) -> bool:
        return (key in self.trash) == is_deleted and _stamp(self.items[key].updated) >= since

    def _describe(self, key: str) -> dict[str, Any]:
        item = self.items[key]
        about = {"id": int(key), "subject": item.title, "description": f"<p>{item.text}</p>", "spam": False}
        about |= {"status": 2, "priority": 3, "responder_id": 7, "tags": ["tide"], "custom_fields": {"cf_ship": "Fram"}}
        about |= {"attachments": self.attachments.get(key, [])}
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
        if not path.startswith("/solutions/articles/"):
            return super().answer(handler, method, path, query, body)
        key = path.removeprefix("/solutions/articles/")
        return handler.reply(200 if key in self.items else 404, self._describe(key) if key in self.items else b"")

    def _describe(self, key: str) -> dict[str, Any]:
        about = super()._describe(key)
        status = 1 if key in self.trash else 2
        return {**about, "title": about.pop("subject"), "folder_id": 4, "status": status}


SERVICES = {
    **services_work.SERVICES,
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
    "ZENDESK_TICKETS": ZendeskTickets,
    "DISCOURSE": Discourse,
    "WORDPRESS": WordPress,
    "SLACK": slack.Slack,
    "SLACK_CHANNEL": slack.SlackChannel,
    "SLACK_CLIENT": slack.SlackClient,
    "TEAMS": services_mail.Teams,
    "TEAMS_ORGANIZATION": services_mail.TeamsOfOrganization,
    **azure_devops.SERVICES,
    **services_boards.SERVICES,
    **services_business.SERVICES,
    **services_crm.SERVICES,
    **services_records.SERVICES,
    **services_sales.SERVICES,
    **services_tasks.SERVICES,
}


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


@contextmanager
def serving(name: str) -> Iterator[DescribedService]:
    account = (GitLabGroup if name == "GITLAB_GROUP" else SERVICES[name])()
    with served(account):
        yield account
