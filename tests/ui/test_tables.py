"""Clicks on any cell open the row."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

ANIMALS = ("owls", "seals")


def page() -> None:
    import streamlit as st

    from ui.parts import widgets

    names = st.session_state["animals"]
    rows = [{"Name": name, "Prefect": f"http://prefect/{name}"} for name in names]
    chosen = widgets.clicked_row(rows, "table", names, links=("Prefect",), Prefect=st.column_config.LinkColumn())
    st.text(f"opened {chosen}")


def opened(*animals: str) -> AppTest:
    app = AppTest.from_function(page, default_timeout=60)
    app.session_state["animals"] = animals
    return app.run()


def click(app: AppTest, row: int, column: str = "Name") -> None:
    app.session_state["table_0"] = {"selection": {"rows": [], "columns": [], "cells": [(row, column)]}}


@pytest.mark.parametrize(
    ("row", "column", "opened_row"),
    [
        (1, "Name", "seals"),
        (1, "Prefect", None),
        (2, "Name", None),  # of a longer table that stood there before
    ],
)
def test_a_click_on_a_cell_opens_its_row_but_for_links(row: int, column: str, opened_row: str | None) -> None:
    app = opened(*ANIMALS)
    assert app.text[0].value == "opened None"
    click(app, row, column)
    assert app.run().text[0].value == f"opened {opened_row}"


def test_a_click_counts_once() -> None:
    app = opened(*ANIMALS)
    click(app, 1)
    assert app.run().text[0].value == "opened seals"
    assert app.run().text[0].value == "opened None"


def test_a_click_opens_the_row_that_was_seen_there_whatever_has_come_above_it_since() -> None:
    app = opened(*ANIMALS)
    click(app, 1)
    app.session_state["animals"] = ("otters", "beavers", *ANIMALS)
    assert app.run().text[0].value == "opened seals"
