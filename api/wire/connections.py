"""Connections in requests and responses, with masked tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from api.wire.access import Access
from api.wire.common import DataAnswer, Listing, NamespaceId, ObjectReference, PaginationQuery, Timestamp
from api.wire.documents import NamespaceReference
from api.wire.health import ResourceHealth
from api.wire.push import Push
from api.wire.source_address import NewConfig
from retrieval.connections import connections
from retrieval.connections.browsing import NewestRequest
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
MaskedToken = Annotated[str, Meta(examples=["••••a1b2"])]


class ConnectorName(StrEnum):
    """The content services."""

    # The members are the connected sources, each with its name as value.
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


class PermissionMode(StrEnum):
    """Treatment of the content service's permissions."""

    IGNORE = "IGNORE"
    SOURCE = "SOURCE"


Permissions = Annotated[
    PermissionMode,
    Meta(
        description="IGNORE: access lists come from requests; without one, everyone with a key has access. "
        "SOURCE: access lists are read from the content service with each ingestion."
    ),
]


class CreateConnection(Struct, rename="camel", kw_only=True):
    """A connection to create. Without `config`, the namespace must have an OAuth app of the connector."""

    namespace_id: NamespaceId
    name: Annotated[Name, Meta(description="The display name.")]
    connector: Annotated[ConnectorName, Meta(description="The content service.")]
    client_redirect_url: RedirectUrl | None = None
    sync_interval_minutes: SyncInterval | None = None
    permissions: Permissions = PermissionMode.IGNORE
    config: NewConfig = None


class UpdateConnection(Struct, rename="camel", kw_only=True):
    """Changes to a connection; a request without changes begins a new authorization. Null removes a value."""

    namespace_id: NamespaceId
    name: Annotated[Name | UnsetType, Meta(description="The display name.")] = UNSET
    client_redirect_url: RedirectUrl | UnsetType | None = UNSET
    sync_interval_minutes: SyncInterval | UnsetType | None = UNSET
    permissions: Permissions | UnsetType = UNSET
    config: NewConfig = None

    def to_change(self) -> ConnectionChange:
        # An empty redirect URL changes nothing.
        return ConnectionChange(
            name=None if self.name is UNSET else self.name,
            client_redirect_url=None if self.client_redirect_url is UNSET else self.client_redirect_url or None,
            changes_redirect=self.client_redirect_url not in {UNSET, ""},
            sync_minutes=None if self.sync_interval_minutes is UNSET else self.sync_interval_minutes,
            changes_sync=self.sync_interval_minutes is not UNSET,
            permissions=None if self.permissions is UNSET else self.permissions,
        )


class RevokedDocumentsAction(StrEnum):
    """Treatment of documents without another connection."""

    KEEP = "KEEP"
    DELETE = "DELETE"


class RevokeConnection(Struct, rename="camel", kw_only=True):
    """The connection's namespace, and the treatment of its documents."""

    namespace_id: NamespaceId
    documents: Annotated[
        RevokedDocumentsAction,
        Meta(
            description="KEEP: documents stay searchable without a connection. DELETE: documents are removed. "
            "Documents of other connections are kept in both cases."
        ),
    ] = RevokedDocumentsAction.KEEP


class ConnectionsQuery(PaginationQuery, kw_only=True):
    """Filter and page of connections, by default of all connectors."""

    namespace_id: NamespaceId
    connector: Annotated[ConnectorName | None, Meta(description="Only connections of this content service.")] = None


class ConnectionQuery(Struct, rename="camel"):
    """The namespace of the connection; absent for any namespace."""

    namespace_id: Annotated[str | None, Meta(description="The namespace's id.")] = None


class ConnectionCredentials(Struct, rename="camel"):
    """The masked tokens."""

    access_token: Annotated[MaskedToken, Meta(description="The access token, masked.")]
    refresh_token: Annotated[MaskedToken | None, Meta(description="The refresh token, masked; null without one.")]

    @classmethod
    def from_tokens(cls, tokens: Tokens) -> ConnectionCredentials:
        refresh_token = mask_secret(tokens.refresh_token) if tokens.refresh_token else None
        return cls(mask_secret(tokens.access_token), refresh_token)


