"""A metadata filter: chosen from values with their counts, or typed as JSON; kept in the page's address."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import search_request, url_state, waiting
from ui.parts.labels import format_value
from ui.parts.widgets import escape_markdown

FACETS, VALUES = 8, 10
"""Metadata keys, and values of each, that are offered."""


def show_filter(name: str) -> Json | None:
    """Return the filter, empty if none is set; None, with a message, if it cannot be used. `name`: its parameter in the
    address."""
    return show_object(name, "Metadata filter, as JSON: every key must match", '{"team": ["docs", "sales"]}')


def show_object(name: str, label: str, example: str) -> Json | None:
    """Show a field for a JSON object, kept in the page's address; None, with a message, if it is no object."""
    typed = url_state.bind_field(st.text_input, name, label, prefix="filter", placeholder=example)
    parsed = _parse_object(typed)
    if parsed is None:
        st.error(f"{label}: this is not a JSON object, such as {example}.")
    return parsed


def read_object(name: str) -> Json | None:
    return _parse_object(session.read_parameter(name) or "")


def write_object(name: str, value: Json) -> None:
    """Put an object into the address, before its field is drawn."""
    session.set_parameters(cursor=None, **{name: search_request.address_text(value)})


def _parse_object(typed: str) -> Json | None:
    try:
        parsed = json.loads(typed) if typed.strip() else {}
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def list_keys(name: str, documents: Sequence[Json]) -> list[str]:
    """Return the metadata keys to offer: those of the filter, then the most frequent ones of the documents."""
    frequencies = Counter(key for document in documents for key in document["metadata"])
    return list(dict.fromkeys([*(read_object(name) or {}), *(key for key, _ in frequencies.most_common())]))[:FACETS]


def show_facets(person: session.Person, namespace: str, config: Json, name: str, keys: Sequence[str]) -> None:
    """Show the values of each key, with the number of documents that match the other filters, to filter by."""
    chosen = read_object(name) or {}
    groups = {key: [key] for key in keys if key in chosen} | {"": [key for key in keys if key not in chosen]}
    questions = {key: partial(_count_values, person, namespace, config, key, group) for key, group in groups.items()}
    answers = waiting.ask_in_parallel({key: ask for key, ask in questions.items() if groups[key]})
    counts = {field: values for answer in answers.values() for field, values in (answer or {}).items()}
    for key in keys:
        _show_facet(name, key, counts.get(f"metadata.{key}", []), chosen.get(key, []))


def _count_values(person: session.Person, namespace: str, config: Json, chosen: str, keys: Sequence[str]) -> Json:
    """Count the values of the keys; `chosen`: the key whose own condition is left out."""
    metadata = {key: value for key, value in config.get("metadata", {}).items() if key != chosen}
    return count_facets(
        person, namespace, {**config, "metadata": metadata or None}, [f"metadata.{key}" for key in keys]
    )


def count_facets(person: session.Person, namespace: str, config: Json, fields: Sequence[str]) -> Json:
    """Return the values of the fields with the number of documents of each; empty for fields that cannot be counted."""
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
        for entry in counts[:VALUES]
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
