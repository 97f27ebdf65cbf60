"""Outlook mail, through Microsoft Graph."""

from __future__ import annotations

from connectors.info import Choice, ConnectorInfo
from connectors.microsoft_graph import APP_FIELD_DESCRIPTIONS, MicrosoftApp

INFO = ConnectorInfo(
    title="Outlook mail",
    account="A mailbox of Outlook",
    documents="Threads of mails of an Outlook mailbox",
    vendor="Microsoft",
    app=MicrosoftApp,
    fields=APP_FIELD_DESCRIPTIONS,
    choice=Choice(
        about="Which folders to read, by id or path such as Inbox/Clients; all of them without it.",
        scope="All folders but drafts, junk and deleted mails, or what `include` and `exclude` leave of them.",
    ),
    localhost=True,
)
