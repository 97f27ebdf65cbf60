"""Statuses as people see them: a badge, a mark in a table, a note for an empty page."""

from __future__ import annotations

from typing import Any

import streamlit as st

from ui import session
from ui.parts.labels import STATUS, word


def badge(status: str) -> None:
    said, color, icon = STATUS.get(status, (status, "gray", "help"))
    st.badge(said, icon=f":material/{icon}:", color=color)


def column() -> Any:
    """A table's column of statuses as coloured chips; its cells are lists of one."""
    colors = [color for _, color, _ in STATUS.values()]
    return st.column_config.MultiselectColumn("Status", options=list(STATUS), color=colors, format_func=word, width=150)


def empty(what: str, advice: str, *, go: tuple[str, str] | None = None) -> None:
    """What an empty page says: there is nothing, and what to do about it. `go`: a page's name and the label of the
    button that leads there, in the same namespace."""
    st.info(f"**{what}**  \n{advice}", icon=":material/lightbulb:")
    if go and st.button(go[1], icon=":material/arrow_forward:", key=f"go-{go[0]}"):
        place = session.parameter("namespace")
        st.switch_page(f"views/{go[0]}.py", query_params={"namespace": place} if place else None)


def add_content(what: str) -> None:
    """The empty page of what comes from ingestions."""
    advice = "Files, texts, pages of the web and content services come in by one page."
    may = session.person().may("ingest:write")
    empty(what, advice if may else "This key may not add content.", go=("add_content", "Add content") if may else None)
