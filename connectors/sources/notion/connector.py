"""Notion connector: pages and files of a workspace."""

# A page is a document with children: browsing shows it as a file that may have children, and a database as a folder.

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from connectors.http import oauth
from connectors.http.oauth import Auth, OAuth, Service
from connectors.http.responses import Cursors
from connectors.sources.notion import INFO, blocks, pages, transport
from connectors.sources.notion.content import TOO_LARGE_MESSAGE, PageContent
from connectors.sources.notion.listing import NotionCursor, NotionListing
from connectors.sources.notion.pages import Paths, id_forms
from connectors.sources.notion.transport import (
    Answer,
    BadRequest,
    Forbidden,
    NotFound,
    NotionClient,
    Request,
    RequestSender,
)
from retrieval.errors import Fatal, ItemMissing, Skippable
from retrieval.ports import FolderEntry, FolderPage, Page, RawContent, SourceAccess, SourceItem, TokenSource
from retrieval.settings import Settings
from retrieval.sync_filter import SYNC_EVERYTHING, SyncFilter, SyncItem

RESULTS_PER_REQUEST: Final = 100
FOLDER_MISSING_MESSAGE: Final = "There is no such page or database in Notion, or it is not shared with the integration."
_ID_PATTERN = re.compile("[0-9a-fA-F-]{32,36}")


def list_children(send: RequestSender, paths: Paths, parent: str | None, cursor: str | None) -> FolderPage:
    """List a page of a level, from `cursor`: Notion's own, with the number of the source for a database."""
    if parent is not None and not _ID_PATTERN.fullmatch(parent):
        raise Skippable(FOLDER_MISSING_MESSAGE)
    try:
        if parent is None:
            return _list_top_level(send, paths, cursor)
        try:
            database = send(lambda client, token: client.databases.retrieve(parent, auth=token))
        except (NotFound, BadRequest):
            return _list_page(send, paths, parent, cursor)
        return _list_rows(send, paths, database, cursor)
    except (NotFound, BadRequest, Forbidden) as error:
        raise Skippable(FOLDER_MISSING_MESSAGE) from error


def _list_top_level(send: RequestSender, paths: Paths, cursor: str | None) -> FolderPage:
    """List shared items without a shared parent, and rows that are databases."""
    # Notion's search has no levels: a page of results may hold no top-level item. A database among rows is listed
    # here, because no query of its parent lists it.
    answer = send(lambda client, token: client.search(auth=token, page_size=RESULTS_PER_REQUEST, start_cursor=cursor))
    entries: dict[str, FolderEntry] = {}
    for result in answer.get("results") or ():
        if not isinstance(result, Mapping) or pages.is_trashed(result):
            continue
        entry_object = _read_database(send, result) or result if result.get("object") == "data_source" else result
        is_among_rows = entry_object.get("object") == "database" and bool(
            (entry_object.get("parent") or {}).get("database_id")
        )
        if entry_object.get("object") in {"page", "database"} and (
            is_among_rows or not paths.is_nested(entry_object, send)
        ):
            entries[str(entry_object["id"])] = _entry(entry_object, send, paths)
    return FolderPage(list(entries.values()), _next_cursor(answer))


def _read_database(send: RequestSender, source: Answer) -> Answer | None:
    database_id = (source.get("parent") or {}).get("database_id")
    try:
        return send(lambda client, token: client.databases.retrieve(database_id, auth=token)) if database_id else None
    except (NotFound, BadRequest, Forbidden):
        return None


def _list_page(send: RequestSender, paths: Paths, parent: str, cursor: str | None) -> FolderPage:
    page = send(lambda client, token: client.pages.retrieve(parent, auth=token))
    path, above = paths.locate(page, send)
    above = (*id_forms(str(page["id"])), *above)
    answer = send(
        lambda client, token: client.blocks.children.list(
            parent, auth=token, page_size=RESULTS_PER_REQUEST, start_cursor=cursor
        )
    )
    entries = [
        entry
        for result in answer.get("results") or ()
        if isinstance(result, Mapping) and (entry := _file_entry(result, str(page["id"]), path, above)) is not None
    ]
    return FolderPage(entries, _next_cursor(answer))


