"""Queue and workers, with reasons for stuck work."""

from __future__ import annotations

from datetime import UTC, datetime

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import frame, widgets
from ui.parts.labels import format_count, name_of, parse_time, source_title, span_until, time_ago, time_since
from ui.parts.widgets import escape_markdown

REFRESH_SECONDS = 5.0


def main() -> None:
    person = session.current_person()
    st.title("Queue and workers")

    @frame.live_fragment(REFRESH_SECONDS)
    def refresh() -> None:
        _show_queue(person, person.api.get("/v1/queue"))

    refresh()


def _show_queue(person: session.Person, queue: Json) -> None:
    _show_numbers(queue)
    if queue["reasons"] or queue["breakers"]:
        st.caption("What holds the work is shown above.")
    elif queue["queued"] and queue["workers"] and not queue["working"]:
        st.info("Job runs wait: the workers begin, or are busy with other organizations.", icon=":material/info:")
    else:
        st.success("Nothing is stuck.", icon=":material/check_circle:")
    current = datetime.now(UTC)
    if lost := sum((parse_time(worker["leaseUntil"]) or current) < current for worker in queue["working"]):
        text = f"{format_count(lost, 'worker')} gave no sign of life in time: another one takes over by itself."
        st.warning(text, icon=":material/sync_problem:")
    for warning in queue["warnings"]:
        st.info(escape_markdown(warning), icon=":material/gpp_maybe:")
    st.header("In progress")
    if queue["working"]:
        _show_working(person, queue["working"])
    else:
        widgets.show_empty("No worker is busy.", "Documents appear here while a worker processes them.")
    if queue["breakers"]:
        st.header("Not answering")
        _show_breakers(queue["breakers"])


def _show_numbers(queue: Json) -> None:
    cells = st.columns(4)
    oldest = queue["oldestQueuedAt"]
    cells[0].metric("Queued", f"{queue['queued']:,}", border=True, help="Job runs that wait for a worker.")
    cells[1].metric("Oldest queued for", time_since(oldest) if oldest else "-", border=True)
    about_held = "Job runs that wait for a vendor or site that does not answer. More workers do not help them."
    cells[2].metric("On hold", f"{queue['held']:,}", border=True, help=about_held)
    online = "Of the whole installation, whichever organization they work for."
    cells[3].metric("Workers online", f"{queue['workers']:,}", border=True, help=online)


def _show_working(person: session.Person, working: list[Json]) -> None:
    names = session.namespace_names(person, [worker["namespaceId"] for worker in working])
    rows = [
        {
            "Source": source_title(worker["source"]),
            "Job runs": worker["jobRuns"],
            "Document": worker["document"] or ("several" if worker["startedAt"] else "starting"),
            "Running for": time_since(worker["startedAt"] or worker["createdAt"]),
            "Attempt": worker["attempt"],
            "Tenant": worker["tenantId"] or "",
            "Namespace": name_of(names, worker["namespaceId"]),
        }
        for worker in working
    ]
    worker = widgets.clicked_row(rows, "queue_working", working)
    st.caption("Click a row to open its run.")
    if worker is not None:
        widgets.open_page("runs", namespace=worker["namespaceId"], run=worker["ingestJobRunId"])


def _show_breakers(breakers: list[Json]) -> None:
    rows = [
        {
            "Vendor or site": breaker["name"],
            "Job runs on hold": breaker["waitingJobRuns"],
            "Since": time_ago(breaker["since"]),
            "Tried again": "now" if (until := span_until(breaker["until"])) == "0 s" else f"in {until}",
            "Failures in a row": breaker["failures"],
            "Reason": breaker["reason"],
        }
        for breaker in breakers
    ]
    widgets.show_table(rows)


main()
