"""What SharePoint says of itself."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from connectors import info
from connectors.info import Choice, ConnectorInfo
from connectors.microsoft_graph.app import FIELDS, MicrosoftApp

PlaceId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=500,
        description="A site's `id` (host, collection and site, with commas), or the `id` of a library's drive.",
        examples=["b!-RIj2DuyvEyV1T4NlOaMHk8XkS_I8MdFlUCq1BlcjgmhRfAj3-Z8RY2VpuvV_tpd"],
    ),
]
PlacePath = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=2000,
        description="As in the address in a browser, with or without the host; of a site, or of a library in it.",
        examples=["sites/marketing/Shared Documents"],
    ),
]


class Place(info.Place):
    """A site or a document library: its id at Microsoft Graph, or the path of its address. One of them."""

    id: PlaceId | UnsetType = UNSET
    path: PlacePath | UnsetType = UNSET


INFO = ConnectorInfo(
    title="SharePoint",
    account="Document libraries of SharePoint",
    documents="Files of document libraries of SharePoint",
    vendor="Microsoft",
    app=MicrosoftApp,
    fields=FIELDS,
    choice=Choice(
        Place,
        about="Which sites and libraries to read, by id or path; all of them without it.",
        scope="All libraries of the sites that the person follows, or those of `include`, followed or not.",
    ),
    localhost=True,
)
