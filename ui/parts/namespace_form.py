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
REEMBEDS = frozenset({"vectorStorageConfig", "embeddingModelConfig"})
"""What the stored vectors depend on."""
SECRET = frozenset({"secretAccessKey", "accessKeyId", "apiKey", "clientSecret"})


def show(who: session.Person, space: Json | None) -> Json | None:
    """The form for a new namespace, or for changes of one; the namespace once it is saved."""
    name = st.text_input("Name", value=space["name"] if space else "", max_chars=200, key="ns_name")
    body: Json = {"name": name} if space is None or name != space["name"] else {}
    areas = {
        "fileStorageConfig": ("Files", "type", FILES),
        "vectorStorageConfig": ("Vectors", "provider", VECTORS),
    }
    places = {"name": st.container()}
    for area, (title, choice, options) in areas.items():
        body |= _store(area, title, choice, options, space)
        places[area] = st.container()
    body |= _model(space)
    places["embeddingModelConfig"] = st.container()
    body |= _scraper(space)
    places["webScraperConfig"] = st.container()
    with st.expander("Apps for connections (Notion, Drive, Dropbox, OneDrive, Box)"):
        for area, (title, fields) in APPS.items():
            body |= _app(area, title, fields, space)
    if space is not None and REEMBEDS & body.keys():
        body |= _reembed()
    if not st.button("Test and save", type="primary", icon=":material/save:", key="ns_save"):
        return None
    try:
        with st.spinner("Trying storage, index and model …"):
            if space is None:
                saved = who.api.post("/v1/namespaces", body)
            else:
                saved = who.api.patch(f"/v1/namespaces/{space['id']}", body)
    except ApiError as error:
        at = places.get((error.field or "").partition(".")[0])
        with at or st.container():
            frame.show(error)
        if at:
            st.caption(":red[Not saved: the error stands at its field.]")
        return None
    return dict(saved["namespace"])


def _reembed() -> Json:
    asked = st.toggle(
        "Embed all its documents again",
        help="A run makes new vectors of the stored texts; until it has ended, searches are answered from the old ones."
        " A namespace with documents cannot change its model or index without it.",
    )
    return {"reembed": True} if asked else {}


def _store(area: str, title: str, choice: str, options: Mapping[str, tuple[str, ...]], space: Json | None) -> Json:
    """One of the stores by its area; nothing where it stays as it is. A change names its keys anew."""
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
    if kind == stored.get(choice) and _as_stored(typed, stored):
        return {}
    if area == "fileStorageConfig" and kind != "LOCAL":
        keys = {field: typed.pop(field) for field in ("accessKeyId", "secretAccessKey")}
        return {area: {choice: kind, **typed, "credentials": keys}}
    return {area: {choice: kind, **typed}}


def _as_stored(typed: Mapping[str, str], stored: Json) -> bool:
    """Nothing was typed over what is there: no secret, and no other value."""
    return all(value == ("" if field in SECRET else stored.get(field) or "") for field, value in typed.items())


def _model(space: Json | None) -> Json:
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
    if (provider, model) == (stored.get("provider"), stored.get("model")) and not key:
        return {}
    named = {"provider": provider, "model": model, **({"apiKey": key} if provider != "LOCAL" else {})}
    return {"embeddingModelConfig": named}


def _scraper(space: Json | None) -> Json:
    """The scraper by its area; null takes it away."""
    stored = (space or {}).get("webScraperConfig") or {}
    st.markdown("**Web scraper**")
    now = stored.get("provider", "none" if space else "BUILTIN")
    provider = st.selectbox("Scraper", SCRAPERS, index=SCRAPERS.index(now), label_visibility="collapsed")
    if provider == "none":
        return {"webScraperConfig": None} if stored else {}
    key = _field("webScraperConfig", "apiKey", stored) if provider != "BUILTIN" else ""
    if provider == stored.get("provider") and not key:
        return {}
    return {"webScraperConfig": {"provider": provider, **({"apiKey": key} if key else {})}}


def _app(area: str, title: str, fields: tuple[str, ...], space: Json | None) -> Json:
    """An app by its area; nothing where it stays as it is. A secret that was not typed is sent masked, and is kept."""
    stored = (space or {}).get(area) or {}
    st.markdown(title)
    places = st.columns(len(fields))
    typed = {}
    for place, field in zip(places, fields, strict=True):
        with place:
            typed[field] = _field(area, field, stored)
    if _as_stored(typed, stored):
        return {}
    kept = {field: stored.get(field, "") for field in fields if field in SECRET}
    return {area: {field: value or kept.get(field, "") for field, value in typed.items()}}


def _field(area: str, field: str, stored: Json) -> str:
    """One text field; a secret is typed hidden and never filled in."""
    if field in SECRET:
        hint = "stored; type a new one to replace it" if stored else ""
        return st.text_input(field, type="password", placeholder=hint, key=f"{area}.{field}", autocomplete="off")
    return st.text_input(field, value=stored.get(field, ""), key=f"{area}.{field}")
