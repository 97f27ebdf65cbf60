"""Apps of Microsoft's services, registered in Microsoft Entra."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import UNSET, Meta, UnsetType

from connectors.info import ConnectorApp

TenantId = Annotated[
    str,
    Meta(
        max_length=253,
        pattern=r"^[0-9A-Za-z]([0-9A-Za-z-]*[0-9A-Za-z])?(\.[0-9A-Za-z]([0-9A-Za-z-]*[0-9A-Za-z])?)*$(?!\n)",
        description="The Microsoft Entra tenant whose accounts sign in, by id or domain. Apps of one tenant need it.",
        examples=["72f988bf-86f1-41af-91ab-2d7cd011db47"],
    ),
]


class MicrosoftApp(ConnectorApp):
    """The app of {services} that users authorize."""

    tenant_id: TenantId | UnsetType = UNSET


APP_FIELD_DESCRIPTIONS: Final = {"tenantId": "The Microsoft Entra tenant whose accounts sign in."}
