"""The form of a namespace. The API tries storage, index and model before it saves; its refusal names the field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import api_schema, frame, widgets

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator

FILES: Mapping[str, tuple[str, ...]] = {
    "LOCAL": (),
    "S3_COMPATIBLE": ("bucket", "region", "endpoint", "accessKeyId", "secretAccessKey"),
}
VECTORS: Mapping[str, tuple[str, ...]] = {"PGVECTOR": (), "PINECONE": ("indexHost", "apiKey")}
TOLD = {
    "LOCAL": " · on this service's own disk",
    "PGVECTOR": " · in this service's own PostgreSQL",
    "auto": " · by the languages of the first documents",
}
"""What the values without an account mean."""
NONE = "none"
SCRAPERS = ("BUILTIN", "FIRECRAWL", "JINA", "SCRAPINGBEE", NONE)
REEMBEDS = frozenset({"vectorStorageConfig", "embeddingModelConfig"})
"""What the stored vectors depend on."""
SECRET = frozenset({"secretAccessKey", "accessKeyId", "apiKey", "clientSecret"})
_SAVES = "namespace_saves"
MASKED_WITH_TAIL = 12
"""Characters from which on a secret's mask shows its last four."""
TITLES = {
    "fileStorageConfig": "File storage",
    "vectorStorageConfig": "Vector store",
    "embeddingModelConfig": "Embedding model",
    "webScraperConfig": "Web scraper",
    "rerankConfig": "Reranker",
    "parserConfig": "External parser",
}
LABELS = {
    "clientId": "Client ID",
    "clientSecret": "Client secret",
    "tenantId": "Tenant ID",
    "authorizationUrl": "Authorization URL",
    "apiKey": "API key",
    "accessKeyId": "Access key ID",
    "secretAccessKey": "Secret access key",
    "indexHost": "Index host",
    "bucket": "Bucket",
    "region": "Region",
    "endpoint": "Endpoint",
    "model": "Model",
    "queryPrefix": "Query prefix",
    "passagePrefix": "Passage prefix",
    "url": "URL",
    "dimensions": "Dimensions",
    "path": "Folder",
}
"""Fields of configurations as people read them."""


@dataclass(frozen=True, slots=True)
class _Choice:
    """Choices made above the form; they decide which fields the form has."""

    files: str
    vectors: str
    provider: str
    model: str
    scraper: str
    reranker: str


def show_form(person: session.Person, space: Json | None) -> Json | None:
    """Show the form for a new namespace, or for changes of one. Return the namespace once it is saved.

    Text fields are in a Streamlit form, which sends typed text however the field loses focus. Outside of a form, a
    secret in a field that is left with Tab towards the field's own button is lost (streamlit#5659).
    """
    form_key = _place(space)
    choice = _choices(space)
    places = {}
    with st.form("namespace_form", border=False):
        name = st.text_input("Name", value=space["name"] if space else "", max_chars=200, key=f"{form_key}.name")
        places["name"] = st.container()
        body: Json = {"name": name} if space is None or name != space["name"] else {}
        body |= _store("fileStorageConfig", "type", FILES, choice.files, space)
        places["fileStorageConfig"] = st.container()
        body |= _store("vectorStorageConfig", "provider", VECTORS, choice.vectors, space)
        places["vectorStorageConfig"] = st.container()
        body |= _model(choice, space)
        places["embeddingModelConfig"] = st.container()
        body |= _scraper(choice, space)
        places["webScraperConfig"] = st.container()
        body |= _reranker(choice, space)
        places["rerankConfig"] = st.container()
        body |= _parser(space)
        places["parserConfig"] = st.container()
        body |= _language(space)
        places["keywordLanguage"] = st.container()
        services = api_schema.known_services().values()
        with st.expander(
            f"OAuth apps for connections ({', '.join(known_service.title for known_service in services)})"
        ):
            for service in services:
                body |= _app(service, space)
        reembed = space is not None and _reembed()
        if not st.form_submit_button("Test and save", type="primary", icon=":material/save:", key=f"{form_key}.save"):
            return None
    if not body:
        st.info("Nothing to save: no field was changed.", icon=":material/info:")
        return None
    if reembed and REEMBEDS & body.keys():
        body["reembed"] = True
    return _save(person, space, body, places)


def _place(space: Json | None) -> str:
    """Return the key prefix of the form's fields. It differs per namespace and after each save, so that nothing typed
    for one namespace, least of all a secret, appears in the form of another."""
    return f"{space['id'] if space else 'new'}.{st.session_state.get(_SAVES, 0)}"


