"""Options of the search lab: what comes with a result, how many of a document, age, reranking, other namespaces."""

from __future__ import annotations

from typing import Any

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts.search_request import RERANK, UNITS, chosen, number

NAMES = ("least", "unit", "tokens", "per", "halflife", "recency", "rerank", "with")
"""Where they stand in the page's address."""
OTHERS = 9


def show(who: session.Person, namespace: str) -> Json:
    """The fields of `Wanted` that they set; kept in the page's address."""
    with st.expander("Options", icon=":material/tune:", expanded=any(session.parameter(name) for name in NAMES)):
        one, two, three = st.columns(3)
        with one:
            found = _context()
        with two:
            found |= _recency()
        with three:
            found |= _reranking(who, namespace)
        found |= _reach(who, namespace)
        least = st.slider("Minimum score", 0.0, 1.0, number("least", 0.0, 0, 1), 0.05)
    session.remember(least=f"{least:g}" if least else None)
    return {**found, "least": least}


def _context() -> Json:
    linked = session.parameter("unit") or ""
    unit = st.selectbox(
        "Context of a result",
        list(UNITS),
        index=list(UNITS).index(linked) if linked in UNITS else 0,
        format_func=UNITS.__getitem__,
        help="Expansion: what surrounds each result in its document, as `context` of the answer.",
    )
    tokens = st.number_input("Tokens of a context", 1, 8000, int(number("tokens", 512, 1, 8000)), disabled=not unit)
    session.remember(unit=unit, tokens=str(tokens) if unit and tokens != 512 else None)
    return {"unit": unit, "tokens": int(tokens)}


def _recency() -> Json:
    half = st.number_input(
        "Recency: half-life in days",
        0.0,
        100_000.0,
        number("halflife", 0.0, 0, 100_000),
        help="0: the age of documents does not count. Else the score's part for recency halves every so many days.",
    )
    weight = st.slider("Recency weight", 0.0, 1.0, number("recency", 0.2, 0, 1), 0.05, disabled=not half)
    session.remember(halflife=f"{half:g}" if half else None, recency=f"{weight:g}" if half and weight != 0.2 else None)
    return {"half_life": float(half), "recency": float(weight)}


def _reranking(who: session.Person, namespace: str) -> Json:
    per = st.number_input(
        "Results per document",
        0,
        100,
        int(number("per", 0, 0, 100)),
        help="At most; 0 for no limit. Others take the place of those that are left out.",
    )
    linked = session.parameter("rerank") or ""
    has = _has_reranker(who, namespace)
    choice = st.selectbox(
        "Reranking",
        list(RERANK),
        index=list(RERANK).index(linked) if linked in RERANK else 0,
        format_func=RERANK.__getitem__,
        disabled=has is False,
        help="This namespace has no reranker; give it one under Namespaces." if has is False else None,
    )
    choice = "" if has is False else choice
    session.remember(per=str(per) if per else None, rerank=choice)
    return {"per_document": int(per), "rerank": choice}


def _has_reranker(who: session.Person, namespace: str) -> bool | None:
    """None where the key is not shown the namespace's configuration."""
    if not who.may("namespaces:read"):
        return None
    found: dict[str, Any] = who.api.get(f"/v1/namespaces/{namespace}")["namespace"]
    return found.get("rerankConfig") is not None if "embeddingModelConfig" in found else None


def _reach(who: session.Person, namespace: str) -> Json:
    names = {space["id"]: space["name"] for space in session.namespaces(who) if space["id"] != namespace}
    others = st.multiselect(
        "Search in other namespaces, too",
        list(names),
        default=chosen("with", names),
        format_func=lambda one: f"{names[one]}  ·  {one[-6:]}",
        max_selections=OTHERS,
        disabled=not names,
        help="They need the same embedding model. Results are merged by score.",
    )
    session.remember(**{"with": ",".join(others)})
    return {"others": tuple(others)}
