"""A metadata filter: built key by key, or typed as the JSON that the API takes; kept in the page's address."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from ui import session
from ui.client import Json


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
    state = f"filter_{name}"
    key, values, add = st.columns([2, 3, 1], vertical_alignment="bottom")
    key.text_input("Metadata key", placeholder="team", key=f"{state}_key")
    values.text_input("Values (comma-separated)", placeholder="docs, sales", key=f"{state}_values")
    add.button("Add", icon=":material/add:", key=f"{state}_add", width="stretch", on_click=_add, args=(name,))
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


def with_key(wanted: Json, key: str, values: str) -> Json:
    """The filter with one more key: numbers, true, false and null are taken as such, several values as any of them."""
    parsed = [_value(part.strip()) for part in values.split(",") if part.strip()]
    return {**wanted, key: parsed[0] if len(parsed) == 1 else parsed} if key and parsed else wanted


def _field(name: str) -> JsonInput:
    return JsonInput(name, "Metadata filter, as JSON: every key must match", '{"team": ["docs", "sales"]}')


def _value(part: str) -> object:
    try:
        value = json.loads(part)
    except ValueError:
        return part
    return part if isinstance(value, dict | list) else value


def _add(name: str) -> None:
    state = f"filter_{name}"
    key, values = st.session_state[f"{state}_key"].strip(), st.session_state[f"{state}_values"]
    current = parse_object(st.session_state[state])
    if current is None or not key or not values.strip():
        return
    _field(name).write(with_key(current, key, values))
    st.session_state[f"{state}_key"] = st.session_state[f"{state}_values"] = ""