def _save(person: session.Person, space: Json | None, body: Json, places: Mapping[str, DeltaGenerator]) -> Json | None:
    """Save and return the namespace; None if the API refused it, with the reason shown at its area of the form."""
    try:
        with st.spinner("Trying storage, index and model …"):
            if space is None:
                saved = widgets.post_once(person, "/v1/namespaces", body)["namespace"]
            else:
                saved = person.api.patch(f"/v1/namespaces/{space['id']}", body)["namespace"]
    except ApiError as error:
        at = places.get((error.field or "").partition(".")[0])
        with at or st.container():
            frame.show_error(error)
        if at:
            st.caption(":red[Not saved: see the highlighted field.]")
        return None
    # A namespace shows another model or store only when everything has been embedded again.
    later = REEMBEDS | {"reembed"} if "reembed" in body else frozenset()
    if missing := unconfirmed_fields({area: value for area, value in body.items() if area not in later}, saved):
        st.error(f"The service did not confirm {', '.join(missing)}: look at the configuration and try again.")
        return None
    st.session_state[_SAVES] = st.session_state.get(_SAVES, 0) + 1
    return dict(saved)


def unconfirmed_fields(sent: Json, saved: Json, path: str = "") -> list[str]:
    """Fields of what was sent that the answer shows otherwise. A secret shows its last four characters or nothing."""
    fields: list[str] = []
    for name, value in sent.items():
        field_path, saved_value = f"{path}{name}", saved.get(name)
        if isinstance(value, dict):
            fields += unconfirmed_fields(value, saved_value if isinstance(saved_value, dict) else {}, f"{field_path}.")
        elif name in SECRET:
            tail = value[-4:] if len(value) >= MASKED_WITH_TAIL else ""
            fields += [] if saved_value is None or str(saved_value).endswith(tail) else [field_path]
        elif saved_value != value:
            fields.append(field_path)
    return fields


def _choices(space: Json | None) -> _Choice:
    """Providers and model: what they are decides which fields there are, so they stand before the form."""
    current = space or {}
    first_column, second_column = st.columns(2)
    files = _select(first_column, "File storage", list(FILES), current.get("fileStorageConfig"), "type")
    vectors = _select(second_column, "Vector store", list(VECTORS), current.get("vectorStorageConfig"), "provider")
    model = current.get("embeddingModelConfig") or {}
    left_column, right_column = st.columns(2)
    models = api_schema.embedding_models()
    providers = sorted(models, key=lambda name: name != "LOCAL")
    provider = left_column.selectbox("Provider", providers, index=providers.index(model.get("provider", "LOCAL")))
    model_names = [*models[provider]]
    stored_name = model["model"] if model.get("provider") == provider else None
    if not model_names:
        chosen = right_column.text_input("Model", value=stored_name or "", help="The model's name at the server.")
    else:
        if stored_name and stored_name not in model_names:
            model_names.append(stored_name)
        index = model_names.index(stored_name) if stored_name in model_names else 0
        chosen = right_column.selectbox(
            "Model", model_names, index=index, format_func=lambda name: f"{name}{TOLD.get(name, '')}"
        )
    scraper = (current.get("webScraperConfig") or {}).get("provider", NONE if space else "BUILTIN")
    three, four = st.columns(2)
    scraper = three.selectbox("Web scraper", SCRAPERS, index=SCRAPERS.index(scraper))
    rerankers = [NONE, *api_schema.reranker_fields()]
    stored = (current.get("rerankConfig") or {}).get("provider", NONE)
    reranker = four.selectbox(
        "Reranker", rerankers, index=rerankers.index(stored), help="A model that reads the best results again."
    )
    return _Choice(files, vectors, provider, chosen, scraper, reranker)


def _select(place: DeltaGenerator, label: str, kinds: list[str], stored: Json | None, field: str) -> str:
    return str(
        place.selectbox(
            label,
            kinds,
            index=kinds.index((stored or {}).get(field, kinds[0])),
            format_func=lambda value: f"{value}{TOLD.get(value, '')}",
        )
    )


def _reembed() -> bool:
    return st.toggle(
        "Embed all its documents again",
        help="For another model or vector store: a run makes new vectors of the stored texts; until it has ended,"
        " searches are answered from the old ones. A namespace with documents cannot change either without it.",
    )


def _store(area: str, choice: str, options: Mapping[str, tuple[str, ...]], kind: str, space: Json | None) -> Json:
    """One of the stores by its area; nothing where it stays as it is. A change names its keys anew."""
    stored = (space or {}).get(area) or {}
    if options[kind]:
        st.markdown(f"**{TITLES[area]}: {kind}**")
    typed = {field: _field(area, field, space) for field in options[kind]}
    if kind == stored.get(choice) and _as_stored(typed, stored):
        return {}
    if area == "fileStorageConfig" and kind != "LOCAL":
        keys = {field: typed.pop(field) for field in ("accessKeyId", "secretAccessKey")}
        return {area: {choice: kind, **typed, "credentials": keys}}
    return {area: {choice: kind, **typed}}


def _as_stored(typed: Mapping[str, object], stored: Json) -> bool:
    """Tell whether nothing was typed over the stored values: no secret, and no other value."""
    return all(value == ("" if field in SECRET else stored.get(field) or "") for field, value in typed.items())


