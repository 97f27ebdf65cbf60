"""Form of a namespace, built from the API's schema.

The API tests storage, index and model before it saves; a refusal names the field.
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

AREA_LABELS = {
    "fileStorageConfig": "File storage",
    "vectorStorageConfig": "Vector store",
    "embeddingModelConfig": "Embedding model",
    "webScraperConfig": "Web scraper",
    "rerankConfig": "Reranker",
    "parserConfig": "External parser",
}
MODEL_AREA, PARSER_AREA = "embeddingModelConfig", "parserConfig"
# Values without an account.
CHOICE_LABELS = {
    "fileStorageConfig.LOCAL": "LOCAL · on this service's own disk",
    "vectorStorageConfig.PGVECTOR": "PGVECTOR · in this service's own PostgreSQL",
    "embeddingModelConfig.auto": "auto · by the languages of the first documents",
}
NO_PROVIDER = "none"
# Offered first: they need no account.
DEFAULT_PROVIDERS = ("LOCAL", "PGVECTOR", "BUILTIN")
# Stored vectors depend on them.
REEMBEDDING_AREAS = frozenset({"vectorStorageConfig", MODEL_AREA})
SECRET_FIELDS = frozenset({"secretAccessKey", "accessKeyId", "apiKey", "clientSecret"})
_SAVE_COUNT_KEY = "namespace_saves"
# Masks of longer secrets show the last four characters.
MIN_TAIL_CHARACTERS = 12


def show_form(person: session.Person, space: Json | None) -> Json | None:
    """Show the form for a new or existing namespace; return the namespace once saved."""
    # Text fields are in a Streamlit form. Outside of a form, a secret in a field that is left with Tab towards its own
    # button is lost (streamlit#5659).
    stored = space or {}
    heads = _choose_providers(stored)
    containers: dict[str, DeltaGenerator] = {}
    body: Json = {}
    with st.form("namespace_form", border=False):
        name = st.text_input("Name", value=stored.get("name", ""), max_chars=200, key=f"{_field_prefix(stored)}.name")
        body |= {"name": name} if name != stored.get("name") else {}
        containers["name"] = st.container()
        for area, head in heads.items():
            body |= _show_area(stored, area, head)
            containers[area] = st.container()
        body |= _show_parser(stored)
        containers[PARSER_AREA] = st.container()
        body |= _show_language(stored)
        containers["keywordLanguage"] = st.container()
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
        save_key = f"{_field_prefix(stored)}.save"
        if not st.form_submit_button("Test and save", type="primary", icon=":material/save:", key=save_key):
            return None
    if not body:
        st.info("Nothing to save: no field was changed.", icon=":material/info:")
        return None
    if reembed and REEMBEDDING_AREAS & body.keys():
        body["reembed"] = True
    return _save_namespace(person, space, body, containers)


def _field_prefix(stored: Json) -> str:
    """Return the key prefix of the form's fields."""
    # Different per namespace and after each save: nothing typed, least of all a secret, appears in another form.
    return f"{stored.get('id', 'new')}.{st.session_state.get(_SAVE_COUNT_KEY, 0)}"


def _save_namespace(
    person: session.Person, space: Json | None, body: Json, containers: Mapping[str, DeltaGenerator]
) -> Json | None:
    """Save and return the namespace; None if refused, with the reason at its area."""
    try:
        with st.spinner("Trying storage, index and model …"):
            if space is None:
                saved = widgets.post_once(person, "/v1/namespaces", body)["namespace"]
            else:
                saved = person.api.patch(f"/v1/namespaces/{space['id']}", body)["namespace"]
    except ApiError as error:
        error_container = containers.get((error.field or "").partition(".")[0])
        with error_container or st.container():
            frame.show_error(error)
        if error_container:
            st.caption(":red[Not saved: see the highlighted field.]")
        return None
    # A namespace shows another model or store only after everything was embedded again.
    unconfirmed_areas = REEMBEDDING_AREAS | {"reembed"} if "reembed" in body else frozenset()
    if missing := unconfirmed_fields(
        {area: value for area, value in body.items() if area not in unconfirmed_areas}, saved
    ):
        st.error(f"The service did not confirm {', '.join(missing)}: look at the configuration and try again.")
        return None
    st.session_state[_SAVE_COUNT_KEY] = st.session_state.get(_SAVE_COUNT_KEY, 0) + 1
    return dict(saved)


def unconfirmed_fields(sent: Json, saved: Json, path: str = "") -> list[str]:
    """Return sent fields with another value in the answer; masked secrets compare by their tail."""
    fields: list[str] = []
    for name, value in sent.items():
        field_path, saved_value = f"{path}{name}", saved.get(name)
        if isinstance(value, dict):
            fields += unconfirmed_fields(value, saved_value if isinstance(saved_value, dict) else {}, f"{field_path}.")
        elif name in SECRET_FIELDS:
            tail = value[-4:] if len(value) >= MIN_TAIL_CHARACTERS else ""
            fields += [] if saved_value is None or str(saved_value).endswith(tail) else [field_path]
        elif saved_value != value:
            fields.append(field_path)
    return fields