class ConnectionConfig(Struct, rename="camel", kw_only=True):
    """Authorization of a connection."""

    auth_type: Annotated[Literal["OAUTH2", "CONFIG"], Meta(description="CONFIG: by the sent `config` only.")] = "OAUTH2"
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
        tokens = connection.tokens
        if connection.has_config:
            # Some configs also need the authorization by a person.
            is_oauth = tokens is not None and tokens.by_person
            return cls(auth_type="OAUTH2" if is_oauth else "CONFIG", credentials=None, url=connection.account or "")
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
        PermissionMode | UnsetType,
        Meta(description="SOURCE if access lists are read from the content service; absent otherwise."),
    ] = UNSET
    next_sync_at: Annotated[
        Timestamp | UnsetType, Meta(description="Time of the next automatic ingestion; absent without a schedule.")
    ] = UNSET
    health: Annotated[
        ResourceHealth | UnsetType, Meta(description="Outcomes of its job runs; only in GET responses.")
    ] = UNSET

    @classmethod
    def from_connection(
        cls, connection: connections.Connection, health: ResourceHealth | UnsetType = UNSET
    ) -> Connection:
        mode, next_sync = PermissionMode(connection.permissions), connection.next_sync()
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
            permissions=UNSET if mode is PermissionMode.IGNORE else mode,
            next_sync_at=UNSET if next_sync is None else Timestamp.from_datetime(next_sync),
            health=health,
        )


class CreatedConnectionData(Struct, rename="camel"):
    """The new connection with an authorization URL."""

    connection: ObjectReference
    authorization_url: Annotated[
        str | None,
        Meta(description="URL where a person authorizes the connection within ten minutes; null with a `config`."),
    ]


class ConnectionDocuments(Struct):
    """Number of documents of this connection only, and of documents shared with others."""

    own: Annotated[int, Meta(description="Documents that no other connection has.")]
    shared: Annotated[int, Meta(description="Documents that other connections have too.")]


class SelectedEntry(Struct, rename="camel", kw_only=True):
    """A file or folder by id or path, or all files of a media type."""

    id: Annotated[str | UnsetType, Meta(description="The id at the content service.")] = UNSET
    path: Annotated[str | UnsetType, Meta(description="The path as requested.")] = UNSET
    mime_type: Annotated[str | UnsetType, Meta(description="The media type as requested.")] = UNSET


class Selection(Struct):
    """The `include`, `exclude` and `access` of the newest ingestion as requested."""

    include: Annotated[list[SelectedEntry], Meta(description="Included entries; empty for the whole account.")]
    exclude: Annotated[list[SelectedEntry], Meta(description="Excluded entries.")]
    access: Annotated[
        Access | UnsetType,
        Meta(description="The access list of that ingestion; absent without one, and without documents:read."),
    ] = UNSET

    @classmethod
    def from_newest(cls, newest: NewestRequest | None, *, shows_access: bool) -> Selection | UnsetType:
        """Return the selection of the newest ingestion; UNSET without an ingestion or a restriction."""
        if newest is None:
            return UNSET
        access = newest.access if shows_access else None
        if not newest.choice and not access:
            return UNSET
        return cls(
            include=_selected_entries(newest.choice.include),
            exclude=_selected_entries(newest.choice.exclude),
            access=UNSET if access is None else Access.from_stored(access.dump()),
        )


def _selected_entries(entries: Iterable[Mapping[str, str]]) -> list[SelectedEntry]:
    return [
        SelectedEntry(id=entry.get("id", UNSET), path=entry.get("path", UNSET), mime_type=entry.get("mimeType", UNSET))
        for entry in entries
    ]


class ConnectionData(Struct):
    """A connection, with the number of its documents."""

    connection: Connection
    documents: ConnectionDocuments
    chosen: Annotated[
        Selection | UnsetType,
        Meta(description="Selection of the newest ingestion; absent without one, or if it had no restriction."),
    ] = UNSET
    push: Annotated[Push | UnsetType, Meta(description="The push of the connection; absent if it is off.")] = UNSET


class RevokedDocuments(Struct):
    """Numbers of documents by their treatment."""

    kept: Annotated[int, Meta(description="Documents that are kept without a connection.")]
    deleted: Annotated[int, Meta(description="Documents that are removed.")]
    shared: Annotated[int, Meta(description="Documents that are kept with other connections.")]


class RevokedConnectionData(Struct):
    """The revoked connection, and the treatment of its documents."""

    connection: Annotated[Connection, Meta(description="The revoked connection.")]
    documents: RevokedDocuments


class ConnectionsData(Listing, kw_only=True):
    """Connections, newest first."""

    connections: list[Connection]


class UpdatedConnectionData(Struct, rename="camel"):
    """The connection with a new authorization URL."""

    authorization_url: Annotated[
        str | None, Meta(description="URL where a person authorizes the connection within ten minutes.")
    ]
    connection: Connection


class ConnectionCreatedAnswer(DataAnswer[CreatedConnectionData]):
    """The new connection, PENDING before the authorization."""


class ConnectionAnswer(DataAnswer[ConnectionData]):
    """A connection."""


class ConnectionRevokedAnswer(DataAnswer[RevokedConnectionData]):
    """The revoked connection and its documents."""


class ConnectionsAnswer(DataAnswer[ConnectionsData]):
    """Every connection of the namespace and tenant."""


class ConnectionUpdatedAnswer(DataAnswer[UpdatedConnectionData]):
    """The current state of the connection."""
