"""Tables of which a row opens by a click anywhere on it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, TypeVar

import streamlit as st

T = TypeVar("T")


def clicked(
    rows: Sequence[Any], key: str, those: Sequence[T], *, links: Collection[str] = (), **columns: Any
) -> T | None:
    """Show the rows; which of `those` is clicked, once: what each of the rows is about.

    The browser tells the place of the row in the table that was clicked. Where rows have come since, as in a table that
    moves by itself, another one has that place in the table that is drawn now. After the click it is another table,
    without a selection: who comes back before the page that the click opened is complete would be led there again.
    `links`: columns of links, which lead elsewhere; `columns`: the `column_config` of a column.
    """
    clicks, drawn = f"{key}_clicks", f"{key}_drawn"
    number = st.session_state.get(clicks, 0)
    before: Sequence[T] = st.session_state.get(drawn, those)
    seen = st.dataframe(
        rows,
        hide_index=True,
        width="stretch",
        on_select="rerun",
        selection_mode="single-cell",
        key=f"{key}_{number}",
        column_config=columns or None,
    )
    st.session_state[drawn] = list(those)
    cells = seen["selection"]["cells"]
    if not cells or cells[0][1] in links or not 0 <= cells[0][0] < len(before):
        return None
    st.session_state[clicks] = number + 1
    return before[cells[0][0]]
