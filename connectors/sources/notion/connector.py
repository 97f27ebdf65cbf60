"""Notion: pages and files of a workspace.

A page is a document and may hold others: it is shown as a file that may have children, a database as a folder.

GET /v1/users (developers.notion.com/reference/get-users) names them, with addresses where the integration may read
them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from connectors.http import oauth
from connectors.http.oauth import Auth, OAuth, Service
from connectors.http.responses import Cursors
from connectors.sources.notion import INFO, blocks, pages, transport
from connectors.sources.notion.content import TOO_LARGE, Content
from connectors.sources.notion.listing import NotionCursor, NotionListing
from connectors.sources.notion.pages import Paths, join_path
from connectors.sources.notion.transport import Answer, BadRequest, Forbidden, NotFound, Request, Wire
from retrieval.errors import Fatal, ItemMissing, Skippable
from retrieval.ports import FolderEntry, FolderPage, Page, RawContent, SourceAccess, SourceItem, TokenSource
from retrieval.settings import Settings
from retrieval.sync_filter import EVERYTHING, Choice, Subject

PAGE: Final = 100
NOT_THERE: Final = "There is no such page or database in Notion, or it is not shared with the integration."
_ID = re.compile("[0-9a-fA-F-]{32,36}")
Ask = Callable[[Request], Answer]


def list_children(ask: Ask, paths: Paths, parent: str | None, cursor: str | None) -> FolderPage:
    """The cursor: Notion's own; of a database the number of the source, too."""
    if parent is not None and not _ID.fullmatch(parent):
        raise Skippable(NOT_THERE)
    try:
        if parent is None:
            return _top(ask, paths, cursor)
        try:
            database = ask(lambda client, token: client.databases.retrieve(parent, auth=token))
        except (NotFound, BadRequest):
            return _page(ask, paths, parent, cursor)
        return _rows(ask, paths, database, cursor)
    except (NotFound, BadRequest, Forbidden) as error:
        raise Skippable(NOT_THERE) from error


def _top(ask: Ask, paths: Paths, cursor: str | None) -> FolderPage:
    """Return the items that no other shared item contains, and that no query of a parent lists. Notion's search has no
    levels: a page of it may hold none."""
    answer = ask(lambda client, token: client.search(auth=token, page_size=PAGE, start_cursor=cursor))
    entries: dict[str, FolderEntry] = {}
    for result in answer.get("results") or ():
        if not isinstance(result, Mapping) or pages.is_out(result):
            continue
        entry_object = _database(ask, result) or result if result.get("object") == "data_source" else result
        is_among_rows = entry_object.get("object") == "database" and bool(
            (entry_object.get("parent") or {}).get("database_id")
        )
        if entry_object.get("object") in {"page", "database"} and (
            is_among_rows or not paths.lies_in(entry_object, ask)
        ):
            entries[str(entry_object["id"])] = _entry(entry_object, ask, paths)
    return FolderPage(list(entries.values()), _next(answer))


def _database(ask: Ask, source: Answer) -> Answer | None:
    its = (source.get("parent") or {}).get("database_id")
    try:
        return ask(lambda client, token: client.databases.retrieve(its, auth=token)) if its else None
    except (NotFound, BadRequest, Forbidden):
        return None


def _page(ask: Ask, paths: Paths, parent: str, cursor: str | None) -> FolderPage:
    page = ask(lambda client, token: client.pages.retrieve(parent, auth=token))
    path, above = paths.place(page, ask)
    above = (*join_path(str(page["id"])), *above)
    answer = ask(
        lambda client, token: client.blocks.children.list(parent, auth=token, page_size=PAGE, start_cursor=cursor)
    )
    entries = [
        entry
        for result in answer.get("results") or ()
        if isinstance(result, Mapping) and (entry := _file_entry(result, str(page["id"]), path, above)) is not None
    ]
    return FolderPage(entries, _next(answer))


def _rows(ask: Ask, paths: Paths, database: Answer, cursor: str | None) -> FolderPage:
    sources = [str(data_source["id"]) for data_source in database.get("data_sources") or ()]
    number, at = json.loads(cursor) if cursor else (0, None)
    if number >= len(sources):
        return FolderPage([])
    answer = ask(
        lambda client, token: client.data_sources.query(sources[number], auth=token, page_size=PAGE, start_cursor=at)
    )
    rows = [
        data_source
        for data_source in answer.get("results") or ()
        if isinstance(data_source, Mapping) and not pages.is_out(data_source)
    ]
    entries = [_entry(data_source, ask, paths) for data_source in rows if data_source.get("object") == "page"]
    following = _next(answer)
    next_cursor = [number, following] if following else [number + 1, None]
    return FolderPage(entries, json.dumps(next_cursor) if following or number + 1 < len(sources) else None)


