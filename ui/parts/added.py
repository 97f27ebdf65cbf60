"""Added content: progress of job runs, and previews of dry runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import additions, failures, frame, run_detail, widgets
from ui.parts.additions import Addition, Item, Part
from ui.parts.labels import ACTIVE_STATUSES, DOCUMENT_STAGES, format_count
from ui.parts.widgets import escape_markdown

REFRESH_SECONDS = 2.0
# Further failures are only counted.
MAX_SHOWN_FAILURES = 20
MAX_FAILURES_PER_RUN = 5
_FAILURES_KEY = "added_why"
_COUNTED_STAGES = DOCUMENT_STAGES[1:]


def show_added(person: session.Person, namespace: str) -> None:
    """Send waiting items, then follow the runs to their end."""
    added = additions.current_addition(namespace)
    if added:
        additions.send_items(person, added)
    ids = [item.run for item in added.items if item.run] if added else additions.linked_runs()
    _show_lost(added, len(ids))
    ids += additions.linked_runs("retries")
    fetch = partial(runs_of, person, namespace, ids)
    runs = fetch()
    if not added and not ids:
        return
    frame.follow(runs, fetch, _is_moving, partial(_show_runs, added, ids), REFRESH_SECONDS)
    if added and (refused := _list_refused(added)):
        _show_unsent(added, refused)
    if failed := [run for run in runs.values() if run["progress"]["failed"] or run["outcome"] == "FAILED"]:
        _show_failed(person, namespace, failed)


def _is_moving(runs: dict[str, Json]) -> bool:
    return any(run["status"] in ACTIVE_STATUSES for run in runs.values())


def runs_of(person: session.Person, namespace: str, ids: list[str]) -> dict[str, Json]:
    """Return the existing runs by id."""
    runs: dict[str, Json] = {}
    for start in range(0, len(ids), additions.MAX_LINKED_RUNS):
        part = ",".join(ids[start : start + additions.MAX_LINKED_RUNS])
        data = person.api.get(
            "/v1/ingest-job-runs", namespaceId=namespace, ids=part, pageSize=additions.MAX_LINKED_RUNS
        )
        runs |= {run["id"]: run for run in data["ingestJobRuns"]}
    return runs


def percent_done(run: Json) -> int | None:
    """Return the progress of the run's documents in percent; None after a failure or cancellation."""
    progress = run["progress"]
    if run["outcome"]:
        return 100 if run["outcome"] in {"SUCCEEDED", "COMPLETED_WITH_FAILURES"} else None
    total = len(_COUNTED_STAGES) * progress["found"]
    return min(99, int(100 * sum(progress[stage] for stage in _COUNTED_STAGES) / total)) if total else 0


def _list_refused(added: Addition) -> list[Item | Part]:
    """Return refused items and files."""
    refused: list[Item | Part] = []
    for item in added.items:
        parts = [part for part in item.parts if part.error]
        refused += parts
        if item.error and all(part.error is not item.error for part in parts):
            refused.append(item)
    return refused


def _show_lost(added: Addition | None, reached: int) -> None:
    """Warn of items that did not reach the service before the session ended."""
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


def _show_runs(added: Addition | None, ids: list[str], runs: dict[str, Json]) -> None:
    present_runs = [runs[run_id] for run_id in ids if run_id in runs]
    refused = [entry.name for entry in (_list_refused(added) if added else ())]
    rows = [{"Status": ["FAILED"], "Name": name, "Progress": 0, "Documents": 0, "Failed": 0} for name in refused]
    rows += [
        {
            "Status": [run["outcome"] or run["status"]],
            "Name": f"{run['name']} (retry)" if run["id"] in additions.linked_runs("retries") else run["name"],
            "Progress": percent_done(run),
            "Documents": run_detail.count_found(run["progress"]),
            "Failed": run["progress"]["failed"],
        }
        for run in sorted(present_runs, key=lambda run: not run["progress"]["failed"])
    ]
    if not rows:
        widgets.show_empty("These runs were not found.", "They were deleted or belong to another namespace.")
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
        _show_refused(items[:MAX_SHOWN_FAILURES])
        if len(items) > MAX_SHOWN_FAILURES:
            st.caption(f"And {format_count(len(items) - MAX_SHOWN_FAILURES, 'other')}.")
        if st.button("Send again", icon=":material/replay:"):
            additions.send_again(added)
            st.rerun()


