"""Box of an enterprise by client credentials: a part for each person, with the files that the person owns."""

# developer.box.com/guides/authentication/client-credentials: a token of the app's service account, by the enterprise's
# id. developer.box.com/guides/authentication/jwt/as-user: the service account acts for managed users, never for itself;
# what accounts outside of the enterprise own stays closed. developer.box.com/reference/get-users and get-users-id:
# deleted people are not listed, inactive ones are, and people outside of the enterprise have no status.

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from connectors.http import oauth
from connectors.http.no_authorizer import NoAuthorizer
from connectors.http.oauth import OAuth
from connectors.http.responses import Cursors
from connectors.organization import CredentialsEnded, MemberTokens, Part, PartUnavailable
from connectors.sources.box import files
from connectors.sources.box.client import BoxSession, Forbidden, NotFound
from connectors.sources.box.connector import OAUTH_SERVICE, Box
from connectors.sources.box.listing import AccountClosed, BoxListing
from retrieval.errors import AppRefused, Fatal
from retrieval.ports import Page, SourceItem, Tokens

if TYPE_CHECKING:
    from connectors.sources.box.answers import Person
    from retrieval.ports import TokenSource
    from retrieval.settings import Settings

_ADDRESS: Final = re.compile(r"https://(?:[a-z0-9-]+\.)*box\.com/?", re.IGNORECASE)
# Accounts of apps have no files of people, and nobody acts for them.
_APP_LOGIN: Final = "@boxdevedition.com"
_INACTIVE: Final = "inactive"

CREDENTIALS_MESSAGE: Final = (
    "Box does not accept the app {client} in the enterprise {enterprise}: check the client id, the client secret and"
    " the enterprise's id, have an administrator authorize the app in the Admin Console under Apps, and send the"
    " connection's config."
)
REFUSED_MESSAGE: Final = (
    "Box does not let the app list the enterprise's people: choose App + Enterprise Access and the scope Manage users"
    " in the app's configuration, and have an administrator authorize the app again."
)
INACTIVE_REASON: Final = "the account is inactive"
CLOSED_REASON: Final = (
    "Box refuses to act for the account: allow the app to make API calls using the as-user header, and authorize it"
    " again"
)


def read_config(config: Mapping[str, Any], settings: Settings) -> Tokens:  # noqa: ARG001
    """Check the `config` of a connection. ValueError with field and reason."""
    url, enterprise = str(config.get("url") or ""), str(config.get("enterpriseId") or "")
    if not _ADDRESS.fullmatch(url):
        raise ValueError("url", "must be the address of the enterprise's Box, such as https://example.app.box.com")
    if unknown := config.keys() - {"url", "enterpriseId", "credentials"}:
        raise ValueError(min(unknown), "is not for this connector")
    if not (enterprise.isascii() and enterprise.isdigit()):
        raise ValueError("enterpriseId", "must be the number of the enterprise, as the Admin Console shows it")
    if (config.get("credentials") or {}).keys() != {"clientId", "clientSecret"}:
        raise ValueError("credentials", "must hold clientId and clientSecret, and nothing else")
    return Tokens(json.dumps(dict(config)), account=f"{url.rstrip('/').lower()}/enterprise/{enterprise}")


def open_organization(settings: Settings, config: Mapping[str, Any], tokens: TokenSource) -> Enterprise:
    """Open the organization of a connection."""
    enterprise = config["enterpriseId"]
    service = replace(OAUTH_SERVICE, extra={"box_subject_type": "enterprise", "box_subject_id": enterprise})
    flow = oauth.make_oauth("BOX", service, config["credentials"], settings)
    session = BoxSession(settings.endpoints.get("BOX"), settings.max_file_bytes)
    return Enterprise(session, MemberTokens(tokens, lambda: _request_tokens(flow, enterprise)))


def _request_tokens(flow: OAuth, enterprise: str) -> Tokens:
    try:
        return flow.request_own()
    except Fatal as error:
        if isinstance(error, AppRefused) and error.__cause__ is not None:  # a blocked address
            raise
        raise CredentialsEnded(CREDENTIALS_MESSAGE.format(client=flow.client_id, enterprise=enterprise)) from None


@dataclass(slots=True)
class Enterprise:
    """`Organization` of managed users. The key of a part is the id of a person."""

    session: BoxSession
    tokens: MemberTokens = field(repr=False)
    people: dict[str, Person] = field(default_factory=dict)
    accounts: dict[str, PersonBox] = field(default_factory=dict, repr=False)

    def list_parts(self) -> Iterator[Part]:
        self.people.clear()
        cursors, marker = Cursors("Box's listing of people"), ""
        while True:
            try:
                page = self.session.list_people(self.tokens, marker)
            except (Forbidden, NotFound) as error:
                raise Fatal(REFUSED_MESSAGE) from error
            for person in page.entries:
                if not (person.login or "").endswith(_APP_LOGIN):
                    self.people[person.id] = person
                    yield _part_of(person)
            marker = page.next_marker or ""
            if not marker:
                return
            cursors.follow(marker, brought=bool(page.entries))

    def find_part(self, key: str) -> Part | None:
        person = self._find_person(key)
        return _part_of(person) if person else None

    def open_part(self, part: Part) -> tuple[PersonBox, MemberTokens]:
        person = self._find_person(part.key)
        if person is None or person.status == _INACTIVE:
            raise PartUnavailable(INACTIVE_REASON)
        account = self.accounts.setdefault(
            part.key, PersonBox(NoAuthorizer(), replace(self.session, user_id=part.key), owner_id=part.key)
        )
        return account, self.tokens

    def _find_person(self, key: str) -> Person | None:
        if key not in self.people:
            try:
                person = self.session.read_person(self.tokens, key)
            except NotFound:
                return None
            except Forbidden as error:
                raise Fatal(REFUSED_MESSAGE) from error
            if person.status is None:
                return None
            self.people[key] = person
        return self.people[key]


def _part_of(person: Person) -> Part:
    return Part(person.id, person.login or person.id)


@dataclass(frozen=True, slots=True)
class PersonBox(Box):
    """`Connector` of the files that a person owns; others' files are read of their owners."""

    owner_id: str = ""

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        try:
            yield from BoxListing(self.client, tokens, self.owner_id).pages(cursor)
        except AccountClosed as error:
            raise PartUnavailable(CLOSED_REASON) from error

    def is_deleted(self, tokens: TokenSource, external_id: str) -> bool:
        try:
            file = self.client.read_file(tokens, external_id)
        except NotFound:
            return True
        except Forbidden:
            return False
        return files.is_trashed(file) or not files.is_owned(file, self.owner_id)
