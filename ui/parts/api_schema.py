"""Values from the API's OpenAPI document: languages, models, scopes and content services."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from ui import session
from ui.client import Json

# An upgraded API may offer more.
CACHE_SECONDS = 300
ALL_EVENTS = "*"


def load_schemas() -> Json:
    components: Json = api_document(session.api_address())["components"]["schemas"]
    return components


@st.cache_resource(ttl=CACHE_SECONDS, show_spinner=False)
def api_document(address: str) -> Json:  # noqa: ARG001  (what it is kept by)
    return session.current_person().api.read_openapi()


def find_operation(method: str, path: str) -> Json | None:
    """Return the operation of a method and path; None for a command."""
    operation: Json | None = api_document(session.api_address())["paths"].get(path, {}).get(method.lower())
    return operation


def embedding_models() -> Mapping[str, tuple[str, ...]]:
    return {
        provider: tuple(about["properties"]["model"].get("enum", ()))
        for provider, about in _by_provider("CreateNamespace", "embeddingModelConfig").items()
    }


def provider_fields(area: str) -> Mapping[str, Mapping[str, bool]]:
    """Return configuration fields by provider, with True for required ones."""
    components = load_schemas()
    return {
        provider: dict(_iter_fields(components, about))
        for provider, about in _by_provider("CreateNamespace", area).items()
    }


def _iter_fields(components: Json, about: Json) -> Iterator[tuple[str, bool]]:
    for name, schema in about["properties"].items():
        if "$ref" in schema:
            part = _iter_fields(components, components[_component_name(schema)])
            yield from ((f"{name}.{inner}", needed) for inner, needed in part)
        elif name not in ("type", "provider"):
            yield name, name in about["required"]


def stem_languages() -> list[str]:
    return [
        name
        for alternative in _list_alternatives(load_schemas()["CreateNamespace"]["properties"]["keywordLanguage"])
        for name in alternative.get("examples", ())
    ]


def webhook_events() -> list[str]:
    return [name for name in _enum_items("CreateWebhook", "events") if name != ALL_EVENTS]


def key_scopes() -> list[str]:
    return list(load_schemas()["KeyScope"]["enum"])


def sources_without_app() -> Mapping[str, Json]:
    """Return sources without an OAuth app: connector, title and example URL."""
    sources: Mapping[str, Json] = load_schemas()["SourceAddress"]["properties"]["url"]["x-sources"]
    return sources


def push_secret() -> Json:
    """Return the schema of the secret of push, with its origin by connector."""
    secret: Json = load_schemas()["TurnPushOn"]["properties"]["secret"]
    return {name: value for part in [*_list_alternatives(secret), secret] for name, value in part.items()}


def push_origins() -> Mapping[str, str]:
    """Return the connectors with push, and where the secret of each comes from."""
    origins: Mapping[str, str] = push_secret()["x-origins"]
    return origins


def _by_provider(schema: str, name: str) -> Mapping[str, Json]:
    components, providers, pending = load_schemas(), {}, [load_schemas()[schema]["properties"][name]]
    while pending:
        alternative = pending.pop(0)
        pending = [*_list_alternatives(alternative), *pending]
        if "$ref" in alternative:
            about = components[alternative["$ref"].rpartition("/")[2]]
            kind = about["properties"].get("provider") or about["properties"]["type"]
            providers[kind["enum"][0]] = about
    return providers


def _enum_items(schema: str, name: str) -> list[str]:
    content = load_schemas()[schema]["properties"][name]
    (items,) = (
        alternative["items"] for alternative in [content, *_list_alternatives(content)] if "items" in alternative
    )
    return list(items["enum"])


def _list_alternatives(content: Json) -> list[dict[str, Any]]:
    return list(content.get("anyOf") or content.get("oneOf") or [])


_INGEST_PATH = "/v1/ingest/"


@dataclass(frozen=True, slots=True)
class Service:
    """Content service: title, ingestion path and app configuration."""

    title: str
    path: str
    app: str
    fields: tuple[str, ...]
    optional: frozenset[str]
    # Describes how a part of an account is named; "" where parts cannot be chosen.
    path_help: str


def known_services() -> Mapping[str, Service]:
    """Return the content services by name; ApiError without an API."""
    services: Mapping[str, Service] = _cached_services(session.api_address())
    return services


@st.cache_resource(ttl=CACHE_SECONDS, show_spinner=False)
def _cached_services(address: str) -> Mapping[str, Service]:
    return dict(read_services(api_document(address)))


def read_services(document: Json) -> Iterator[tuple[str, Service]]:
    """Yield each content service of an OpenAPI document."""
    schemas = document["components"]["schemas"]
    apps = schemas["CreateNamespace"]["properties"]
    for path, methods in document["paths"].items():
        if not path.startswith(_INGEST_PATH) or "application/json" not in methods["post"]["requestBody"]["content"]:
            continue
        body = _component_properties(schemas, methods["post"]["requestBody"]["content"]["application/json"]["schema"])
        ingestion = _component_properties(schemas, body["ingestConfig"])
        name = ingestion["source"]["enum"][0]
        app = _config_name(name)
        if app not in apps:
            continue
        about = schemas[_component_name(apps[app])]
        fields = tuple(about["properties"])
        yield (
            name,
            Service(
                title=methods["post"]["summary"].removeprefix("Ingest from "),
                path=path.removeprefix(_INGEST_PATH),
                app=app,
                fields=fields,
                optional=frozenset(fields) - {*about["required"]},
                path_help=_describe_paths(schemas, _component_properties(schemas, ingestion["config"]).get("include")),
            ),
        )


def _config_name(name: str) -> str:
    """Convert SOME_THING to `someThingConfig`."""
    first, *words = name.lower().split("_")
    return f"{first}{''.join(map(str.capitalize, words))}Config"


def _describe_paths(schemas: Json, include: Json | None) -> str:
    if include is None:
        return ""
    (items,) = (alternative["items"] for alternative in include["anyOf"] if "items" in alternative)
    return str(_component_properties(schemas, items)["path"]["description"])


def _component_name(schema: Json) -> str:
    """Return the component of a property's reference, nullable or not."""
    (reference,) = (alternative["$ref"] for alternative in schema.get("anyOf", [schema]) if "$ref" in alternative)
    return str(reference).rpartition("/")[2]


def _component_properties(schemas: Json, schema: Json) -> dict[str, Any]:
    properties: dict[str, Any] = schemas[_component_name(schema)]["properties"]
    return properties
