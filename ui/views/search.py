"""The search lab: one query in columns side by side, how the ranks move, where scores and time come from."""

from __future__ import annotations

import time
from functools import partial

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import frame, metadata_filter, search_reasons, search_results, snippets, status, tabs
from ui.parts.labels import count, milliseconds
from ui.parts.search_results import TITLES

KINDS = tuple(TITLES)
MOST = 50
"""Results of a column: three of them are 150 rows."""


def main() -> None:
    who = session.person()
    namespace = frame.head(who, "Search lab")
    query, wanted = _form()
    if wanted is None:
        return
    if not query:
        status.empty(
            "Nothing to search for yet.", "Type a question or a few words; the same query runs in each column."
        )
        return
    started = time.perf_counter()
    found = {kind: _search(who, namespace, query, wanted, kind) for kind in wanted["columns"]}
    shown = {kind: data for kind, data in found.items() if data is not None}
    if not shown:
        return
    documents = {hit["document"]["id"] for data in shown.values() for hit in data["results"]}
    spent = milliseconds((time.perf_counter() - started) * 1000)
    st.caption(f"{count(len(documents), 'document')} found in {spent}")
    pages = {
        "Results": partial(search_results.show, who, namespace, query, shown, _advice(wanted)),
        "Ranks, scores and times": partial(search_reasons.show, shown, wanted["weight"]),
        "As curl or Python": partial(_code, who, namespace, query, wanted),
    }
    tabs.show("search_tabs", pages)


def _advice(wanted: Json) -> str:
    """What may bring results where there are none: only what was asked for can be taken back."""
    limits = [("Lower the minimum score", wanted["threshold"]), ("take the metadata filter away", wanted["metadata"])]
    given = [word for word, value in limits if value]
    if not given:
        return "See under Documents whether this namespace has searchable documents, or ask in other words."
    advice = " or ".join(given)
    return f"{advice[0].upper()}{advice[1:]}."


def _code(who: session.Person, namespace: str, query: str, wanted: Json) -> None:
    """The last column's search, to be run elsewhere."""
    path, body = _request(namespace, query, wanted, wanted["columns"][-1])
    body.pop("explain")
    snippets.show(who, path, body)


def _form() -> tuple[str, Json | None]:
    """The query and how to search, kept in the page's address; None where they cannot be used."""
    query = st.text_input("Query", value=session.parameter("q") or "", placeholder="What do you want to know?")
    left, middle, right = st.columns([2, 2, 1])
    linked = [kind for kind in (session.parameter("columns") or "").split(",") if kind in KINDS]
    columns = left.segmented_control(
        "Columns",
        KINDS,
        selection_mode="multi",
        default=linked or ["semantic", "hybrid"],
        format_func=lambda kind: TITLES[kind],
    )
    weight = middle.slider("Weight of meaning in hybrid", 0.0, 1.0, _number("weight", 0.5), 0.05)
    top = right.number_input("Results", 1, MOST, int(max(_number("top", 10), 1)))
    filtered = bool(session.parameter("filter") or session.parameter("least"))
    with st.expander("Filter and threshold", icon=":material/filter_alt:", expanded=filtered):
        metadata = metadata_filter.show("filter")
        threshold = st.slider("Minimum score", 0.0, 1.0, _number("least", 0.0), 0.05)
    session.remember(
        q=query,
        columns=",".join(columns),
        weight=f"{weight:g}",
        top=str(int(top)),
        least=f"{threshold:g}" if threshold else None,
    )
    if metadata is None:
        return query, None
    if not columns:
        st.info("Choose at least one column.")
        return query, None
    ordered = [kind for kind in KINDS if kind in columns]
    return query.strip(), {
        "columns": ordered,
        "weight": weight,
        "topK": int(top),
        "threshold": threshold,
        "metadata": metadata,
    }


def _number(name: str, default: float) -> float:
    try:
        return min(max(float(session.parameter(name) or default), 0.0), float(MOST) if name == "top" else 1.0)
    except ValueError:
        return default


def _request(namespace: str, query: str, wanted: Json, kind: str) -> tuple[str, Json]:
    body: Json = {
        "namespaceId": namespace,
        "query": query,
        "topK": wanted["topK"],
        "scoreThreshold": wanted["threshold"],
        "explain": True,
    }
    if wanted["metadata"]:
        body["filter"] = {"metadata": wanted["metadata"]}
    if kind == "semantic":
        return "/v1/search", body
    weight = 0.0 if kind == "keyword" else wanted["weight"]
    body["hybridConfig"] = {"semanticWeight": round(weight, 6), "keywordWeight": round(1 - weight, 6)}
    return "/v1/search/hybrid", body


def _search(who: session.Person, namespace: str, query: str, wanted: Json, kind: str) -> Json | None:
    path, body = _request(namespace, query, wanted, kind)
    try:
        return who.api.post(path, body)
    except ApiError as error:
        if session.unauthorized(error):
            raise
        frame.show(error)
        return None


main()
