"""GitHub's REST API on loopback, for issues and files of one repository.

https://docs.github.com/en/rest/issues/issues#list-repository-issues (state, sort, direction, since, per_page)
https://docs.github.com/en/rest/using-the-rest-api/using-pagination-in-the-rest-api (Link)
https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api (ETag, If-None-Match)
https://docs.github.com/en/rest/git/trees#get-a-tree (recursive, truncated; 409 for an empty repository)
https://docs.github.com/en/rest/repos/contents#get-repository-content (raw media type)
https://docs.github.com/en/rest/issues/comments#list-issue-comments
https://docs.github.com/en/rest/pulls/reviews https://docs.github.com/en/rest/pulls/comments
https://docs.github.com/en/rest/search/search#search-issues-and-pull-requests (total_count)
https://docs.github.com/en/rest/repos/repos#list-organization-repositories (pushed_at; 404 for a user)
https://docs.github.com/en/rest/issues/issues#list-organization-issues-assigned-to-the-authenticated-user (filter=all)
https://docs.github.com/en/enterprise-server@3.14/rest/enterprise-admin (/api/v3)
https://docs.github.com/en/rest/repos/repos#get-a-repository (private, visibility)
https://docs.github.com/en/rest/collaborators/collaborators#list-repository-collaborators (403 without push access)
https://docs.github.com/en/rest/users/users#get-a-user (email: null unless it is public)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlencode

from retrieval.settings import Settings
from tests.standins.account import Served
from tests.standins.account import serving as served

if TYPE_CHECKING:
    from tests.standins.faults import Handler

REPOSITORY = "octo-org/handbook"
_START = datetime.now(UTC) - timedelta(days=30)


class GitHub(Served):
    """A repository with issues by number, and files by path."""

    connector = "GITHUB"
    changes = lists_changes = True

    def __init__(self) -> None:
        super().__init__()
        self.issues: dict[int, dict[str, Any]] = {}
        self.comments: dict[int, list[dict[str, Any]]] = {}
        self.reviews: dict[int, list[dict[str, Any]]] = {}
        self.review_comments: dict[int, list[dict[str, Any]]] = {}
        self.files: dict[str, str] = {}
        self.truncated = False
        self.visibility = "private"
        self.collaborators: dict[str, str | None] = {"octocat": "ada@example.com"}
        self.may_list_collaborators = True
        self.config = {"url": f"https://github.com/{REPOSITORY}", "credentials": {"token": self.token()}}

    def put_issue(self, title: str, body: str | None) -> int:
        number = len(self.issues) + 1
        moment = _stamp(_START + timedelta(minutes=number))
        about = {"number": number, "title": title, "body": body, "user": {"login": "octocat"}, "state": "open"}
        self.issues[number] = {**about, "created_at": moment, "updated_at": moment}
        return number

    def change_issue(self, number: int, **fields: Any) -> None:
        self.issues[number] |= {**fields, "updated_at": _stamp(datetime.now(UTC))}

    def put(self, title: str, text: str) -> str:
        return str(self.put_issue(title, text))

    def change(self, key: str, text: str) -> None:
        self.change_issue(int(key), body=text)

    def rename(self, key: str, title: str) -> None:
        self.change_issue(int(key), title=title)

    def delete(self, key: str) -> None:
        del self.issues[int(key)]

    def locate(self, key: str) -> str:
        return f"https://github.com/{REPOSITORY}/issues/{key}"

    def put_comment(self, number: int, login: str, body: str) -> None:
        self.comments.setdefault(number, []).append(
            {"user": {"login": login}, "body": body, "created_at": "2026-05-14T10:32:00Z"}
        )
        self.change_issue(number, comments=len(self.comments[number]))

    def show_to(self, key: str, *logins: str) -> None:
        """Let these users alone see the repository; an address is that of the profile, a name has none there."""
        self.collaborators = {name.partition("@")[0]: name if "@" in name else None for name in logins}

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        repository, _, rest = path.removeprefix("/api/v3").removeprefix("/repos/").partition(REPOSITORY)
        area, _, name = ("elsewhere", "", "") if repository else rest.strip("/").partition("/")
        if area == "issues":
            return self._answer_issues(handler, path, query, name)
        if area == "pulls" or path.endswith("/search/issues"):
            return self._answer_more(handler, path, query, name)
        login = path.removeprefix("/api/v3").removeprefix("/users/")
        if area in {"", "collaborators"} or login in self.collaborators:
            return self._answer_access(handler, path, query, area)
        if (area, name) == ("git", "trees/HEAD"):
            return self._tree(handler)
        if area == "contents" and unquote(name) in self.files:
            raw = "application/vnd.github.raw+json" in handler.headers["accept"]
            text = self.files[unquote(name)]
            return handler.reply(200, text.encode() if raw else {"path": unquote(name), "sha": _sha(text)})
        return handler.reply(404, {"message": "Not Found"})

    def _answer_more(self, handler: Handler, path: str, query: dict[str, str], name: str) -> None:
        if name:
            number, _, kind = name.partition("/")
            reviews = self.reviews if kind == "reviews" else self.review_comments
            return self.list_page(handler, path, query, reviews.get(int(number), []))
        assert query["q"] == f"repo:{REPOSITORY} is:issue"
        issues = [issue for issue in self.issues.values() if "pull_request" not in issue]
        return handler.reply(200, {"total_count": len(issues), "items": issues[:1]})

    def _answer_issues(self, handler: Handler, path: str, query: dict[str, str], name: str) -> None:
        if not name:
            return self._list(handler, path, query)
        if name.endswith("/comments"):
            return self.list_page(handler, path, query, self.comments.get(int(name.partition("/")[0]), []))
        issue = self.issues.get(int(name), {"message": "This issue was deleted"})
        return handler.reply(200 if "number" in issue else 410, issue)

    def _answer_access(self, handler: Handler, path: str, query: dict[str, str], area: str) -> None:
        login = path.removeprefix("/api/v3").removeprefix("/users/")
        if login in self.collaborators:
            return handler.reply(200, {"login": login, "email": self.collaborators[login]})
        if not area:
            is_private = self.visibility != "public"
            return handler.reply(200, {"name": "handbook", "private": is_private, "visibility": self.visibility})
        if not self.may_list_collaborators:
            return handler.reply(403, {"message": "Must have push access to view repository collaborators."})
        rights = {"admin": False, "push": False, "pull": True}
        users = [{"login": login, "permissions": rights} for login in self.collaborators]
        return self.list_page(handler, path, query, users)

    def _list(self, handler: Handler, path: str, query: dict[str, str]) -> None:
        issues = [issue for issue in self.issues.values() if issue["updated_at"] >= query.get("since", "")]
        issues.sort(key=lambda issue: issue[{"created": "created_at"}[query["sort"]]])
        self.list_page(handler, path, query, issues)

    def list_page(self, handler: Handler, path: str, query: dict[str, str], entries: list[Any]) -> None:
        size, number = min(int(query.get("per_page", 30)), self.page), int(query.get("page", 1))
        headers = {}
        if number * size < len(entries):
            following = urlencode({**query, "page": number + 1})
            headers["Link"] = (
                f'<{self.base}{path}?{query}>; rel="first", <{self.base}{path}?{following}>; rel="next"'
            ).replace(str(query), "page=1")
        handler.reply(200, entries[(number - 1) * size : number * size], headers)

    def _tree(self, handler: Handler) -> None:
        if not self.files:
            return handler.reply(409, {"message": "Git Repository is empty."})
        tree = [{"path": name, "type": "blob", "sha": _sha(text)} for name, text in sorted(self.files.items())]
        tree.append({"path": "folder.md", "type": "tree", "sha": "0" * 40})
        tag = f'"{_sha(str(tree))}"'
        if handler.headers.get("if-none-match") == tag:
            return handler.reply(304, b"")
        return handler.reply(200, {"sha": "1" * 40, "tree": tree, "truncated": self.truncated}, {"ETag": tag})


def _sha(text: str) -> str:
    data = text.encode()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class Organization(Served):
    """Repositories by name, each as `GitHub` has one; `pushed`: when files changed; `is_user`: it is a person's."""

    connector = "GITHUB"

    def __init__(self) -> None:
        super().__init__()
        self.repositories: dict[str, GitHub] = {}
        self.pushed: dict[str, datetime] = {}
        self.is_user = False
        self.config = {"url": "https://github.com/octo-org", "credentials": {"token": self.token()}}

    def add(self, name: str) -> GitHub:
        self.repositories[name] = GitHub()
        self.pushed[name] = _START
        return self.repositories[name]

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        _, kind, *rest = path.split("/")
        if path == "/search/issues":
            assert query["q"] == "user:octo-org is:issue"
            repositories = self.repositories.values()
            issues = [issue for one in repositories for issue in one.issues.values() if "pull_request" not in issue]
            return handler.reply(200, {"total_count": len(issues), "items": issues[:1]})
        if kind == "users" and len(rest) == 1:
            return next(iter(self.repositories.values())).answer(handler, method, path, query, body)
        if kind in {"orgs", "users"}:
            if (kind == "orgs") == self.is_user:
                return handler.reply(404, {"message": "Not Found"})
            return self._answer_all(handler, path, query, rest[1])
        repository = self.repositories.get(rest[1]) if kind == "repos" else None
        if repository is None:
            return handler.reply(404, {"message": "Not Found"})
        repository.page, repository.base = self.page, self.base
        return repository.answer(handler, method, path.replace(f"/{rest[1]}", "/handbook", 1), query, body)

    def _answer_all(self, handler: Handler, path: str, query: dict[str, str], kind: str) -> None:
        maker = GitHub()
        maker.page, maker.base = self.page, self.base
        if kind == "repos":
            repositories = [{"name": name, "pushed_at": _stamp(self.pushed[name])} for name in self.repositories]
            return maker.list_page(handler, path, query, repositories)
        assert query["filter"] == "all"
        issues = [
            {**issue, "repository": {"name": name}}
            for name, repository in self.repositories.items()
            for issue in repository.issues.values()
            if issue["updated_at"] >= query["since"]
        ]
        return maker.list_page(handler, path, query, issues)


class Enterprise(GitHub):
    """A repository of an Enterprise Server; `uploads` by path are contents, or addresses of a redirect.

    https://docs.github.com/en/enterprise-server/get-started/writing-on-github/working-with-advanced-formatting/attaching-files
    """

    def __init__(self) -> None:
        super().__init__()
        self.uploads: dict[str, bytes | str] = {}

    @property
    def settings(self) -> Settings:
        return Settings(_env_file=None, fetch_allow="127.0.0.0/8")

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        upload = self.uploads.get(path)
        if isinstance(upload, str):
            return handler.reply(302, b"", {"Location": upload})
        if upload is not None:
            return handler.reply(200, upload, {"Content-Type": "image/png"})
        return super().answer(handler, method, path, query, body)


@contextmanager
def serving_enterprise() -> Iterator[Enterprise]:
    account = Enterprise()
    with served(account):
        account.config["url"] = f"{account.base}/{REPOSITORY}"
        yield account


@contextmanager
def serving_organization() -> Iterator[Organization]:
    account = Organization()
    with served(account):
        yield account


@contextmanager
def serving() -> Iterator[GitHub]:
    account = GitHub()
    with served(account):
        yield account
