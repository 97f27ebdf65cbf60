"""SharePoint document libraries, through Microsoft Graph."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from connectors import info
from connectors.info import Choice, ConnectorInfo
from connectors.microsoft_graph import APP_FIELD_DESCRIPTIONS, MicrosoftApp

PlaceId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=500,
        description="A site's `id` (host, collection and site, with commas), the `id` of a library's drive, or that of"
        " a file or folder with the drive's and a slash before it.",
        examples=["b!-RIj2DuyvEyV1T4NlOaMHk8XkS_I8MdFlUCq1BlcjgmhRfAj3-Z8RY2VpuvV_tpd"],
    ),
]
PlacePath = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=2000,
        description="As in the address in a browser, with or without the host; of a site, a library in it, or what lies"
        " there. * stands for any part of a name, ** for any number of folders.",
        examples=["sites/marketing/Shared Documents"],
    ),
]


class Place(info.Part):
    """A site, a document library or what lies in it: by its id at Microsoft Graph or the path of its address; or a
    type of files. One of them."""

    id: PlaceId | UnsetType = UNSET
    path: PlacePath | UnsetType = UNSET


INFO = ConnectorInfo(
    title="SharePoint",
    account="Document libraries of SharePoint",
    documents="Files of document libraries of SharePoint",
    vendor="Microsoft",
    app=MicrosoftApp,
    fields=APP_FIELD_DESCRIPTIONS,
    choice=Choice(
        Place,
        about="Which sites, libraries and folders to read, by id, path or type; all of them without it.",
        scope="All libraries of the sites that the person follows, or those of `include`, followed or not.",
    ),
    localhost=True,
)
