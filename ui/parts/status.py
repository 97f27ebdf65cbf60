"""Statuses as people see them: a badge, a mark in a table, a note for an empty page."""

from __future__ import annotations

from typing import Any

import streamlit as st

from ui.parts.labels import STATUS


def badge(status: str) -> None:
    word, color, icon = STATUS.get(status, (status, "gray", "help"))
    st.badge(f"{status} · {word}" if word.upper() != status else status, icon=f":material/{icon}:", color=color)


def column() -> Any:
    """A table's column of statuses as coloured chips; its cells are lists of one."""
    colors = [color for _, color, _ in STATUS.values()]
    return st.column_config.MultiselectColumn("Status", options=list(STATUS), color=colors, width=132)


def empty(what: str, advice: str) -> None:
    """What an empty page says: there is nothing, and what to do about it."""
    st.info(f"**{what}**  \n{advice}", icon=":material/lightbulb:")