def _list_rows(send: RequestSender, paths: Paths, database: Answer, cursor: str | None) -> FolderPage:
    sources = [str(data_source["id"]) for data_source in database.get("data_sources") or ()]
    number, at = json.loads(cursor) if cursor else (0, None)
    if number >= len(sources):
        return FolderPage([])
    answer = send(
        lambda client, token: client.data_sources.query(
            sources[number], auth=token, page_size=RESULTS_PER_REQUEST, start_cursor=at
        )
    )
    rows = [row for row in answer.get("results") or () if isinstance(row, Mapping) and not pages.is_trashed(row)]
    entries = [_entry(row, send, paths) for row in rows if row.get("object") == "page"]
    following = _next_cursor(answer)
    next_cursor = [number, following] if following else [number + 1, None]
    return FolderPage(entries, json.dumps(next_cursor) if following or number + 1 < len(sources) else None)


def _entry(content: Answer, send: RequestSender, paths: Paths) -> FolderEntry:
    is_folder = content.get("object") != "page"
    path, above = paths.locate(content, send)
    return FolderEntry(
        str(content["id"]),
        pages.page_title(content),
        is_folder=is_folder,
        path=path,
        media_type="" if is_folder else pages.PAGE_MEDIA_TYPE,
        modified_at=content.get("last_edited_time"),
        has_children=True,
        above=(*above, *id_forms(str(content["id"]))),
    )


