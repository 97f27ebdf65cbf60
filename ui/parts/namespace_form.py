"""The form of a namespace, made from the API's description of each configuration.

The API tries storage, index and model before it saves; its refusal names the field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import api_schema, frame, widgets
from ui.parts.labels import format_field

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator

AREAS = {
    "fileStorageConfig": "File storage",
    "vectorStorageConfig": "Vector store",
    "embeddingModelConfig": "Embedding model",
    "webScraperConfig": "Web scraper",
    "rerankConfig": "Reranker",
    "parserConfig": "External parser",
}
MODEL, PARSER = "embeddingModelConfig", "parserConfig"
CHOICES = {
    "fileStorageConfig.LOCAL": "LOCAL · on this service's own disk",
    "vectorStorageConfig.PGVECTOR": "PGVECTOR · in this service's own PostgreSQL",
    "embeddingModelConfig.auto": "auto · by the languages of the first documents",
}
"""Values without an account, and what they mean."""
NONE = "none"
DEFAULTS = ("LOCAL", "PGVECTOR", "BUILTIN")
"""Providers without an account, which are offered first."""
REEMBEDS = frozenset({"vectorStorageConfig", MODEL})
"""What the stored vectors depend on."""
SECRET = frozenset({"secretAccessKey", "accessKeyId", "apiKey", "clientSecret"})
_SAVES = "namespace_saves"
MASKED_WITH_TAIL = 12
"""Characters from which on a secret's mask shows its last four."""


def show_form(person: session.Person, space: Json | None) -> Json | None:
    """Show the form for a new namespace, or for changes of one. Return the namespace once it is saved.

    Text fields are in a Streamlit form, which sends typed text however the field loses focus. Outside of a form, a
    secret in a field that is left with Tab towards the field's own button is lost (streamlit#5659).
    """
    stored = space or {}
    heads = _choose_providers(stored)
    places: dict[str, DeltaGenerator] = {}
    body: Json = {}
    with st.form("namespace_form", border=False):
        name = st.text_input("Name", value=stored.get("name", ""), max_chars=200, key=f"{_prefix(stored)}.name")
        body |= {"name": name} if name != stored.get("name") else {}
        places["name"] = st.container()
        for area, head in heads.items():
            body |= _show_area(stored, area, head)
            places[area] = st.container()
        body |= _show_parser(stored)
        places[PARSER] = st.container()
        body |= _show_language(stored)
        places["keywordLanguage"] = st.container()
        services = api_schema.known_services().values()
        with st.expander(f"OAuth apps for connections ({', '.join(service.title for service in services)})"):
            for service in services:
                st.markdown(service.title)
                fields = {name: name not in service.optional for name in service.fields}
                body |= _show_fields(stored, service.app, {}, fields, st.columns(len(fields)))
        reembed = space is not None and st.toggle(
            "Embed all its documents again",
            help="For another model or vector store: a run makes new vectors of the stored texts; until it has ended,"
            " searches are answered from the old ones. A namespace with documents cannot change either without it.",
        )
        save_key = f"{_prefix(stored)}.save"
        if not st.form_submit_button("Test and save", type="primary", icon=":material/save:", key=save_key):
            return None
    if not body:
        st.info("Nothing to save: no field was changed.", icon=":material/info:")
        return None
    if reembed and REEMBEDS & body.keys():
        body["reembed"] = True
    return _save(person, space, body, places)


def _prefix(stored: Json) -> str:
    """Return the key prefix of the form's fields. It differs per namespace and after each save, so that nothing typed
    for one namespace, least of all a secret, appears in the form of another."""
    return f"{stored.get('id', 'new')}.{st.session_state.get(_SAVES, 0)}"


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


def _choose_providers(stored: Json) -> dict[str, Json]:
    """Return provider and model by area, empty for none: they decide which fields there are, and stand before the
    form."""
    heads: dict[str, Json] = {}
    columns = [*st.columns(2), *st.columns(2), *st.columns(2)]
    for area, column in zip(("fileStorageConfig", "vectorStorageConfig"), columns, strict=False):
        heads[area] = _choose_provider(column, area, AREAS[area], stored)
    heads[MODEL] = _choose_provider(columns[2], MODEL, "Provider", stored)
    heads[MODEL]["model"] = _choose_model(columns[3], heads[MODEL]["provider"], stored.get(MODEL) or {})
    about = "A model that reads the best results again."
    for area, column, help_text in (("webScraperConfig", columns[4], None), ("rerankConfig", columns[5], about)):
        heads[area] = _choose_provider(column, area, AREAS[area], stored, none=True, help=help_text)
    return heads


