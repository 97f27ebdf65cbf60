"""Notion: pages and rows of databases as Markdown, by the vendor's SDK."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from connectors.http import oauth
from connectors.http.oauth import Auth, OAuth, Service
from connectors.sources.notion import browsing, files, pages, sharing, transport
from connectors.sources.notion.content import TOO_LARGE, Content
from connectors.sources.notion.cursor import NotionCursor
from connectors.sources.notion.info import INFO
from connectors.sources.notion.listing import NotionListing
from connectors.sources.notion.paths import Paths, both
from connectors.sources.notion.transport import Answer, Closed, Missing, Request, Unfit, Wire
from retrieval.errors import Skippable
from retrieval.ports import Level, Page, RawContent, SourceAccess, SourceItem, TokenSource
from retrieval.settings import Settings
from retrieval.sync_filter import EVERYTHING, Choice, Subject

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
    return Notion(oauth.make("NOTION", SERVICE, app, settings, transport.send), Wire(settings))


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

    def choosing(self, choice: Choice) -> Notion:
        return replace(self, choice=choice)

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        unchanged = self.unchanged.setdefault(tokens.connection_id, set())
        return NotionListing(
            lambda request: self.wire.ask(tokens, request), unchanged=unchanged, choice=self.choice, paths=self.paths
        ).pages(NotionCursor.of(cursor))

    def browse(self, tokens: TokenSource, parent: str | None, cursor: str | None) -> Level:
        return browsing.level(lambda request: self.wire.ask(tokens, request), self.paths, parent, cursor)

    def access(self, tokens: TokenSource, external_id: str) -> SourceAccess:  # noqa: ARG002  (all of a workspace alike)
        """Asked once in a run: the workspace's."""
        if tokens.connection_id not in self.people:
            self.people[tokens.connection_id] = sharing.access(lambda request: self.wire.ask(tokens, request))
        return self.people[tokens.connection_id]

    def version(self, tokens: TokenSource, external_id: str) -> str:
        page_id, _, block_id = external_id.partition("/")

        def request(client: Any, token: str) -> Any:
            if block_id:
                return client.blocks.retrieve(block_id, auth=token)
            return client.pages.retrieve(page_id, auth=token)

        try:
            return pages.version(self.wire.ask(tokens, request), datetime.now(UTC))
        except (Missing, Unfit, Closed):
            return ""

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent:
        def ask(request: Request) -> Answer:
            return self.wire.ask(tokens, request)

        if files.is_file(item.external_id):
            return files.fetch(self.wire, ask, self.paths, item.external_id, to)
        try:
            page = ask(lambda client, token: client.pages.retrieve(item.external_id, auth=token))
            if pages.is_out(page):
                raise Skippable(GONE)
            content = Content(ask, self.wire.largest).of(item.external_id)
            rows = pages.rows(page, ask) if pages.is_row(page) else ""
        except (Missing, Unfit) as error:
            raise Skippable(GONE) from error
        except Closed as error:
            raise Skippable(CLOSED) from error
        return self._written(page, rows, content, self.paths.of(page, ask), to)

    def gone(self, tokens: TokenSource, external_id: str) -> bool:
        """A page that Notion does not let us read may be there; one that it does not know is not.

        Files of a page that has not changed are there: nothing has to be asked. Those of a page that is not looked
        into, since nothing in it is chosen, count as gone.
        """
        if files.is_file(external_id):
            if self.choice and self._is_left_out(tokens, external_id.partition("/")[0]):
                return True
            is_there = external_id.partition("/")[0] in self.unchanged.get(tokens.connection_id, ())
            return not is_there and files.gone(lambda request: self.wire.ask(tokens, request), external_id)
        try:
            page = self.wire.ask(tokens, lambda client, token: client.pages.retrieve(external_id, auth=token))
        except Missing:
            return True
        except (Unfit, Closed):
            return False
        return pages.is_out(page)

    def _is_left_out(self, tokens: TokenSource, page_id: str) -> bool:
        def ask(request: Request) -> Answer:
            return self.wire.ask(tokens, request)

        try:
            page = ask(lambda client, token: client.pages.retrieve(page_id, auth=token))
        except (Missing, Unfit, Closed):
            return False
        path, above = self.paths.place(page, ask)
        return not self.choice.may_hold(Subject(page_id, path, above=(*above, *both(page_id))), ids=False)

    def _written(self, page: Answer, rows: str, content: str, path: str, to: Path) -> RawContent:
        title = pages.title(page)
        data = "\n\n".join(part for part in (f"# {title}", rows, content) if part).encode(errors="replace") + b"\n"
        if len(data) > self.wire.largest:
            raise Skippable(TOO_LARGE)
        to.write_bytes(data)
        said = {**pages.said(page), "title": title, "path": path}
        return RawContent(to, title, pages.MEDIA_TYPE, len(data), properties=said)
