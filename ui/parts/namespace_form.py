"""Form of a namespace, built from the API's schema, with a test of each part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
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
TESTED_AREAS = frozenset({*REEMBEDDING_AREAS, "fileStorageConfig", "rerankConfig"})
SECRET_FIELDS = frozenset({"secretAccessKey", "accessKeyId", "apiKey", "clientSecret"})
# Sent for a stored secret that answers omit.
STORED_MASK = "••••"
_SAVE_COUNT_KEY = "namespace_saves"


def show_form(person: session.Person, space: Json | None) -> Json | None:
    """Show the form for a new or existing namespace; return the namespace once saved."""
    # Outside of a Streamlit form, a secret in a field that is left with Tab towards a button is lost (streamlit#5659).
    stored = space or {}
    name = st.text_input("Name", value=stored.get("name", ""), max_chars=200, key=f"{_field_prefix(stored)}.name")
    body: Json = {"name": name} if name != stored.get("name") else {}
    containers: dict[str, DeltaGenerator] = {"name": st.container()}
    if space is None:
        st.caption("Everything else has a default that needs no account: content stays in this service.")
    heads = _choose_providers(stored)
    tested: Json = {}
    with st.form("namespace_form", border=False, enter_to_submit=False):
        cards = cycle(st.columns(3))
        for area, head in heads.items():
            body |= _show_area(stored, area, head, tested, containers, cards)
        with st.expander(f"{AREA_LABELS[PARSER_AREA]} and keyword language", expanded=bool(stored.get(PARSER_AREA))):
            body |= _show_parser(stored, tested, containers)
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
        label, save_key = "Save" if space else "Create namespace", f"{_field_prefix(stored)}.save"
        # A quick click arrives before the name that it takes the focus from, and the name's rerun ends its run.
        keep_click: Json = {"on_click": st.session_state.update, "args": ({f"{save_key}.click": True},)}
        st.form_submit_button(label, type="primary", icon=":material/save:", key=save_key, **keep_click)
    _show_tests(person, stored, tested, containers)
    if not st.session_state.pop(f"{save_key}.click", False):
        return None
    if not body:
        st.info("Nothing to save: no field was changed.", icon=":material/info:")
        return None
    body |= {"reembed": True} if reembed and REEMBEDDING_AREAS & body.keys() else {}
    return _save_namespace(person, space, body, containers)


def _offer_test(stored: Json, area: str, config: Json, tested: Json) -> None:
    """Show the button that tests a configuration, for `_show_tests`."""
    key = f"{_field_prefix(stored)}.{area}.test"
    tested[area] = config, st.form_submit_button("Test", icon=":material/network_check:", key=key, width="stretch")


TEST_STYLES = {
    "PASSED": ("green", "check_circle", "Passed"),
    "FAILED": ("red", "error", "Failed"),
    "NOT_TESTED": ("orange", "help", "Not tested"),
}


def _show_tests(person: session.Person, stored: Json, tested: Json, containers: Mapping[str, DeltaGenerator]) -> None:
    """Test the part with a clicked button, and show each part's result until its fields change."""
    results: Json = st.session_state.setdefault(f"{_field_prefix(stored)}.tests", {})
    for area, (config, is_clicked) in tested.items():
        body = {area: config} | ({MODEL_AREA: tested[MODEL_AREA][0]} if area == "vectorStorageConfig" else {})
        with containers[area]:
            if is_clicked:
                scope = {"namespaceId": stored["id"]} if stored else {}
                with frame.shown_refusal(), st.spinner("Testing …"):
                    answer = person.api.post("/v1/namespaces/test", {**body, **scope})["tests"]
                    results[area] = body, next(result for result in answer if result["field"] == area)
            tested_body, result = results.get(area, (None, {}))
            if tested_body == body:
                color, icon, word = TEST_STYLES[result["outcome"]]
                seconds = f" :gray[{result['seconds']:.1f} s]" if result["outcome"] != "NOT_TESTED" else ""
                text = f"**{word}.** {widgets.escape_markdown(result['message'])}"
                st.markdown(f":{color}[:material/{icon}: {text}]{seconds}")


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
    st.session_state[_SAVE_COUNT_KEY] = st.session_state.get(_SAVE_COUNT_KEY, 0) + 1
    return dict(saved)


def _choose_providers(stored: Json) -> dict[str, Json]:
    """Return provider and model by area; empty for none."""
    # Before the form: the choice decides its fields.
    provider_column, model_column = st.columns([3, 2])
    with provider_column:
        head = _choose_provider(MODEL_AREA, "Model provider", stored, widget=st.pills)
    with model_column:
        heads = {MODEL_AREA: head | {"model": _choose_model(head["provider"], stored.get(MODEL_AREA) or {})}}
    abouts = {"rerankConfig": "A model that reads the best results again."}
    areas = ("fileStorageConfig", "vectorStorageConfig", "webScraperConfig", "rerankConfig")
    for area, column in zip(areas, [*st.columns(2), *st.columns(2)], strict=True):
        with column:
            none = area in {"webScraperConfig", "rerankConfig"}
            heads[area] = _choose_provider(area, AREA_LABELS[area], stored, none=none, help=abouts.get(area))
    return heads


