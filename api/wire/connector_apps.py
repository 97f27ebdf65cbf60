"""Apps of content services on the wire: how a namespace brings them, and how answers show them.

The types are made of what each service says of itself (`connectors.info`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar, cast, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, defstruct, structs

from connectors import registry
from retrieval.namespaces.secret_fields import NAMES
from retrieval.security.secrets import mask
from retrieval.sources import APPS

S = TypeVar("S", bound=Struct)


def _titles(app: type[Struct]) -> str:
    """The services that have this kind of app: `A, B or C`."""
    *most, last = [info.title for info in registry.infos().values() if info.app is app]
    return f"{', '.join(most)} or {last}" if most else last


_DESCRIPTIONS = {
    "clientId": "The id of the app.",
    "clientSecret": "The secret of the app. Answers show it masked.",
    "apiKey": "The key of the provider. Answers show it masked or not at all.",
    **{name: about for info in registry.infos().values() for name, about in info.fields.items()},
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
    """The type of the field `name` of an app, with its description."""
    return Annotated[kind, Meta(description=_DESCRIPTIONS[name])]


_APPS = {info.app: _wire(info.app) for info in registry.infos().values()}


def with_apps(kind: Callable[[type[Struct]], Any], default: Any) -> Callable[[type[S]], type[S]]:
    """The struct with a field for each content service's app, `<name>_config`; `kind`: its type."""

    def made(struct: type[S]) -> type[S]:
        about = "The {} app that users authorize; null without one."
        apps = [
            (
                f"{name.lower()}_config",
                Annotated[kind(_APPS[info.app]), Meta(description=about.format(info.vendor or info.title))],
                default,
            )
            for name, info in registry.infos().items()
        ]
        name, module, said = struct.__name__, struct.__module__, {"__doc__": struct.__doc__}
        return cast("type[S]", defstruct(name, apps, bases=(struct,), kw_only=True, module=module, namespace=said))

    return made


class _View(Struct, rename="camel", omit_defaults=True):
    """What every app has."""

    client_id: Annotated[str, Meta(description="The id of the app.")]
    client_secret: Annotated[
        str, Meta(examples=["••••1234"], description="The secret of the app. Answers show it masked.")
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


def masked(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: mask(value) if key in NAMES else value for key, value in config.items()}


def views(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The fields of a struct `with_apps` for the apps that a namespace has, by their names in the contract."""
    return {
        f"{name.lower()}_config": msgspec.convert(masked(configs[area]), ConnectorAppView) if area in configs else None
        for name, area in APPS.items()
    }
