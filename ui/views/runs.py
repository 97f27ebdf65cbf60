"""Job runs: a live, searchable table, and one run in detail."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

import streamlit as st

from ui import session
from ui.parts import frame, removals, run_detail, url_state, widgets
from ui.parts.added import percent_done
from ui.parts.labels import (
    ACTIVE_STATUSES,
    RUN_OUTCOMES,
    STATUS_LABELS,
    format_count,
    format_seconds,
    offered_sources,
    parse_time,
    source_title,
    status_word,
    time_ago,
)

RUN_PAGE_SIZE = 50
REFRESH_SECONDS = 2.0
# A search in many runs takes the API seconds.
SEARCH_REFRESH_SECONDS = 10.0
ALL_SOURCES = "all"
STATUS_CHOICES = (ALL_SOURCES, "QUEUED", "PRE_PROCESSING", "PROCESSING", *RUN_OUTCOMES)
ORDER_LABELS = {
    "newest": "Newest first",
    "oldest": "Oldest first",
    "longest": "Longest work first",
    "status": "Unfinished first",
}


def main() -> None:
    person = session.current_person()
    namespace = frame.show_head(person, "Runs")
    run = session.read_id("run")
    if run:
        url_state.forget_fields("runs")
        show_run(person, namespace, run)
    else:
        show_listing(person, namespace)


def show_listing(person: session.Person, namespace: str) -> None:
    """Show a page of the matching runs, refreshed while "Live" is on."""
    is_live, order = _show_filters()
    is_slow = session.read_parameter("q") or session.read_parameter("status") in RUN_OUTCOMES
    seconds = SEARCH_REFRESH_SECONDS if is_slow else REFRESH_SECONDS

    @frame.live_fragment(seconds if is_live else None)
    def show_page() -> None:
        status = session.read_parameter("status")
        data = person.api.get(
            "/v1/ingest-job-runs",
            namespaceId=namespace,
            status=None if status in RUN_OUTCOMES else status,
            outcome=status if status in RUN_OUTCOMES else None,
            source=session.read_parameter("source"),
            q=session.read_parameter("q"),
            cursor=session.read_parameter("cursor"),
            sort=order,
            pageSize=RUN_PAGE_SIZE,
        )
        _show_table(data)

    show_page()


def _show_filters() -> tuple[bool, str]:
    """Show search, filters and order, kept in the page's address; return whether "Live" is on, and the order."""
    bind_field = partial(url_state.bind_field, prefix="runs")
    name_column, source_column, sort_column, live_column = st.columns([3, 2, 2, 1], vertical_alignment="bottom")
    bind_field(name_column.text_input, "q", "Search", placeholder="Name, URL, account or id", max_chars=200)
    labels = {ALL_SOURCES: "all sources"} | {kind: offered.title for kind, offered in offered_sources().items()}
    bind_field(source_column.selectbox, "source", "Source", default=ALL_SOURCES, options=labels)
    with sort_column:
        order = url_state.choose_order(ORDER_LABELS)
    is_live = live_column.toggle("Live", value=True, help="Refresh every two seconds, or ten while you search.")
    labels = {name: status_word(name) if name in STATUS_LABELS else name.capitalize() for name in STATUS_CHOICES}
    bind_field(st.pills, "status", "Status", default=ALL_SOURCES, options=labels)
    return bool(is_live), order


def _show_table(data: dict[str, Any]) -> None:
    runs = data["ingestJobRuns"]
    if not runs:
        if any(session.read_parameter(name) for name in ("q", "source")):
            widgets.show_empty("No run matches.", "Search for less, or choose all sources and every status.")
        elif status := session.read_parameter("status"):
            text = f"No run has the status “{status_word(status)}” now."
            widgets.show_empty(text, "Choose “All” above to see every run.")
        else:
            widgets.add_content("No runs here.")
        widgets.show_pager(data)
        return
    total = data.get("totalCount")
    count_text = f"{format_count(len(runs), 'run')} on this page" if total is None else format_count(total, "run")
    st.caption(count_text)
    rows = [_run_row(run) for run in runs]
    chosen = widgets.clicked_row(
        widgets.drop_empty(rows, "Removed", "To confirm", "Prefect"),
        "runs_table",
        [run["id"] for run in runs],
        links=("Prefect",),
        Status=widgets.status_column(),
        Name=st.column_config.TextColumn(width=200),
        Waited=st.column_config.TextColumn(help="From its creation until a worker began it."),
        Worked=st.column_config.TextColumn(help="From then to its end."),
        Progress=st.column_config.ProgressColumn(min_value=0, max_value=100, format="%d %%", width=110),
        Documents=st.column_config.NumberColumn(format="localized"),
        Prefect=st.column_config.LinkColumn(display_text="open"),
    )
    if chosen is not None:
        session.go_to(run=chosen)
    widgets.show_pager(data)


def _run_row(run: dict[str, Any]) -> dict[str, Any]:
    progress = run["progress"]
    return {
        "Status": [run["outcome"] or run["status"]],
        "Name": run["name"],
        "Source": source_title(run["source"]) + (" (dry run)" if run.get("dryRun") else ""),
        "Progress": percent_done(run),
        "Waited": _format_duration(run["createdAt"], run["startedAt"] or run["finishedAt"]),
        "Worked": _format_duration(run["startedAt"], run["finishedAt"]),
        "Documents": run_detail.count_found(progress),
        "Failed": progress["failed"],
        "Removed": progress["removed"],
        "To confirm": progress["awaitingConfirmation"],
        "Created": time_ago(run["createdAt"]),
        "Prefect": run["prefectUrl"],
    }


def _format_duration(began: dict[str, Any] | None, ended: dict[str, Any] | None) -> str:
    """Format the time from begin to end, or to now; "" without a begin."""
    start, end = parse_time(began), parse_time(ended) or datetime.now(UTC)
    return format_seconds((end - start).total_seconds()) if start else ""


def show_run(person: session.Person, namespace: str, run_id: str) -> None:
    """Show one run, refreshed until its end."""
    fetch = partial(run_detail.fetch_run, person, namespace, run_id)
    run = fetch()
    may_write = person.may("ingest:write")
    with st.container(horizontal=True):
        widgets.link_back("All runs", "run")
        is_cancelled = (
            may_write and run["status"] in ACTIVE_STATUSES and st.button("Cancel this run", icon=":material/cancel:")
        )
    if is_cancelled:
        with frame.shown_refusal():
            person.api.post(f"/v1/ingest-job-runs/{run['id']}/cancel", {"namespaceId": namespace})
            st.rerun()
    if may_write and any(failure["open"] for failure in run["failures"]):
        _show_failures(person, namespace, run)
    if run["connection"]:
        removals.show_link(person, namespace, run["connection"]["id"])
    frame.follow(run, fetch, run_detail.find_progress, partial(run_detail.show_run, person, namespace), REFRESH_SECONDS)


def _show_failures(person: session.Person, namespace: str, run: dict[str, Any]) -> None:
    with st.container(border=True):
        number = sum(failure["open"] for failure in run["failures"])
        st.markdown(f"**Failed: {format_count(number, 'document')}**")
        retries = run_detail.show_remedies(person, namespace, [run], run["id"])
    if retries:
        session.go_to(run=retries[run["id"]])


main()
