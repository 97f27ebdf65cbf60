"""Tabs of which only the open one asks the API and is drawn; its name stands in the page's address."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import streamlit as st

from ui import session


def show(key: str, pages: Mapping[str, Callable[[], None]]) -> None:
    """A tab a page, by name, the first one open unless the address names another; `key` is the tabs' own.

    The address is followed whenever it is another than these tabs have written: by a link, or by Back.
    """
    names = list(pages)
    linked, written = session.parameter("tab"), f"{key}_written"
    if key not in st.session_state or linked != st.session_state.get(written):
        st.session_state[key] = linked if linked in pages else names[0]
    tabs = st.tabs(names, key=key, on_change="rerun")
    for name, tab in zip(names, tabs, strict=True):
        if tab.open:
            st.session_state[written] = None if name == names[0] else name
            session.remember(tab=st.session_state[written])
            with tab:
                pages[name]()