def _entry(thing: Answer, ask: Ask, paths: Paths) -> FolderEntry:
    is_folder = thing.get("object") != "page"
    path, above = paths.place(thing, ask)
    return FolderEntry(
        str(thing["id"]),
        pages.page_title(thing),
        is_folder=is_folder,
        path=path,
        media_type="" if is_folder else pages.MEDIA_TYPE,
        modified_at=thing.get("last_edited_time"),
        has_children=True,
        above=(*above, *join_path(str(thing["id"]))),
    )


def _file_entry(block: Mapping[str, Any], page_id: str, path: str, above: tuple[str, ...]) -> FolderEntry | None:
    """A page, a database or a file among the blocks of a page; None for text."""
    its, kind, changed = str(block.get("id")), block.get("type"), block.get("last_edited_time")
    if kind in {"child_page", "child_database"}:
        title = str((block.get(kind) or {}).get("title") or pages.UNTITLED)
        is_folder = kind == "child_database"
        media = "" if is_folder else pages.MEDIA_TYPE
        location = (*join_path(its), *above)
        return FolderEntry(
            its, title, is_folder, f"{path}/{title}", media, None, changed, has_children=True, above=location
        )
    item = blocks.named_file(block, page_id)
    if item is None:
        return None
    return FolderEntry(
        item[0],
        item[1],
        is_folder=False,
        path=f"{path}/{item[1]}",
        media_type=item[2],
        modified_at=changed,
        above=above,
    )


def _next(answer: Answer) -> str | None:
    return str(answer["next_cursor"]) if answer.get("has_more") and answer.get("next_cursor") else None


ACCESS_CLOSED: Final = (
    "Notion does not tell the integration who is in the workspace: give it the capability to read users with their"
    " email addresses."
)
RETIRED: Final = (
    "Notion no longer answers for items that it lists: its list of users is missing (404). Nothing was removed or"
    " hidden. Update the retrieval service."
)
UNREADABLE: Final = "Notion's answer does not tell who is in the workspace."


def read_access(ask: Callable[[Request], Answer]) -> SourceAccess:
    """Read the people of the workspace. Skippable where the integration may not, or is shown no address."""
    emails, at = list[str](), None
    cursors = Cursors("Notion's listing of users")
    while True:
        position = at
        try:
            answer = ask(
                lambda client, token, position=position: client.users.list(  # type: ignore[misc]
                    auth=token, page_size=100, start_cursor=position
                )
            )
        except NotFound as error:  # the address names no item: nothing can be missing but the endpoint
            raise Fatal(RETIRED) from error
        except (BadRequest, Forbidden) as error:
            raise Skippable(ACCESS_CLOSED) from error
        results, at = answer.get("results"), answer.get("next_cursor") if answer.get("has_more") else None
        if not isinstance(results, list) or not isinstance(at, str | None):
            raise Skippable(UNREADABLE)
        people = [user for user in results if isinstance(user, Mapping) and user.get("type") == "person"]
        emails += [address for user in people if (address := _address(user.get("person")))]
        if not at:
            break
        cursors.follow(at, brought=bool(people))
    if not emails:
        raise Skippable(ACCESS_CLOSED)
    return SourceAccess(tuple(emails))


def _address(person: Any) -> str:
    email = person.get("email") if isinstance(person, Mapping) else None
    return email if isinstance(email, str) else ""


SERVICE = Service(
    name=INFO.title,
    authorize="https://api.notion.com/v1/oauth/authorize",
    token="https://api.notion.com/v1/oauth/token",  # noqa: S106
    extra={"owner": "user"},
    pkce=False,
    auth=Auth.BASIC,
    revoke="https://api.notion.com/v1/oauth/revoke",
    revoke_auth=Auth.BASIC,
    account="workspace_id",
)
GONE = "The page is not in Notion any more, or is not shared with the integration any more."
CLOSED = "Notion does not let the integration read this page: share it with the integration."


def make(app: Mapping[str, Any], settings: Settings) -> Notion:
    """The connector of a namespace's app."""
    return Notion(oauth.make_oauth("NOTION", SERVICE, app, settings, transport.send_token_request), Wire(settings))


