"""A Google Workspace on loopback whose people have mailboxes: a service account with domain-wide delegation."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.standins import account
from tests.standins.gmail import GmailAccount
from tests.standins.google_workspace import ADA, ADMIN, BEN, DIRECTORY, GoogleWorkspace

__all__ = ["ADA", "ADMIN", "BEN", "GoogleMailboxes", "serving"]

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.standins.faults import Handler


class GoogleMailboxes(GoogleWorkspace):
    """People with a mailbox each, by address."""

    connector = "GMAIL"
    scope_names = ("gmail.readonly", "admin.directory.user.readonly")

    def __init__(self) -> None:
        self.mailboxes: dict[str, GmailAccount] = {}
        super().__init__()

    @property
    def config(self) -> dict[str, Any]:
        config = {**super().config, "url": "https://mail.google.com/a/example.com"}
        del config["people"]
        return config

    def hire(self, address: str) -> GmailAccount:  # type: ignore[override]
        super().hire(address)
        mailbox = self.mailboxes[address] = GmailAccount(address, 1000 * len(self.ids))
        return mailbox

    def put(self, address: str, path: str, text: str) -> str:
        return f"{self.ids[address]}/{self.mailboxes[address].put(path, text)}"

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        subject = self._bearer(handler).partition(".")[2]
        if DIRECTORY.method(method, path) or subject not in self.drives:
            super().answer(handler, method, path, query, body)
        else:
            mailbox = self.mailboxes[subject]
            mailbox.page, mailbox.fault = self.page, self.fault
            mailbox.answer(handler, method, path, query, body)


@contextmanager
def serving() -> Iterator[GoogleMailboxes]:
    """Yield a workspace; violations of the descriptions fail the test."""
    workspace = GoogleMailboxes()
    with account.serving(workspace):
        yield workspace
    complaints = [*workspace.complaints, *(text for box in workspace.mailboxes.values() for text in box.complaints)]
    assert not complaints, complaints
