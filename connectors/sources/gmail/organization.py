"""Mailboxes of a Google Workspace by a service account."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from connectors.google import workspace
from connectors.google.workspace import PEOPLE_SCOPE, Workspace
from connectors.http.no_authorizer import NoAuthorizer
from connectors.organization import MemberTokens, Part
from connectors.sources.gmail.client import GMAIL_API
from connectors.sources.gmail.connector import READ_SCOPE, Mailbox, make_mailbox
from retrieval.ports import Tokens

if TYPE_CHECKING:
    from retrieval.ports import TokenSource
    from retrieval.settings import Settings


def read_config(config: Mapping[str, Any], settings: Settings) -> Tokens:  # noqa: ARG001
    """Check the `config` of a connection. ValueError with field and reason."""
    return workspace.read_config(config, "mail.google.com")


def open_organization(settings: Settings, config: Mapping[str, Any], tokens: TokenSource) -> WorkspaceMailboxes:
    """Open the organization of a connection."""
    opened = Workspace.open(GMAIL_API, settings, config, tokens, scope=READ_SCOPE, admin_scopes=(PEOPLE_SCOPE,))
    return WorkspaceMailboxes(opened, make_mailbox(NoAuthorizer(), settings))


@dataclass(frozen=True, slots=True)
class WorkspaceMailboxes:
    """`Organization` of a service account. The key of a part is the id of a person."""

    workspace: Workspace
    mailbox: Mailbox
    # By address; each keeps its labels.
    opened: dict[str, Mailbox] = field(default_factory=dict)

    def list_parts(self) -> Iterator[Part]:
        yield from (Part(key, address) for key, address in self.workspace.list_people())

    def find_part(self, key: str) -> Part | None:
        person = self.workspace.find_person(key)
        return Part(key, person["primaryEmail"]) if person else None

    def open_part(self, part: Part) -> tuple[Mailbox, MemberTokens]:
        address, tokens = self.workspace.open_person(part.key)
        return self.opened.setdefault(address, self.mailbox.with_owner(address)), tokens
