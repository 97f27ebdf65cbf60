"""Google Workspace by a service account with domain-wide delegation: shared drives, and the drives of people."""

# The service account acts for an administrator to list drives and people, for each person to read the files that they
# own, and for a member of each shared drive to read its files: Google gives administrators names, but no content.
# developers.google.com/identity/protocols/oauth2/service-account names the refusals.

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final

from google.auth import exceptions
from google.auth.transport.requests import Request
from google.oauth2 import service_account

from connectors.http import sessions
from connectors.http.no_authorizer import NoAuthorizer
from connectors.organization import CredentialsEnded, MemberTokens, Part, PartUnavailable
from connectors.sources.google_drive import transport
from connectors.sources.google_drive.client import SERVICE_POLICY, Drive, iterate_pages
from connectors.sources.google_drive.connector import OAUTH_SERVICE, READ_SCOPE, GoogleDrive
from connectors.sources.google_drive.listing import DrivePart
from connectors.sources.google_drive.transport import HttpPool
from retrieval.errors import Fatal, Retryable, Skippable
from retrieval.ports import Tokens

if TYPE_CHECKING:
    from retrieval.ports import TokenSource
    from retrieval.settings import Settings

DIRECTORY_SCOPES: Final = (
    "https://www.googleapis.com/auth/admin.directory.user.readonly",
    "https://www.googleapis.com/auth/admin.directory.group.member.readonly",
)
PEOPLE_PER_PAGE: Final = 500
# Members of a shared drive that are tried, those with the most rights first.
MAX_TRIED_MEMBERS: Final = 20
_ROLES: Final = ("organizer", "fileOrganizer", "writer", "commenter", "reader")
_ADDRESS: Final = re.compile(r"https://drive\.google\.com(?:/a/([\w.-]+))?/?")
_KEY_FIELDS: Final = ("client_email", "client_id", "private_key", "private_key_id")

DIRECTORY_REFUSED_MESSAGE: Final = (
    "Google does not let {user} read the organization's people and drives: enable the Admin SDK API and the Google"
    " Drive API in the service account's project, and name an administrator who may read users as `user`."
)
DELEGATION_MESSAGE: Final = (
    "Google does not let the service account act for {user}: under Security, API controls, Domain-wide delegation of"
    " the Admin console allow the client {client} the scopes {scopes}. The next run works again."
)
USER_MESSAGE: Final = (
    "Google knows no active {user}: send the connection's config with another administrator as `user`."
)
KEY_ENDED_MESSAGE: Final = (
    "Google no longer accepts the key of the service account: create a key, and send the connection's config with it."
)
CLOCK_MESSAGE: Final = "Google does not accept the time of this server: correct its clock."
# Words of an `invalid_grant` that concern the key, or the clock; all others concern the person.
_KEY_WORDS: Final = ("signature", "account not found", "no key")
_CLOCK_WORDS: Final = ("short-lived", "timeframe", "future")


class _SubjectRefused(Exception):
    """The service account may not act for this person."""


def read_config(config: Mapping[str, Any], settings: Settings) -> Tokens:  # noqa: ARG001
    """Check the `config` of a connection. ValueError with field and reason."""
    address = _ADDRESS.fullmatch(str(config.get("url") or ""))
    if address is None:
        raise ValueError("url", "must be https://drive.google.com/a/ and the organization's domain")
    if unknown := config.keys() - {"url", "credentials", "people"}:
        raise ValueError(min(unknown), "is not for this connector")
    credentials = config.get("credentials") or {}
    if credentials.keys() != {"user", "privateKey"}:
        raise ValueError("credentials", "must hold user and privateKey, and nothing else")
    if "@" not in credentials["user"]:
        raise ValueError("credentials.user", "must be the address of an administrator")
    key = _read_key(credentials["privateKey"])
    domain = address[1] or credentials["user"].rpartition("@")[2]
    content = {**config, "credentials": {"user": credentials["user"], "privateKey": key}, "domain": address[1]}
    return Tokens(json.dumps(content), account=f"https://drive.google.com/a/{domain.lower()}")


def _read_key(text: str) -> dict[str, str]:
    """Return the used fields of a key file. ValueError with field and reason."""
    try:
        fields = json.loads(text)
        key = {name: str(fields[name]) for name in _KEY_FIELDS}
        _make_credentials(key, "", "", ())
    except (ValueError, LookupError, TypeError, exceptions.GoogleAuthError):
        words = "must be the JSON file of a service account's key, with type, client_email, client_id and private_key"
        raise ValueError("credentials.privateKey", words) from None
    return key


