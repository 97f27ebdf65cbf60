"""Tables of which a row opens by a click anywhere on it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import streamlit as st


def clicked(rows: Sequence[Any], key: str, *, links: Collection[str] = (), **columns: Any) -> int | None:
    """Show the rows; the place of the one that is clicked, once, among them as they are given.

    After the click it is another table, without a selection: who comes back before the page that the click opened is
    complete would be led there again. `links`: columns of links, which lead elsewhere; `columns`: the `column_config`
    of a column.
    """
    clicks = f"{key}_clicks"
    before = st.session_state.get(clicks, 0)
    row = selected(rows, f"{key}_{before}", links=links, **columns)
    if row is not None:
        st.session_state[clicks] = before + 1
    return row


def selected(rows: Sequence[Any], key: str, *, links: Collection[str] = (), **columns: Any) -> int | None:
    """Show the rows; the place of the one that is selected, for as long as it is."""
    seen = st.dataframe(
        rows,
        hide_index=True,
        width="stretch",
        on_select="rerun",
        selection_mode="single-cell",
        key=key,
        column_config=columns or None,
    )
    cells = seen["selection"]["cells"]
    if not cells or cells[0][1] in links or not 0 <= cells[0][0] < len(rows):
        return None
    return int(cells[0][0])
