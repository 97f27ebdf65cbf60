"""Filter of the Documents page, kept in the page's address."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta
from functools import partial
from typing import Any

import streamlit as st

from ui import session, sign_ins
from ui.client import ApiError, Json
from ui.parts import document_kinds, search_request, url_state, waiting
from ui.parts.labels import STATUS_LABELS, format_value, offered_sources, source_title
from ui.parts.widgets import escape_markdown

# Only the newest connections are offered.
MAX_OFFERED_CONNECTIONS = 50
DOCUMENT_STATUSES = ("SUCCESS", "FAILED", "QUEUED", "PROCESSING", "CANCELLED", "QUEUED_FOR_RESYNC", "BACKLOG")
FILTER_PARAMETERS = (
    *("q", "status", "kind", "source", "site", "language", "connection", "quality", "metadata"),
    *("from", "to", "archive", "removal", "access", "cause"),
)
LANGUAGE_FIELD, TYPE_FIELD = "document.language", "document.mimeType"
# More values are a list to search in.
MAX_PILLS = 8
DRAWER_KEY = "filter_drawer"
_bind_field = partial(url_state.bind_field, prefix="find")
LOW_QUALITY_CONDITION: Json = {"field": "document.textQuality", "op": "lt", "value": 0.8}
_DOCUMENT_ID_PATTERN = re.compile(r"doc_[0-9a-z]+")


def count_all(person: session.Person, namespace: str) -> Json:
    """Count the documents of a namespace by status, source, site, language and media type."""
    statistics, facets = ("statsByStatus", "statsBySource", "statsBySite"), (LANGUAGE_FIELD, TYPE_FIELD)
    return person.api.list_documents(namespace, {}, include=statistics, facets=facets, recent=True)


def show_search(person: session.Person, namespace: str) -> str:
    """Show the field that finds documents, and on phones the button of the filters; return the text."""
    hint: Json = {"type": "search", "icon": ":material/search:", "placeholder": "Part of the name, URL or ID"}
    search_column, saved_column = st.columns([4, 1], vertical_alignment="bottom")
    text = str(_bind_field(search_column.text_input, "q", "Find documents", max_chars=200, **hint))
    with saved_column.popover("Saved filters", icon=":material/bookmark:", width="stretch"):
        _show_saved(f"{session.owner_id(person)}\n{namespace}")
    with st.container(key="drawer_button"):
        st.toggle("Filters", key=DRAWER_KEY)
    return text


def _show_saved(owner: str) -> None:
    """Show the saved filters of a person, and a form for the filter of the address."""
    saved = sign_ins.read_filters(owner)
    for name, parameters in saved.items():
        with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
            query = dict.fromkeys(FILTER_PARAMETERS) | parameters | {"cursor": None}
            st.button(escape_markdown(name), key=f"saved-{name}", on_click=partial(session.set_parameters, **query))
            forget, about = partial(sign_ins.keep_filter, owner, name, {}), f"Forget {escape_markdown(name)}"
            st.button(about, icon=":material/close:", type="tertiary", key=f"forget-{name}", on_click=forget)
    current = {name: value for name in FILTER_PARAMETERS if (value := session.read_parameter(name))}
    if not current:
        st.caption("" if saved else "Choose filters first: they can be saved here under a name.")
        return
    with st.form("save-filter", clear_on_submit=True, border=False):
        name = st.text_input("Name of the filter", max_chars=60).strip()
        if st.form_submit_button("Save filter", icon=":material/bookmark_add:") and name:
            sign_ins.keep_filter(owner, name, current)
            st.rerun()


def show_filters(person: session.Person, namespace: str, totals: Json, text: str) -> Json | None:
    """Show the facets and filters; return the filterConfig with the found `text`, None if invalid."""
    facets = {name: {item["value"]: item["count"] for item in values} for name, values in totals["facets"].items()}
    types: dict[str, list[str]] = {}
    for media_type in facets[TYPE_FIELD]:
        types.setdefault(document_kinds.find_kind(media_type), []).append(media_type)
    by_kind = {
        kind: sum(facets[TYPE_FIELD][name] for name in types[kind]) for kind in document_kinds.KINDS if kind in types
    }
    by_status = {entry["status"]: entry["totalCount"] for entry in totals["statsByStatus"]}
    by_source = {entry["source"]: entry["totalCount"] for entry in totals["statsBySource"]}
    status_titles = {status: STATUS_LABELS[status][0] for status in DOCUMENT_STATUSES}
    states = _choose_values("status", "Status", by_status, status_titles)
    kinds = _choose_values("kind", "Kind", by_kind, document_kinds.TITLES)
    titles = {name: source_title(name) for name in (*by_source, *offered_sources())}
    sources = _choose_values("source", "Source", by_source, titles)
    by_site = {entry["site"]: f"{entry['site']} ({entry['totalCount']:,})" for entry in totals["statsBySite"]}
    site = _choose_one("site", "Site", by_site)
    linked = filter(None, (session.read_parameter("language") or "").split(","))
    titles = {name: name for name in (*facets[LANGUAGE_FIELD], *linked)}
    languages = _choose_values("language", "Language", facets[LANGUAGE_FIELD], titles)
    connections = list_connections(person, namespace)["connections"]
    connection = _choose_one("connection", "Connection", {item["id"]: item["name"] for item in connections})
    hint: Json = {"true_value": "check", "help": "Documents with pages whose text may be wrong or missing."}
    only_low_quality = _bind_field(st.toggle, "quality", "Pages to check", default=False, **hint)
    day: Json = {"default": None, "value": None, "format": "YYYY-MM-DD"}
    with st.expander("More filters", icon=":material/filter_alt:", expanded=any(map(session.read_parameter, _MORE))):
        since = _bind_field(st.date_input, "from", "Added since", **day)
        until = _bind_field(st.date_input, "to", "Added until", **day)
        awaits_removal = _bind_field(st.toggle, "removal", "Deleted at source (pending confirmation)", default=False)
        unknown = _bind_field(st.toggle, "access", "Access unknown", default=False, true_value="unknown")
        archive = _bind_field(st.text_input, "archive", "Parent archive (ID)")
        metadata = show_filter("metadata")
    if metadata is None:
        return None
    leaves = [*([LOW_QUALITY_CONDITION] if only_low_quality else []), *_date_conditions(since, until)]
    if kinds:
        chosen_types = [name for kind in kinds for name in types.get(kind, [])]
        leaves.append({"field": TYPE_FIELD, "op": "in", "value": chosen_types or [""]})
    if languages:
        leaves.append({"field": LANGUAGE_FIELD, "op": "in", "value": languages})
    config: Json = {
        **({"documentIds": [text]} if _DOCUMENT_ID_PATTERN.fullmatch(text) else {"text": text}),
        "documentIngestionStatuses": states,
        "documentIngestionSources": sources,
        "sites": [site] if site else [],
        "documentConnectionIds": [connection] if connection else [],
        "documentArchiveIds": [archive] if archive else [],
        "metadata": metadata,
        "awaitingRemoval": awaits_removal,
        "accessStatuses": ["UNKNOWN"] if unknown else [],
        "where": {"all": leaves} if leaves else None,
    }
    return {name: value for name, value in config.items() if value}


_MORE = ("from", "to", "removal", "access", "archive")


def _choose_values(name: str, label: str, counts: Mapping[str, int], titles: Mapping[str, str]) -> list[str]:
    """Show the values with their counts; return the chosen ones. A single value is no choice."""
    chosen = [*(session.read_parameter(name) or "").split(","), *(st.session_state.get(f"find_{name}") or [])]
    options = {
        value: f"{escape_markdown(titles[value])} ({counts.get(value, 0):,})"
        for value in [*titles]
        if value in counts or value in chosen
    }
    if len(options) < 2 and not any(value in options for value in chosen):
        return []
    return list(_bind_field(st.pills, name, label, default=[], options=options, selection_mode="multi", wrap=True))


def _choose_one(name: str, label: str, titles: Mapping[str, str]) -> str | None:
    linked = session.read_parameter(name)
    options = {**({linked: linked} if linked else {}), **titles}
    if not options:
        return None
    is_long = len(options) > MAX_PILLS
    labels = options if is_long else {value: escape_markdown(title) for value, title in options.items()}
    look: Json = {"placeholder": f"All {label.lower()}s"} if is_long else {"wrap": True}
    widget: Any = st.selectbox if is_long else st.pills
    chosen: str | None = _bind_field(widget, name, label, default=None, options=labels, **look)
    return chosen


def clear_filters() -> None:
    session.set_parameters(cursor=None, **dict.fromkeys(FILTER_PARAMETERS))


def list_connections(person: session.Person, namespace: str) -> Json:
    if person.may("connections:read"):
        with suppress(ApiError):  # the other filters still work
            return person.api.recall("/v1/connections", namespaceId=namespace, pageSize=MAX_OFFERED_CONNECTIONS)
    return {"connections": []}


def _date_conditions(since: date | None, until: date | None) -> list[Json]:
    """Return conditions on the first addition; both days in UTC, inclusive."""
    leaves = []
    if since:
        leaves.append({"field": "document.createdAt", "op": "gte", "value": since.isoformat()})
    if until:
        day = (until + timedelta(days=1)).isoformat()
        leaves.append({"field": "document.createdAt", "op": "lt", "value": day})
    return leaves


MAX_FACET_KEYS, MAX_FACET_VALUES = 8, 10


def show_filter(name: str) -> Json | None:
    """Return the metadata filter of the address parameter `name`; None if invalid."""
    return show_object(name, "Metadata filter, as JSON: every key must match", '{"team": ["docs", "sales"]}')


def show_object(name: str, label: str, example: str) -> Json | None:
    """Show a field for a JSON object kept in the page's address; None if invalid."""
    typed = url_state.bind_field(st.text_input, name, label, prefix="filter", placeholder=example)
    parsed = search_request.parse_object(typed)
    if parsed is None:
        st.error(f"{label}: this is not a JSON object, such as {example}.")
    return parsed


