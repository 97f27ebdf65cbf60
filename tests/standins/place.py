"""What the connectors' contract suite does with a vendor's account on loopback, and how a person's app is set up."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Protocol

from retrieval.errors import Fatal

if TYPE_CHECKING:
    from collections.abc import Callable

    from retrieval.settings import Settings
    from tests.standins.faults import Fault

APP = {"clientId": "client", "clientSecret": "canary-client-secret", "apiKey": "canary-api-key"}
"""The app of every account. `apiKey` is Google Drive's alone."""


class Account(Protocol):
    """A vendor's account: what a person does in it, and what the vendor does to its clients.

    A path is its folders and a name, "plans/2026/launch.txt"; folders are made as needed. The text of a file comes out
    of `fetch` as it went in, but for what rendering adds.
    """

    connector: str
    settings: Settings
    """With `endpoints` and `oauth_endpoints` that lead here."""
    page: int
    """Items that one page of a listing holds at most; may be set."""
    requests: list[str]
    """"METHOD /path" of every request, in order, fetched content included."""
    fault: Callable[[str], Fault | None]
    """Asked with "METHOD /path" before each request; what it gives is done instead (tests.standins.faults)."""

    def put(self, path: str, text: str) -> str:
        """A new file or page; its external id."""
        ...

    def change(self, external_id: str, text: str) -> None: ...

    def rename(self, external_id: str, name: str) -> None: ...

    def move(self, external_id: str, folder: str) -> None: ...

    def delete(self, external_id: str) -> None:
        """As a person deletes: into the vendor's trash, where it has one."""
        ...

    def lose(self) -> None:
        """A broken vendor: listings answer as if nothing was there, while every item can still be had by its id."""
        ...

    def forget_cursors(self) -> None:
        """Every cursor that was handed out is too old from now on, as the vendor says it."""
        ...

    def token(self) -> str:
        """An access token as a person's visit gives it."""
        ...

    def expire(self) -> None:
        """Access tokens handed out so far are refused (401)."""
        ...

    def visit(self, authorization_url: str) -> str:
        """A person allows the access: where the browser is sent back to, code and state in it."""
        ...


class TestTokens:
    """A `TokenSource` without a database: renews at the account, and remembers what the connection came to."""

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
    """For comparing what a vendor renders: its words, one space between them."""
    return " ".join(str(text).split())
