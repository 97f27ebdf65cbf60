"""Content that was added: its job runs as they go on, and previews of what a run would do."""

from __future__ import annotations

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import additions, frame, run_detail, widgets
from ui.parts.additions import Addition, Item
from ui.parts.labels import MOVING, STAGES, format_cost, format_count, format_seconds
from ui.parts.widgets import csv_bytes, escape_markdown

LIVE_SECONDS = 2.0
SHOWN = 20
"""Failures that are told one by one; of the others their number."""
READ = 5
"""Failed documents of a run whose reasons are told."""
_WHY = "added_why"
_STAGES = STAGES[1:]


def show_added(person: session.Person, namespace: str) -> None:
    """Sends what waits, then follows the runs until all have ended."""
    added = additions.current_addition(namespace)
    if added:
        additions.send_items(person, added)
    ids = [item.run for item in added.items if item.run] if added else additions.linked_runs()
    runs = runs_of(person, namespace, ids)
    _lost(added, len(ids))
    moving = any(run["status"] in MOVING for run in runs.values())
    fetched = [runs]

    @frame.live_fragment(LIVE_SECONDS if moving else None)
    def live() -> None:
        current_runs = fetched.pop() if fetched else runs_of(person, namespace, ids)
        if moving and not any(run["status"] in MOVING for run in current_runs.values()):
            st.rerun(scope="app")
        _table(added, ids, current_runs)

    live()
    _failures(person, namespace, added, runs)


def runs_of(person: session.Person, namespace: str, ids: list[str]) -> dict[str, Json]:
    """Return the runs by id, for any number of ids; deleted runs are left out."""
    runs: dict[str, Json] = {}
    for start in range(0, len(ids), additions.LINKED):
        part = ",".join(ids[start : start + additions.LINKED])
        data = person.api.get("/v1/ingest-job-runs", namespaceId=namespace, ids=part, pageSize=additions.LINKED)
        runs |= {run["id"]: run for run in data["ingestJobRuns"]}
    return runs


def percent_done(run: Json) -> int:
    """Return the progress of the run's documents in percent; of a failed or cancelled run, the progress it had."""
    progress = run["progress"]
    if run["outcome"] in ("SUCCEEDED", "COMPLETED_WITH_FAILURES"):
        return 100
    whole = len(_STAGES) * progress["found"]
    return min(99, int(100 * sum(progress[stage] for stage in _STAGES) / whole)) if whole else 0


def _lost(added: Addition | None, reached: int) -> None:
    """The truth about what was chosen and has not reached the service: a session that ended took it along."""
    parameter = session.read_parameter("of") or ""
    expected = int(parameter) if parameter.isdecimal() and len(parameter) < 6 else reached
    missing = expected - reached
    if added is None and missing > 0 and expected <= additions.LINKED:
        st.warning(
            f"{reached:,} of {format_count(expected, 'item')} reached the service before the session ended."
            f" The other {missing:,} were refused or not sent: add them again.",
            icon=":material/warning:",
        )


def _table(added: Addition | None, ids: list[str], runs: dict[str, Json]) -> None:
    present_runs = [runs[run_id] for run_id in ids if run_id in runs]
    rows = [_row(run) for run in sorted(present_runs, key=lambda run: not run["progress"]["failed"])]
    refused = [_refused(item) for item in (added.items if added else ()) if item.error]
    rows = refused + rows
    if not rows:
        widgets.show_empty("None of these runs is here.", "They were deleted, or belong to another namespace.")
        return
    ended = sum(run["outcome"] is not None for run in runs.values()) + len(refused)
    st.caption(f"{ended:,} of {format_count(len(rows), 'item')} finished")
    st.dataframe(
        rows,
        hide_index=True,
        width="stretch",
        column_config={
            "Status": widgets.status_column(),
            "Name": st.column_config.TextColumn(width=300),
            "Progress": st.column_config.ProgressColumn(min_value=0, max_value=100, format="%d %%", width=130),
            "Documents": st.column_config.NumberColumn(format="localized"),
            "Failed": st.column_config.NumberColumn(format="localized"),
        },
    )


def _row(run: Json) -> Json:
    return {
        "Status": [run["outcome"] or run["status"]],
        "Name": run["name"],
        "Progress": percent_done(run),
        "Documents": run["progress"]["found"],
        "Failed": run["progress"]["failed"],
    }


