"""Drives of a Google Workspace by a service account: shared drives, and the drives of people."""

# The service account acts for an administrator to list shared drives, for each person to read the files that the person
# owns, and for a member of each shared drive to read its files.

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from connectors.google import workspace
from connectors.google.transport import NotFound, iterate_pages
from connectors.google.workspace import GROUPS_SCOPE, PEOPLE_SCOPE, Workspace
from connectors.http.no_authorizer import NoAuthorizer
from connectors.organization import MemberTokens, Part, PartUnavailable
from connectors.sources.google_drive import api
from connectors.sources.google_drive.api import DRIVE_API
from connectors.sources.google_drive.client import Drive
from connectors.sources.google_drive.connector import READ_SCOPE, GoogleDrive
from connectors.sources.google_drive.listing import DrivePart
from retrieval.errors import Skippable
from retrieval.ports import Tokens

if TYPE_CHECKING:
    from retrieval.ports import TokenSource
    from retrieval.settings import Settings

# Members of a shared drive that are tried, those with the most rights first.
MAX_TRIED_MEMBERS: Final = 20
_ROLES: Final = ("organizer", "fileOrganizer", "writer", "commenter", "reader")


def read_config(config: Mapping[str, Any], settings: Settings) -> Tokens:  # noqa: ARG001
    """Check the `config` of a connection. ValueError with field and reason."""
    return workspace.read_config(config, "drive.google.com", frozenset({"people"}))


def open_organization(settings: Settings, config: Mapping[str, Any], tokens: TokenSource) -> WorkspaceDrives:
    """Open the organization of a connection."""
    scopes = (READ_SCOPE, PEOPLE_SCOPE, GROUPS_SCOPE)
    opened = Workspace.open(DRIVE_API, settings, config, tokens, scope=READ_SCOPE, admin_scopes=scopes)
    return WorkspaceDrives(opened, bool(config.get("people")), GoogleDrive(NoAuthorizer(), settings))


@dataclass(frozen=True, slots=True)
class WorkspaceDrives:
    """`Organization` of a service account. The key of a part is the id of a person or a shared drive."""

    workspace: Workspace
    has_people: bool
    drives: GoogleDrive

    def list_parts(self) -> Iterator[Part]:
        """Return the shared drives, then the people, by name."""
        admin = self._admin_drive()
        drives = self._ask(lambda: admin.list_shared_drives(admin=True))
        yield from [Part(key, name, is_named=True) for key, name in sorted(drives.items(), key=lambda pair: pair[1])]
        if self.has_people:
            yield from (Part(key, address) for key, address in self.workspace.list_people())

    def find_part(self, key: str) -> Part | None:
        if key.isdigit():
            person = self.workspace.find_person(key) if self.has_people else None
            return Part(key, person["primaryEmail"]) if person else None
        try:
            name = self._ask(lambda: self._admin_drive().read_shared_drive(key))
        except NotFound:
            return None
        return Part(key, name, is_named=True)

    def open_part(self, part: Part) -> tuple[GoogleDrive, MemberTokens]:
        if not part.key.isdigit():
            return self.drives.with_part(DrivePart(part.key, part.name)), self._find_member(part.key)
        return self.drives.with_part(DrivePart("")), self.workspace.open_person(part.key)[1]

    def _find_member(self, drive_id: str) -> MemberTokens:
        """Return the tokens of a member of a shared drive, of a group's member where people are none."""
        tokens = self.workspace.tokens
        if drive_id in tokens:
            return tokens[drive_id]
        with suppress(NotFound):
            for address in self._list_members(drive_id):
                with suppress(PartUnavailable):
                    tokens[drive_id] = self.workspace.act_for(address)
                    return tokens[drive_id]
        raise PartUnavailable

    def _list_members(self, drive_id: str) -> Iterator[str]:
        answers = iterate_pages(
            DRIVE_API.title, lambda page: self._admin_drive().list_permissions(drive_id, page, admin=True)
        )
        members = [member for answer in self._ask(lambda: list(answers)) for member in answer.get("permissions", [])]
        members = [member for member in members if member.get("role") in _ROLES and not member.get("deleted")]
        members.sort(key=lambda member: _ROLES.index(member["role"]))
        people = [member["emailAddress"] for member in members if member.get("type") == "user"]
        yield from people[:MAX_TRIED_MEMBERS]
        for group in [member["emailAddress"] for member in members if member.get("type") == "group"]:
            with suppress(NotFound):  # of another organization
                yield from self.workspace.list_group(group, MAX_TRIED_MEMBERS)

    def _admin_drive(self) -> Drive:
        return self.drives.make_drive(self.workspace.admin_tokens())

    def _ask(self, request: Callable[[], Any]) -> Any:
        """Return the answer to the administrator; Fatal with advice for a refusal."""
        try:
            return request()
        except NotFound:
            raise
        except (Skippable, api.Forbidden, api.CursorExpired) as error:
            if isinstance(error.__cause__, NotFound):
                raise error.__cause__ from None
            raise self.workspace.refused() from error
