"""Apps of content services and their ingestion requests, built from each connector's declaration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar, cast, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, defstruct, structs

from api.wire.common import NamespaceId
from api.wire.ingest import Chunking, DryRun, For, Metadata
from connectors import registry
from retrieval.namespaces.namespaces import SECRET_FIELDS
from retrieval.security.secrets import mask_secret
from retrieval.sources import APPS, ENGINES, source_type_name
from retrieval.sync_filter import MOST

S = TypeVar("S", bound=Struct)


def _titles(app: type[Struct]) -> str:
    """Return the services that have this kind of app: `A, B or C`."""
    *all_but_last, last = [info.title for info in registry.load_connector_infos().values() if info.app is app]
    return f"{', '.join(all_but_last)} or {last}" if all_but_last else last


_DESCRIPTIONS = {
    "clientId": "The id of the app.",
    "clientSecret": "The secret of the app. Responses show it masked.",
    "apiKey": "The key of the provider. Responses mask or omit it.",
    **{name: about for info in registry.load_connector_infos().values() for name, about in info.fields.items()},
}


def _wire(app: type[Struct]) -> type[Struct]:
    about = (app.__doc__ or "").format(services=_titles(app))
    fields = [
        (
            field.name,
            field.type if _is_described(field.type) else _described(field.type, field.encode_name),
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


def _described(kind: Any, name: str) -> Any:
    """Return the type of the field `name` of an app, with its description."""
    return Annotated[kind, Meta(description=_DESCRIPTIONS[name])]


_APPS = {info.app: _wire(info.app) for info in registry.load_connector_infos().values()}


def with_apps(kind: Callable[[type[Struct]], Any], default: Any) -> Callable[[type[S]], type[S]]:
    """Return the struct with a field for each content service's app, `<name>_config`; `kind`: its type."""

    def made(struct: type[S]) -> type[S]:
        about = "The {} app that users authorize; null without one."
        apps = [
            (
                f"{name.lower()}_config",
                Annotated[kind(_APPS[info.app]), Meta(description=about.format(info.vendor or info.title))],
                default,
            )
            for name, info in registry.load_connector_infos().items()
        ]
        name, module, namespace = struct.__name__, struct.__module__, {"__doc__": struct.__doc__}
        return cast("type[S]", defstruct(name, apps, bases=(struct,), kw_only=True, module=module, namespace=namespace))

    return made


class _View(Struct, rename="camel", omit_defaults=True):
    """Fields of every app."""

    client_id: Annotated[str, Meta(description="The id of the app.")]
    client_secret: Annotated[
        str, Meta(examples=["••••1234"], description="The secret of the app. Responses show it masked.")
    ]


_MORE = {field.name: field.encode_name for app in _APPS for field in structs.fields(app)}

ConnectorAppView = defstruct(
    "ConnectorAppView",
    [
        (name, _described(str | UnsetType, _MORE[name]), UNSET)
        for name in sorted(_MORE.keys() - set(_View.__struct_fields__))
    ],
    bases=(_View,),
    module=__name__,
    namespace={"__doc__": "A connector app with its secrets masked."},
)


def mask_apps(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: mask_secret(value) if key in SECRET_FIELDS else value for key, value in config.items()}


def app_views(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the fields of a struct `with_apps` for the apps that a namespace has, by their API names."""
    return {
        f"{name.lower()}_config": msgspec.convert(mask_apps(configs[area]), ConnectorAppView)
        if area in configs
        else None
        for name, area in APPS.items()
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
    """The connection to ingest from, or the chosen part of it. `metadata` is attached to the documents."""

    connection_id: ConnectionId
    metadata: Metadata | None = None
    chunk_config: Chunking = None
    access: For = None
    include: list[Any] | None = None
    exclude: list[Any] | None = None
    pick: Annotated[
        bool | None, Meta(description="List without ingesting. New documents stay in BACKLOG until they are resynced.")
    ] = False


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


_SOURCE = "The source. It must match the connection."
_EXCLUDE = "What to leave out of it, as in include: where both name a file, it is left out."


def _body(prefix: str, info: Any, *names: str) -> type[IngestFromConnector]:
    """Return the request struct of content services: their names, and their `include` and `exclude`."""

    def struct(kind: str, base: type[S], about: str, *fields: tuple[Any, ...]) -> type[S]:
        namespace = {"__doc__": about}
        struct_type = defstruct(kind, fields, bases=(base,), kw_only=True, module=__name__, namespace=namespace)
        return cast("type[S]", struct_type)

    chosen = info.choice
    include = Annotated[list[chosen.part], Meta(max_length=MOST)] | None  # type: ignore[name-defined]
    exclude = Annotated[list[chosen.without], Meta(max_length=MOST)] | None  # type: ignore[name-defined]
    choices = (
        ("include", Annotated[include, Meta(description=chosen.about)], None),
        ("exclude", Annotated[exclude, Meta(description=_EXCLUDE)], None),
    )
    config = struct(f"{prefix}Config", ConnectorConfig, chosen.scope, *choices)
    source = ("source", Annotated[Literal[names], Meta(description=_SOURCE)])
    ingestion = struct(f"{prefix}Ingestion", ConnectorIngestion, f"{info.documents}.", ("config", config), source)
    about = f"{info.account} to ingest into a namespace."
    return struct(f"Ingest{prefix}", IngestFromConnector, about, ("ingest_config", ingestion))


BODIES: Mapping[str, type[IngestFromConnector]] = {
    name: _body(source_type_name(name), info, name) for name, info in registry.load_connector_infos().items()
}
"""Content service to the request of its ingestion."""

SOURCE_BODY = _body("Source", registry.load_source_infos()[ENGINES[0]], *ENGINES)
"""The request of every source that has no app."""
