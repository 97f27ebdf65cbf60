"""Connections in requests and responses, with masked tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from api.wire.access import Access
from api.wire.common import DataAnswer, Listing, NamespaceId, NextCursor, ObjectReference, PaginationQuery, Timestamp
from api.wire.documents import NamespaceReference
from api.wire.health import ResourceHealth
from api.wire.push import Push
from api.wire.source_address import NewConfig
from retrieval.connections import connections
from retrieval.connections.browsing import NewestRequest, SelectableEntry
from retrieval.connections.connections import ConnectionChange
from retrieval.ports import Tokens
from retrieval.security.secrets import mask_secret
from retrieval.sources import CONNECTED_SOURCES
from retrieval.statuses import ConnectionStatus

Name = Annotated[str, Meta(min_length=1, max_length=200, examples=["Team drive"])]
RedirectUrl = Annotated[
    str,
    Meta(
        max_length=2048,
        description="Redirect URL after the authorization: https, or http on localhost.",
        examples=["https://app.example.com/connected"],
    ),
]
Masked = Annotated[str, Meta(examples=["••••a1b2"])]


class ConnectorName(StrEnum):
    """The content services."""

    vars().update({name: name for name in CONNECTED_SOURCES})


SyncInterval = Annotated[
    int,
    Meta(
        ge=1,
        le=525_600,
        description="Interval of automatic ingestion in minutes, a schedule of the connection; null removes it.",
        examples=[60],
    ),
]


class Permissions(StrEnum):
    """Source of access lists for documents of a connection."""

    IGNORE = "IGNORE"
    SOURCE = "SOURCE"


Sharing = Annotated[
    Permissions,
    Meta(
        description="IGNORE: access lists come from requests; without one, everyone with a key has access. "
        "SOURCE: access lists are read from the content service with each ingestion."
    ),
]


class CreateConnection(Struct, rename="camel", kw_only=True):
    """A connection to create. The namespace must have the connector's app, or `config` must be sent."""

    namespace_id: NamespaceId
    name: Annotated[Name, Meta(description="The display name.")]
    connector: Annotated[ConnectorName, Meta(description="The content service.")]
    client_redirect_url: RedirectUrl | None = None
    sync_interval_minutes: SyncInterval | None = None
    permissions: Sharing = Permissions.IGNORE
    config: NewConfig = None


class UpdateConnection(Struct, rename="camel", kw_only=True):
    """Changes to a connection; without changes a new authorization. Null removes a value."""

    namespace_id: NamespaceId
    name: Annotated[Name | UnsetType, Meta(description="The display name.")] = UNSET
    client_redirect_url: RedirectUrl | UnsetType | None = UNSET
    sync_interval_minutes: SyncInterval | UnsetType | None = UNSET
    permissions: Sharing | UnsetType = UNSET
    config: NewConfig = None

    def to_values(self) -> ConnectionChange:
        return ConnectionChange(
            name=None if self.name is UNSET else self.name,
            client_redirect_url=None if self.client_redirect_url is UNSET else self.client_redirect_url or None,
            redirect_sent=self.client_redirect_url not in {UNSET, ""},
            sync_minutes=None if self.sync_interval_minutes is UNSET else self.sync_interval_minutes,
            sync_sent=self.sync_interval_minutes is not UNSET,
            permissions=None if self.permissions is UNSET else self.permissions,
        )


class Fate(StrEnum):
    """Treatment of documents without another connection."""

    KEEP = "KEEP"
    DELETE = "DELETE"


class RevokeConnection(Struct, rename="camel", kw_only=True):
    """The connection's namespace, and the treatment of its documents."""

    namespace_id: NamespaceId
    documents: Annotated[
        Fate,
        Meta(
            description="KEEP: documents stay searchable without a connection. DELETE: documents are removed. "
            "Documents that another connection has too are kept with it."
        ),
    ] = Fate.KEEP


class ConnectionsQuery(PaginationQuery, kw_only=True):
    """Filter of connections, by default of all connectors."""

    namespace_id: NamespaceId
    connector: Annotated[ConnectorName | None, Meta(description="Only connections of this content service.")] = None


class ConnectionQuery(Struct, rename="camel"):
    """If the namespace is named, the connection must be in it."""

    namespace_id: Annotated[str | None, Meta(description="The namespace's id.")] = None


class ConnectionCredentials(Struct, rename="camel"):
    """The tokens, masked."""

    access_token: Annotated[Masked, Meta(description="The access token, masked.")]
    refresh_token: Annotated[Masked | None, Meta(description="The refresh token, masked; null where there is none.")]

    @classmethod
    def from_tokens(cls, tokens: Tokens) -> ConnectionCredentials:
        refresh_token = mask_secret(tokens.refresh_token) if tokens.refresh_token else None
        return cls(mask_secret(tokens.access_token), refresh_token)


