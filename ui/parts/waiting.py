"""What a page says while the API is slow to answer: a page that waits in silence looks broken."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from ui.client import SECONDS, SLOW_SECONDS


@contextmanager
def notice() -> Iterator[None]:
    """Shows that the API has not answered yet, where the page is being built, until it does.

    Nothing in a thread that belongs to no page: there the page's own thread waits, and says it.
    """
    if get_script_run_ctx(suppress_warning=True) is None:
        yield
        return
    place = st.empty()
    place.warning(
        f"The API has not answered for {SLOW_SECONDS:.0f} seconds. Still waiting, {SECONDS:.0f} seconds at most …",
        icon=":material/hourglass_top:",
    )
    try:
        yield
    finally:
        place.empty()
