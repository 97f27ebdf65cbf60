"""Rows that open by a click on any of their cells."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest


def page() -> None:
    import streamlit as st

    from ui.parts import tables

    rows = [{"Name": "owls", "Prefect": "http://prefect/1"}, {"Name": "seals", "Prefect": "http://prefect/2"}]
    row = tables.clicked(rows, "animals", links=("Prefect",), Prefect=st.column_config.LinkColumn())
    st.text(f"opened {row}")


@pytest.mark.parametrize(
    ("cells", "opened"),
    [
        ([], None),
        ([(1, "Name")], 1),
        ([(1, "Prefect")], None),
        ([(2, "Name")], None),  # of a longer table that stood there before
    ],
)
def test_a_click_on_a_cell_opens_its_row_but_for_links(cells: list[tuple[int, str]], opened: int | None) -> None:
    app = AppTest.from_function(page)
    app.session_state["animals_0"] = {"selection": {"rows": [], "columns": [], "cells": cells}}
    assert app.run().text[0].value == f"opened {opened}"


def test_a_click_counts_once() -> None:
    app = AppTest.from_function(page)
    app.session_state["animals_0"] = {"selection": {"rows": [], "columns": [], "cells": [(1, "Name")]}}
    assert app.run().text[0].value == "opened 1"
    assert app.run().text[0].value == "opened None"