class ConnectionConfig(Struct, rename="camel", kw_only=True):
    """Authorization of a connection. No credentials before the authorization, and none after the revocation."""

    auth_type: Annotated[Literal["OAUTH2", "CONFIG"], Meta(description="The authorization.")] = "OAUTH2"
    credentials: Annotated[
        ConnectionCredentials | None,
        Meta(
            description="The tokens, masked; null before the authorization, after the revocation and with a `config`."
        ),
    ]
    url: Annotated[
        str | UnsetType, Meta(description="The bucket or folder of a connection with a `config`; absent for others.")
    ] = UNSET

    @classmethod
    def from_connection(cls, connection: connections.Connection) -> ConnectionConfig:
        tokens, url = connection.tokens, connection.account or ""
        if connection.has_config:
            return cls(auth_type="OAUTH2" if tokens and tokens.by_person else "CONFIG", credentials=None, url=url)
        return cls(credentials=ConnectionCredentials.from_tokens(tokens) if tokens else None)


class Connection(Struct, rename="camel", kw_only=True):
    """An authorization of a content service."""

    id: Annotated[str, Meta(description="The object's id.")]
    name: Annotated[str, Meta(description="The display name.")]
    connector: Annotated[ConnectorName, Meta(description="The content service.")]
    status: Annotated[
        str, Meta(extra_json_schema={"enum": [*map(str, ConnectionStatus)]}, description="The current status.")
    ]
    status_reason: Annotated[str | None, Meta(description="Reason for the status; null without one.")]
    config: Annotated[ConnectionConfig, Meta(description="The authorization.")]
    client_redirect_url: Annotated[
        str | None, Meta(description="Redirect URL after the authorization; null for a page of this service.")
    ]
    sync_interval_minutes: Annotated[
        int | None, Meta(description="Interval of automatic ingestion in minutes; null without such a schedule.")
    ]
    tenant_id: Annotated[str | None, Meta(description="The tenant; null without one.")]
    namespace: Annotated[NamespaceReference, Meta(description="The namespace that it belongs to.")]
    organization: Annotated[ObjectReference, Meta(description="The organization that owns it.")]
    created_at: Annotated[Timestamp, Meta(description="Time of creation.")]
    updated_at: Annotated[Timestamp, Meta(description="Time of the last change.")]
    permissions: Annotated[
        Permissions | UnsetType,
        Meta(description="SOURCE if access lists are read from the content service; absent otherwise."),
    ] = UNSET
    next_sync_at: Annotated[
        Timestamp | UnsetType, Meta(description="Time of the next automatic ingestion; absent without a schedule.")
    ] = UNSET
    health: Annotated[ResourceHealth | UnsetType, Meta(description="Outcomes of its job runs; only by GET.")] = UNSET

    @classmethod
    def from_connection(
        cls, connection: connections.Connection, health: ResourceHealth | UnsetType = UNSET
    ) -> Connection:
        return cls(
            id=connection.id,
            name=connection.name,
            connector=ConnectorName(connection.connector),
            status=connection.status,
            status_reason=connection.status_reason,
            config=ConnectionConfig.from_connection(connection),
            client_redirect_url=connection.client_redirect_url,
            sync_interval_minutes=connection.sync_minutes,
            tenant_id=connection.scope.tenant or None,
            namespace=NamespaceReference(connection.scope.namespace),
            organization=ObjectReference(connection.scope.organization),
            created_at=Timestamp.from_datetime(connection.created_at),
            updated_at=Timestamp.from_datetime(connection.updated_at),
            permissions=UNSET if connection.permissions == Permissions.IGNORE else Permissions(connection.permissions),
            next_sync_at=UNSET if (next_sync := connection.next_sync()) is None else Timestamp.from_datetime(next_sync),
            health=health,
        )


class CreatedConnectionData(Struct, rename="camel"):
    """The new connection, with the URL for its authorization within ten minutes."""

    connection: ObjectReference
    authorization_url: Annotated[
        str | None,
        Meta(description="URL at which a person authorizes the connection, for ten minutes; null with a `config`."),
    ]


class ConnectionDocuments(Struct):
    """Number of documents of this connection only, and of documents shared with others."""

    own: Annotated[int, Meta(description="Documents that no other connection has.")]
    shared: Annotated[int, Meta(description="Documents that other connections have too.")]


class ChosenEntry(Struct, rename="camel", kw_only=True):
    """A file or folder by its id or path, or a type of files."""

    id: Annotated[str | UnsetType, Meta(description="The id at the content service.")] = UNSET
    path: Annotated[str | UnsetType, Meta(description="The value from the request.")] = UNSET
    mime_type: Annotated[str | UnsetType, Meta(description="The value from the request.")] = UNSET


class Chosen(Struct):
    """Selection of the newest ingestion: its `include`, `exclude` and `access` as requested."""

    include: Annotated[list[ChosenEntry], Meta(description="Included entries; empty for the whole account.")]
    exclude: Annotated[list[ChosenEntry], Meta(description="Excluded entries.")]
    access: Annotated[
        Access | UnsetType,
        Meta(description="The access list of that ingestion. Absent without one or without documents:read."),
    ] = UNSET

    @classmethod
    def from_newest(cls, newest: NewestRequest | None, *, shows_access: bool) -> Chosen | UnsetType:
        access = newest.access if newest is not None and shows_access else None
        if newest is None or not (newest.choice or access):
            return UNSET
        take, leave = _chosen_entries(newest.choice.include), _chosen_entries(newest.choice.exclude)
        return cls(take, leave, UNSET if access is None else Access.from_stored(access.dump()))