def _file_entry(block: Mapping[str, Any], page_id: str, path: str, above: tuple[str, ...]) -> FolderEntry | None:
    """Return the entry of a page, a database or a file among the blocks of a page; None for text."""
    block_id, kind, changed = str(block.get("id")), block.get("type"), block.get("last_edited_time")
    if kind in {"child_page", "child_database"}:
        title = str((block.get(kind) or {}).get("title") or pages.DEFAULT_TITLE)
        is_folder = kind == "child_database"
        media = "" if is_folder else pages.PAGE_MEDIA_TYPE
        location = (*id_forms(block_id), *above)
        return FolderEntry(
            block_id, title, is_folder, f"{path}/{title}", media, None, changed, has_children=True, above=location
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


def _next_cursor(answer: Answer) -> str | None:
    return str(answer["next_cursor"]) if answer.get("has_more") and answer.get("next_cursor") else None


ACCESS_CLOSED_MESSAGE: Final = (
    "Notion does not show the integration who is in the workspace: give it the capability to read users with their"
    " email addresses."
)
RETIRED_MESSAGE: Final = (
    "Notion no longer answers for items that it lists: its list of users is missing (404). Nothing was removed or"
    " hidden. Update the retrieval service."
)
ACCESS_UNREADABLE_MESSAGE: Final = "Notion's answer does not contain who is in the workspace."


def read_access(send: RequestSender) -> SourceAccess:
    """Return the people of the workspace. Skippable without the permission, or without any address."""
    # GET /v1/users (developers.notion.com/reference/get-users) includes addresses only if the integration may read
    # them.
    emails, at = list[str](), None
    cursors = Cursors("Notion's listing of users")
    while True:
        position = at
        try:
            answer = send(
                lambda client, token, position=position: client.users.list(  # type: ignore[misc]
                    auth=token, page_size=100, start_cursor=position
                )
            )
        except NotFound as error:  # the address names no item: nothing can be missing but the endpoint
            raise Fatal(RETIRED_MESSAGE) from error
        except (BadRequest, Forbidden) as error:
            raise Skippable(ACCESS_CLOSED_MESSAGE) from error
        results, at = answer.get("results"), answer.get("next_cursor") if answer.get("has_more") else None
        if not isinstance(results, list) or not isinstance(at, str | None):
            raise Skippable(ACCESS_UNREADABLE_MESSAGE)
        people = [user for user in results if isinstance(user, Mapping) and user.get("type") == "person"]
        emails += [address for user in people if (address := _address(user.get("person")))]
        if not at:
            break
        cursors.follow(at, brought=bool(people))
    if not emails:
        raise Skippable(ACCESS_CLOSED_MESSAGE)
    return SourceAccess(tuple(emails))


def _address(person: Any) -> str:
    email = person.get("email") if isinstance(person, Mapping) else None
    return email if isinstance(email, str) else ""


OAUTH_SERVICE = Service(
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
PAGE_GONE_MESSAGE = "The page is not in Notion any more, or is not shared with the integration any more."
PAGE_CLOSED_MESSAGE = "Notion does not let the integration read this page: share it with the integration."


def make(app: Mapping[str, Any], settings: Settings) -> Notion:
    """Return the connector of a namespace's app."""
    return Notion(
        oauth.make_oauth("NOTION", OAUTH_SERVICE, app, settings, transport.send_token_request), NotionClient(settings)
    )


@dataclass(frozen=True, slots=True)
class Notion:
    """`Connector` of Notion."""

    # Notion has no list of changes: each listing names everything, and the time of edit is the version.

    has_one_access_list: ClassVar[Literal[True]] = True
    authorizer: OAuth
    wire: NotionClient
    paths: Paths = field(default_factory=Paths)
    # By connection: pages without a change since their files were listed.
    unchanged: dict[str, set[str]] = field(default_factory=dict)
    choice: SyncFilter = SYNC_EVERYTHING
    people: dict[str, SourceAccess] = field(default_factory=dict)

    def with_choice(self, choice: SyncFilter) -> Notion:
        return replace(self, choice=choice)

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        unchanged = self.unchanged.setdefault(tokens.connection_id, set())
        return NotionListing(
            lambda request: self.wire.send(tokens, request), unchanged=unchanged, choice=self.choice, paths=self.paths
        ).pages(NotionCursor.parse(cursor))

    def browse(self, tokens: TokenSource, parent: str | None, cursor: str | None) -> FolderPage:
        return list_children(lambda request: self.wire.send(tokens, request), self.paths, parent, cursor)

    def access(self, tokens: TokenSource, external_id: str) -> SourceAccess:  # noqa: ARG002  (all of a workspace alike)
        """Return the access list of the workspace, read once per run."""
        if tokens.connection_id not in self.people:
            self.people[tokens.connection_id] = read_access(lambda request: self.wire.send(tokens, request))
        return self.people[tokens.connection_id]

    def version(self, tokens: TokenSource, external_id: str) -> str:
        page_id, _, block_id = external_id.partition("/")

        def request(client: Any, token: str) -> Any:
            if block_id:
                return client.blocks.retrieve(block_id, auth=token)
            return client.pages.retrieve(page_id, auth=token)

        try:
            return pages.page_version(self.wire.send(tokens, request), datetime.now(UTC))
        except (NotFound, BadRequest, Forbidden):
            return ""

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent:
        def send(request: Request) -> Answer:
            return self.wire.send(tokens, request)

        if blocks.is_file(item.external_id):
            return blocks.fetch_file(self.wire, send, self.paths, item.external_id, to)
        try:
            page = send(lambda client, token: client.pages.retrieve(item.external_id, auth=token))
            if pages.is_trashed(page):
                raise Skippable(PAGE_GONE_MESSAGE)
            content = PageContent(send, self.wire.max_file_bytes).read_markdown(item.external_id)
            rows = pages.row_lines(page, send) if pages.is_row(page) else ""
        except NotFound as error:
            raise ItemMissing(PAGE_GONE_MESSAGE) from error
        except BadRequest as error:
            raise Skippable(PAGE_GONE_MESSAGE) from error
        except Forbidden as error:
            raise Skippable(PAGE_CLOSED_MESSAGE) from error
        return self._write_page(page, rows, content, self.paths.read_path(page, send), to)

    def is_deleted(self, tokens: TokenSource, external_id: str) -> bool:
        """Return True if an item is deleted, or a file belongs to a page outside of the selection."""
        # An unreadable page may still exist. Files of an unchanged page exist without a request.
        if blocks.is_file(external_id):
            if self.choice and self._is_unselected(tokens, external_id.partition("/")[0]):
                return True
            is_there = external_id.partition("/")[0] in self.unchanged.get(tokens.connection_id, ())
            return not is_there and blocks.is_file_gone(lambda request: self.wire.send(tokens, request), external_id)
        try:
            page = self.wire.send(tokens, lambda client, token: client.pages.retrieve(external_id, auth=token))
        except NotFound:
            return True
        except (BadRequest, Forbidden):
            return False
        return pages.is_trashed(page)

    def _is_unselected(self, tokens: TokenSource, page_id: str) -> bool:
        def send(request: Request) -> Answer:
            return self.wire.send(tokens, request)

        try:
            page = send(lambda client, token: client.pages.retrieve(page_id, auth=token))
        except (NotFound, BadRequest, Forbidden):
            return False
        path, above = self.paths.locate(page, send)
        return not self.choice.may_hold(SyncItem(page_id, path, above=(*above, *id_forms(page_id))), ids=False)

    def _write_page(self, page: Answer, rows: str, content: str, path: str, to: Path) -> RawContent:
        title = pages.page_title(page)
        data = "\n\n".join(part for part in (f"# {title}", rows, content) if part).encode(errors="replace") + b"\n"
        if len(data) > self.wire.max_file_bytes:
            raise Skippable(TOO_LARGE_MESSAGE)
        to.write_bytes(data)
        fields = {**pages.page_properties(page), "title": title, "path": path}
        return RawContent(to, title, pages.PAGE_MEDIA_TYPE, len(data), properties=fields)
