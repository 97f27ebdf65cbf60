"""People of a Google Workspace, and tokens to act for each person, by a service account with domain-wide delegation."""

# The service account acts for an administrator to list people, and for each person to read the person's own content:
# Google gives administrators names, but no content. developers.google.com/identity/protocols/oauth2/service-account
# names the refusals.

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final

from google.auth import exceptions
from google.auth.transport.requests import Request
from google.oauth2 import service_account

from connectors.google.auth import TOKEN_URL
from connectors.google.transport import GoogleApi, HttpPool, NotFound, iterate_pages
from connectors.http import sessions
from connectors.http.retries import ServicePolicy
from connectors.organization import CredentialsEnded, MemberTokens, PartUnavailable
from retrieval.errors import Fatal, Retryable, Skippable
from retrieval.ports import Tokens

if TYPE_CHECKING:
    from retrieval.ports import TokenSource
    from retrieval.settings import Settings

PEOPLE_SCOPE: Final = "https://www.googleapis.com/auth/admin.directory.user.readonly"
GROUPS_SCOPE: Final = "https://www.googleapis.com/auth/admin.directory.group.member.readonly"
DIRECTORY_POLICY: Final = ServicePolicy(service="Google Workspace", per_minute=2400, burst=50)
PEOPLE_PER_PAGE: Final = 500
_KEY_FIELDS: Final = ("client_email", "client_id", "private_key", "private_key_id")

