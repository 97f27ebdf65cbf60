"""A metadata filter: built key by key, or typed as the JSON that the API takes; kept in the page's address."""

from __future__ import annotations

import json

import streamlit as st

from ui import session
from ui.client import Json


def show(name: str) -> Json | None:
    """The filter, empty if nothing is asked; None, and why, if it cannot be used; `name`: where in the address."""
    state = f"filter_{name}"
    if state not in st.session_state:
        st.session_state[state] = session.parameter(name) or ""
    key, values, add = st.columns([2, 3, 1], vertical_alignment="bottom")
    key.text_input("Metadata key", placeholder="team", key=f"{state}_key")
    values.text_input("Any of the values (commas between)", placeholder="docs, sales", key=f"{state}_values")
    add.button("Add", icon=":material/add:", key=f"{state}_add", width="stretch", on_click=_add, args=(state,))
    typed = st.text_input("Metadata filter, as JSON: every key must match", placeholder='{"team": "docs"}', key=state)
    session.remember(**{name: typed.strip()})
    wanted = read(typed)
    if wanted is None:
        st.error('The filter is not a JSON object, such as {"team": "docs"} or {"team": ["docs", "sales"]}.')
    return wanted


def read(typed: str) -> Json | None:
    """What was typed as an object; None if it is no such thing."""
    try:
        wanted = json.loads(typed) if typed.strip() else {}
    except ValueError:
        return None
    return wanted if isinstance(wanted, dict) else None


def with_key(wanted: Json, key: str, values: str) -> Json:
    """The filter with one more key: numbers, true, false and null are taken as such, several values as any of them."""
    known = [_value(part.strip()) for part in values.split(",") if part.strip()]
    return {**wanted, key: known[0] if len(known) == 1 else known} if key and known else wanted


def _value(part: str) -> object:
    try:
        value = json.loads(part)
    except ValueError:
        return part
    return part if isinstance(value, dict | list) else value


def _add(state: str) -> None:
    key, values = st.session_state[f"{state}_key"].strip(), st.session_state[f"{state}_values"]
    before = read(st.session_state[state])
    if before is None or not key or not values.strip():
        return
    st.session_state[state] = json.dumps(with_key(before, key, values), ensure_ascii=False)
    st.session_state[f"{state}_key"] = st.session_state[f"{state}_values"] = ""