def _choose_provider(
    area: str, label: str, stored: Json, *, widget: Any = st.selectbox, none: bool = False, **options: Any
) -> Json:
    providers = sorted(api_schema.provider_fields(area), key=lambda provider: provider not in DEFAULT_PROVIDERS)
    choices = [*([NO_PROVIDER] if none else []), *providers]
    name = "type" if area == "fileStorageConfig" else "provider"
    default = "BUILTIN" if area == "webScraperConfig" and not stored else choices[0]
    current = (stored.get(area) or {}).get(name, default)
    first: Json = (
        {"index": choices.index(current)} if widget is st.selectbox else {"default": current, "required": True}
    )
    labels = {provider: CHOICE_LABELS.get(f"{area}.{provider}", provider) for provider in choices}
    chosen = widget(label, choices, format_func=labels.__getitem__, **first, **options)
    return {} if chosen == NO_PROVIDER else {name: chosen}


def _choose_model(provider: str, stored: Json) -> str:
    models = [*api_schema.embedding_models()[provider]]
    stored_name = stored["model"] if stored.get("provider") == provider else None
    if not models:
        return str(st.text_input("Model", value=stored_name or "", help="The model's name at the server."))
    options = list(dict.fromkeys([*models, *([stored_name] if stored_name else [])]))
    labels = {name: CHOICE_LABELS.get(f"{MODEL_AREA}.{name}", name) for name in options}
    index = options.index(stored_name) if stored_name else 0
    return str(st.selectbox("Model", options, index=index, format_func=labels.__getitem__))


def _show_area(
    stored: Json,
    area: str,
    head: Json,
    tested: Json,
    containers: dict[str, DeltaGenerator],
    cards: Iterator[DeltaGenerator],
) -> Json:
    """Show a provider's fields in the next card; return the changed configuration by area, null to remove it."""
    if not head:
        return {area: None} if stored.get(area) else {}
    provider = head.get("type") or head["provider"]
    fields = {} if provider == "BUILTIN" else api_schema.provider_fields(area)[provider]
    fields = {name: needed for name, needed in fields.items() if name not in head}
    if not fields and area not in TESTED_AREAS:
        return _show_fields(stored, area, head, fields)
    with next(cards), st.container(border=True):
        st.markdown(f"**{AREA_LABELS[area]}**  \n{' '.join(head.values())}")
        config, is_changed = _read_fields(stored, area, head, fields)
        if area in TESTED_AREAS:
            _offer_test(stored, area, config, tested)
        containers[area] = st.container()
    return {area: config} if is_changed else {}


def _show_parser(stored: Json, tested: Json, containers: dict[str, DeltaGenerator]) -> Json:
    st.caption("A docling-serve that reads the pages and files whose text cannot be trusted; nothing else is sent.")
    fields, head = dict.fromkeys(("url", "apiKey"), False), {"provider": "ENDPOINT"}
    config, is_changed = _read_fields(stored, PARSER_AREA, head, fields)
    _offer_test(stored, PARSER_AREA, config, tested)
    containers[PARSER_AREA] = st.container()
    if not config.get("url"):
        return {PARSER_AREA: None} if stored.get(PARSER_AREA) else {}
    return {PARSER_AREA: config} if is_changed else {}


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
        help="Its rules reduce the labels of all documents to stems.",
    )
    return {} if (chosen or None) == language else {"keywordLanguage": chosen or None}


def _show_fields(
    stored: Json, area: str, head: Json, fields: Mapping[str, bool], columns: Sequence[DeltaGenerator] = ()
) -> Json:
    """Show a text field per entry of `fields`; return the changed configuration by area."""
    config, is_changed = _read_fields(stored, area, head, fields, columns)
    return {area: config} if is_changed else {}


def _read_fields(
    stored: Json, area: str, head: Json, fields: Mapping[str, bool], columns: Sequence[DeltaGenerator] = ()
) -> tuple[Json, bool]:
    """Show a text field per entry of `fields`; return the configuration, and True for changes."""
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
            value = value or (STORED_MASK if current and needed else "")
        else:
            typed = column.text_input(label, value=value, key=key)
        is_changed = is_changed or typed != ("" if name in SECRET_FIELDS else value)
        typed = typed or (value if name in SECRET_FIELDS else "")
        if typed or needed:
            (config.setdefault(part, {}) if part else config)[name] = (
                int(typed) if name == "dimensions" and typed.isdecimal() else typed
            )
    return config, is_changed
