"""Tables of which a row opens by a click anywhere on it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import streamlit as st


def clicked(rows: Sequence[Any], key: str, *, links: Collection[str] = (), **columns: Any) -> int | None:
    """Show the rows; the place of the one that is clicked, among them as they are given.

    `links`: columns of links, which lead elsewhere; `columns`: the `column_config` of a column.
    """
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
