"""Ingestion from content services on the wire: which connection, and how to cut what it gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar, cast

from msgspec import Meta, Struct, defstruct

from api.wire.ingest import Chunking, DryRun, For, Metadata, NamespaceId
from connectors import registry
from retrieval.choices import MOST
from retrieval.sources import pascal

S = TypeVar("S", bound=Struct)

ConnectionId = Annotated[
    str,
    Meta(
        min_length=1,
        description="An ACTIVE connection of this connector in the namespace and tenant.",
        examples=["conn_06gzppa1c3e5g7j9m2p4r6t8w1"],
    ),
]


class ConnectorConfig(Struct, rename="camel", kw_only=True):
    """What the connection gives access to, or the chosen part of it. `metadata` is attached to the documents."""

    connection_id: ConnectionId
    metadata: Metadata | None = None
    chunk_config: Chunking = None
    access: For = None
    include: list[Any] | None = None
    exclude: list[Any] | None = None
    pick: (
        Annotated[bool, Meta(description="List without ingesting: what is new is in BACKLOG until a resync names it.")]
        | None
    ) = False


class ConnectorIngestion(Struct, rename="camel", kw_only=True):
    """A connection with how to cut its documents. A `chunkConfig` within `config` counts where none is beside it."""

    config: ConnectorConfig
    chunk_config: Chunking = None
    source: str


class IngestFromConnector(Struct, rename="camel"):
    """An account of a content service to ingest into a namespace."""

    namespace_id: NamespaceId
    ingest_config: ConnectorIngestion
    dry_run: DryRun | None = False


_EXCLUDE = "What to leave out of it, as in include: where both name a file, it is left out."


def _body(name: str) -> type[IngestFromConnector]:
    """The request of one content service: its source, and what of it may be chosen."""

    def struct(kind: str, base: type[S], about: str, *fields: tuple[Any, ...]) -> type[S]:
        said = {"__doc__": about}
        made = defstruct(kind, fields, bases=(base,), kw_only=True, module=__name__, namespace=said)
        return cast("type[S]", made)

    info, known = registry.infos()[name], pascal(name)
    chosen = info.choice
    include = Annotated[list[chosen.part], Meta(max_length=MOST)] | None  # type: ignore[name-defined]
    exclude = Annotated[list[chosen.without], Meta(max_length=MOST)] | None  # type: ignore[name-defined]
    choices = (
        ("include", Annotated[include, Meta(description=chosen.about)], None),
        ("exclude", Annotated[exclude, Meta(description=_EXCLUDE)], None),
    )
    config = struct(f"{known}Config", ConnectorConfig, chosen.scope, *choices)
    source = ("source", Literal[name])
    ingestion = struct(f"{known}Ingestion", ConnectorIngestion, f"{info.documents}.", ("config", config), source)
    about = f"{info.account} to ingest into a namespace."
    return struct(f"Ingest{known}", IngestFromConnector, about, ("ingest_config", ingestion))


BODIES: Mapping[str, type[IngestFromConnector]] = {name: _body(name) for name in registry.infos()}
"""Content service to the request of its ingestion."""
