"""The search lab: one query in columns side by side, how the ranks move, why something is not found, what is right."""

from __future__ import annotations

import time
from functools import partial

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import frame, search_options, search_reasons, search_request, search_results, url_state, waiting, widgets
from ui.parts.labels import format_count, format_milliseconds
from ui.parts.search_request import MODES, MOST, Wanted, read_choices, read_number

FIELDS = url_state.Fields("lab", ("q", "columns", "weight", "top"))
USUAL, WEIGHT, TOP = ("semantic", "hybrid"), 0.5, 10
"""What is searched with unless the address says otherwise."""


def main() -> None:
    person = frame.current_person()
    namespace = frame.show_head(person, "Search lab")
    request = _form(person, namespace)
    if request is None:
        return
    if not request.query:
        widgets.show_empty(
            "Nothing to search for yet.", "Type a question or a few words; the same query runs in each search mode."
        )
        return
    started = time.perf_counter()
    answers = _searched(person, request)
    if not answers:
        return
    documents = {hit["document"]["id"] for data in answers.values() for hit in data["results"]}
    spent = format_milliseconds((time.perf_counter() - started) * 1000)
    st.caption(f"{format_count(len(documents), 'document')} found in {spent}")
    pages = {
        "Results": partial(search_results.show_results, person, request, answers, _advice(request)),
        "Why not found?": partial(search_reasons.show_why, person, session.current_person(), request),
        "Ranks, scores and times": partial(search_reasons.show_reasons, answers, request),
        "API snippet": partial(_code, person, request),
    }
    widgets.show_tabs("search_tabs", pages)


def _advice(wanted: Wanted) -> str:
    """Return which options to loosen when there are no results: only options that are set."""
    limits = [
        ("lower the minimum score", wanted.least),
        ("take the filter away", wanted.filter),
        ("stop seeing as another person", wanted.viewer),
    ]
    active = [word for word, value in limits if value]
    if not active:
        return "See under Documents whether this namespace has searchable documents, or ask in other words."
    advice = " or ".join(active)
    return f"{advice[0].upper()}{advice[1:]}."


def _code(person: session.Person, wanted: Wanted) -> None:
    """The last column's search, to be run elsewhere."""
    path, body = search_request.build_request(wanted, wanted.modes[-1])
    body.pop("explain")
    search_options.show_snippets(person, path, body)


def _form(person: session.Person, namespace: str) -> Wanted | None:
    """The query and how to search, kept in the page's address; None where they cannot be used."""
    FIELDS.follow(
        {
            "q": session.read_parameter("q") or "",
            "columns": read_choices("columns", MODES) or list(USUAL),
            "weight": float(read_number("weight", WEIGHT, 0, 1)),
            "top": int(read_number("top", TOP, 1, MOST)),
        }
    )
    query = st.text_input("Query", placeholder="What do you want to know?", key=FIELDS.key("q"))
    left_column, middle_column, right_column = st.columns([2, 2, 1])
    modes = left_column.segmented_control(
        "Search modes",
        list(MODES),
        selection_mode="multi",
        format_func=MODES.__getitem__,
        key=FIELDS.key("columns"),
    )
    weight = middle_column.slider("Semantic weight", 0.0, 1.0, step=0.05, key=FIELDS.key("weight"))
    top = right_column.number_input("Top K", 1, MOST, key=FIELDS.key("top"))
    filters = search_options.show_filters(person, namespace)
    options = search_options.show_options(person, namespace)
    FIELDS.write(
        q=query,
        columns=None if set(modes) == set(USUAL) else ",".join(modes),
        weight=None if weight == WEIGHT else f"{weight:g}",
        top=None if top == TOP else str(int(top)),
    )
    if filters is None:
        return None
    if not modes:
        st.info("Choose at least one search mode.")
        return None
    ordered = tuple(mode for mode in MODES if mode in modes)
    metadata, condition = filters
    return Wanted(
        namespace,
        query.strip(),
        ordered,
        weight,
        int(top),
        metadata=metadata,
        where=condition,
        viewer=frame.viewer_name(),
        **options,
    )


def _searched(person: session.Person, wanted: Wanted) -> dict[str, Json]:
    """Return the answers by mode, requested in parallel. Errors are shown, once if all are equal."""
    answers = waiting.ask_in_parallel({mode: partial(_search, person, wanted, mode) for mode in wanted.modes})
    refused: dict[str, ApiError] = {}
    by_mode: dict[str, Json] = {}
    for mode, answer in answers.items():
        if answer is None:
            continue
        error = answer.get("refused")
        if isinstance(error, ApiError):
            refused.setdefault(f"{error.code} {error.message}", error)
        else:
            by_mode[mode] = answer
    for error in refused.values():
        frame.show_error(error)
    return by_mode


def _search(person: session.Person, wanted: Wanted, mode: str) -> Json:
    try:
        return person.api.post(*search_request.build_request(wanted, mode))
    except ApiError as error:
        if session.key_has_ended(error):
            raise
        return {"refused": error}


main()
