"""Content that was added: its job runs as they go on, and previews of what a run would do."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import additions, frame, run_detail, widgets
from ui.parts.additions import Addition, Item, Part
from ui.parts.labels import MOVING, STAGES, format_cost, format_count, format_seconds
from ui.parts.widgets import escape_markdown

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
    fetch = partial(runs_of, person, namespace, ids)
    runs = fetch()
    _lost(added, len(ids))
    if not added and not ids:
        return
    frame.follow(runs, fetch, _is_moving, partial(_table, added, ids), LIVE_SECONDS)
    if added and (refused := _refused(added)):
        _show_unsent(added, refused)
    if failed := [run for run in runs.values() if run["progress"]["failed"] or run["outcome"] == "FAILED"]:
        _failed(person, namespace, failed)


def _is_moving(runs: dict[str, Json]) -> bool:
    return any(run["status"] in MOVING for run in runs.values())


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


def _refused(added: Addition) -> list[Item | Part]:
    """Return what was not accepted: the files of an item, or the item."""
    refused: list[Item | Part] = []
    for item in added.items:
        parts = [part for part in item.parts if part.error]
        refused += parts
        if item.error and all(part.error is not item.error for part in parts):
            refused.append(item)
    return refused


def _lost(added: Addition | None, reached: int) -> None:
    """The truth about what was chosen and has not reached the service: a session that ended took it along."""
    expected, reached = _read_count("of", reached), _read_count("sent", reached)
    missing = expected - reached
    if added is None and missing > 0:
        st.warning(
            f"{reached:,} of {format_count(expected, 'item')} reached the service before the session ended."
            f" The other {missing:,} were refused or not sent: add them again.",
            icon=":material/warning:",
        )


def _read_count(name: str, default: int) -> int:
    value = session.read_parameter(name) or ""
    return int(value) if value.isdecimal() and len(value) < 6 else default


def _table(added: Addition | None, ids: list[str], runs: dict[str, Json]) -> None:
    present_runs = [runs[run_id] for run_id in ids if run_id in runs]
    refused = [entry.name for entry in (_refused(added) if added else ())]
    rows = [{"Status": ["FAILED"], "Name": name, "Progress": 0, "Documents": 0, "Failed": 0} for name in refused]
    rows += [
        {
            "Status": [run["outcome"] or run["status"]],
            "Name": run["name"],
            "Progress": percent_done(run),
            "Documents": run["progress"]["found"],
            "Failed": run["progress"]["failed"],
        }
        for run in sorted(present_runs, key=lambda run: not run["progress"]["failed"])
    ]
    if not rows:
        widgets.show_empty("None of these runs is here.", "They were deleted, or belong to another namespace.")
        return
    ended = sum(run["outcome"] is not None for run in runs.values()) + len(refused)
    st.caption(f"{ended:,} of {format_count(len(rows), 'item')} finished")
    column = st.column_config
    widgets.show_table(
        rows,
        Status=widgets.status_column(),
        Name=column.TextColumn(width=300),
        Progress=column.ProgressColumn(min_value=0, max_value=100, format="%d %%", width=130),
        Documents=column.NumberColumn(format="localized"),
        Failed=column.NumberColumn(format="localized"),
    )


def _show_unsent(added: Addition, items: list[Item | Part]) -> None:
    with st.container(border=True):
        st.markdown(f"**Not accepted: {format_count(len(items), 'item')}**")
        _show_refused(items[:SHOWN])
        if len(items) > SHOWN:
            st.caption(f"And {format_count(len(items) - SHOWN, 'other')}.")
        if st.button("Send again", icon=":material/replay:"):
            additions.send_again(added)
            st.rerun()


def _show_refused(items: Sequence[Item | Part]) -> None:
    for item in items:
        if item.error:
            _show_failure(item.name, frame.error_text(item.error))


def _show_failure(name: str, reason: str) -> None:
    st.error(f"**{escape_markdown(name)}**  \n{reason}", icon=":material/error:")


def _failed(person: session.Person, namespace: str, failed: list[Json]) -> None:
    number = sum(max(run["progress"]["failed"], 1) for run in failed)
    with st.container(border=True):
        st.markdown(f"**Failed: {format_count(number, 'document')}**")
        for run in failed[:SHOWN]:
            for name, reason in _reasons(person, namespace, run):
                _show_failure(name, escape_markdown(reason))
        if len(failed) > SHOWN:
            st.caption(f"And {format_count(len(failed) - SHOWN, 'other run')}.")
        ended = [_whole(person, namespace, run) for run in failed if run["outcome"]]
        new = run_detail.show_remedies(person, namespace, ended, "added")
        for old, run_id in new.items():
            additions.replace_run(namespace, old, run_id)
        if new:
            st.rerun()


def _reasons(person: session.Person, namespace: str, run: Json) -> list[tuple[str, str]]:
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
COUNTS = {"create": "Created", "update": "Updated", "unchanged": "Unchanged", "remove": "Removed", "failed": "Failed"}


def ask_preview(person: session.Person, namespace: str, kind: str, items: list[Item]) -> None:
    additions.send_dry(person, items)
    for item in items:
        item.forget_files()  # they stay with the field that holds them
    st.session_state[_PREVIEWS] = (namespace, kind, items)


def forget_previews() -> None:
    st.session_state.pop(_PREVIEWS, None)


def show_previews(person: session.Person, namespace: str, kind: str) -> None:
    space, source, items = st.session_state.get(_PREVIEWS, ("", "", []))
    if (space, source) != (namespace, kind) or not items:
        return
    fetch = partial(runs_of, person, namespace, [item.run for item in items if item.run])
    runs = fetch()
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown("**Preview: nothing has been added yet**", width="content")
            if _is_moving(runs) and st.button("Stop the preview", icon=":material/cancel:"):
                for run in runs.values():
                    with frame.shown_refusal():
                        if run["status"] in MOVING:
                            person.api.post(f"/v1/ingest-job-runs/{run['id']}/cancel", {"namespaceId": namespace})
                forget_previews()
                st.rerun()
        frame.follow(runs, fetch, _is_moving, partial(_report, person, namespace, items), LIVE_SECONDS)


def _report(person: session.Person, namespace: str, items: list[Item], runs: dict[str, Json]) -> None:
    _show_refused(_refused(Addition(namespace, items)))
    reported = [run for run in runs.values() if run.get("report")]
    if waiting := sum(run["status"] in MOVING for run in runs.values()):
        done, whole = len(runs) - waiting, len(runs)
        st.progress(done / whole, text=f"Discovering: {done:,} of {format_count(whole, 'item')} …")
    for run in runs.values():
        if run["outcome"] == "FAILED" and not run["report"]:
            reason = next((notice["reason"] for notice in run["notices"]), "There is no report.")
            _show_failure(run["name"], escape_markdown(reason))
    if not reported:
        return
    show_numbers([run["report"] for run in reported])
    whole_reports = [_whole(person, namespace, run)["report"] for run in reported[:SHOWN]]
    show_planned([document for report in whole_reports for document in report.get("documents", [])])
    if len(runs) > 1:
        columns = COUNTS | {"tokensToEmbed": "Tokens to embed"}
        with st.expander(f"Each of {format_count(len(reported), 'item')}"):
            widgets.show_table(
                [
                    {"Name": run["name"]} | {label: run["report"][name] for name, label in columns.items()}
                    for run in reported
                ]
            )


def show_numbers(reports: list[Json]) -> None:
    for cell, (name, label) in zip(st.columns(len(COUNTS)), COUNTS.items(), strict=True):
        cell.metric(label, f"{sum(report[name] for report in reports):,}")
    names = ("chunks", "tokensToEmbed", "pagesRecognised", "pagesUnread", "estimatedSeconds")
    total = {name: sum(report.get(name, 0) for report in reports) for name in names}
    figures = [format_count(total["chunks"], "chunk"), f"{format_count(total['tokensToEmbed'], 'token')} to embed"]
    for name, word in (("pagesRecognised", "recognised"), ("pagesUnread", "not readable")):
        figures += [f"{format_count(total[name], 'page')} {word}"] if total[name] else []
    figures += [format_cost(reports), f"about {format_seconds(total['estimatedSeconds'])}"]
    figures += ["estimated from a sample"] if any(report["sampled"] for report in reports) else []
    figures += dict.fromkeys(report["modelChoice"] for report in reports if report.get("modelChoice"))
    st.caption(" · ".join(figures))


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
    widgets.show_table(widgets.drop_empty(rows))
    widgets.download_csv("List as CSV", rows, "preview.csv", key="preview_csv")
