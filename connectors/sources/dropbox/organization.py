"""Dropbox of a team by a team token: a part for each namespace, such as a person's home or a team folder."""

# developers.dropbox.com/dbx-team-files-guide: `team/namespaces/list` names all namespaces, and Path-Root with
# Select-User or Select-Admin reads one. An administrator reads the permissions of team folders only (`team_admin` in
# Dropbox's API description): other namespaces are read as their owner or as another member.
# dropbox.tech/developers/using-oauth-2-0-with-offline-access: access tokens last four hours, the refresh token lasts.

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote, urlsplit

from connectors.http import oauth
from connectors.http.no_authorizer import NoAuthorizer
from connectors.http.oauth import OAuth
from connectors.organization import CredentialsEnded, MemberTokens, Part, PartUnavailable
from connectors.sources.dropbox.client import DropboxSession, MissingScope, SpaceClosed, TeamSpace
from connectors.sources.dropbox.connector import OAUTH_SERVICE, Dropbox
from connectors.sources.dropbox.listing import ListingRefused
from retrieval.errors import AppRefused, Fatal, Skippable
from retrieval.ports import Page, RawContent, SourceItem, Tokens

if TYPE_CHECKING:
    from retrieval.ports import TokenSource
    from retrieval.settings import Settings

ResultT = TypeVar("ResultT")
ENTRIES_PER_PAGE: Final = 1000
_CREDENTIALS: Final = {"clientId", "clientSecret", "token"}
AUTHORIZATION_ENDED_MESSAGE: Final = (
    "Dropbox does not accept the app {client} or its refresh token: check the app's key and secret, have an"
    " administrator of the team authorize the app again, and send the connection's config with the new refresh token."
)
REFUSED_MESSAGE: Final = (
    "Dropbox does not let the app read the team: allow team_info.read, members.read, team_data.member,"
    " files.metadata.read, files.content.read and sharing.read among the app's permissions there, have an active"
    " administrator of the team authorize the app again, and send the connection's config with the new refresh token."
)
SUSPENDED_REASON: Final = "the account is suspended or not active"
NO_MEMBER_REASON: Final = "no active member of the team may read it"


def read_config(config: Mapping[str, Any], settings: Settings) -> Tokens:  # noqa: ARG001
    """Check the `config` of a connection. ValueError with field and reason."""
    address = urlsplit(str(config.get("url") or ""))
    if (address.scheme, address.netloc.lower()) != ("https", "www.dropbox.com") or address.path not in {"", "/"}:
        raise ValueError("url", "must be https://www.dropbox.com")
    if unknown := config.keys() - {"url", "credentials"}:
        raise ValueError(min(unknown), "is not for this connector")
    if (config.get("credentials") or {}).keys() != _CREDENTIALS:
        words = "must hold clientId, clientSecret and token, the refresh token of the team's authorization"
        raise ValueError("credentials", words)
    return Tokens(json.dumps(dict(config)), account="https://www.dropbox.com")


def open_organization(settings: Settings, config: Mapping[str, Any], tokens: TokenSource) -> Team:
    """Open the organization of a connection."""
    credentials = config["credentials"]
    flow = oauth.make_oauth("DROPBOX", OAUTH_SERVICE, credentials, settings)
    session = DropboxSession(settings.endpoints.get("DROPBOX"))
    member_tokens = MemberTokens(tokens, lambda: _request_tokens(flow, credentials["token"]))
    return Team(session, settings.max_file_bytes, member_tokens)


def _request_tokens(flow: OAuth, refresh_token: str) -> Tokens:
    try:
        return flow.refresh(Tokens("", refresh_token))
    except Fatal as error:
        if isinstance(error, AppRefused) and error.__cause__ is not None:  # a blocked address
            raise
        raise CredentialsEnded(AUTHORIZATION_ENDED_MESSAGE.format(client=flow.client_id)) from None


@dataclass(frozen=True, slots=True)
class _Namespace:
    """Namespace of a team. `member_id`: its owner, "" for a folder of several people."""

    id: str
    name: str
    member_id: str
    is_team_folder: bool


