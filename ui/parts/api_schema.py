"""Values from the API's OpenAPI document: languages, models, scopes, and content services with their settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from ui import session
from ui.client import Json

KEPT_SECONDS = 300
"""After so long the document is read again: an API that was replaced may know more."""
EVERY = "*"


def load_schemas() -> Json:
    components: Json = api_document(session.api_address())["components"]["schemas"]
    return components


@st.cache_resource(ttl=KEPT_SECONDS, show_spinner=False)
def api_document(address: str) -> Json:  # noqa: ARG001  (what it is kept by)
    return session.current_person().api.described()


def find_operation(method: str, path: str) -> Json | None:
    """Return the operation of a method and a path; None if the API has none, such as for a command."""
    operation: Json | None = api_document(session.api_address())["paths"].get(path, {}).get(method.lower())
    return operation


def embedding_models() -> Mapping[str, tuple[str, ...]]:
    return {
        provider: tuple(about["properties"]["model"].get("enum", ()))
        for provider, about in _by_provider("CreateNamespace", "embeddingModelConfig").items()
    }


def provider_fields(area: str) -> Mapping[str, Mapping[str, bool]]:
    """The fields of a namespace's configuration by provider, and whether they are needed; those of a part by path."""
    components = load_schemas()
    return {
        provider: dict(_fields(components, about)) for provider, about in _by_provider("CreateNamespace", area).items()
    }


def _fields(components: Json, about: Json) -> Iterator[tuple[str, bool]]:
    for name, schema in about["properties"].items():
        if "$ref" in schema:
            part = _fields(components, components[_reference(schema)])
            yield from ((f"{name}.{inner}", needed) for inner, needed in part)
        elif name not in ("type", "provider"):
            yield name, name in about["required"]


def stem_languages() -> list[str]:
    return [
        name
        for alternative in _alternatives(load_schemas()["CreateNamespace"]["properties"]["keywordLanguage"])
        for name in alternative.get("examples", ())
    ]


def webhook_events() -> list[str]:
    return [name for name in _items("CreateWebhook", "events") if name != EVERY]


def key_scopes() -> list[str]:
    return list(load_schemas()["KeyScope"]["enum"])


def sources_without_app() -> Mapping[str, Json]:
    """Return the storages and services that a connection reads without an app: connector, title, and example URL."""
    sources: Mapping[str, Json] = load_schemas()["SourceAddress"]["properties"]["url"]["x-sources"]
    return sources


def _by_provider(schema: str, name: str) -> Mapping[str, Json]:
    components, providers, pending = load_schemas(), {}, [load_schemas()[schema]["properties"][name]]
    while pending:
        alternative = pending.pop(0)
        pending = [*_alternatives(alternative), *pending]
        if "$ref" in alternative:
            about = components[alternative["$ref"].rpartition("/")[2]]
            kind = about["properties"].get("provider") or about["properties"]["type"]
            providers[kind["enum"][0]] = about
    return providers


def _items(schema: str, name: str) -> list[str]:
    content = load_schemas()[schema]["properties"][name]
    (items,) = (alternative["items"] for alternative in [content, *_alternatives(content)] if "items" in alternative)
    return list(items["enum"])


def _alternatives(content: Json) -> list[dict[str, Any]]:
    return list(content.get("anyOf") or content.get("oneOf") or [])


_INGEST = "/v1/ingest/"


@dataclass(frozen=True, slots=True)
class Choice:
    """That parts of an account can be chosen: what for, and the paths that name them."""

    about: str
    path: str
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Service:
    """A content service: its name for people, the last part of its ingestion path, the config of its app."""

    title: str
    path: str
    app: str
    fields: tuple[str, ...]
    optional: frozenset[str]
    choice: Choice | None


def known_services() -> Mapping[str, Service]:
    """By their names in the contract, in its order. ApiError where the API does not answer."""
    services: Mapping[str, Service] = _read(session.api_address())
    return services


@st.cache_resource(ttl=KEPT_SECONDS, show_spinner=False)
def _read(address: str) -> Mapping[str, Service]:
    return dict(read_services(api_document(address)))


def read_services(document: Json) -> Iterator[tuple[str, Service]]:
    """Yield each content service of an OpenAPI document of the API."""
    schemas = document["components"]["schemas"]
    apps = schemas["CreateNamespace"]["properties"]
    for path, methods in document["paths"].items():
        if not path.startswith(_INGEST) or "application/json" not in methods["post"]["requestBody"]["content"]:
            continue
        body = _object(schemas, methods["post"]["requestBody"]["content"]["application/json"]["schema"])
        ingestion = _object(schemas, body["ingestConfig"])
        name = ingestion["source"]["enum"][0]
        app = _config(name)
        if app not in apps:
            continue
        about = schemas[_reference(apps[app])]
        fields = tuple(about["properties"])
        yield (
            name,
            Service(
                title=methods["post"]["summary"].removeprefix("Ingest from "),
                path=path.removeprefix(_INGEST),
                app=app,
                fields=fields,
                optional=frozenset(fields) - {*about["required"]},
                choice=_choice(schemas, _object(schemas, ingestion["config"]).get("include")),
            ),
        )


def _config(name: str) -> str:
    """`someThingConfig` for SOME_THING."""
    first, *words = name.lower().split("_")
    return f"{first}{''.join(map(str.capitalize, words))}Config"


def _choice(schemas: Json, include: Json | None) -> Choice | None:
    if include is None:
        return None
    (items,) = (alternative["items"] for alternative in include["anyOf"] if "items" in alternative)
    path = _object(schemas, items)["path"]
    return Choice(include["description"], path["description"], tuple(path.get("examples", ())))


def _reference(schema: Json) -> str:
    """The component that a property refers to, be it null or not."""
    (reference,) = (alternative["$ref"] for alternative in schema.get("anyOf", [schema]) if "$ref" in alternative)
    return str(reference).rpartition("/")[2]


def _object(schemas: Json, schema: Json) -> dict[str, Any]:
    properties: dict[str, Any] = schemas[_reference(schema)]["properties"]
    return properties