def _choose_providers(stored: Json) -> dict[str, Json]:
    """Return provider and model by area; empty for none."""
    # Before the form: the choice decides its fields.
    heads: dict[str, Json] = {}
    columns = [*st.columns(2), *st.columns(2), *st.columns(2)]
    for area, column in zip(("fileStorageConfig", "vectorStorageConfig"), columns, strict=False):
        heads[area] = _choose_provider(column, area, AREA_LABELS[area], stored)
    heads[MODEL_AREA] = _choose_provider(columns[2], MODEL_AREA, "Provider", stored)
    heads[MODEL_AREA]["model"] = _choose_model(columns[3], heads[MODEL_AREA]["provider"], stored.get(MODEL_AREA) or {})
    about = "A model that reads the best results again."
    for area, column, help_text in (("webScraperConfig", columns[4], None), ("rerankConfig", columns[5], about)):
        heads[area] = _choose_provider(column, area, AREA_LABELS[area], stored, none=True, help=help_text)
    return heads


def _choose_provider(
    column: DeltaGenerator, area: str, label: str, stored: Json, *, none: bool = False, **options: Any
) -> Json:
    providers = sorted(api_schema.provider_fields(area), key=lambda provider: provider not in DEFAULT_PROVIDERS)
    choices = [*([NO_PROVIDER] if none else []), *providers]
    name = "type" if area == "fileStorageConfig" else "provider"
    default = "BUILTIN" if area == "webScraperConfig" and not stored else choices[0]
    index = choices.index((stored.get(area) or {}).get(name, default))
    words = {provider: CHOICE_LABELS.get(f"{area}.{provider}", provider) for provider in choices}
    chosen = column.selectbox(label, choices, index=index, format_func=words.__getitem__, **options)
    return {} if chosen == NO_PROVIDER else {name: chosen}


def _choose_model(column: DeltaGenerator, provider: str, stored: Json) -> str:
    models = [*api_schema.embedding_models()[provider]]
    stored_name = stored["model"] if stored.get("provider") == provider else None
    if not models:
        return str(column.text_input("Model", value=stored_name or "", help="The model's name at the server."))
    options = list(dict.fromkeys([*models, *([stored_name] if stored_name else [])]))
    words = {name: CHOICE_LABELS.get(f"{MODEL_AREA}.{name}", name) for name in options}
    index = options.index(stored_name) if stored_name else 0
    return str(column.selectbox("Model", options, index=index, format_func=words.__getitem__))


def _show_area(stored: Json, area: str, head: Json) -> Json:
    """Show the fields of a provider; return the configuration by area, null to remove it."""
    if not head:
        return {area: None} if stored.get(area) else {}
    provider = head.get("type") or head["provider"]
    fields = {} if provider == "BUILTIN" else api_schema.provider_fields(area)[provider]
    fields = {name: needed for name, needed in fields.items() if name not in head}
    if fields:
        st.markdown(f"**{AREA_LABELS[area]}: {provider}**")
    return _show_fields(stored, area, head, fields)


def _show_parser(stored: Json) -> Json:
    with st.expander(AREA_LABELS[PARSER_AREA], expanded=bool(stored.get(PARSER_AREA))):
        st.caption("A docling-serve that reads the pages and files whose text cannot be trusted; nothing else is sent.")
        fields, head = dict.fromkeys(("url", "apiKey"), False), {"provider": "ENDPOINT"}
        body = _show_fields(stored, PARSER_AREA, head, fields)
    if body and not body[PARSER_AREA].get("url"):
        return {PARSER_AREA: None} if stored.get(PARSER_AREA) else {}
    return body


def _show_language(stored: Json) -> Json:
    """Show the keyword language; null lets each document use its own."""
    language = stored.get("keywordLanguage")
    options = list(dict.fromkeys(["", *([language] if language else []), *api_schema.stem_languages()]))
    chosen = st.selectbox(
        "Keyword language",
        options,
        index=options.index(language or ""),
        format_func=lambda language: language.capitalize() or "Each document's own",
        key=f"{_field_prefix(stored)}.keywordLanguage",
        help="What words are reduced to their stems by, for all documents.",
    )
    return {} if (chosen or None) == language else {"keywordLanguage": chosen or None}


def _show_fields(
    stored: Json, area: str, head: Json, fields: Mapping[str, bool], columns: Sequence[DeltaGenerator] = ()
) -> Json:
    """Show a text field per entry of `fields`; return the changed configuration by area."""
    # Secrets are never filled in. An untyped secret is sent as its mask, and the API keeps it.
    previous = stored.get(area) or {}
    provider = head.get("type") or head.get("provider")
    current = previous if provider in (None, previous.get("type"), previous.get("provider")) else {}
    config, is_changed = dict(head), not previous.items() >= head.items()
    containers = columns or [st.container() for _ in fields]
    for column, (path, needed) in zip(containers, fields.items(), strict=True):
        part, _, name = path.rpartition(".")
        key, label = f"{_field_prefix(stored)}.{area}.{path}", format_field(name) + ("" if needed else " (optional)")
        value = str((current.get(part) or {}).get(name, "") if part else current.get(name) or "")
        if name in SECRET_FIELDS:
            hint = "stored; type a new one to replace it" if previous else ""
            typed = column.text_input(label, type="password", placeholder=hint, key=key, autocomplete="off")
        else:
            typed = column.text_input(label, value=value, key=key)
        is_changed = is_changed or typed != ("" if name in SECRET_FIELDS else value)
        typed = typed or (value if name in SECRET_FIELDS else "")
        if typed or needed:
            (config.setdefault(part, {}) if part else config)[name] = (
                int(typed) if name == "dimensions" and typed.isdecimal() else typed
            )
    return {area: config} if is_changed else {}