def read_object(name: str) -> Json | None:
    return search_request.parse_object(session.read_parameter(name) or "")


def write_object(name: str, value: Json) -> None:
    """Put an object into the page's address before its field is drawn."""
    session.set_parameters(cursor=None, **{name: search_request.address_text(value)})


def list_keys(name: str, documents: Sequence[Json]) -> list[str]:
    """Return metadata keys to offer: of the filter, then most frequent ones."""
    frequencies = Counter(key for document in documents for key in document["metadata"])
    return list(dict.fromkeys([*(read_object(name) or {}), *(key for key, _ in frequencies.most_common())]))[
        :MAX_FACET_KEYS
    ]


def show_facets(person: session.Person, namespace: str, config: Json, name: str, keys: Sequence[str]) -> None:
    """Show values of each key with document counts, to filter by."""
    chosen = read_object(name) or {}
    groups = {key: [key] for key in keys if key in chosen} | {"": [key for key in keys if key not in chosen]}
    questions = {key: partial(_count_values, person, namespace, config, key, group) for key, group in groups.items()}
    answers = waiting.ask_in_parallel({key: ask for key, ask in questions.items() if groups[key]})
    counts = {field: values for answer in answers.values() for field, values in (answer or {}).items()}
    for key in keys:
        _show_facet(name, key, counts.get(f"metadata.{key}", []), chosen.get(key, []))


