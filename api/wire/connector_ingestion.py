"""Ingestion from content services on the wire: which connection, and how to cut what it gives."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from api.wire.ingest import ChunkConfig, Metadata, NamespaceId

ConnectionId = Annotated[
    str,
    Meta(
        min_length=1,
        description="An ACTIVE connection of this connector in the namespace and tenant.",
        examples=["conn_06gzppa1c3e5g7j9m2p4r6t8w1"],
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


class IngestBox(Struct, rename="camel"):
    """A Box to ingest into a namespace."""

    namespace_id: NamespaceId
    ingest_config: BoxIngestion


IngestFromConnector = IngestNotion | IngestGoogleDrive | IngestDropbox | IngestOnedrive | IngestBox
