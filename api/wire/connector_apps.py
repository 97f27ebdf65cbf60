"""Apps of content services on the wire: how a namespace brings them, and how answers show them.

The types are made of what each service says of itself (`connectors.info`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar, cast

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, defstruct

from connectors import registry
from retrieval.namespaces.secret_fields import NAMES
from retrieval.security.secrets import mask
from retrieval.sources import APPS, pascal

S = TypeVar("S", bound=Struct)


def _titles(app: type[Struct]) -> str:
    """The services that have this kind of app: `A, B or C`."""
    *most, last = [info.title for info in registry.infos().values() if info.app is app]
    return f"{', '.join(most)} or {last}" if most else last


def _wire(app: type[Struct]) -> type[Struct]:
    about = (app.__doc__ or "").format(services=_titles(app))
    return defstruct(app.__name__, (), bases=(app,), module=__name__, namespace={"__doc__": about})


_APPS = {info.app: _wire(info.app) for info in registry.infos().values()}


def with_apps(kind: Callable[[type[Struct]], Any], default: Any) -> Callable[[type[S]], type[S]]:
    """The struct with a field for each content service's app, `<name>_config`; `kind`: its type."""

    def made(struct: type[S]) -> type[S]:
        apps = [(f"{name.lower()}_config", kind(_APPS[info.app]), default) for name, info in registry.infos().items()]
        name, module, said = struct.__name__, struct.__module__, {"__doc__": struct.__doc__}
        return cast("type[S]", defstruct(name, apps, bases=(struct,), kw_only=True, module=module, namespace=said))

    return made


class _View(Struct, rename="camel", omit_defaults=True):
    """What every app has."""

    client_id: str
    client_secret: Annotated[str, Meta(examples=["••••1234"])]


_MORE = sorted({name for app in _APPS for name in app.__struct_fields__} - {*_View.__struct_fields__})

ConnectorAppView = defstruct(
    "ConnectorAppView",
    [(name, str | UnsetType, UNSET) for name in _MORE],
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


EXCLUDE = "What to leave out of it, as in include: where both name a file, it is left out."


def _words() -> dict[str, str]:
    found = {}
    for name, info in registry.infos().items():
        found[APPS[name]] = f"The {info.vendor or info.title} app that users authorize; null without one."
        for field, about in info.fields.items():
            found |= dict.fromkeys((f"{info.app.__name__}.{field}", f"ConnectorAppView.{field}"), about)
        found[f"{pascal(name)}Config.include"] = info.choice.about
        found[f"{pascal(name)}Config.exclude"] = EXCLUDE
    return found


WORDS: Mapping[str, str] = _words()
"""What the connectors' properties mean, as `api.wire.descriptions` has it."""
