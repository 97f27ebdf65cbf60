"""Ingestion from content services on the wire: which connection, and how to cut what it gives."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from api.wire.ingest import ChunkConfig, Metadata, NamespaceId

ConnectionId = Annotated[
    str,
    Meta(
        min_length=1,
        description="An ACTIVE connection of this connector in the namespace and tenant.",
        examples=["conn_06gzppa1c3e5g7j9m2p4r6t8w1"],
    ),
]


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


class ConnectorConfig(Struct, rename="camel"):
    """All that the connection gives access to. `metadata` is attached to the resulting documents."""

    connection_id: ConnectionId
    metadata: Metadata | None = None
    chunk_config: ChunkConfig | None = None


class ConnectorIngestion(Struct, rename="camel", kw_only=True):
    """A connection with how to cut its documents. A `chunkConfig` within `config` counts where none is beside it."""

    config: ConnectorConfig
    chunk_config: ChunkConfig | None = None


class NotionIngestion(ConnectorIngestion, kw_only=True):
    """Pages of a Notion workspace."""

    source: Literal["NOTION"]


class GoogleDriveIngestion(ConnectorIngestion, kw_only=True):
    """Files of a Google Drive."""

    source: Literal["GOOGLE_DRIVE"]


class DropboxIngestion(ConnectorIngestion, kw_only=True):
    """Files of a Dropbox."""

    source: Literal["DROPBOX"]


class OnedriveIngestion(ConnectorIngestion, kw_only=True):
    """Files of a OneDrive."""

    source: Literal["ONEDRIVE"]


class Place(Struct, rename="camel", omit_defaults=True):
    """A site or a document library: its id at Microsoft Graph, or the path of its address. One of them."""

    id: PlaceId | UnsetType = UNSET
    path: PlacePath | UnsetType = UNSET


class SharepointConfig(ConnectorConfig, kw_only=True):
    """All libraries of the sites that the person follows, or those of `include`, followed or not."""

    include: Annotated[list[Place], Meta(max_length=200)] | None = None


class SharepointIngestion(ConnectorIngestion, kw_only=True):
    """Files of document libraries of SharePoint."""

    source: Literal["SHAREPOINT"]
    config: SharepointConfig


class BoxIngestion(ConnectorIngestion, kw_only=True):
    """Files of a Box."""

    source: Literal["BOX"]


class IngestNotion(Struct, rename="camel"):
    """A Notion workspace to ingest into a namespace."""

    namespace_id: NamespaceId
    ingest_config: NotionIngestion


class IngestGoogleDrive(Struct, rename="camel"):
    """A Google Drive to ingest into a namespace."""

    namespace_id: NamespaceId
    ingest_config: GoogleDriveIngestion


class IngestDropbox(Struct, rename="camel"):
    """A Dropbox to ingest into a namespace."""

    namespace_id: NamespaceId
    ingest_config: DropboxIngestion


class IngestOnedrive(Struct, rename="camel"):
    """A OneDrive to ingest into a namespace."""

    namespace_id: NamespaceId
    ingest_config: OnedriveIngestion


class IngestSharepoint(Struct, rename="camel"):
    """Document libraries of SharePoint to ingest into a namespace."""

    namespace_id: NamespaceId
    ingest_config: SharepointIngestion


class IngestBox(Struct, rename="camel"):
    """A Box to ingest into a namespace."""

    namespace_id: NamespaceId
    ingest_config: BoxIngestion


IngestFromConnector = IngestNotion | IngestGoogleDrive | IngestDropbox | IngestOnedrive | IngestSharepoint | IngestBox
