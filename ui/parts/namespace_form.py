"""The form of a namespace. The API tries storage, index and model before it saves; its refusal names the field."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import frame

FILES: Mapping[str, tuple[str, ...]] = {
    "LOCAL": (),
    "S3_COMPATIBLE": ("bucket", "region", "endpoint", "accessKeyId", "secretAccessKey"),
}
VECTORS: Mapping[str, tuple[str, ...]] = {"PGVECTOR": (), "PINECONE": ("indexHost", "apiKey")}
MODELS: Mapping[str, tuple[str, ...]] = {
    "LOCAL": ("all-MiniLM-L6-v2", "wordllama-l2-supercat-256"),
    "OPENAI": ("text-embedding-3-small", "text-embedding-3-large", "text-embedding-ada-002"),
    "COHERE": ("embed-v4.0", "embed-english-v3.0", "embed-multilingual-v3.0", "embed-english-light-v3.0"),
    "JINA": ("jina-embeddings-v3", "jina-embeddings-v4"),
}
TOLD = {"LOCAL": " · on this service's own disk", "PGVECTOR": " · in this service's own PostgreSQL"}
"""What the values without an account mean."""
SCRAPERS = ("BUILTIN", "FIRECRAWL", "JINA", "SCRAPINGBEE", "none")
APPS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "notionConfig": ("Notion", ("clientId", "clientSecret")),
    "googleDriveConfig": ("Google Drive", ("clientId", "clientSecret", "apiKey")),
    "dropboxConfig": ("Dropbox", ("clientId", "clientSecret")),
    "onedriveConfig": ("OneDrive", ("clientId", "clientSecret")),
    "boxConfig": ("Box", ("clientId", "clientSecret")),
}
SECRET = frozenset({"secretAccessKey", "accessKeyId", "apiKey", "clientSecret"})


def show(who: session.Person, space: Json | None) -> Json | None:
    """The form for a new namespace, or for changes of one; the namespace once it is saved."""
    name = st.text_input("Name", value=space["name"] if space else "", max_chars=200, key="ns_name")
    body: Json = {"name": name}
    areas = {
        "fileStorageConfig": ("Files", "type", FILES),
        "vectorStorageConfig": ("Vectors", "provider", VECTORS),
    }
    for area, (title, choice, options) in areas.items():
        body[area] = _store(area, title, choice, options, space)
    body["embeddingModelConfig"] = _model(space)
    body["webScraperConfig"] = _scraper(space)
    with st.expander("Apps for connections (Notion, Drive, Dropbox, OneDrive, Box)"):
        for area, (title, fields) in APPS.items():
            body[area] = _app(area, title, fields, space)
    if not st.button("Test and save", type="primary", icon=":material/save:", key="ns_save"):
        return None
    wanted = {area: value for area, value in body.items() if value is not None}
    try:
        with st.spinner("Trying storage, index and model …"):
            if space is None:
                saved = who.api.post("/v1/namespaces", wanted)
            else:
                saved = who.api.patch(f"/v1/namespaces/{space['id']}", _changed(wanted, space))
    except ApiError as error:
        frame.show(error)
        return None
    return dict(saved["namespace"])


def _store(
    area: str, title: str, choice: str, options: Mapping[str, tuple[str, ...]], space: Json | None
) -> Json | None:
    """One of the stores; None for one that stays as it is."""
    stored = (space or {}).get(area) or {}
    kinds = list(options)
    st.markdown(f"**{title}**")
    kind = st.selectbox(
        title,
        kinds,
        index=kinds.index(stored.get(choice, kinds[0])),
        format_func=lambda one: f"{one}{TOLD.get(one, '')}",
        key=f"{area}.{choice}",
        label_visibility="collapsed",
    )
    typed = {field: _field(area, field, stored) for field in options[kind]}
    if space is not None and kind == stored.get(choice) and not any(typed[field] for field in typed if field in SECRET):
        return None
    if area == "fileStorageConfig" and kind != "LOCAL":
        keys = {field: typed.pop(field) for field in ("accessKeyId", "secretAccessKey")}
        return {choice: kind, **typed, "credentials": keys}
    return {choice: kind, **typed}


def _model(space: Json | None) -> Json | None:
    stored = (space or {}).get("embeddingModelConfig") or {}
    st.markdown("**Embedding model**")
    left, right = st.columns(2)
    providers = list(MODELS)
    provider = left.selectbox("Provider", providers, index=providers.index(stored.get("provider", "LOCAL")))
    known = [*MODELS[provider]]
    if stored.get("provider") == provider and stored["model"] not in known:
        known.append(stored["model"])
    model = right.selectbox("Model", known, index=known.index(stored["model"]) if stored.get("model") in known else 0)
    key = _field("embeddingModelConfig", "apiKey", stored) if provider != "LOCAL" else ""
    if space is not None and (provider, model) == (stored.get("provider"), stored.get("model")) and not key:
        return None
    return {"provider": provider, "model": model, **({"apiKey": key} if provider != "LOCAL" else {})}


def _scraper(space: Json | None) -> Json | None:
    stored = (space or {}).get("webScraperConfig") or {}
    st.markdown("**Web scraper**")
    now = stored.get("provider", "none" if space else "BUILTIN")
    provider = st.selectbox("Scraper", SCRAPERS, index=SCRAPERS.index(now), label_visibility="collapsed")
    if provider == "none":
        return None
    key = _field("webScraperConfig", "apiKey", stored) if provider != "BUILTIN" else ""
    if space is not None and provider == stored.get("provider") and not key:
        return None
    return {"provider": provider, **({"apiKey": key} if key else {})}


def _app(area: str, title: str, fields: tuple[str, ...], space: Json | None) -> Json | None:
    stored = (space or {}).get(area) or {}
    st.markdown(title)
    places = st.columns(len(fields))
    typed = {}
    for place, field in zip(places, fields, strict=True):
        with place:
            typed[field] = _field(area, field, stored)
    if not any(typed[field] for field in typed if field in SECRET):
        return None
    return typed


def _field(area: str, field: str, stored: Json) -> str:
    """One text field; a secret is typed hidden and never filled in."""
    if field in SECRET:
        hint = "stored; type a new one to replace it" if stored else ""
        return st.text_input(field, type="password", placeholder=hint, key=f"{area}.{field}", autocomplete="off")
    return st.text_input(field, value=stored.get(field, ""), key=f"{area}.{field}")


def _changed(wanted: Json, space: Json) -> Json:
    """What differs from what is stored; a scraper that was taken away is sent as null."""
    changed = {name: value for name, value in wanted.items() if name != "name" or value != space["name"]}
    if "webScraperConfig" not in wanted and _gone(space):
        changed["webScraperConfig"] = None
    return changed


def _gone(space: Json) -> bool:
    chosen = st.session_state.get("Scraper")
    return bool(space.get("webScraperConfig")) and chosen == "none"