def _count_values(person: session.Person, namespace: str, config: Json, chosen: str, keys: Sequence[str]) -> Json:
    """Count the values of keys without the condition on `chosen`."""
    metadata = {key: value for key, value in config.get("metadata", {}).items() if key != chosen}
    return count_facets(
        person, namespace, {**config, "metadata": metadata or None}, [f"metadata.{key}" for key in keys]
    )


def count_facets(person: session.Person, namespace: str, config: Json, fields: Sequence[str]) -> Json:
    """Count documents per value of each field; empty for unsupported fields."""
    try:
        return dict(person.api.list_documents(namespace, config, facets=fields, recent=True)["facets"])
    except ApiError as error:
        if error.status != 400:
            raise
        return {}


def _show_facet(name: str, key: str, counts: Sequence[Json], chosen: Any) -> None:
    selected = [json.dumps(value) for value in (chosen if isinstance(chosen, list) else [chosen])]
    labels = {
        json.dumps(entry["value"]): f"{escape_markdown(format_value(entry['value']))} ({entry['count']:,})"
        for entry in counts[:MAX_FACET_VALUES]
    }
    labels |= {value: escape_markdown(format_value(json.loads(value))) for value in selected if value not in labels}
    if not selected and all(entry["count"] == 1 for entry in counts):
        return
    state = f"facet_{name}_{key}"
    st.session_state[state] = selected
    st.pills(
        escape_markdown(key),
        list(labels),
        selection_mode="multi",
        format_func=labels.__getitem__,
        wrap=True,
        key=state,
        on_change=_filter_by,
        args=(name, key, state),
    )


def _filter_by(name: str, key: str, state: str) -> None:
    values = [json.loads(value) for value in st.session_state[state]]
    conditions = {**(read_object(name) or {}), key: values[0] if len(values) == 1 else values}
    write_object(name, {field: value for field, value in conditions.items() if value != []})
