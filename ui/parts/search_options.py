"""Options of the search lab: what comes with a result, how many of a document, age, reranking, other namespaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import url_state
from ui.parts.search_request import RERANK, UNITS, chosen, number

NAMES = ("least", "unit", "tokens", "per", "halflife", "recency", "rerank", "with")
"""Where they stand in the page's address."""
FIELDS = url_state.Fields("options", NAMES)
OTHERS = 9


def show(who: session.Person, namespace: str) -> Json:
    """The fields of `Wanted` that they set; kept in the page's address."""
    names = {space["id"]: space["name"] for space in session.namespaces(who) if space["id"] != namespace}
    FIELDS.follow(_shown(names))
    with st.expander("Options", icon=":material/tune:", expanded=any(session.parameter(name) for name in NAMES)):
        one, two, three = st.columns(3)
        with one:
            found = _context()
        with two:
            found |= _recency()
        with three:
            found |= _reranking(who, namespace)
        found |= _reach(names)
        least = st.slider("Minimum score", 0.0, 1.0, step=0.05, key=FIELDS.key("least"))
    FIELDS.write(least=f"{least:g}" if least else None)
    return {**found, "least": least}


def _shown(others: Mapping[str, str]) -> Json:
    """What the fields show of the address. `others`: the names of the other namespaces, by their ids."""
    return {
        "least": float(number("least", 0.0, 0, 1)),
        "unit": url_state.one_of("unit", tuple(UNITS)),
        "tokens": int(number("tokens", 512, 1, 8000)),
        "per": int(number("per", 0, 0, 100)),
        "halflife": float(number("halflife", 0.0, 0, 100_000)),
        "recency": float(number("recency", 0.2, 0, 1)),
        "rerank": url_state.one_of("rerank", tuple(RERANK)),
        "with": chosen("with", others)[:OTHERS],
    }


def _context() -> Json:
    unit = st.selectbox(
        "Context of a result",
        list(UNITS),
        format_func=UNITS.__getitem__,
        key=FIELDS.key("unit"),
        help="Expansion: what surrounds each result in its document, as `context` of the answer.",
    )
    tokens = st.number_input("Tokens of a context", 1, 8000, key=FIELDS.key("tokens"), disabled=not unit)
    FIELDS.write(unit=unit, tokens=str(tokens) if unit and tokens != 512 else None)
    return {"unit": unit, "tokens": int(tokens)}


def _recency() -> Json:
    half = st.number_input(
        "Recency: half-life in days",
        0.0,
        100_000.0,
        key=FIELDS.key("halflife"),
        help="0: the age of documents does not count. Else the score's part for recency halves every so many days.",
    )
    weight = st.slider("Recency weight", 0.0, 1.0, step=0.05, key=FIELDS.key("recency"), disabled=not half)
    FIELDS.write(halflife=f"{half:g}" if half else None, recency=f"{weight:g}" if half and weight != 0.2 else None)
    return {"half_life": float(half), "recency": float(weight)}


def _reranking(who: session.Person, namespace: str) -> Json:
    per = st.number_input(
        "Results per document",
        0,
        100,
        key=FIELDS.key("per"),
        help="At most; 0 for no limit. Others take the place of those that are left out.",
    )
    has = _has_reranker(who, namespace)
    choice = st.selectbox(
        "Reranking",
        list(RERANK),
        format_func=RERANK.__getitem__,
        key=FIELDS.key("rerank"),
        disabled=has is False,
        help="This namespace has no reranker; give it one under Namespaces." if has is False else None,
    )
    choice = "" if has is False else choice
    FIELDS.write(per=str(per) if per else None, rerank=choice)
    return {"per_document": int(per), "rerank": choice}


def _has_reranker(who: session.Person, namespace: str) -> bool | None:
    """None where the key is not shown the namespace's configuration."""
    if not who.may("namespaces:read"):
        return None
    found: dict[str, Any] = who.api.get(f"/v1/namespaces/{namespace}")["namespace"]
    return found.get("rerankConfig") is not None if "embeddingModelConfig" in found else None


def _reach(names: Mapping[str, str]) -> Json:
    others = st.multiselect(
        "Search in other namespaces, too",
        list(names),
        key=FIELDS.key("with"),
        format_func=lambda one: f"{names[one]}  ·  {one[-6:]}",
        max_selections=OTHERS,
        disabled=not names,
        help="They need the same embedding model. Results are merged by score.",
    )
    FIELDS.write(**{"with": ",".join(others)})
    return {"others": tuple(others)}
