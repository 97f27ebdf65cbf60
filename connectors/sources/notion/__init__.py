"""Notion, through its SDK."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from connectors.info import ConnectorApp, ConnectorInfo, HttpsUrl


class NotionApp(ConnectorApp):
    """The Notion integration that users authorize."""

    authorization_url: HttpsUrl | UnsetType = UNSET


INFO = ConnectorInfo(
    title="Notion",
    account="A Notion workspace",
    documents="Pages of a Notion workspace",
    app=NotionApp,
    fields={"authorizationUrl": "The base of the authorization URL, if it is not the usual one."},
)