DIRECTORY_REFUSED_MESSAGE: Final = (
    "Google does not let {user} read the organization's people and content: enable the Admin SDK API and the {title}"
    " API in the service account's project, and name an administrator who may read users as `user`."
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


def read_config(config: Mapping[str, Any], host: str, fields: frozenset[str] = frozenset()) -> Tokens:
    """Check the `config` of a connection; `fields` are further ones. ValueError with field and reason."""
    address = re.fullmatch(rf"https://{re.escape(host)}(?:/a/([\w.-]+))?/?", str(config.get("url") or ""))
    if address is None:
        raise ValueError("url", f"must be https://{host}/a/ and the organization's domain")
    if unknown := config.keys() - {"url", "credentials", *fields}:
        raise ValueError(min(unknown), "is not for this connector")
    credentials = config.get("credentials") or {}
    if credentials.keys() != {"user", "privateKey"}:
        raise ValueError("credentials", "must hold user and privateKey, and nothing else")
    if "@" not in credentials["user"]:
        raise ValueError("credentials.user", "must be the address of an administrator")
    key = _read_key(credentials["privateKey"])
    domain = address[1] or credentials["user"].rpartition("@")[2]
    content = {**config, "credentials": {"user": credentials["user"], "privateKey": key}, "domain": address[1]}
    return Tokens(json.dumps(content), account=f"https://{host}/a/{domain.lower()}")


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


@dataclass(frozen=True, slots=True)
class DirectoryResources:
    """The SDK's resources of a Google Workspace."""

    users: Any
    members: Any


def _error_of_reason(status: int, reason: str) -> Exception:  # noqa: ARG001 (the advice is the same for all reasons)
    if status in {404, 410}:
        return NotFound("Google knows no such person or group in the organization.")
    return Skippable("Google does not show the organization's people.")


def _directory_api(name: str) -> GoogleApi:
    """Return the API of directories, at the endpoint of a connector."""
    return GoogleApi(
        title="Google Workspace",
        name=name,
        url="https://admin.googleapis.com",
        path="/",
        version=("admin", "directory_v1"),
        select_resources=lambda service: DirectoryResources(service.users(), service.members()),
        make_error=_error_of_reason,
    )


@dataclass(slots=True)
class Workspace:
    """People of a Google Workspace, and tokens of a service account acting for each."""

    api: GoogleApi
    # Of content, and those of the administrator.
    scope: str
    admin_scopes: tuple[str, ...]
    key: Mapping[str, str] = field(repr=False)
    user: str
    domain: str
    connection: TokenSource
    token_url: str
    directory: HttpPool
    people: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    tokens: dict[str, MemberTokens] = field(default_factory=dict, repr=False)

    @classmethod
    def open(
        cls,
        api: GoogleApi,
        settings: Settings,
        config: Mapping[str, Any],
        connection: TokenSource,
        *,
        scope: str,
        admin_scopes: tuple[str, ...],
    ) -> Workspace:
        """Open the organization of a connection's config."""
        endpoints = settings.oauth_endpoints.get(api.name)
        return cls(
            api,
            scope,
            admin_scopes,
            key=config["credentials"]["privateKey"],
            user=config["credentials"]["user"],
            domain=config.get("domain") or "",
            connection=connection,
            token_url=(endpoints and endpoints.token) or TOKEN_URL,
            directory=HttpPool(_directory_api(api.name), settings.endpoints.get(api.name)),
        )

    def list_people(self) -> Iterator[tuple[str, str]]:
        """Yield ids and addresses of the people by address."""
        self.people.clear()
        for answer in iterate_pages("Google Workspace", self._read_people):
            for person in answer.get("users", []):
                self.people[person["id"]] = person
                yield person["id"], person["primaryEmail"]

    def find_person(self, key: str) -> Mapping[str, Any] | None:
        """Return a person by id; None for a deleted one."""
        if key not in self.people:
            try:
                self.people[key] = self._ask_directory(
                    lambda directory: directory.users.get(userKey=key, fields="id,primaryEmail,suspended,archived")
                )
            except NotFound:
                return None
        return self.people[key]

    def open_person(self, key: str) -> tuple[str, MemberTokens]:
        """Return address and tokens of a person. Raises PartUnavailable for a suspended one."""
        person = self.find_person(key)
        if person is None or person.get("suspended") or person.get("archived"):
            raise PartUnavailable
        return person["primaryEmail"], self.act_for(person["primaryEmail"])

    def list_group(self, address: str, limit: int) -> list[str]:
        """Return people of a group. NotFound for a group of another organization."""
        request = {"groupKey": address, "includeDerivedMembership": True, "maxResults": limit}
        answer = self._ask_directory(lambda directory: directory.members.list(**request, fields="members(email,type)"))
        return [member["email"] for member in answer.get("members", []) if member.get("type") == "USER"]

    def act_for(self, address: str) -> MemberTokens:
        """Return the tokens of a person. Raises PartUnavailable for a suspended or foreign one."""
        if address not in self.tokens:
            tokens = MemberTokens(self.connection, lambda: self._request_member(address))
            tokens.token()
            self.tokens[address] = tokens
        return self.tokens[address]

    def admin_tokens(self) -> MemberTokens:
        if "" not in self.tokens:
            self.tokens[""] = MemberTokens(self.connection, self._request_admin)
        return self.tokens[""]

    def refused(self) -> Fatal:
        """Return the error for a refusal to the administrator."""
        return Fatal(DIRECTORY_REFUSED_MESSAGE.format(user=self.user, title=self.api.title))

    def _read_people(self, page: str | None) -> dict[str, Any]:
        whose = {"domain": self.domain} if self.domain else {"customer": "my_customer"}
        fields = "nextPageToken,users(id,primaryEmail,suspended,archived)"
        return self._ask_directory(
            lambda directory: directory.users.list(
                **whose, maxResults=PEOPLE_PER_PAGE, orderBy="email", pageToken=page, fields=fields
            )
        )

    def _ask_directory(self, build_request: Callable[[DirectoryResources], Any]) -> dict[str, Any]:
        """Return an answer to the administrator; Fatal with advice for a refusal."""
        try:
            return DIRECTORY_POLICY.call(self.admin_tokens(), lambda token: self.directory.send(token, build_request))
        except NotFound:
            raise
        except Skippable as error:
            raise self.refused() from error

    def _request_member(self, address: str) -> Tokens:
        try:
            return self._request_tokens(address, (self.scope,))
        except _SubjectRefused as error:
            raise PartUnavailable from error

    def _request_admin(self) -> Tokens:
        try:
            return self._request_tokens(self.user, self.admin_scopes)
        except _SubjectRefused as error:
            is_delegation = str(error) != "invalid_grant"
            message = DELEGATION_MESSAGE if is_delegation else USER_MESSAGE
            names = ", ".join(dict.fromkeys([self.scope, *self.admin_scopes]))
            raise Fatal(message.format(user=self.user, client=self.key["client_id"], scopes=names)) from error

    def _request_tokens(self, subject: str, scopes: tuple[str, ...]) -> Tokens:
        """Request an access token for a person. Raises _SubjectRefused, CredentialsEnded, Fatal or Retryable."""
        logging.getLogger("google.auth").setLevel(logging.CRITICAL)
        credentials = _make_credentials(self.key, self.token_url, subject, scopes)
        try:
            refresh: Callable[[Request], None] = credentials.refresh
            refresh(Request(sessions.requests_session(None, self.api.name)))
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
