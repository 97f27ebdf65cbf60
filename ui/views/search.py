"""Search lab: one query in several modes, with ranks, reasons and judgements."""

from __future__ import annotations

import time
from functools import partial

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import frame, search_options, search_reasons, search_request, search_results, url_state, waiting, widgets
from ui.parts.labels import format_count, format_milliseconds
from ui.parts.search_request import MODE_LABELS, SearchRequest

# Unless the address has others.
DEFAULT_MODES = ["semantic", "hybrid"]


def main() -> None:
    person = frame.current_person()
    namespace = frame.show_head(person, "Search lab")
    form = _show_form(person, namespace)
    if form is None:
        return
    request, chosen = form
    if not request.query:
        advice = "Type a question or a few words; the same query runs in each search mode."
        widgets.show_empty("Nothing to search for yet.", advice)
        return
    started = time.perf_counter()
    answers = _search_all(person, request)
    if not answers:
        return
    documents = {hit["document"]["id"] for data in answers.values() for hit in data["results"]}
    spent = format_milliseconds((time.perf_counter() - started) * 1000)
    with st.container(key="found"):
        st.caption(f"{format_count(len(documents), 'document')} found in {spent}", text_alignment="right")
    pages = {
        "Results": partial(search_results.show_results, person, request, answers, _suggest_changes(request), chosen),
        "Why not found?": partial(search_reasons.show_missing_reasons, person, session.current_person(), request),
        "API snippet": partial(_show_code, person, request),
    }
    with st.container(key="lab"):
        widgets.show_tabs("search_tabs", pages)


def _suggest_changes(request: SearchRequest) -> str:
    """Return a sentence that advises changes of the search's options after an empty result."""
    values = {
        "lower the minimum score": request.min_score,
        "take the filter away": request.filter,
        "stop seeing as another person": request.viewer,
    }
    if advice := " or ".join(change for change, value in values.items() if value):
        return f"{advice[0].upper()}{advice[1:]}."
    return "See under Documents whether this namespace has searchable documents, or ask in other words."


def _show_code(person: session.Person, request: SearchRequest) -> None:
    path, body = search_request.build_request(request, request.modes[-1])
    body.pop("explain")
    st.code(search_options.as_curl(person.api.base, person.api.tenant, path, body), language="bash", wrap_lines=True)


def _show_form(
    person: session.Person, namespace: str
) -> tuple[SearchRequest, search_results.QuestionSet | None] | None:
    """Return the request and the chosen question set; None for an invalid form."""
    field = partial(url_state.bind_field, prefix="lab")
    hint: Json = {"placeholder": "What do you want to know?", "label_visibility": "collapsed"}
    query_column, modes_column = st.columns([5, 2], vertical_alignment="center")
    query = field(query_column.text_input, "q", "Query", icon=":material/search:", **hint)
    choice: Json = {"default": DEFAULT_MODES, "options": MODE_LABELS, "selection_mode": "multi"}
    choice |= {"label_visibility": "collapsed", "width": "stretch"}
    modes = field(modes_column.segmented_control, "columns", "Search modes", **choice)
    filter_column, options_column, set_column = st.columns(3)
    with filter_column:
        filters = search_options.show_filters(person, namespace)
    with options_column:
        options = search_options.show_options(person, namespace)
    if filters is None:
        return None
    if not modes:
        st.info("Choose at least one search mode.")
        return None
    metadata, condition = filters
    options |= {"metadata": metadata, "condition": condition, "viewer": frame.viewer_name()}
    request = SearchRequest(namespace, query, tuple(modes), **options)
    with set_column:
        return request, search_results.choose_set(person, request)


def _search_all(person: session.Person, request: SearchRequest) -> dict[str, Json]:
    """Search all modes in parallel; show each distinct error once."""
    responses = waiting.ask_in_parallel({mode: partial(_search_mode, person, request, mode) for mode in request.modes})
    answers = {mode: answer for mode, answer in responses.items() if answer is not None}
    refused = [answer.pop("refused") for answer in answers.values() if "refused" in answer]
    for error in {frame.error_text(error): error for error in refused}.values():
        frame.show_error(error)
    return {mode: answer for mode, answer in answers.items() if answer}


def _search_mode(person: session.Person, request: SearchRequest, mode: str) -> Json:
    try:
        return person.api.post(*search_request.build_request(request, mode))
    except ApiError as error:
        if session.key_has_ended(error):
            raise
        return {"refused": error}


main()
