"""OneDrive, through Microsoft Graph."""

from __future__ import annotations

from connectors.info import ConnectorInfo
from connectors.microsoft_graph import APP_FIELD_DESCRIPTIONS, MicrosoftApp

INFO = ConnectorInfo(
    title="OneDrive",
    account="A OneDrive",
    documents="Files of a OneDrive",
    vendor="Microsoft",
    app=MicrosoftApp,
    fields=APP_FIELD_DESCRIPTIONS,
    localhost=True,
)
