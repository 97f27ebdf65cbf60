"""Pictures of a comparison: how the ranks move, what the scores are made of, where the time went."""

from __future__ import annotations

from typing import Any

import streamlit as st

from ui.client import Json
from ui.parts import charts
from ui.parts.search_results import TITLES, ranks


def show(found: dict[str, Json], weight: float) -> None:
    """Of every column; nothing is drawn of nothing."""
    if not any(data["results"] for data in found.values()):
        st.caption("Nothing was found, so there is nothing to compare.")
        return
    if len(found) > 1:
        st.markdown("**How the ranks move**, a line a chunk")
        charts.rank_moves(_moves(found), [TITLES[kind] for kind in found])
    st.markdown("**What the scores are made of**, by rank")
    for place, (kind, data) in zip(st.columns(len(found)), found.items(), strict=True):
        with place:
            st.caption(TITLES[kind])
            charts.score_parts(_parts(data, {"semantic": 1.0, "keyword": 0.0}.get(kind, weight)))
    st.markdown("**Where the time went**, in milliseconds")
    charts.search_steps(_steps(found))
    for kind, data in found.items():
        with st.expander(f"{TITLES[kind]}: the figures"):
            st.dataframe(_figures(data), hide_index=True, width="stretch")


def _moves(found: dict[str, Json]) -> list[Json]:
    names = {hit["document"]["id"]: hit["document"]["name"] for data in found.values() for hit in data["results"]}
    return [
        {"search": TITLES[kind], "rank": rank, "chunk": f"{document}#{index}", "name": f"{names[document]}, {index}"}
        for kind, data in found.items()
        for (document, index), rank in ranks(data).items()
    ]


def _parts(data: Json, weight: float) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for rank, hit in enumerate(data["results"], 1):
        parts = hit["explanation"]
        rows.append({"rank": rank, "kind": "meaning", "part": weight * (parts["semanticScore"] or 0.0)})
        rows.append({"rank": rank, "kind": "words", "part": (1 - weight) * (parts["keywordScore"] or 0.0)})
    return rows


def _steps(found: dict[str, Json]) -> list[Json]:
    return [
        {"search": TITLES[kind], "step": name, "milliseconds": round(value, 1), "order": at}
        for kind, data in found.items()
        for at, (name, value) in enumerate(data["timings"].items())
        if value is not None
    ]


def _figures(data: Json) -> list[Json]:
    return [
        {"rank": rank, "score": hit["score"], **hit["explanation"], "document": hit["document"]["name"]}
        for rank, hit in enumerate(data["results"], 1)
    ]
