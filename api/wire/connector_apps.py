"""Apps of content services on the wire: how a namespace brings them, and how answers show them (D09, D84)."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

Text = Annotated[str, Meta(min_length=1, max_length=2048)]
Secret = Annotated[str, Meta(min_length=1, max_length=8192)]
HttpsUrl = Annotated[str, Meta(pattern=r"^https://\S+$", max_length=2048)]


class NotionApp(Struct, rename="camel", omit_defaults=True):
    """The Notion integration that users authorize."""

    client_id: Text
    client_secret: Secret
    authorization_url: HttpsUrl | UnsetType = UNSET


class GoogleDriveApp(Struct, rename="camel"):
    """The Google Cloud app that users authorize."""

    client_id: Text
    client_secret: Secret
    api_key: Secret


class ConnectorApp(Struct, rename="camel"):
    """The app of Dropbox or Box that users authorize."""

    client_id: Text
    client_secret: Secret


TenantId = Annotated[
    str,
    Meta(
        max_length=253,
        pattern=r"^[0-9A-Za-z]([0-9A-Za-z-]*[0-9A-Za-z])?(\.[0-9A-Za-z]([0-9A-Za-z-]*[0-9A-Za-z])?)*$(?!\n)",
        description="The Microsoft Entra tenant whose accounts sign in, by id or domain. Apps of one tenant need it.",
        examples=["72f988bf-86f1-41af-91ab-2d7cd011db47"],
    ),
]


class MicrosoftApp(Struct, rename="camel", omit_defaults=True):
    """The app of OneDrive or SharePoint that users authorize."""

    client_id: Text
    client_secret: Secret
    tenant_id: TenantId | UnsetType = UNSET


class ConnectorAppView(Struct, rename="camel", omit_defaults=True):
    """A connector app with its secrets masked."""

    client_id: str
    client_secret: Annotated[str, Meta(examples=["••••1234"])]
    api_key: str | UnsetType = UNSET
    authorization_url: str | UnsetType = UNSET
    tenant_id: str | UnsetType = UNSET
