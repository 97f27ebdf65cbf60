"""Documents and searches as another person sees them: chosen in the sidebar, marked above every page."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from ui import session
from ui.parts.widgets import format_code

_WHO = "see_as"
_TYPED = "see_as_typed"
READS = frozenset({"namespaces:read", "documents:read", "search"})
"""What is answered on behalf of a user."""
LONGEST = 256
"""Bytes that a name may take."""


def viewer_name() -> str:
    """Return the user that this browser session sees the service as; empty for the key itself."""
    viewer = st.session_state.get(_WHO)
    return viewer if isinstance(viewer, str) else ""


def current_person() -> session.Person:
    """The signed-in person, whose requests are made on behalf of the one who is seen as; then nothing is changed."""
    person = session.current_person()
    if not viewer_name():
        return person
    reads = person.scopes & READS
    return replace(person, api=person.api.on_behalf_of(viewer_name()), scopes=reads)


def show_choice(person: session.Person) -> None:
    """The choice in the sidebar, for keys that read; the banner while another person is seen as."""
    may_ask = person.role in {None, "admin"}  # of people who sign in by OpenID Connect admins alone
    if not may_ask or not (person.may("documents:read") or person.may("search")):
        return
    with st.sidebar, st.expander("See as another person", icon=":material/visibility:", expanded=bool(viewer_name())):
        st.text_input(
            "User",
            placeholder="ada@example.com",
            key=_TYPED,
            on_change=_choose,
            help="Documents and searches then show what this user may see, by the access of the documents.",
        )
    if viewer_name():
        text_column, back = st.columns([5, 1], vertical_alignment="center")
        text_column.warning(
            f"You see documents and searches as {format_code(viewer_name())}. Nothing can be changed meanwhile.",
            icon=":material/visibility:",
        )
        back.button("Stop", icon=":material/visibility_off:", width="stretch", key="see_as_stop", on_click=_stop)


def _choose() -> None:
    st.session_state[_WHO] = str(st.session_state.get(_TYPED) or "").strip()[:LONGEST]


def _stop() -> None:
    st.session_state[_WHO] = st.session_state[_TYPED] = ""
