"""What the API says of itself in its OpenAPI document: models, events, scopes. Read once in a while for everybody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from ui import session
from ui.client import Json

KEPT_SECONDS = 300
"""After so long the document is read again: an API that was replaced may know more."""
EVERY = "*"


def schemas() -> Json:
    """The components of the document. ApiError where the API does not answer."""
    found: Json = document(session.api_address())["components"]["schemas"]
    return found


@st.cache_resource(ttl=KEPT_SECONDS, show_spinner=False)
def document(address: str) -> Json:  # noqa: ARG001  (what it is kept by)
    """The whole document of the API at an address."""
    return session.person().api.described()


def models() -> Mapping[str, tuple[str, ...]]:
    """The embedding models that may be chosen, by provider, as the settings of the service say."""
    return {
        provider: tuple(about["properties"]["model"].get("enum", ()))
        for provider, about in _by_provider("CreateNamespace", "embeddingModelConfig").items()
    }


def prefixes(provider: str) -> list[str]:
    """Fields of a provider's embedding model for the text put before each query and passage."""
    fields = _by_provider("CreateNamespace", "embeddingModelConfig")[provider]["properties"]
    return [name for name in fields if name.endswith("Prefix")]


def rerankers() -> Mapping[str, Mapping[str, bool]]:
    """The fields of each reranker by its provider, and whether they are needed."""
    return {
        provider: {name: name in about["required"] for name in about["properties"] if name != "provider"}
        for provider, about in _by_provider("CreateNamespace", "rerankConfig").items()
    }


def languages() -> list[str]:
    """The languages that keyword search knows the stems of."""
    return [
        name
        for one in _alternatives(schemas()["CreateNamespace"]["properties"]["keywordLanguage"])
        for name in one.get("examples", ())
    ]


def events() -> list[str]:
    """The names of the events that webhooks hear of."""
    return [name for name in _items("CreateWebhook", "events") if name != EVERY]


def scopes() -> list[str]:
    """What a key may be allowed to do."""
    return list(schemas()["KeyScope"]["enum"])


def _by_provider(schema: str, name: str) -> Mapping[str, Json]:
    """The schemas that a configuration may have, by the provider that they are of."""
    known, found, open_ones = schemas(), {}, [schemas()[schema]["properties"][name]]
    while open_ones:
        one = open_ones.pop(0)
        open_ones = [*_alternatives(one), *open_ones]
        if "$ref" in one:
            about = known[one["$ref"].rpartition("/")[2]]
            (provider,) = about["properties"]["provider"]["enum"]
            found[provider] = about
    return found


def _items(schema: str, name: str) -> list[str]:
    content = schemas()[schema]["properties"][name]
    (items,) = (one["items"] for one in [content, *_alternatives(content)] if "items" in one)
    return list(items["enum"])


def _alternatives(content: Json) -> list[dict[str, Any]]:
    return list(content.get("anyOf") or content.get("oneOf") or [])