@dataclass(frozen=True, slots=True)
class Notion:
    """A `Connector`. There is no list of changes: each listing is of everything, and a page's time is its version."""

    authorizer: OAuth
    wire: Wire
    paths: Paths = field(default_factory=Paths)
    unchanged: dict[str, set[str]] = field(default_factory=dict)
    """By connection: pages that its listing found as they were when their files were listed."""
    choice: Choice = EVERYTHING
    people: dict[str, SourceAccess] = field(default_factory=dict)

    def with_choice(self, choice: Choice) -> Notion:
        return replace(self, choice=choice)

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        unchanged = self.unchanged.setdefault(tokens.connection_id, set())
        return NotionListing(
            lambda request: self.wire.ask(tokens, request), unchanged=unchanged, choice=self.choice, paths=self.paths
        ).pages(NotionCursor.of(cursor))

    def browse(self, tokens: TokenSource, parent: str | None, cursor: str | None) -> FolderPage:
        return list_children(lambda request: self.wire.ask(tokens, request), self.paths, parent, cursor)

    def access(self, tokens: TokenSource, external_id: str) -> SourceAccess:  # noqa: ARG002  (all of a workspace alike)
        """Access list of the workspace, read once in a run."""
        if tokens.connection_id not in self.people:
            self.people[tokens.connection_id] = read_access(lambda request: self.wire.ask(tokens, request))
        return self.people[tokens.connection_id]

    def version(self, tokens: TokenSource, external_id: str) -> str:
        page_id, _, block_id = external_id.partition("/")

        def request(client: Any, token: str) -> Any:
            if block_id:
                return client.blocks.retrieve(block_id, auth=token)
            return client.pages.retrieve(page_id, auth=token)

        try:
            return pages.page_version(self.wire.ask(tokens, request), datetime.now(UTC))
        except (NotFound, BadRequest, Forbidden):
            return ""

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent:
        def ask(request: Request) -> Answer:
            return self.wire.ask(tokens, request)

        if blocks.is_file(item.external_id):
            return blocks.fetch_file(self.wire, ask, self.paths, item.external_id, to)
        try:
            page = ask(lambda client, token: client.pages.retrieve(item.external_id, auth=token))
            if pages.is_out(page):
                raise Skippable(GONE)
            content = Content(ask, self.wire.largest).of(item.external_id)
            rows = pages.row_lines(page, ask) if pages.is_row(page) else ""
        except NotFound as error:
            raise ItemMissing(GONE) from error
        except BadRequest as error:
            raise Skippable(GONE) from error
        except Forbidden as error:
            raise Skippable(CLOSED) from error
        return self._written(page, rows, content, self.paths.of(page, ask), to)

    def is_deleted(self, tokens: TokenSource, external_id: str) -> bool:
        """Tell whether a page is deleted. A page that Notion does not let us read may still exist.

        Files of an unchanged page exist: no request is needed. Those of a page outside of the selection count as
        deleted.
        """
        if blocks.is_file(external_id):
            if self.choice and self._is_left_out(tokens, external_id.partition("/")[0]):
                return True
            is_there = external_id.partition("/")[0] in self.unchanged.get(tokens.connection_id, ())
            return not is_there and blocks.is_file_gone(lambda request: self.wire.ask(tokens, request), external_id)
        try:
            page = self.wire.ask(tokens, lambda client, token: client.pages.retrieve(external_id, auth=token))
        except NotFound:
            return True
        except (BadRequest, Forbidden):
            return False
        return pages.is_out(page)

    def _is_left_out(self, tokens: TokenSource, page_id: str) -> bool:
        def ask(request: Request) -> Answer:
            return self.wire.ask(tokens, request)

        try:
            page = ask(lambda client, token: client.pages.retrieve(page_id, auth=token))
        except (NotFound, BadRequest, Forbidden):
            return False
        path, above = self.paths.place(page, ask)
        return not self.choice.may_hold(Subject(page_id, path, above=(*above, *join_path(page_id))), ids=False)

    def _written(self, page: Answer, rows: str, content: str, path: str, to: Path) -> RawContent:
        title = pages.page_title(page)
        data = "\n\n".join(part for part in (f"# {title}", rows, content) if part).encode(errors="replace") + b"\n"
        if len(data) > self.wire.largest:
            raise Skippable(TOO_LARGE)
        to.write_bytes(data)
        fields = {**pages.page_properties(page), "title": title, "path": path}
        return RawContent(to, title, pages.MEDIA_TYPE, len(data), properties=fields)
