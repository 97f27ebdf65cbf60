"""Google Drive, through its SDK."""

from __future__ import annotations

from connectors.info import ConnectorApp, ConnectorInfo, Secret


class GoogleDriveApp(ConnectorApp):
    """The Google Cloud app that users authorize."""

    api_key: Secret


INFO = ConnectorInfo(
    title="Google Drive",
    account="A Google Drive",
    documents="Files of a Google Drive",
    vendor="Google",
    app=GoogleDriveApp,
)
