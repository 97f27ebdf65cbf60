"""A metadata filter: chosen from values with their counts, or typed as JSON; kept in the page's address."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import waiting
from ui.parts.labels import format_value
from ui.parts.widgets import escape_markdown

FACETS, VALUES = 8, 10
"""Metadata keys, and values of each, that are offered."""


@dataclass(frozen=True, slots=True)
class JsonInput:
    """A field for a JSON object that is kept in the page's address under `name`, and follows it: Back works."""

    name: str
    label: str
    example: str

    @property
    def _state(self) -> str:
        return f"filter_{self.name}"

    def restore(self) -> None:
        """Restore the value of the address if this field did not write it."""
        linked = session.read_parameter(self.name) or ""
        if self._state not in st.session_state or linked != st.session_state.get(f"{self._state}_written"):
            st.session_state[self._state] = linked
            st.session_state[f"{self._state}_written"] = linked

    def show(self) -> Json | None:
        """Show the field and return its object; None, with a message, if it is no object."""
        typed = st.text_input(self.label, placeholder=self.example, key=self._state).strip()
        st.session_state[f"{self._state}_written"] = typed
        session.set_parameters(**{self.name: typed})
        parsed = parse_object(typed)
        if parsed is None:
            st.error(f"{self.label}: this is not a JSON object, such as {self.example}.")
        return parsed

    def read(self) -> Json | None:
        """Return the typed object before the field is drawn."""
        return parse_object(st.session_state.get(self._state, ""))

    def write(self, wanted: Json) -> None:
        """Put an object into the field, before it is drawn."""
        st.session_state[self._state] = json.dumps(wanted, ensure_ascii=False) if wanted else ""


def show_filter(name: str) -> Json | None:
    """Return the filter, empty if none is set; None, with a message, if it cannot be used. `name`: its parameter in the
    address."""
    field = _field(name)
    field.restore()
    return field.show()


def restore_filter(name: str) -> None:
    """Follow the address before the filter is drawn."""
    _field(name).restore()


def add_key(name: str, key: str, values: Sequence[object]) -> None:
    """One more key to the filter, before it is drawn."""
    if (current := _field(name).read()) is not None and key and values:
        _field(name).write({**current, key: values[0] if len(values) == 1 else list(values)})


def parse_object(typed: str) -> Json | None:
    """Parse a typed object; None if it is not a JSON object."""
    try:
        parsed = json.loads(typed) if typed.strip() else {}
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _field(name: str) -> JsonInput:
    return JsonInput(name, "Metadata filter, as JSON: every key must match", '{"team": ["docs", "sales"]}')


def list_keys(name: str, documents: Sequence[Json]) -> list[str]:
    """Return the metadata keys to offer: those of the filter, then the most frequent ones of the documents."""
    frequencies = Counter(key for document in documents for key in document["metadata"])
    return list(dict.fromkeys([*(_field(name).read() or {}), *(key for key, _ in frequencies.most_common())]))[:FACETS]


def show_facets(person: session.Person, namespace: str, config: Json, name: str, keys: Sequence[str]) -> None:
    """Show the values of each key, with the number of documents that match the other filters, to filter by."""
    chosen = _field(name).read() or {}
    groups = {key: [key] for key in keys if key in chosen} | {"": [key for key in keys if key not in chosen]}
    questions = {key: partial(_count_values, person, namespace, config, key, group) for key, group in groups.items()}
    answers = waiting.ask_in_parallel({key: ask for key, ask in questions.items() if groups[key]})
    counts = {field: values for answer in answers.values() for field, values in (answer or {}).items()}
    for key in keys:
        _show_facet(name, key, counts.get(f"metadata.{key}", []), chosen.get(key, []))


def _count_values(person: session.Person, namespace: str, config: Json, chosen: str, keys: Sequence[str]) -> Json:
    """Count the values of the keys; `chosen`: the key whose own condition is left out."""
    metadata = {key: value for key, value in config.get("metadata", {}).items() if key != chosen}
    body = {
        "namespaceId": namespace,
        "filterConfig": {**config, "metadata": metadata or None},
        "facets": [f"metadata.{key}" for key in keys],
        "pagination": {"pageSize": 1},
        "includeConfig": {"documents": False},
    }
    try:
        return dict(person.api.post("/v1/documents", body)["facets"])
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
    conditions = {**(_field(name).read() or {}), key: values[0] if len(values) == 1 else values}
    _field(name).write({field: value for field, value in conditions.items() if value != []})
