"""The search lab: one query in columns side by side, how the ranks move, why something is not found, what is right."""

from __future__ import annotations

import time
from functools import partial

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import frame, search_options, search_reasons, search_request, search_results, url_state, waiting, widgets
from ui.parts.labels import format_count, format_milliseconds
from ui.parts.search_request import MODES, MOST, Wanted

USUAL = ["semantic", "hybrid"]
"""Modes that are searched unless the address says otherwise."""


def main() -> None:
    person = frame.current_person()
    namespace = frame.show_head(person, "Search lab")
    request = _form(person, namespace)
    if request is None:
        return
    if not request.query:
        advice = "Type a question or a few words; the same query runs in each search mode."
        widgets.show_empty("Nothing to search for yet.", advice)
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
    st.html(search_results.STYLE)
    with st.container(key="lab"):
        widgets.show_tabs("search_tabs", pages)


def _advice(wanted: Wanted) -> str:
    """Return which options to loosen when there are no results: only options that are set."""
    limits = {
        "lower the minimum score": wanted.least,
        "take the filter away": wanted.filter,
        "stop seeing as another person": wanted.viewer,
    }
    if advice := " or ".join(words for words, value in limits.items() if value):
        return f"{advice[0].upper()}{advice[1:]}."
    return "See under Documents whether this namespace has searchable documents, or ask in other words."


def _code(person: session.Person, wanted: Wanted) -> None:
    path, body = search_request.build_request(wanted, wanted.modes[-1])
    body.pop("explain")
    search_options.show_snippets(person, path, body)


def _form(person: session.Person, namespace: str) -> Wanted | None:
    field = partial(url_state.bind_field, prefix="lab")
    query = field(st.text_input, "q", "Query", placeholder="What do you want to know?")
    left_column, middle_column, right_column = st.columns([2, 2, 1])
    choice: Json = {"default": USUAL, "options": MODES, "selection_mode": "multi"}
    modes = field(left_column.segmented_control, "columns", "Search modes", **choice)
    weight = field(middle_column.slider, "weight", "Semantic weight", 0.0, 1.0, default=0.5, step=0.05)
    top = field(right_column.number_input, "top", "Top K", 1, MOST, default=10)
    filters = search_options.show_filters(person, namespace)
    options = search_options.show_options(person, namespace)
    if filters is None:
        return None
    if not modes:
        st.info("Choose at least one search mode.")
        return None
    metadata, condition = filters
    options |= {"metadata": metadata, "condition": condition, "viewer": frame.viewer_name()}
    return Wanted(namespace, query, tuple(modes), weight, top, **options)


def _searched(person: session.Person, wanted: Wanted) -> dict[str, Json]:
    """Return the answers by mode, requested in parallel. Errors are shown, once if all are equal."""
    responses = waiting.ask_in_parallel({mode: partial(_search, person, wanted, mode) for mode in wanted.modes})
    answers = {mode: answer for mode, answer in responses.items() if answer is not None}
    refused = [answer.pop("refused") for answer in answers.values() if "refused" in answer]
    for error in {frame.error_text(error): error for error in refused}.values():
        frame.show_error(error)
    return {mode: answer for mode, answer in answers.items() if answer}


def _search(person: session.Person, wanted: Wanted, mode: str) -> Json:
    try:
        return person.api.post(*search_request.build_request(wanted, mode))
    except ApiError as error:
        if session.key_has_ended(error):
            raise
        return {"refused": error}


main()
