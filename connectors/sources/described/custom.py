"""Services described by the operator: a connection is read by the description for the connection's address."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.info import ConnectorInfo
from connectors.sources.described.authorization import DescribedAuthorizer
from connectors.sources.described.connector import Described, check_config, make_connector
from connectors.sources.described.description import Description, parse_description
from connectors.sources.described.editions import CLIENT_NAMES
from connectors.sources.described.syntax import check_syntax
from retrieval.errors import Fatal
from retrieval.ports import FolderPage, Page, RawContent, SourceAccess, SourceItem, Tokens, TokenSource
from retrieval.sync_filter import SYNC_EVERYTHING, SyncFilter

if TYPE_CHECKING:
    from retrieval.ports import Authorizer
    from retrieval.settings import Settings

INFO = ConnectorInfo(
    title="Custom",
    account="A service that the operator describes",
    documents="Documents of a service that the operator describes",
    example="https://notes.example.com/handbook",
    credentials=frozenset({"token", "user"}) | CLIENT_NAMES,
    shares=True,
)


def make(_app: Mapping[str, Any], settings: Settings) -> Custom:
    """Create the connector of all connections to services that the operator describes."""
    return Custom(settings, DescribedAuthorizer(partial(find_description, settings=settings), settings))


def read_config(config: Mapping[str, Any], settings: Settings) -> Tokens:
    """Check the `config` of a connection. ValueError with the field and the problem."""
    name, about = find_description(str(config.get("url") or ""), settings)
    return check_config(name, about, config, settings)


def load_description(file: Path) -> Description:
    """Read a description of the operator. ValueError with the file and the problem."""
    try:
        about = parse_description(file.read_text(encoding="utf-8"))
        check_syntax(about)
    except (OSError, ValueError) as error:
        raise ValueError(f"{file.name}: {getattr(error, 'strerror', error)}") from error
    if about.find_edition(about.example) is None:
        raise ValueError(f"{file.name}: no edition has the address {about.example} of `example`.")
    return about


def find_description(url: str, settings: Settings) -> tuple[str, Description]:
    """Return name and description of the first file fitting an address, in order of file names.

    Raises ValueError with the field and the problem.
    """
    folder = settings.source_descriptions
    if folder is None:
        raise ValueError(
            "url",
            "needs a description of the service: the operator names their folder in RETRIEVAL_SOURCE_DESCRIPTIONS",
        )
    problems = []
    for file in sorted(folder.glob("*.yaml")):
        try:
            about = load_description(file)
        except ValueError as error:
            problems.append(str(error))
            continue
        if about.find_edition(url.partition("#")[0].rstrip("/")) is not None:
            return file.stem.upper(), about
    reason = f"; not read: {problems[0]}" if problems else ""
    raise ValueError("url", f"fits no description in RETRIEVAL_SOURCE_DESCRIPTIONS{reason}")


@dataclass(frozen=True, slots=True)
class Custom:
    """`Connector` delegating to the connector of the description for the connection's address."""

    settings: Settings
    authorizer: Authorizer
    choice: SyncFilter = SYNC_EVERYTHING
    connectors_by_url: dict[str, Described] = field(default_factory=dict, repr=False)

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        return self._find(tokens).iter_changes(tokens, cursor)

    def with_choice(self, choice: SyncFilter) -> Custom:
        return replace(self, choice=choice, connectors_by_url={})

    def browse(self, tokens: TokenSource, parent: str | None, cursor: str | None) -> FolderPage:
        return self._find(tokens).browse(tokens, parent, cursor)

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        return self._find(tokens).fetch(tokens, item, to)

    def is_deleted(self, tokens: TokenSource, external_id: str) -> bool:
        return self._find(tokens).is_deleted(tokens, external_id)

    def access(self, tokens: TokenSource, external_id: str) -> SourceAccess:
        return self._find(tokens).access(tokens, external_id)

    def version(self, tokens: TokenSource, external_id: str) -> str:
        return self._find(tokens).version(tokens, external_id)

    def _find(self, tokens: TokenSource) -> Described:
        url = json.loads(tokens.token())["url"]
        if url not in self.connectors_by_url:
            try:
                name, about = find_description(url, self.settings)
            except ValueError as error:
                raise Fatal(f"The connection's address {error.args[-1]}.") from error
            self.connectors_by_url[url] = make_connector(name, about, self.settings).with_choice(self.choice)
        return self.connectors_by_url[url]
