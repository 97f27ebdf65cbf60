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

from ui import session
from ui.client import ApiError, Json
from ui.parts import api_schema, search_request, url_state, waiting
from ui.parts.labels import STATUS_LABELS, format_value, offered_sources, source_title
from ui.parts.widgets import escape_markdown

# Newest first.
MAX_OFFERED_CONNECTIONS = 50
# Content services add their own.
BASIC_TYPES = ("TEXT", "FILE", "URL")
DOCUMENT_STATUSES = ("SUCCESS", "FAILED", "QUEUED", "PROCESSING", "CANCELLED", "QUEUED_FOR_RESYNC", "BACKLOG")
PRIMARY_PARAMETERS = ("q", "site", "status", "quality", "metadata")
# Of the expander, without the metadata.
SECONDARY_PARAMETERS = ("source", "type", "connection", "from", "to", "external", "archive", "removal", "access")
_bind_field = partial(url_state.bind_field, prefix="find")
TO_CHECK: Json = {"field": "document.textQuality", "op": "lt", "value": 0.8}
_DOCUMENT_ID_PATTERN = re.compile(r"doc_[0-9a-z]+")


def show_filters(person: session.Person, namespace: str, sites: Mapping[str, int]) -> Json | None:
    """Return the filterConfig of the form; None if invalid. `sites` counts the pages of each site."""
    linked = session.read_parameter("site")
    options = list(dict.fromkeys([*sites, *([linked] if linked else [])]))
    columns = iter(st.columns([5, 3, 4, 3] if options else [5, 4, 2], vertical_alignment="bottom"))
    hint: Json = {"type": "search", "icon": ":material/search:", "placeholder": "Piece of the name, URL or ID"}
    text = _bind_field(next(columns).text_input, "q", "Find documents", max_chars=200, **hint)
    site = None
    if options:
        names = {host: f"{host} ({sites[host]:,})" if host in sites else host for host in options}
        choice: Json = {"default": None, "options": names, "placeholder": "All sites"}
        site = _bind_field(next(columns).selectbox, "site", "Site", **choice)
    words = {status: STATUS_LABELS[status][0].capitalize() for status in DOCUMENT_STATUSES}
    choice = {"default": [], "options": words, "placeholder": "All statuses"}
    states = _bind_field(next(columns).multiselect, "status", "Status", **choice)
    about = "Documents with pages whose text may be wrong or missing."
    is_check = _bind_field(next(columns).toggle, "quality", "Pages to check", default=False, word="check", help=about)
    opened = any(session.read_parameter(name) for name in SECONDARY_PARAMETERS)
    with st.expander("More filters", icon=":material/filter_alt:", expanded=opened):
        extra_filter = _show_more_filters(person, namespace)
    if extra_filter is None:
        return None
    leaves = [*([TO_CHECK] if is_check else []), *extra_filter.pop("where")]
    config: Json = {
        "documentIds" if _DOCUMENT_ID_PATTERN.fullmatch(text) else "text": [text]
        if _DOCUMENT_ID_PATTERN.fullmatch(text)
        else text,
        "documentIngestionStatuses": states,
        "sites": [site] if site else [],
        "where": {"all": leaves} if leaves else None,
        **extra_filter,
    }
    return {name: value for name, value in config.items() if value}


def clear_filters() -> None:
    session.set_parameters(cursor=None, **dict.fromkeys((*PRIMARY_PARAMETERS, *SECONDARY_PARAMETERS)))


def _show_more_filters(person: session.Person, namespace: str) -> Json | None:
    columns = st.columns(3)
    titles = {name: source.title for name, source in offered_sources().items()}
    sources = _bind_field(columns[0].multiselect, "source", "Source", default=[], options=titles)
    kinds = [*BASIC_TYPES, *(f"{name}_DOCUMENT" for name in api_schema.known_services())]
    types = _bind_field(columns[1].multiselect, "type", "Type", default=[], options=kinds, format_func=_type_label)
    names = _connection_names(person, namespace)
    choice: Json = {"default": None, "options": names, "placeholder": "All connections"}
    connection = _bind_field(columns[2].selectbox, "connection", "Connection", **choice)
    cells = st.columns(4)
    day: Json = {"default": None, "value": None, "format": "YYYY-MM-DD"}
    since = _bind_field(cells[0].date_input, "from", "Added since", **day)
    until = _bind_field(cells[1].date_input, "to", "Added until", **day)
    external = _bind_field(cells[2].text_input, "external", "External IDs (comma-separated)")
    archive = _bind_field(cells[3].text_input, "archive", "Parent archive (ID)")
    metadata = show_filter("metadata")
    left_column, right_column = st.columns(2)
    waiting = _bind_field(left_column.toggle, "removal", "Deleted at source (pending confirmation)", default=False)
    unknown = _bind_field(right_column.toggle, "access", "Access unknown", default=False, word="unknown")
    if metadata is None:
        return None
    return {
        "documentIngestionSources": sources,
        "documentTypes": types,
        "documentConnectionIds": [connection] if connection else [],
        "documentExternalIds": [part.strip() for part in external.split(",") if part.strip()],
        "documentArchiveIds": [archive] if archive else [],
        "metadata": metadata,
        "awaitingRemoval": waiting,
        "accessStatuses": ["UNKNOWN"] if unknown else [],
        "where": _date_conditions(since, until),
    }


def _connection_names(person: session.Person, namespace: str) -> dict[str, str]:
    """Return connection names by id; only the id of the address without the right to list them."""
    linked = session.read_parameter("connection")
    names = {linked: linked} if linked else {}
    with suppress(ApiError):  # the other filters serve all the same
        if person.may("connections:read"):
            connections = person.api.get("/v1/connections", namespaceId=namespace, pageSize=MAX_OFFERED_CONNECTIONS)[
                "connections"
            ]
            names |= {connection["id"]: connection["name"] for connection in connections}
    return names


def _date_conditions(since: date | None, until: date | None) -> list[Json]:
    """Return conditions on the first addition; both days in UTC, inclusive."""
    leaves = []
    if since:
        leaves.append({"field": "document.createdAt", "op": "gte", "value": since.isoformat()})
    if until:
        day = (until + timedelta(days=1)).isoformat()
        leaves.append({"field": "document.createdAt", "op": "lt", "value": day})
    return leaves


def _type_label(name: str) -> str:
    return {"TEXT": "Text", "FILE": "File", "URL": "Web page"}.get(name, source_title(name.removesuffix("_DOCUMENT")))


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
        return dict(person.api.list_documents(namespace, config, facets=fields)["facets"])
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
