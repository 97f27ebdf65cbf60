"""Pictures of a comparison: how the ranks move, what the scores are made of, where the time went."""

from __future__ import annotations

from typing import Any

import streamlit as st

from ui.client import Json
from ui.parts import search_charts
from ui.parts.search_request import MODES, Wanted
from ui.parts.search_results import STYLE, ranks


def show(found: dict[str, Json], wanted: Wanted) -> None:
    """Of every column; nothing is drawn of nothing."""
    if not any(data["results"] for data in found.values()):
        st.caption("Nothing was found, so there is nothing to compare.")
        return
    st.html(STYLE)
    with st.container(key="lab"):
        _charts(found, wanted)


def _charts(found: dict[str, Json], wanted: Wanted) -> None:
    if len(found) > 1:
        st.header("How the ranks move")
        st.caption("A line is a chunk, from its rank in one search to that in the next.")
        search_charts.rank_moves(_moves(found), [MODES[mode] for mode in found])
    st.header("What the scores are made of")
    for place, (mode, data) in zip(st.columns(len(found)), found.items(), strict=True):
        with place:
            st.caption(f"{MODES[mode]}, by rank")
            search_charts.score_parts(_parts(data, mode, wanted))
    st.header("Stage durations")
    st.caption("In milliseconds.")
    search_charts.search_steps(_steps(found))
    for mode, data in found.items():
        with st.expander(f"{MODES[mode]}: the figures"):
            st.dataframe(_figures(data), hide_index=True, width="stretch")


def _moves(found: dict[str, Json]) -> list[Json]:
    names = {hit["document"]["id"]: hit["document"]["name"] for data in found.values() for hit in data["results"]}
    first, *later = (ranks(data) for data in found.values())
    last = {place: rank for one in later for place, rank in one.items()}
    return [
        {
            "search": MODES[mode],
            "rank": rank,
            "chunk": f"{place[0]}#{place[1]}",
            "name": f"{names[place[0]]}, chunk {place[1]}",
            "move": _move(first.get(place), last.get(place)),
        }
        for mode, data in found.items()
        for place, rank in ranks(data).items()
    ]


def _move(before: int | None, after: int | None) -> str:
    if before is None or after is None:
        return "not in all"
    return "same" if before == after else "up" if after < before else "down"


def _parts(data: Json, mode: str, wanted: Wanted) -> list[dict[str, Any]]:
    """The weighted parts of each score: those of the two lists or the reranker's, and what recency adds."""
    semantic = {"semantic": 1.0, "keyword": 0.0}.get(mode, wanted.weight)
    rows: list[dict[str, Any]] = []
    for rank, hit in enumerate(data["results"], 1):
        told = hit["explanation"]
        aged = told.get("recencyScore") is not None
        rest = 1 - wanted.recency if aged else 1.0
        if told.get("rerankScore") is not None:
            rows.append({"rank": rank, "kind": "Reranker", "part": rest * told["rerankScore"]})
        else:
            rows.append(
                {"rank": rank, "kind": "Semantic score", "part": rest * semantic * (told["semanticScore"] or 0)}
            )
            keyword = rest * (1 - semantic) * (told["keywordScore"] or 0)
            rows.append({"rank": rank, "kind": "Keyword score", "part": keyword})
        if aged:
            rows.append({"rank": rank, "kind": "Recency", "part": wanted.recency * told["recencyScore"]})
    return rows


def _steps(found: dict[str, Json]) -> list[Json]:
    return [
        {"search": MODES[mode], "step": name, "milliseconds": round(value, 1), "order": at}
        for mode, data in found.items()
        for at, (name, value) in enumerate(data["timings"].items())
        if value is not None
    ]


def _figures(data: Json) -> list[Json]:
    return [
        {"rank": rank, "score": hit["score"], **hit["explanation"], "document": hit["document"]["name"]}
        for rank, hit in enumerate(data["results"], 1)
    ]
