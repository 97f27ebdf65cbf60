"""Job runs: a live table, one run in detail, and the start of a new ingestion."""

from __future__ import annotations

from typing import Any

import streamlit as st

from ui import session
from ui.client import ApiError
from ui.parts import frame, ingest_forms, pager, removals, run_detail, status
from ui.parts.labels import MOVING, OUTCOMES, ago, count, seconds, title
from ui.parts.text import csv_bytes

PAGE = 50
LIVE_SECONDS = 2.0
RARE = frozenset({"Removed", "To confirm", "Prefect"})
"""Columns that are shown only where one of the rows has something there."""


def main() -> None:
    who = session.person()
    namespace = frame.head(who, "Runs")
    if who.may("ingest:write"):
        with st.expander(
            "Start an ingestion", icon=":material/add_circle:", expanded=session.parameter("start") == "yes"
        ):
            ingest_forms.show(who, namespace)
    run = session.parameter("run")
    if run:
        one(who, namespace, run)
    else:
        listing(who, namespace)


def listing(who: session.Person, namespace: str) -> None:
    """The newest runs of the namespace, page by page; moves by itself while something runs."""
    left, right = st.columns([2, 1], vertical_alignment="bottom")
    wanted = left.pills(
        "Status",
        ["all", "QUEUED", "PRE_PROCESSING", "PROCESSING", *OUTCOMES],
        default=session.parameter("status") or "all",
        key="runs_status",
    )
    session.remember(status=None if wanted in (None, "all") else wanted)
    live = right.toggle("Live", value=True, help="Look again every two seconds.")

    @st.fragment(run_every=LIVE_SECONDS if live else None)
    def table() -> None:
        asked = session.parameter("status")
        data = who.api.get(
            "/v1/ingest-job-runs",
            namespaceId=namespace,
            status=None if asked in OUTCOMES else asked,
            outcome=asked if asked in OUTCOMES else None,
            cursor=session.parameter("cursor"),
            pageSize=PAGE,
        )
        _table(data)

    with frame.trouble():
        table()


def _table(data: dict[str, Any]) -> None:
    runs = data["ingestJobRuns"]
    if not runs:
        if wanted := session.parameter("status"):
            status.empty(f"No run is {wanted} now.", "Choose “all” above to see every run.")
        else:
            status.empty("No runs here.", "Start an ingestion above: a text, a file, pages of a website.")
        pager.show(data)
        return
    st.caption(f"{count(len(runs), 'run')} on this page, newest first")
    rows = [_row(run) for run in runs]
    shown = [name for name in rows[0] if name not in RARE or any(row[name] for row in rows)]
    seen = st.dataframe(
        [{name: row[name] for name in shown} for row in rows],
        hide_index=True,
        width="stretch",
        on_select="rerun",
        selection_mode="single-row",
        key="runs_table",
        column_config={
            "Status": status.column(),
            "Done": st.column_config.ProgressColumn(min_value=0, max_value=100, format="%d %%", width=130),
            "Documents": st.column_config.NumberColumn(format="localized"),
            "Prefect": st.column_config.LinkColumn(display_text="open"),
        },
    )
    if chosen := seen["selection"]["rows"]:
        session.remember(run=runs[chosen[0]]["id"])
        st.rerun(scope="app")
    named = [{**row, "Id": run["id"]} for row, run in zip(rows, runs, strict=True)]
    with st.container(horizontal=True):
        pager.show(data)
        file = csv_bytes(named, ["Id", *rows[0]])
        st.download_button("Table as CSV", file, "runs.csv", "text/csv", icon=":material/download:")


def _row(run: dict[str, Any]) -> dict[str, Any]:
    progress = run["progress"]
    ended = progress["upserted"] + progress["failed"]
    finished = run["outcome"] not in (None, "CANCELLED")
    return {
        "Status": [run["outcome"] or run["status"]],
        "Name": run["name"],
        "Source": title(run["source"]),
        "Done": 100 if finished else min(99, int(100 * ended / progress["found"])) if progress["found"] else 0,
        "Documents": progress["found"],
        "Failed": progress["failed"],
        "Removed": progress["removed"],
        "To confirm": progress["awaitingConfirmation"],
        "Time": seconds(sum(run["timings"].values()) or None),
        "Started": ago(run["createdAt"]),
        "Prefect": run["prefectUrl"],
    }


def one(who: session.Person, namespace: str, run_id: str) -> None:
    """One run, which moves until it has ended."""
    fetched = [run_detail.fetch(who, namespace, run_id)]
    first = fetched[0]
    _actions(who, namespace, first)
    if first["connection"]:
        removals.lead(who, namespace, first["connection"]["id"])
    moving = first["status"] in MOVING

    @st.fragment(run_every=LIVE_SECONDS if moving else None)
    def live() -> None:
        with frame.trouble():
            run = fetched.pop() if fetched else run_detail.fetch(who, namespace, run_id)
            if moving and run["status"] not in MOVING:
                st.rerun(scope="app")
            run_detail.show(who, namespace, run)

    live()


def _actions(who: session.Person, namespace: str, run: dict[str, Any]) -> None:
    """The way back, and what can be done about the run; a refusal is shown below the buttons."""
    wanted = ""
    with st.container(horizontal=True):
        if st.button("All runs", icon=":material/arrow_back:"):
            session.remember(run=None)
            st.session_state.pop("runs_table", None)
            st.rerun()
        if run["prefectUrl"]:
            st.link_button("Open in Prefect", run["prefectUrl"], icon=":material/open_in_new:")
        writes, ended = who.may("ingest:write"), run["status"] not in MOVING
        if writes and not ended and st.button("Cancel this run", icon=":material/cancel:"):
            wanted = "cancel"
        if writes and run["documents"]["failed"] and st.button("Retry failed documents", icon=":material/replay:"):
            wanted = "retry"
    if wanted:
        _act(who, namespace, run["id"], wanted)


def _act(who: session.Person, namespace: str, run_id: str, verb: str) -> None:
    try:
        answered = who.api.post(f"/v1/ingest-job-runs/{run_id}/{verb}", {"namespaceId": namespace})
    except ApiError as error:
        frame.show(error)
        return
    session.remember(run=answered["id"])
    st.rerun()


main()
