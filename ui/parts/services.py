"""The content services that the API speaks to: their names, apps and choices, read from its OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import described

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


def known() -> Mapping[str, Service]:
    """By their names in the contract, in its order. ApiError where the API does not answer."""
    found: Mapping[str, Service] = _read(session.api_address())
    return found


@st.cache_resource(ttl=described.KEPT_SECONDS, show_spinner=False)
def _read(address: str) -> Mapping[str, Service]:
    return dict(read(described.document(address)))


def read(document: Json) -> Iterator[tuple[str, Service]]:
    """Each service of an OpenAPI document of the API."""
    schemas = document["components"]["schemas"]
    apps = schemas["CreateNamespace"]["properties"]
    for path, methods in document["paths"].items():
        if not path.startswith(_INGEST) or "application/json" not in methods["post"]["requestBody"]["content"]:
            continue
        body = _object(schemas, methods["post"]["requestBody"]["content"]["application/json"]["schema"])
        ingestion = _object(schemas, body["ingestConfig"])
        (name,) = ingestion["source"]["enum"]
        if name not in schemas["ConnectorName"]["enum"]:
            continue
        app = _config(name)
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
    first, *rest = name.lower().split("_")
    return f"{first}{''.join(map(str.capitalize, rest))}Config"


def _choice(schemas: Json, include: Json | None) -> Choice | None:
    if include is None:
        return None
    (items,) = (one["items"] for one in include["anyOf"] if "items" in one)
    path = _object(schemas, items)["path"]
    return Choice(include["description"], path["description"], tuple(path.get("examples", ())))


def _reference(schema: Json) -> str:
    """The component that a property refers to, be it null or not."""
    (found,) = (one["$ref"] for one in schema.get("anyOf", [schema]) if "$ref" in one)
    return str(found).rpartition("/")[2]


def _object(schemas: Json, schema: Json) -> dict[str, Any]:
    """The properties of the component that a property refers to."""
    properties: dict[str, Any] = schemas[_reference(schema)]["properties"]
    return properties