def _show_refused(items: Sequence[Item | Part]) -> None:
    for item in items:
        if item.error:
            _show_failure(item.name, frame.error_text(item.error))


def _show_failure(name: str, reason: str) -> None:
    st.error(f"**{escape_markdown(name)}**  \n{reason}", icon=":material/error:")


def _show_failed(person: session.Person, namespace: str, failed: list[Json]) -> None:
    read = {run["id"]: _fetch_failures(person, namespace, run) for run in failed}
    # Documents that a retry took are shown with the retry.
    failed = [
        run for run in failed if not run["progress"]["failed"] or failures.count_open(read[run["id"]]["failures"])
    ]
    if not failed:
        return
    number = sum(sum(failures.count_open(read[run["id"]]["failures"]).values()) or 1 for run in failed)
    with st.container(border=True):
        st.markdown(f"**Failed: {format_count(number, 'document')}**")
        for run in failed[:MAX_SHOWN_FAILURES]:
            for name, reason in _list_reasons(run, read[run["id"]]):
                _show_failure(name, escape_markdown(reason))
        if len(failed) > MAX_SHOWN_FAILURES:
            st.caption(f"And {format_count(len(failed) - MAX_SHOWN_FAILURES, 'other run')}.")
        ended = [read[run["id"]] for run in failed if run["outcome"]]
        new = run_detail.show_remedies(person, namespace, ended, "added")
        if new:
            additions.follow_retries(list(new.values()))
            for former in new:
                st.session_state.get(_FAILURES_KEY, {}).pop(former, None)
            st.rerun()


def _list_reasons(run: Json, data: Json) -> list[tuple[str, str]]:
    documents = [document for document in data["documents"]["failed"] if not document.get("retriedIn")]
    reasons = [
        (document["name"], run_detail.explain_failure(document)) for document in documents[:MAX_FAILURES_PER_RUN]
    ]
    return reasons or [(run["name"], notice["reason"]) for notice in data["notices"]]


def _fetch_failures(person: session.Person, namespace: str, run: Json) -> Json:
    """Return a run with failures, cached once finished."""
    cache: dict[str, Json] = st.session_state.setdefault(_FAILURES_KEY, {})
    if run["id"] in cache:
        return cache[run["id"]]
    data = person.api.get(f"/v1/ingest-job-runs/{run['id']}", namespaceId=namespace, documentLimit=MAX_FAILURES_PER_RUN)
    if run["outcome"]:
        cache[run["id"]] = data
    return data


_PREVIEW_KEY = "preview"


def ask_preview(person: session.Person, namespace: str, kind: str, items: list[Item]) -> None:
    additions.send_dry(person, items)
    for item in items:
        item.forget_files()  # the upload field keeps the files
    st.session_state[_PREVIEW_KEY] = (namespace, kind, items)


def forget_previews() -> None:
    st.session_state.pop(_PREVIEW_KEY, None)


def show_previews(person: session.Person, namespace: str, kind: str) -> None:
    space, source, items = st.session_state.get(_PREVIEW_KEY, ("", "", []))
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
                        if run["status"] in ACTIVE_STATUSES:
                            person.api.post(f"/v1/ingest-job-runs/{run['id']}/cancel", {"namespaceId": namespace})
                forget_previews()
                st.rerun()
        frame.follow(runs, fetch, _is_moving, partial(_show_reports, person, namespace, items), REFRESH_SECONDS)


def _show_reports(person: session.Person, namespace: str, items: list[Item], runs: dict[str, Json]) -> None:
    _show_refused(_list_refused(Addition(namespace, items)))
    reported = [run for run in runs.values() if run.get("report")]
    if waiting := sum(run["status"] in ACTIVE_STATUSES for run in runs.values()):
        done, total = len(runs) - waiting, len(runs)
        st.progress(done / total, text=f"Discovering: {done:,} of {format_count(total, 'item')} …")
    for run in runs.values():
        if run["outcome"] == "FAILED" and not run["report"]:
            reason = next((notice["reason"] for notice in run["notices"]), "The preview has no report.")
            _show_failure(run["name"], escape_markdown(reason))
    if not reported:
        return
    run_detail.show_report_numbers([run["report"] for run in reported])
    whole_reports = [_fetch_failures(person, namespace, run)["report"] for run in reported[:MAX_SHOWN_FAILURES]]
    run_detail.show_planned([document for report in whole_reports for document in report.get("documents", [])])
