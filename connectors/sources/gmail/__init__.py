"""Gmail, through its SDK."""

from __future__ import annotations

from connectors.info import Choice, ConnectorInfo

INFO = ConnectorInfo(
    title="Gmail",
    account="A mailbox of Gmail",
    documents="Threads of mails of a Gmail mailbox",
    vendor="Google",
    choice=Choice(
        about="Which labels to read, by id or path such as Clients/Acme; all threads without it.",
        scope="All threads but drafts, spam and trash, or what `include` and `exclude` leave of their labels.",
    ),
)
