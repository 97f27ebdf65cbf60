"""Notices during slow answers of the API."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from ui.client import REQUEST_TIMEOUT_SECONDS, SLOW_NOTICE_SECONDS, Json, wait_patiently


@contextmanager
def show_notice() -> Iterator[None]:
    """Show a notice until the API answers."""
    # Without a page in this thread, the page's own thread shows it.
    if get_script_run_ctx(suppress_warning=True) is None:
        yield
        return
    placeholder = st.empty()
    placeholder.warning(
        f"The API has not answered for {SLOW_NOTICE_SECONDS:.0f} seconds. Still waiting,"
        f" {REQUEST_TIMEOUT_SECONDS:.0f} seconds at most …",
        icon=":material/hourglass_top:",
    )
    try:
        yield
    finally:
        placeholder.empty()


def ask_in_parallel(questions: Mapping[str, Callable[[], Json] | None]) -> dict[str, Json | None]:
    """Send requests in parallel; return answers by name, None for None. Raises the first ApiError."""
    with ThreadPoolExecutor(max_workers=max(len(questions), 1)) as pool:
        futures = {name: pool.submit(question) if question else None for name, question in questions.items()}
        return {name: wait_patiently(future, show_notice) if future else None for name, future in futures.items()}
