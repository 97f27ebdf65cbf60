"""Apps of content services and their ingestion requests, from the connectors' declarations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar, cast, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, defstruct, structs

from api.wire.common import NamespaceId
from api.wire.ingest import AccessOption, Chunking, DryRun, Metadata
from connectors import registry
from retrieval.namespaces.namespaces import SECRET_FIELDS
from retrieval.security.secrets import mask_secret
from retrieval.sources import APP_CONFIGS, CREDENTIAL_SOURCES, source_type_name
from retrieval.sync_filter import MAX_ENTRIES

StructT = TypeVar("StructT", bound=Struct)


def _join_titles(app: type[Struct]) -> str:
    """Return the titles of the services with this app: `A, B or C`."""
    *all_but_last, last = [info.title for info in registry.load_connector_infos().values() if info.app is app]
    return f"{', '.join(all_but_last)} or {last}" if all_but_last else last


_FIELD_DESCRIPTIONS = {
    "clientId": "The id of the app.",
    "clientSecret": "The secret of the app. Responses show it masked.",
    "apiKey": "The key of the provider. Responses mask or omit it.",
    **{name: about for info in registry.load_connector_infos().values() for name, about in info.fields.items()},
}


def _describe_app(app: type[Struct]) -> type[Struct]:
    about = (app.__doc__ or "").format(services=_join_titles(app))
    fields = [
        (
            field.name,
            field.type if _is_described(field.type) else _describe_field(field.type, field.encode_name),
            field.default,
        )
        for field in structs.fields(app)
    ]
    return defstruct(app.__name__, fields, bases=(app,), module=__name__, namespace={"__doc__": about})


def _is_described(kind: Any) -> bool:
    parts = (kind, *get_args(kind))
    return any(
        isinstance(meta, Meta) and meta.description for part in parts for meta in getattr(part, "__metadata__", ())
    )


def _describe_field(kind: Any, name: str) -> Any:
    return Annotated[kind, Meta(description=_FIELD_DESCRIPTIONS[name])]


_DESCRIBED_APPS = {info.app: _describe_app(info.app) for info in registry.load_connector_infos().values()}


def with_apps(kind: Callable[[type[Struct]], Any], default: Any) -> Callable[[type[StructT]], type[StructT]]:
    """Add the field `<name>_config` of type `kind` for each content service's app."""

    def add_fields(struct: type[StructT]) -> type[StructT]:
        about = "The {} app that users authorize; null without one."
        apps = [
            (
                f"{name.lower()}_config",
                Annotated[kind(_DESCRIBED_APPS[info.app]), Meta(description=about.format(info.vendor or info.title))],
                default,
            )
            for name, info in registry.load_connector_infos().items()
        ]
        name, module, namespace = struct.__name__, struct.__module__, {"__doc__": struct.__doc__}
        return cast(
            "type[StructT]", defstruct(name, apps, bases=(struct,), kw_only=True, module=module, namespace=namespace)
        )

    return add_fields


class _AppView(Struct, rename="camel", omit_defaults=True):
    """Fields of every app."""

    client_id: Annotated[str, Meta(description="The id of the app.")]
    client_secret: Annotated[
        str, Meta(examples=["••••1234"], description="The secret of the app. Responses show it masked.")
    ]


_FIELD_NAMES = {field.name: field.encode_name for app in _DESCRIBED_APPS for field in structs.fields(app)}

ConnectorAppView = defstruct(
    "ConnectorAppView",
    [
        (name, _describe_field(str | UnsetType, _FIELD_NAMES[name]), UNSET)
        for name in sorted(_FIELD_NAMES.keys() - set(_AppView.__struct_fields__))
    ],
    bases=(_AppView,),
    module=__name__,
    namespace={"__doc__": "A connector app with its secrets masked."},
)


def mask_apps(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: mask_secret(value) if key in SECRET_FIELDS else value for key, value in config.items()}


def app_views(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the fields for a namespace's apps, by their API names."""
    return {
        f"{name.lower()}_config": msgspec.convert(mask_apps(configs[area]), ConnectorAppView)
        if area in configs
        else None
        for name, area in APP_CONFIGS.items()
    }


ConnectionId = Annotated[
    str,
    Meta(
        min_length=1,
        description="An ACTIVE connection of this connector in the namespace and tenant.",
        examples=["conn_06gzppa1c3e5g7j9m2p4r6t8w1"],
    ),
]


class ConnectorConfig(Struct, rename="camel", kw_only=True):
    """The connection to ingest from, with an optional selection. `metadata` is attached to the documents."""

    connection_id: ConnectionId
    metadata: Metadata | None = None
    chunk_config: Chunking = None
    access: AccessOption = None
    include: list[Any] | None = None
    exclude: list[Any] | None = None
    pick: Annotated[
        bool | None, Meta(description="List without ingesting. New documents stay in BACKLOG until they are resynced.")
    ] = False
    full_listing: Annotated[
        bool | None,
        Meta(
            description="List everything in this run, which finds deletions that lists of changes do not name."
            " Unchanged items are not fetched. Schedules do not repeat it."
        ),
    ] = False


class ConnectorIngestion(Struct, rename="camel", kw_only=True):
    """A connection with chunk settings. `chunkConfig` takes precedence over `config.chunkConfig`."""

    config: ConnectorConfig
    chunk_config: Chunking = None
    source: str


class IngestFromConnector(Struct, rename="camel"):
    """An account of a content service to ingest into a namespace."""

    namespace_id: NamespaceId
    ingest_config: ConnectorIngestion
    dry_run: DryRun | None = False


_SOURCE_DESCRIPTION = "The source. It must match the connection."
_EXCLUDE_DESCRIPTION = "What to leave out of it, as in include: where both name a file, it is left out."


def _make_body(prefix: str, info: Any, *names: str) -> type[IngestFromConnector]:
    """Return the request struct of content services with their `include` and `exclude`."""

    def make_struct(kind: str, base: type[StructT], about: str, *fields: tuple[Any, ...]) -> type[StructT]:
        namespace = {"__doc__": about}
        struct_type = defstruct(kind, fields, bases=(base,), kw_only=True, module=__name__, namespace=namespace)
        return cast("type[StructT]", struct_type)

    chosen = info.choice
    include = Annotated[list[chosen.part], Meta(max_length=MAX_ENTRIES)] | None  # type: ignore[name-defined]
    exclude = Annotated[list[chosen.without], Meta(max_length=MAX_ENTRIES)] | None  # type: ignore[name-defined]
    choices = (
        ("include", Annotated[include, Meta(description=chosen.about)], None),
        ("exclude", Annotated[exclude, Meta(description=_EXCLUDE_DESCRIPTION)], None),
    )
    config = make_struct(f"{prefix}Config", ConnectorConfig, chosen.scope, *choices)
    source = ("source", Annotated[Literal[names], Meta(description=_SOURCE_DESCRIPTION)])
    ingestion = make_struct(f"{prefix}Ingestion", ConnectorIngestion, f"{info.documents}.", ("config", config), source)
    about = f"{info.account} to ingest into a namespace."
    return make_struct(f"Ingest{prefix}", IngestFromConnector, about, ("ingest_config", ingestion))


# Ingestion request by content service.
CONNECTOR_BODIES: Mapping[str, type[IngestFromConnector]] = {
    name: _make_body(source_type_name(name), info, name) for name, info in registry.load_connector_infos().items()
}

# Ingestion request of all sources without an app.
SOURCE_BODY = _make_body("Source", registry.load_source_infos()[CREDENTIAL_SOURCES[0]], *CREDENTIAL_SOURCES)