def _refused(item: Item) -> Json:
    return {"Status": ["FAILED"], "Name": item.name, "Progress": 0, "Documents": 0, "Failed": 0}


def _failures(person: session.Person, namespace: str, added: Addition | None, runs: dict[str, Json]) -> None:
    unsent = [item for item in (added.items if added else ()) if item.error]
    failed = [run for run in runs.values() if run["progress"]["failed"] or run["outcome"] == "FAILED"]
    if unsent:
        _unsent(unsent)
    if failed:
        _failed(person, namespace, failed)


def _unsent(items: list[Item]) -> None:
    with st.container(border=True):
        st.markdown(f"**Not accepted: {format_count(len(items), 'item')}**")
        for item in items[:SHOWN]:
            if item.error:
                st.error(f"**{escape_markdown(item.name)}**  \n{frame.error_text(item.error)}", icon=":material/error:")
        if len(items) > SHOWN:
            st.caption(f"And {format_count(len(items) - SHOWN, 'other')}.")
        if st.button("Send again", icon=":material/replay:"):
            for item in items:
                item.error = None
            st.rerun()


def _failed(person: session.Person, namespace: str, failed: list[Json]) -> None:
    number = sum(max(run["progress"]["failed"], 1) for run in failed)
    with st.container(border=True):
        st.markdown(f"**Failed: {format_count(number, 'document')}**")
        for run in failed[:SHOWN]:
            for name, reason in _reasons(person, namespace, run):
                st.error(f"**{escape_markdown(name)}**  \n{escape_markdown(reason)}", icon=":material/error:")
        if len(failed) > SHOWN:
            st.caption(f"And {format_count(len(failed) - SHOWN, 'other run')}.")
        ended = [_whole(person, namespace, run) for run in failed if run["outcome"]]
        new = run_detail.show_remedies(person, namespace, ended, "added")
        for old, run_id in new.items():
            additions.replace_run(namespace, old, run_id)
        if new:
            st.rerun()


def _reasons(person: session.Person, namespace: str, run: Json) -> list[tuple[str, str]]:
    """Return names and reasons of the failed documents of a run, or of the run itself."""
    data = _whole(person, namespace, run)
    reasons = [(document["name"], run_detail.explain_failure(document)) for document in data["documents"]["failed"]]
    return reasons or [(run["name"], notice["reason"]) for notice in data["notices"]]


def _whole(person: session.Person, namespace: str, run: Json) -> Json:
    """Return a listed run with its failures; requested once per finished run."""
    cache: dict[str, Json] = st.session_state.setdefault(_WHY, {})
    if run["id"] in cache:
        return cache[run["id"]]
    data = person.api.get(f"/v1/ingest-job-runs/{run['id']}", namespaceId=namespace, documentLimit=READ)
    if run["outcome"]:
        cache[run["id"]] = data
    return data


_PREVIEWS = "preview"
COUNTS = {
    "create": "Created",
    "update": "Updated",
    "unchanged": "Unchanged",
    "remove": "Removed",
    "failed": "Failed",
}


def ask_preview(person: session.Person, namespace: str, kind: str, items: list[Item]) -> None:
    """Have the API find out what the items of a source would do."""
    additions.send_dry(person, items)
    for item in items:
        item.file = None  # it stays with the field that holds it
    st.session_state[_PREVIEWS] = (namespace, kind, items)


def forget_previews() -> None:
    st.session_state.pop(_PREVIEWS, None)


def show_previews(person: session.Person, namespace: str, kind: str) -> None:
    """The reports of this source, added up, as soon as they are there."""
    space, source, items = st.session_state.get(_PREVIEWS, ("", "", []))
    if (space, source) != (namespace, kind) or not items:
        return
    ids = [item.run for item in items if item.run]
    runs = runs_of(person, namespace, ids)
    moving = any(run["status"] in MOVING for run in runs.values())
    fetched = [runs]

    @frame.live_fragment(LIVE_SECONDS if moving else None)
    def live() -> None:
        current_runs = fetched.pop() if fetched else runs_of(person, namespace, ids)
        if moving and not any(run["status"] in MOVING for run in current_runs.values()):
            st.rerun(scope="app")
        _report(person, namespace, items, current_runs)

    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown("**Preview: nothing has been added yet**", width="content")
            if moving and st.button("Stop the preview", icon=":material/cancel:"):
                _cancel(person, namespace, runs)
                forget_previews()
                st.rerun()
        live()