def _make_credentials(
    key: Mapping[str, str], token_url: str, subject: str, scopes: tuple[str, ...]
) -> service_account.Credentials:
    # The file's own `token_uri` could lead anywhere.
    info = {**key, "token_uri": token_url, "type": "service_account"}
    make: Callable[..., service_account.Credentials] = service_account.Credentials.from_service_account_info
    return make(info, subject=subject, scopes=scopes)


def open_organization(settings: Settings, config: Mapping[str, Any], tokens: TokenSource) -> Workspace:
    """Open the organization of a connection."""
    endpoints = settings.oauth_endpoints.get("GOOGLE_DRIVE")
    return Workspace(
        key=config["credentials"]["privateKey"],
        user=config["credentials"]["user"],
        domain=config.get("domain") or "",
        has_people=bool(config.get("people")),
        connection=tokens,
        token_url=(endpoints and endpoints.token) or OAUTH_SERVICE.token,
        drives=GoogleDrive(NoAuthorizer(), settings),
        directory=HttpPool(settings.endpoints.get("GOOGLE_DRIVE"), directory=True),
    )


@dataclass(slots=True)
class Workspace:
    """`Organization` of a service account. The key of a part is the id of a person or a shared drive."""

    key: Mapping[str, str] = field(repr=False)
    user: str
    domain: str
    has_people: bool
    connection: TokenSource
    token_url: str
    drives: GoogleDrive
    directory: HttpPool
    people: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    tokens: dict[str, MemberTokens] = field(default_factory=dict, repr=False)

    def list_parts(self) -> Iterator[Part]:
        """Return the shared drives, then the people, by name."""
        self.people.clear()
        admin = self._admin_drive()
        drives = self._ask(lambda: admin.list_shared_drives(admin=True))
        yield from [Part(key, name, is_named=True) for key, name in sorted(drives.items(), key=lambda pair: pair[1])]
        if self.has_people:
            for answer in iterate_pages(self._list_people):
                for person in answer.get("users", []):
                    self.people[person["id"]] = person
                    yield Part(person["id"], person["primaryEmail"])

    def find_part(self, key: str) -> Part | None:
        if key.isdigit():
            person = self._find_person(key) if self.has_people else None
            return Part(key, person["primaryEmail"]) if person else None
        try:
            name = self._ask(lambda: self._admin_drive().read_shared_drive(key))
        except transport.NotFound:
            return None
        return Part(key, name, is_named=True)

    def open_part(self, part: Part) -> tuple[GoogleDrive, MemberTokens]:
        if not part.key.isdigit():
            return self.drives.with_part(DrivePart(part.key, part.name)), self._find_member(part.key)
        person = self._find_person(part.key)
        if person is None or person.get("suspended") or person.get("archived"):
            raise PartUnavailable
        return self.drives.with_part(DrivePart("")), self._act_for(person["primaryEmail"])

    def _find_person(self, key: str) -> Mapping[str, Any] | None:
        if key not in self.people:
            try:
                self.people[key] = self._ask_directory(
                    lambda directory: directory.users.get(userKey=key, fields="id,primaryEmail,suspended,archived")
                )
            except transport.NotFound:
                return None
        return self.people[key]

    def _list_people(self, page: str | None) -> dict[str, Any]:
        whose = {"domain": self.domain} if self.domain else {"customer": "my_customer"}
        fields = "nextPageToken,users(id,primaryEmail,suspended,archived)"
        return self._ask_directory(
            lambda directory: directory.users.list(
                **whose, maxResults=PEOPLE_PER_PAGE, orderBy="email", pageToken=page, fields=fields
            )
        )

    def _find_member(self, drive_id: str) -> MemberTokens:
        """Return the tokens of a member of a shared drive, of a group's member where people are none."""
        if drive_id in self.tokens:
            return self.tokens[drive_id]
        with suppress(transport.NotFound):
            for address in self._list_members(drive_id):
                with suppress(PartUnavailable):
                    self.tokens[drive_id] = self._act_for(address)
                    return self.tokens[drive_id]
        raise PartUnavailable

    def _list_members(self, drive_id: str) -> Iterator[str]:
        answers = iterate_pages(lambda page: self._admin_drive().list_permissions(drive_id, page, admin=True))
        members = [member for answer in self._ask(lambda: list(answers)) for member in answer.get("permissions", [])]
        members = [member for member in members if member.get("role") in _ROLES and not member.get("deleted")]
        members.sort(key=lambda member: _ROLES.index(member["role"]))
        people = [member["emailAddress"] for member in members if member.get("type") == "user"]
        yield from people[:MAX_TRIED_MEMBERS]
        for group in [member["emailAddress"] for member in members if member.get("type") == "group"]:
            with suppress(transport.NotFound):  # of another organization
                yield from self._list_group(group)

    def _list_group(self, address: str) -> list[str]:
        """Return people of a group. NotFound for a group of another organization."""
        request = {"groupKey": address, "includeDerivedMembership": True, "maxResults": MAX_TRIED_MEMBERS}
        answer = self._ask_directory(lambda directory: directory.members.list(**request, fields="members(email,type)"))
        return [member["email"] for member in answer.get("members", []) if member.get("type") == "USER"]

    def _act_for(self, address: str) -> MemberTokens:
        """Return the tokens of a person. Raises PartUnavailable for a suspended or foreign one."""
        if address not in self.tokens:
            tokens = MemberTokens(self.connection, lambda: self._request_member(address))
            tokens.token()
            self.tokens[address] = tokens
        return self.tokens[address]

    def _request_member(self, address: str) -> Tokens:
        try:
            return self._request_tokens(address, (READ_SCOPE,))
        except _SubjectRefused as error:
            raise PartUnavailable from error

    def _admin_tokens(self) -> MemberTokens:
        if "" not in self.tokens:
            self.tokens[""] = MemberTokens(self.connection, self._request_admin)
        return self.tokens[""]

    def _request_admin(self) -> Tokens:
        scopes = (READ_SCOPE, *DIRECTORY_SCOPES)
        try:
            return self._request_tokens(self.user, scopes)
        except _SubjectRefused as error:
            is_delegation = str(error) != "invalid_grant"
            message = DELEGATION_MESSAGE if is_delegation else USER_MESSAGE
            names = ", ".join(scopes)
            raise Fatal(message.format(user=self.user, client=self.key["client_id"], scopes=names)) from error

    def _admin_drive(self) -> Drive:
        return self.drives.make_drive(self._admin_tokens())

    def _ask_directory(self, build_request: Callable[[Any], Any]) -> dict[str, Any]:
        def send(token: str) -> dict[str, Any]:
            answer: dict[str, Any] = self._ask(lambda: self.directory.send(token, build_request))
            return answer

        return SERVICE_POLICY.call(self._admin_tokens(), send)

    def _ask(self, request: Callable[[], Any]) -> Any:
        """Return the answer to the administrator; Fatal with advice for a refusal."""
        try:
            return request()
        except transport.NotFound:
            raise
        except (Skippable, transport.Forbidden, transport.CursorExpired) as error:
            if isinstance(error.__cause__, transport.NotFound):
                raise error.__cause__ from None
            raise Fatal(DIRECTORY_REFUSED_MESSAGE.format(user=self.user)) from error

    def _request_tokens(self, subject: str, scopes: tuple[str, ...]) -> Tokens:
        """Request an access token for a person. Raises _SubjectRefused, CredentialsEnded, Fatal or Retryable."""
        logging.getLogger("google.auth").setLevel(logging.CRITICAL)
        credentials = _make_credentials(self.key, self.token_url, subject, scopes)
        try:
            refresh: Callable[[Request], None] = credentials.refresh
            refresh(Request(sessions.requests_session(None, "GOOGLE_DRIVE")))
        except exceptions.TransportError as error:
            raise Retryable("Google cannot be reached right now.") from error
        except exceptions.RefreshError as error:
            raise _error_of_refusal(error) from None  # it quotes the vendor
        if not credentials.token or credentials.expiry is None:
            raise Retryable("Google answered without an access token.")
        return Tokens(credentials.token, expires_at=credentials.expiry.replace(tzinfo=UTC))


def _error_of_refusal(error: exceptions.RefreshError) -> Exception:
    answer = error.args[1] if len(error.args) > 1 and isinstance(error.args[1], dict) else {}
    code = answer.get("error")
    if error.retryable or not isinstance(code, str):
        return Retryable("Google cannot answer right now.")
    words = str(answer.get("error_description") or "").lower()
    if code in {"invalid_client", "disabled_client", "deleted_client"}:
        return CredentialsEnded(KEY_ENDED_MESSAGE)
    if code == "invalid_grant" and any(word in words for word in _KEY_WORDS):
        return CredentialsEnded(KEY_ENDED_MESSAGE)
    if code == "invalid_grant" and any(word in words for word in _CLOCK_WORDS):
        return Fatal(CLOCK_MESSAGE)
    return _SubjectRefused(code)
