"""Overview: counts, running work and problems; the first page after sign-in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import charts, failures, frame, waiting, widgets
from ui.parts import problems as problem_list
from ui.parts.labels import document_counts, source_title, time_ago

REFRESH_SECONDS = 10.0
# Of the API by request; None without the right.
Answers = Mapping[str, Json | None]


def main() -> None:
    person = frame.current_person()
    namespace = frame.show_head(person, "Overview")

    @frame.live_fragment(REFRESH_SECONDS)
    def refresh() -> None:
        _show_overview(person, namespace)

    refresh()


def _show_overview(person: session.Person, namespace: str) -> None:
    answers = waiting.ask_in_parallel(_make_requests(person, namespace))
    stats, activity = answers["stats"], answers["activity"]
    if stats is not None:
        st.caption(document_counts(stats))
    _show_numbers(answers)
    if stats is not None and not stats["statsByStatus"]:
        widgets.show_empty("This namespace is empty.", "Add content: a text is searchable about two seconds later.")
        if person.may("ingest:write"):
            widgets.link_page("add_content", "Add content")
        # A schedule that can only fail leaves its namespace empty.
        if person.may("ingest:read") and _list_problems(answers):
            _show_attention(person, namespace, answers)
        return
    if person.may("ingest:read"):
        _show_attention(person, namespace, answers)
    else:
        _show_syncs(stats)
        return
    if activity is None:
        return
    history = activity["history"]
    left_column, right_column = st.columns(2)
    with left_column:
        charts.documents_by(history["hours"], "**Ingested, last 24 hours** (UTC), each attempt")
    with right_column:
        charts.documents_by(history["days"], "**Ingested, last 30 days** (UTC), each attempt")
    charts.latency_by_hour(activity["searches"]["hours"], "**Search latency, last 24 hours** (UTC)")


def _make_requests(person: session.Person, namespace: str) -> dict[str, Callable[[], Json] | None]:
    get, scope = person.api.get, {"namespaceId": namespace}
    stats = partial(person.api.list_documents, namespace, {}, include=["statsBySource", "statsByStatus"])
    reads, runs = person.may("documents:read"), person.may("ingest:read")
    return {
        "stats": stats if reads else None,
        "failures": partial(failures.list_failed, person, namespace) if reads and runs else None,
        "activity": partial(get, "/v1/activity", history="true", **scope) if runs and person.sees_all else None,
        "problems": partial(get, "/v1/problems", **scope) if runs and person.sees_all else None,
    }


def _show_syncs(stats: Json | None) -> None:
    rows = [
        {
            "Source": source_title(entry["source"]),
            "Documents": entry["totalCount"],
            "Last complete sync": time_ago(entry["lastSyncedAt"]) if entry.get("lastSyncedAt") else "",
        }
        for entry in (stats or {"statsBySource": []})["statsBySource"]
    ]
    widgets.show_table(rows)


def _show_numbers(answers: Answers) -> None:
    stats, activity = answers["stats"], answers["activity"]
    cells = st.columns(4)
    if stats is not None:
        by_status = {entry["status"]: entry["totalCount"] for entry in stats["statsByStatus"]}
        cells[0].metric("Documents", f"{sum(by_status.values()):,}", border=True)
    if activity is not None:
        runs, failed = activity["runs"], activity["documentsFailedLastDay"]
        cells[1].metric("Active runs", runs["queued"] + runs["preProcessing"] + runs["processing"], border=True)
        cells[2].metric("Failed in 24 hours", f"{failed:,}", border=True, help="And not repaired since.")
        cells[3].metric("Searches in 24 hours", f"{activity['searches']['count']:,}", border=True)


def _show_attention(person: session.Person, namespace: str, answers: Answers) -> None:
    causes, problems = failures.find_causes(answers["failures"]), _list_problems(answers)
    failing = [problem for problem in problems if problem["severity"] == "failing"]
    if not (causes.counts or problems):
        listed = (answers["problems"] or {"problems": []})["problems"]
        if not any(problem["severity"] == "blocked" for problem in listed):
            st.success("Nothing needs attention.", icon=":material/check_circle:")
        return
    if failing:
        with st.container(border=True, key="failing"):
            st.markdown(":orange[:material/warning: **Failing**]")
            problem_list.show_list(failing)
    if not (causes.counts or len(problems) > len(failing)):
        return
    with st.container(border=True):
        st.markdown(":orange[:material/notification_important: **Needs attention**]")
        problem_list.show_list([problem for problem in problems if problem["severity"] == "attention"])
        if result := failures.offer_retries(person, namespace, causes, "overview"):
            frame.keep_notice(result)
            st.rerun()
        problem_list.show_list([problem for problem in problems if problem["severity"] == "info"])


def _list_problems(answers: Answers) -> list[Json]:
    """Return the problems, without problems of the strip and without failed documents, shown with retries."""
    listed = (answers["problems"] or {"problems": []})["problems"]
    return [problem for problem in listed if problem["severity"] != "blocked" and problem["kind"] != "FAILED_DOCUMENTS"]


main()