@dataclass(slots=True)
class Team:
    """`Organization` of namespaces. The key of a part is the id of a namespace."""

    session: DropboxSession
    max_file_bytes: int
    tokens: MemberTokens = field(repr=False)
    namespaces: dict[str, _Namespace] = field(default_factory=dict)
    # E-mail addresses of active members, by id.
    members: dict[str, str] = field(default_factory=dict)
    # Ids of the administrator who authorized the app, and of the team.
    _admin: tuple[str, str] | None = None
    _spaces: dict[str, TeamDropbox] = field(default_factory=dict, repr=False)

    def list_parts(self) -> Iterator[Part]:
        """Return people's homes by address, and folders by name."""
        self._read_team()
        yield from map(_part_of, self.namespaces.values())

    def find_part(self, key: str) -> Part | None:
        # No route tells of a single namespace.
        if not self.namespaces:
            self._read_team()
        namespace = self.namespaces.get(key)
        return _part_of(namespace) if namespace else None

    def open_part(self, part: Part) -> tuple[TeamDropbox, MemberTokens]:
        if part.key not in self._spaces:
            self._spaces[part.key] = self._open_namespace(self.namespaces[part.key])
        return self._spaces[part.key], self.tokens

    def _open_namespace(self, namespace: _Namespace) -> TeamDropbox:
        admin_id, team_id = self._find_admin()
        if namespace.member_id and namespace.member_id not in self.members:
            raise PartUnavailable(SUSPENDED_REASON)
        member_id = admin_id if namespace.is_team_folder else namespace.member_id or self._find_member(namespace.id)
        is_shared = not namespace.member_id
        space = TeamSpace(namespace.id, member_id, team_id, namespace.is_team_folder, is_shared)
        client = replace(self.session, space=space)
        return TeamDropbox(NoAuthorizer(), client, self.max_file_bytes, folder=namespace.name if is_shared else "")

    def _read_team(self) -> None:
        members, namespaces = dict[str, str](), dict[str, _Namespace]()
        names = dict[str, str]()
        for member in self._list_all(_list_members):
            profile = member.profile
            names[profile.team_member_id] = profile.email
            if profile.status.is_active():
                members[profile.team_member_id] = profile.email
        for entry in self._list_all(_list_namespaces):
            kind, owner = entry.namespace_type, entry.team_member_id or ""
            # Roots hold namespaces that are listed themselves.
            if kind.is_team_member_root():
                continue
            name = names.get(owner, entry.name) if kind.is_team_member_folder() else entry.name
            if kind.is_app_folder():
                name = f"{names.get(owner, owner)}/{entry.name}"
            namespaces[entry.namespace_id] = _Namespace(entry.namespace_id, name, owner, kind.is_team_folder())
        self.members, self.namespaces = members, namespaces
        self._spaces.clear()

    def _list_all(self, list_page: Callable[[Any, str], tuple[list[Any], str]]) -> Iterator[Any]:
        cursor, seen_cursors = "", set[str]()
        while True:
            entries, cursor = self._ask(lambda team, position=cursor: list_page(team, position))  # type: ignore[misc]
            yield from entries
            if not cursor:
                return
            if cursor in seen_cursors:
                raise Fatal("Dropbox's listing of the team does not come to an end.")
            seen_cursors.add(cursor)

    def _find_admin(self) -> tuple[str, str]:
        if self._admin is None:
            profile = self._ask(lambda team: team.team_token_get_authenticated_admin().admin_profile)
            self._admin = profile.team_member_id, self._ask(lambda team: team.team_get_info().team_id)
        return self._admin

    def _find_member(self, namespace_id: str) -> str:
        """Return the owner of a shared folder, or another active member of the team. Raises PartUnavailable."""
        admin_id, _ = self._find_admin()

        def request(team: Any) -> list[Any]:
            from dropbox.exceptions import ApiError

            try:
                members = team.as_admin(admin_id).sharing_list_folder_members(namespace_id).users
            except ApiError as error:
                raise PartUnavailable(NO_MEMBER_REASON) from error
            return sorted(members, key=lambda member: not member.access_type.is_owner())

        for member in self.session.call_team(self.tokens, request):
            if member.user.team_member_id in self.members:
                return str(member.user.team_member_id)
        raise PartUnavailable(NO_MEMBER_REASON)

    def _ask(self, request: Callable[[Any], ResultT]) -> ResultT:
        from dropbox.exceptions import ApiError

        try:
            return self.session.call_team(self.tokens, request)
        except (ApiError, MissingScope, Skippable) as error:
            raise Fatal(REFUSED_MESSAGE) from error


def _list_members(team: Any, cursor: str) -> tuple[list[Any], str]:
    answer = team.team_members_list_continue_v2(cursor) if cursor else team.team_members_list_v2(ENTRIES_PER_PAGE)
    return answer.members, answer.cursor if answer.has_more else ""


def _list_namespaces(team: Any, cursor: str) -> tuple[list[Any], str]:
    answer = team.team_namespaces_list_continue(cursor) if cursor else team.team_namespaces_list(ENTRIES_PER_PAGE)
    return answer.namespaces, answer.cursor if answer.has_more else ""


def _part_of(namespace: _Namespace) -> Part:
    return Part(namespace.id, namespace.name)


@dataclass(frozen=True, slots=True)
class TeamDropbox(Dropbox):
    """`Connector` of a namespace. `folder`: its folder on the web, "" for the owner's home."""

    folder: str = ""

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        pages = Dropbox.iter_changes(self, tokens, cursor)
        try:
            for page in pages:
                items = [replace(item, properties=self._lead_to_folder(item.properties)) for item in page.items]
                yield replace(page, items=items)
        except (SpaceClosed, ListingRefused) as error:
            raise PartUnavailable from error

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        raw = Dropbox.fetch(self, tokens, item, to)
        return raw and replace(raw, properties=self._lead_to_folder(raw.properties))

    def is_deleted(self, tokens: TokenSource, external_id: str) -> bool:
        try:
            return Dropbox.is_deleted(self, tokens, external_id)
        except SpaceClosed:
            return False

    def _lead_to_folder(self, properties: Mapping[str, str | int]) -> Mapping[str, str | int]:
        if not self.folder or "url" not in properties:
            return properties
        url = str(properties["url"]).replace("/home", f"/home/{quote(self.folder)}", 1)
        return {**properties, "url": url}