def _cancel(person: session.Person, namespace: str, runs: dict[str, Json]) -> None:
    for run in runs.values():
        if run["status"] in MOVING:
            try:
                person.api.post(f"/v1/ingest-job-runs/{run['id']}/cancel", {"namespaceId": namespace})
            except ApiError as error:
                frame.show_error(error)


def _report(person: session.Person, namespace: str, items: list[Item], runs: dict[str, Json]) -> None:
    for item in items:
        if item.error:
            st.error(f"**{escape_markdown(item.name)}**  \n{frame.error_text(item.error)}", icon=":material/error:")
    waiting = sum(run["status"] in MOVING for run in runs.values())
    if waiting:
        whole = len(runs)
        st.progress(
            (whole - waiting) / whole, text=f"Discovering: {whole - waiting:,} of {format_count(whole, 'item')} …"
        )
    reports = [run["report"] for run in runs.values() if run.get("report")]
    for run in runs.values():
        if run["outcome"] == "FAILED" and not run["report"]:
            reason = next((notice["reason"] for notice in run["notices"]), "There is no report.")
            st.error(f"**{escape_markdown(run['name'])}**  \n{escape_markdown(reason)}", icon=":material/error:")
    if not reports:
        return
    show_numbers(reports)
    ended = [_whole(person, namespace, run)["report"] for run in list(runs.values())[:SHOWN] if run.get("report")]
    show_planned([document for report in ended for document in report.get("documents", [])])
    if len(runs) > 1:
        table = [
            {"Name": run["name"], **{label: run["report"][name] for name, label in COUNTS.items()}}
            | {"Tokens to embed": run["report"]["tokensToEmbed"]}
            for run in runs.values()
            if run.get("report")
        ]
        with st.expander(f"Each of {format_count(len(table), 'item')}"):
            st.dataframe(table, hide_index=True, width="stretch")


def show_numbers(reports: list[Json]) -> None:
    """The reports of dry runs, added up."""
    for cell, (name, label) in zip(st.columns(len(COUNTS)), COUNTS.items(), strict=True):
        cell.metric(label, f"{sum(report[name] for report in reports):,}")
    st.caption(_cost(reports))


ACTIONS = ("failed", "create", "update", "remove")
"""Of a report's documents, in the order in which they are listed."""


def show_planned(documents: list[Json]) -> None:
    """Show the documents of dry runs with what would become of each, failed ones first, and the list as CSV."""
    rows = [
        {
            "Action": COUNTS[document["action"].lower()],
            "Name": document["name"],
            "Reason": document["error"] or "",
            "Linked from": document["linkedFrom"] or "",
        }
        for document in sorted(documents, key=lambda document: ACTIONS.index(document["action"].lower()))
    ]
    if not rows:
        return
    columns = [name for name in rows[0] if any(row[name] for row in rows)]
    st.dataframe([{name: row[name] for name in columns} for row in rows], hide_index=True, width="stretch")
    file = csv_bytes(rows, list(rows[0]))
    st.download_button("List as CSV", file, "preview.csv", "text/csv", icon=":material/download:", key="preview_csv")


def _cost(reports: list[Json]) -> str:
    """Return the sum of chunks, tokens, money and time; without a price, the text states that."""
    tokens = sum(report["tokensToEmbed"] for report in reports)
    figures = [
        format_count(sum(report["chunks"] for report in reports), "chunk"),
        f"{format_count(tokens, 'token')} to embed",
    ]
    pages = {"recognised": "pagesRecognised", "not readable": "pagesUnread"}
    numbers = {word: sum(report.get(name, 0) for report in reports) for word, name in pages.items()}
    figures += [f"{format_count(number, 'page')} {word}" for word, number in numbers.items() if number]
    figures.append(format_cost(reports))
    figures.append(f"about {format_seconds(sum(report['estimatedSeconds'] for report in reports))}")
    if any(report["sampled"] for report in reports):
        figures.append("estimated from a sample")
    figures += dict.fromkeys(report["modelChoice"] for report in reports if report.get("modelChoice"))
    return " · ".join(figures)
