"""Searches without good results: what people searched for and did not find."""

from __future__ import annotations

import json

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import question_sets, widgets
from ui.parts.labels import format_count, time_ago


def show_weak_searches(person: session.Person, namespace: str) -> None:
    st.header("Searches without good results")
    data = person.api.get("/v1/weak-searches", namespaceId=namespace)
    searches, days = data["weakSearches"], data["retentionDays"]
    if not days:
        st.caption("Not recorded. The operator can switch this on with `RETRIEVAL_WEAK_SEARCH_DAYS`, the days to keep.")
        return
    if not searches:
        st.caption(f"None in the last {format_count(days, 'day')}. Searches in the search lab are not counted.")
        return
    rows = [
        {
            "Query": search["query"],
            "Answered": search["probability"] * 100,
            "Searches": search["count"],
            "Best score": search["bestScore"],
            "Last": time_ago(search["lastAt"]),
        }
        for search in searches
    ]
    column, about = st.column_config, "Probability that the last results answer the query."
    columns: Json = {
        "Query": column.TextColumn(width=190),
        "Answered": column.NumberColumn(format="%d %%", help=about),
        "Best score": column.NumberColumn(format="%.3f"),
    }
    chosen = widgets.clicked_row(rows, "weak_searches", searches, **columns)
    st.caption(
        f"Click a query to open it in the search lab. Deleted {format_count(days, 'day')} after the last search."
    )
    if chosen is not None:
        widgets.open_page("search", q=chosen["query"])
    if st.button("New question set of these", icon=":material/playlist_add:"):
        lines = [json.dumps({"query": search["query"], "relevant": []}, ensure_ascii=False) for search in searches]
        st.session_state[question_sets.LINES] = "\n".join(lines)
        session.go_to(new="yes")