def _model(choice: _Choice, space: Json | None) -> Json:
    stored = (space or {}).get("embeddingModelConfig") or {}
    provider, model = choice.provider, choice.model
    fields = api_schema.model_fields(provider)
    if fields:
        st.markdown(f"**{TITLES['embeddingModelConfig']}: {provider}**")
    current = space if stored.get("provider") == provider else None
    typed: Json = {
        field: _field("embeddingModelConfig", field, space if field in SECRET else current, optional=not needed)
        for field, needed in fields.items()
    }
    if typed.get("dimensions", "").isdecimal():
        typed["dimensions"] = int(typed["dimensions"])
    same = (provider, model) == (stored.get("provider"), stored.get("model"))
    if same and _as_stored(typed, stored):
        return {}
    values = {field: value for field, value in typed.items() if value or fields[field]}
    return {"embeddingModelConfig": {"provider": provider, "model": model, **values}}


def _scraper(choice: _Choice, space: Json | None) -> Json:
    """The scraper by its area; null takes it away."""
    stored = (space or {}).get("webScraperConfig") or {}
    provider = choice.scraper
    if provider == NONE:
        return {"webScraperConfig": None} if stored else {}
    key = ""
    if provider != "BUILTIN":
        st.markdown(f"**{TITLES['webScraperConfig']}: {provider}**")
        key = _field("webScraperConfig", "apiKey", space)
    if provider == stored.get("provider") and not key:
        return {}
    return {"webScraperConfig": {"provider": provider, **({"apiKey": key} if key else {})}}


def _reranker(choice: _Choice, space: Json | None) -> Json:
    """The reranker by its area; null takes it away. A key that was not typed is sent masked, and is kept."""
    stored = (space or {}).get("rerankConfig") or {}
    provider = choice.reranker
    if provider == NONE:
        return {"rerankConfig": None} if stored else {}
    st.markdown(f"**{TITLES['rerankConfig']}: {provider}**")
    fields = api_schema.reranker_fields()[provider]
    current = space if stored.get("provider") == provider else None
    typed = {field: _field("rerankConfig", field, current, optional=not needed) for field, needed in fields.items()}
    if current and _as_stored(typed, stored):
        return {}
    secrets = {field: stored[field] for field in fields if current and field in SECRET and field in stored}
    values = {field: value for field, value in typed.items() if value}
    return {"rerankConfig": {"provider": provider, **secrets, **values}}


def _parser(space: Json | None) -> Json:
    """The external parser by its area; null takes it away. A key that was not typed is sent masked, and is kept."""
    stored = (space or {}).get("parserConfig") or {}
    with st.expander(TITLES["parserConfig"], expanded=bool(stored)):
        st.caption("A docling-serve that reads the pages and files whose text cannot be trusted; nothing else is sent.")
        typed = {field: _field("parserConfig", field, space, optional=True) for field in ("url", "apiKey")}
    if not typed["url"]:
        return {"parserConfig": None} if stored else {}
    if _as_stored(typed, stored):
        return {}
    secrets = {"apiKey": stored["apiKey"]} if "apiKey" in stored else {}
    return {
        "parserConfig": {"provider": "ENDPOINT", **secrets, **{name: value for name, value in typed.items() if value}}
    }


def _language(space: Json | None) -> Json:
    """The language of keyword search; null has each document read in its own."""
    stored = (space or {}).get("keywordLanguage")
    options = list(dict.fromkeys(["", *([stored] if stored else []), *api_schema.stem_languages()]))
    chosen = st.selectbox(
        "Keyword language",
        options,
        index=options.index(stored or ""),
        format_func=lambda language: language.capitalize() or "Each document's own",
        key=f"{_place(space)}.keywordLanguage",
        help="What words are reduced to their stems by, for all documents.",
    )
    return {} if (chosen or None) == stored else {"keywordLanguage": chosen or None}


def _app(service: api_schema.Service, space: Json | None) -> Json:
    """An app by its area; nothing where it stays as it is. A secret that was not typed is sent masked, and is kept."""
    area, fields = service.app, service.fields
    stored = (space or {}).get(area) or {}
    st.markdown(service.title)
    places = st.columns(len(fields))
    typed = {}
    for column, field in zip(places, fields, strict=True):
        with column:
            typed[field] = _field(area, field, space, optional=field in service.optional)
    if _as_stored(typed, stored):
        return {}
    secrets = {field: stored.get(field, "") for field in fields if field in SECRET}
    unasked = {field: value for field, value in stored.items() if field not in fields}
    values = {field: value or secrets.get(field, "") for field, value in typed.items()}
    return {
        area: {**unasked, **{field: value for field, value in values.items() if value or field not in service.optional}}
    }


def _field(area: str, field: str, space: Json | None, *, optional: bool = False) -> str:
    """One text field; a secret is typed hidden and never filled in."""
    label, key = LABELS.get(field, field) + (" (optional)" if optional else ""), f"{_place(space)}.{area}.{field}"
    stored = (space or {}).get(area) or {}
    if field in SECRET:
        hint = "stored; type a new one to replace it" if stored else ""
        return st.text_input(label, type="password", placeholder=hint, key=key, autocomplete="off")
    return st.text_input(label, value=str(stored.get(field) or ""), key=key)
