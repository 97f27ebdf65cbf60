"""Retry of failed documents of a job run, optionally with other parsing or chunking."""

from __future__ import annotations

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import frame, widgets
from ui.parts.ingest_forms import PARSING, PARSING_HELP

SAME = "As before"
CHANGEABLE = frozenset({"TEXT", "LOCAL_FILE", "URLS_LIST"})
"""Sources of which the API takes other settings with a retry."""


def show_controls(sources: frozenset[str], key: str) -> Json:
    """The fields for other settings, as far as these sources take them, and what they ask for."""
    if not sources <= CHANGEABLE:
        return {}
    changes: Json = {}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        if sources & {"LOCAL_FILE", "URLS_LIST"}:
            parsing = st.radio("Parsing", [SAME, *PARSING], horizontal=True, key=f"parsing-{key}", help=PARSING_HELP)
            if parsing and parsing != SAME:
                changes["ocrConfig"] = {"strategy": PARSING[parsing]}
        with st.popover("Chunk settings", icon=":material/tune:"):
            rechunk = st.toggle("Other chunks than before", key=f"cut-{key}")
            size = st.number_input("Chunk size (tokens)", 1, 8191, 1000, key=f"size-{key}", disabled=not rechunk)
            overlap = st.number_input(
                "Chunk overlap (tokens)", 0, 8190, 200, key=f"overlap-{key}", disabled=not rechunk
            )
    if rechunk:
        changes["chunkConfig"] = {"chunkSize": int(size), "chunkOverlap": int(overlap)}
    return changes


def retry_run(person: session.Person, namespace: str, run: str, changes: Json) -> str | None:
    """The run that runs the failed documents again; None if that was refused, which is shown."""
    try:
        response = widgets.post_once(person, f"/v1/ingest-job-runs/{run}/retry", {"namespaceId": namespace, **changes})
    except ApiError as error:
        frame.show_error(error)
        return None
    return str(response["id"])
