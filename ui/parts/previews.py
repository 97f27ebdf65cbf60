"""Dry runs: what an ingestion would create, update and remove, and what its embedding would cost, before the start."""

from __future__ import annotations

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import added, additions, frame
from ui.parts.additions import Item
from ui.parts.labels import MOVING, count, seconds
from ui.parts.widgets import plain

LIVE_SECONDS = 2.0
_KEPT = "preview"
COUNTS = {
    "create": "Created",
    "update": "Updated",
    "unchanged": "Unchanged",
    "remove": "Removed",
    "failed": "Failed",
}


def ask(who: session.Person, namespace: str, kind: str, items: list[Item]) -> None:
    """Have the API find out what the items of a source would do."""
    additions.send_dry(who, items)
    for item in items:
        item.file = None  # it stays with the field that holds it
    st.session_state[_KEPT] = (namespace, kind, items)


def forget() -> None:
    st.session_state.pop(_KEPT, None)


def show(who: session.Person, namespace: str, kind: str) -> None:
    """The reports of this source, added up, as soon as they are there."""
    space, source, items = st.session_state.get(_KEPT, ("", "", []))
    if (space, source) != (namespace, kind) or not items:
        return
    ids = [item.run for item in items if item.run]
    runs = added.runs_of(who, namespace, ids)
    moving = any(run["status"] in MOVING for run in runs.values())
    fetched = [runs]

    @frame.live(LIVE_SECONDS if moving else None)
    def live() -> None:
        now = fetched.pop() if fetched else added.runs_of(who, namespace, ids)
        if moving and not any(run["status"] in MOVING for run in now.values()):
            st.rerun(scope="app")
        _report(items, now)

    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown("**Preview: nothing has been added yet**", width="content")
            if moving and st.button("Stop the preview", icon=":material/cancel:"):
                _cancel(who, namespace, runs)
                forget()
                st.rerun()
        live()


def _cancel(who: session.Person, namespace: str, runs: dict[str, Json]) -> None:
    for run in runs.values():
        if run["status"] in MOVING:
            try:
                who.api.post(f"/v1/ingest-job-runs/{run['id']}/cancel", {"namespaceId": namespace})
            except ApiError as error:
                frame.show(error)


def _report(items: list[Item], runs: dict[str, Json]) -> None:
    for item in items:
        if item.error:
            st.error(f"**{plain(item.name)}**  \n{frame.words(item.error)}", icon=":material/error:")
    waiting = sum(run["status"] in MOVING for run in runs.values())
    if waiting:
        whole = len(runs)
        st.progress((whole - waiting) / whole, text=f"Discovering: {whole - waiting:,} of {count(whole, 'item')} …")
    reports = [run["report"] for run in runs.values() if run.get("report")]
    for run in runs.values():
        if run["outcome"] == "FAILED":
            reason = next((notice["reason"] for notice in run["notices"]), "There is no report.")
            st.error(f"**{plain(run['name'])}**  \n{plain(reason)}", icon=":material/error:")
    if not reports:
        return
    numbers(reports)
    if len(runs) > 1:
        table = [
            {"Name": run["name"], **{label: run["report"][name] for name, label in COUNTS.items()}}
            | {"Tokens to embed": run["report"]["tokensToEmbed"]}
            for run in runs.values()
            if run.get("report")
        ]
        with st.expander(f"Each of {count(len(table), 'item')}"):
            st.dataframe(table, hide_index=True, width="stretch")


def numbers(reports: list[Json]) -> None:
    """The reports of dry runs, added up."""
    for cell, (name, label) in zip(st.columns(len(COUNTS)), COUNTS.items(), strict=True):
        cell.metric(label, f"{sum(report[name] for report in reports):,}")
    st.caption(_cost(reports))


def _cost(reports: list[Json]) -> str:
    """Chunks, tokens, money and time, added up; without a price that says so."""
    tokens = sum(report["tokensToEmbed"] for report in reports)
    told = [count(sum(report["chunks"] for report in reports), "chunk"), f"{count(tokens, 'token')} to embed"]
    pages = {"recognised": "pagesRecognised", "not readable": "pagesUnread"}
    numbers = {word: sum(report.get(name, 0) for report in reports) for word, name in pages.items()}
    told += [f"{count(number, 'page')} {word}" for word, number in numbers.items() if number]
    costs = [report["estimatedCost"] for report in reports if report.get("estimatedCost")]
    if len(costs) == len(reports):
        told.append(f"about {sum(cost['amount'] for cost in costs):,.4f} {costs[0]['currency']}")
    else:
        told.append("the model's price is not set")
    told.append(f"about {seconds(sum(report['estimatedSeconds'] for report in reports))}")
    if any(report["sampled"] for report in reports):
        told.append("estimated from a sample")
    return " · ".join(told)