def _choose_provider(
    column: DeltaGenerator, area: str, label: str, stored: Json, *, none: bool = False, **options: Any
) -> Json:
    providers = sorted(api_schema.provider_fields(area), key=lambda provider: provider not in DEFAULTS)
    choices = [*([NONE] if none else []), *providers]
    name = "type" if area == "fileStorageConfig" else "provider"
    default = "BUILTIN" if area == "webScraperConfig" and not stored else choices[0]
    index = choices.index((stored.get(area) or {}).get(name, default))
    words = {provider: CHOICES.get(f"{area}.{provider}", provider) for provider in choices}
    chosen = column.selectbox(label, choices, index=index, format_func=words.__getitem__, **options)
    return {} if chosen == NONE else {name: chosen}


def _choose_model(column: DeltaGenerator, provider: str, stored: Json) -> str:
    models = [*api_schema.embedding_models()[provider]]
    stored_name = stored["model"] if stored.get("provider") == provider else None
    if not models:
        return str(column.text_input("Model", value=stored_name or "", help="The model's name at the server."))
    options = list(dict.fromkeys([*models, *([stored_name] if stored_name else [])]))
    words = {name: CHOICES.get(f"{MODEL}.{name}", name) for name in options}
    index = options.index(stored_name) if stored_name else 0
    return str(column.selectbox("Model", options, index=index, format_func=words.__getitem__))


def _show_area(stored: Json, area: str, head: Json) -> Json:
    """Show the fields of a provider. Return the configuration by its area: null takes it away, nothing keeps it."""
    if not head:
        return {area: None} if stored.get(area) else {}
    provider = head.get("type") or head["provider"]
    fields = {} if provider == "BUILTIN" else api_schema.provider_fields(area)[provider]
    fields = {name: needed for name, needed in fields.items() if name not in head}
    if fields:
        st.markdown(f"**{AREAS[area]}: {provider}**")
    return _show_fields(stored, area, head, fields)


def _show_parser(stored: Json) -> Json:
    with st.expander(AREAS[PARSER], expanded=bool(stored.get(PARSER))):
        st.caption("A docling-serve that reads the pages and files whose text cannot be trusted; nothing else is sent.")
        fields, head = dict.fromkeys(("url", "apiKey"), False), {"provider": "ENDPOINT"}
        body = _show_fields(stored, PARSER, head, fields)
    if body and not body[PARSER].get("url"):
        return {PARSER: None} if stored.get(PARSER) else {}
    return body


def _show_language(stored: Json) -> Json:
    """The language of keyword search; null has each document read in its own."""
    language = stored.get("keywordLanguage")
    options = list(dict.fromkeys(["", *([language] if language else []), *api_schema.stem_languages()]))
    chosen = st.selectbox(
        "Keyword language",
        options,
        index=options.index(language or ""),
        format_func=lambda language: language.capitalize() or "Each document's own",
        key=f"{_prefix(stored)}.keywordLanguage",
        help="What words are reduced to their stems by, for all documents.",
    )
    return {} if (chosen or None) == language else {"keywordLanguage": chosen or None}


def _show_fields(
    stored: Json, area: str, head: Json, fields: Mapping[str, bool], columns: Sequence[DeltaGenerator] = ()
) -> Json:
    """Show a text field for each of the `fields`, which may be needed; return the configuration by its area, nothing
    where it stays as it is. A secret is typed hidden and never filled in; one that was not typed is sent masked, if the
    API showed it so, and is kept."""
    previous = stored.get(area) or {}
    provider = head.get("type") or head.get("provider")
    current = previous if provider in (None, previous.get("type"), previous.get("provider")) else {}
    config, is_changed = dict(head), not previous.items() >= head.items()
    places = columns or [st.container() for _ in fields]
    for column, (path, needed) in zip(places, fields.items(), strict=True):
        part, _, name = path.rpartition(".")
        key, label = f"{_prefix(stored)}.{area}.{path}", format_field(name) + ("" if needed else " (optional)")
        value = str((current.get(part) or {}).get(name, "") if part else current.get(name) or "")
        if name in SECRET:
            hint = "stored; type a new one to replace it" if previous else ""
            typed = column.text_input(label, type="password", placeholder=hint, key=key, autocomplete="off")
        else:
            typed = column.text_input(label, value=value, key=key)
        is_changed = is_changed or typed != ("" if name in SECRET else value)
        typed = typed or (value if name in SECRET else "")
        if typed or needed:
            (config.setdefault(part, {}) if part else config)[name] = (
                int(typed) if name == "dimensions" and typed.isdecimal() else typed
            )
    return {area: config} if is_changed else {}
