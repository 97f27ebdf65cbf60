"""Accounts on loopback for the connectors' contract suite, and a person's app."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Protocol

from retrieval.errors import Fatal

if TYPE_CHECKING:
    from collections.abc import Callable

    from retrieval.settings import Settings
    from tests.standins.faults import Fault

APP = {"clientId": "client", "clientSecret": "canary-client-secret", "apiKey": "canary-api-key"}
"""App of every account; only Google Drive uses `apiKey`."""


class Account(Protocol):
    """A vendor's account: actions of a person, and faults of the vendor."""

    # A path is folders and a name, "plans/2026/launch.txt"; missing folders are created. `fetch` returns the text as
    # given, except for rendering.

    connector: str
    settings: Settings
    """Settings with `endpoints` and `oauth_endpoints` of this account."""
    page: int
    """Items per page of a listing; writable."""
    requests: list[str]
    """"METHOD /path" of every request, in order, fetched content included."""
    fault: Callable[[str], Fault | None]
    """Function of "METHOD /path" before each request; returns a fault to apply instead (tests.standins.faults)."""

    def put(self, path: str, text: str) -> str:
        """Add a file or page; return the external id."""
        ...

    def change(self, external_id: str, text: str) -> None: ...

    def rename(self, external_id: str, name: str) -> None: ...

    def move(self, external_id: str, folder: str) -> None: ...

    def delete(self, external_id: str) -> None:
        """Delete as a person does: into the trash, if the vendor has a trash."""
        ...

    def lose(self) -> None:
        """Make listings empty while every item stays available by id."""
        ...

    def forget_cursors(self) -> None:
        """Expire all cursors, with the vendor's error."""
        ...

    def token(self) -> str:
        """Return an access token of a person's visit."""
        ...

    def expire(self) -> None:
        """Access tokens handed out so far are refused (401)."""
        ...

    def visit(self, authorization_url: str) -> str:
        """Allow the access as a person; return the redirect with code and state."""
        ...


class TestTokens:
    """A `TokenSource` without a database; renews at the account and records the failure of the connection."""

    __test__ = False
    _numbers = itertools.count(1)

    def __init__(self, account: Account) -> None:
        self.connection_id = f"conn_{next(self._numbers)}"
        self.account = account
        self.failed = ""
        self.renewals = 0
        self._token = account.token()

    def token(self) -> str:
        return self._token

    def renew(self, refused: str) -> str:
        if refused == self._token:
            self.renewals += 1
            self._token = self.account.token()
        return self._token

    def end_authorization(self, reason: str, _refused: str) -> Fatal:
        self.failed = reason
        return Fatal(reason)


def words(text: Any) -> str:
    """Return the words separated by single spaces, for comparing rendered texts."""
    return " ".join(str(text).split())