def _chosen_entries(entries: Iterable[Mapping[str, str]]) -> list[ChosenEntry]:
    return [
        ChosenEntry(id=entry.get("id", UNSET), path=entry.get("path", UNSET), mime_type=entry.get("mimeType", UNSET))
        for entry in entries
    ]


class ConnectionData(Struct):
    """A connection, with the number of its documents."""

    connection: Connection
    documents: ConnectionDocuments
    chosen: Annotated[
        Chosen | UnsetType,
        Meta(description="Selection of the newest ingestion; absent before it, and for a whole account without list."),
    ] = UNSET
    push: Annotated[Push | UnsetType, Meta(description="The push of the connection; absent if it is off.")] = UNSET


class RevokedDocuments(Struct):
    """Treatment of the documents; `shared` ones stay with their other connections."""

    kept: Annotated[int, Meta(description="Documents that are kept without a connection.")]
    deleted: Annotated[int, Meta(description="Documents that are removed.")]
    shared: Annotated[int, Meta(description="Documents that are kept with other connections.")]


class RevokedConnectionData(Struct):
    """The revoked connection, and the treatment of its documents."""

    connection: Annotated[Connection, Meta(description="The revoked connection.")]
    documents: RevokedDocuments


class ConnectionsData(Listing, kw_only=True):
    """Connections, newest first; all or one page."""

    connections: list[Connection]


class UpdatedConnectionData(Struct, rename="camel"):
    """The connection, with the URL for its new authorization within ten minutes."""

    authorization_url: Annotated[
        str | None, Meta(description="URL at which a person authorizes the connection. It is valid for ten minutes.")
    ]
    connection: Connection


class BrowseConnection(Struct, rename="camel", kw_only=True):
    """The folder to list; without `parentId` the top of the account."""

    namespace_id: NamespaceId
    parent_id: Annotated[str, Meta(min_length=1, max_length=500, description="The id of a listed entry.")] | None = None
    cursor: Annotated[str | None, Meta(description="The `nextCursor` of the previous page of the same folder.")] = None


class EntryKind(StrEnum):
    """Kinds of entries in an account."""

    FOLDER = "FOLDER"
    FILE = "FILE"


class BrowsedEntry(Struct, rename="camel", kw_only=True):
    """A file or folder of an account, as the service lists it."""

    id: Annotated[str, Meta(description="The id at the content service, for `include` and `exclude`.")]
    name: Annotated[str, Meta(description="The display name.")]
    path: Annotated[str, Meta(description="The path for `include` and `exclude`.")]
    kind: Annotated[
        EntryKind, Meta(description="The type of the entry. A page of Notion is a file that may have children.")
    ]
    mime_type: Annotated[str | None, Meta(description="The media type for `include` and `exclude`; null for folders.")]
    size: Annotated[int | None, Meta(description="Size in bytes; null if unknown.")]
    modified_at: Annotated[str | None, Meta(description="Time of the last change in ISO 8601; null if unknown.")]
    has_children: Annotated[bool, Meta(description="Whether the entry may have children; true if unknown.")]
    selected: Annotated[
        bool,
        Meta(
            description="Whether the newest ingestion includes the entry; for a folder, everything in it except "
            "excluded entries. False before the first ingestion."
        ),
    ]

    @classmethod
    def from_browsed(cls, browsed: SelectableEntry) -> BrowsedEntry:
        entry = browsed.entry
        return cls(
            id=entry.id,
            name=entry.name,
            path=entry.path,
            kind=EntryKind.FOLDER if entry.is_folder else EntryKind.FILE,
            mime_type=browsed.media_type or None,
            size=entry.size,
            modified_at=entry.modified_at,
            has_children=entry.has_children,
            selected=browsed.selected,
        )


class BrowsedData(Struct, rename="camel"):
    """A page of a folder, in the service's order."""

    items: Annotated[list[BrowsedEntry], Meta(description="The direct children of the folder.")]
    has_next_page: Annotated[bool, Meta(description="Whether another page follows.")]
    next_cursor: NextCursor


class BrowsedAnswer(DataAnswer[BrowsedData]):
    """Entries of a folder."""


class ConnectionCreatedAnswer(DataAnswer[CreatedConnectionData]):
    """The connection is PENDING until it is authorized."""


class ConnectionAnswer(DataAnswer[ConnectionData]):
    """A connection."""


class ConnectionRevokedAnswer(DataAnswer[RevokedConnectionData]):
    """The connection is REVOKED."""


class ConnectionsAnswer(DataAnswer[ConnectionsData]):
    """Every connection of the namespace and tenant."""


class ConnectionUpdatedAnswer(DataAnswer[UpdatedConnectionData]):
    """The current connection."""
