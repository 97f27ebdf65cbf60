"""From one part of a list to the next, by the API's cursors, kept in the page's address."""

from __future__ import annotations

import streamlit as st

from ui import session
from ui.client import Json

PLACES = ("cursor", "keys", "tenants", "questions", "sent")
"""Where lists keep their place in the address."""


def show(data: Json, *, name: str = "cursor", start: str = "Newest", further: str = "Older") -> None:
    """The buttons that this part of the list needs; none for a list that fits."""
    if session.parameter(name) and st.button(start, icon=":material/first_page:", key=f"start-{name}"):
        session.remember(**{name: None})
        st.rerun()
    if data["hasNextPage"] and st.button(further, icon=":material/chevron_right:", key=f"further-{name}"):
        session.remember(**{name: data["nextCursor"]})
        st.rerun()
