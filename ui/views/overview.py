"""Overview: counts, running work and problems; the first page after sign-in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import charts, failures, frame, removals, waiting, widgets
from ui.parts.labels import (
    document_counts,
    format_count,
    format_milliseconds,
    format_size,
    source_title,
    time_ago,
    time_since,
)
from ui.parts.widgets import escape_markdown

REFRESH_SECONDS = 10.0
# Connections, schedules and webhooks, newest first.
MAX_CHECKED_ITEMS = 50
# Limits of the organization.
LIMIT_LABELS = {"requests": "requests of this minute", "namespaces": "namespaces of the organization"}
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
        if person.may("ingest:read") and _list_failing(answers):
            _show_attention(person, namespace, answers)
        return
    if person.may("ingest:read"):
        _show_attention(person, namespace, answers)
    else:
        _show_syncs(stats)
        return
    if stats is not None:
        st.markdown("**Documents by source**")
        charts.show_counts({source_title(entry["source"]): entry["totalCount"] for entry in stats["statsBySource"]})
    if activity is None:
        return
    history = activity["history"]
    left_column, right_column = st.columns(2)
    with left_column:
        st.markdown("**Ingested, last 24 hours** (UTC), each attempt")
        charts.documents_by(history["hours"])
    with right_column:
        st.markdown("**Ingested, last 30 days** (UTC), each attempt")
        charts.documents_by(history["days"])
    st.markdown(f"**Searches, last 24 hours** (UTC): {activity['searches']['count']:,}")
    charts.latency_by_hour(activity["searches"]["hours"])


def _make_requests(person: session.Person, namespace: str) -> dict[str, Callable[[], Json] | None]:
    get, scope = person.api.get, {"namespaceId": namespace}
    stats = partial(person.api.list_documents, namespace, {}, include=["statsBySource", "statsByStatus"])
    reads, runs, connects = person.may("documents:read"), person.may("ingest:read"), person.may("connections:read")
    owns = person.may("admin") and not person.namespace and not person.tenant
    return {
        "stats": stats if reads else None,
        "failures": partial(failures.count_causes, person, namespace) if reads and runs else None,
        "activity": partial(get, "/v1/activity", history="true", **scope) if runs and person.sees_all else None,
        "usage": partial(get, "/v1/usage") if owns else None,
        "queue": partial(get, "/v1/queue") if owns else None,
        "connections": partial(get, "/v1/connections", pageSize=MAX_CHECKED_ITEMS, **scope) if connects else None,
        "schedules": partial(get, "/v1/schedules", pageSize=MAX_CHECKED_ITEMS, **scope) if runs else None,
        "webhooks": partial(get, "/v1/webhooks", pageSize=MAX_CHECKED_ITEMS) if person.may("webhooks:read") else None,
        "removals": partial(removals.count_of, person, namespace) if reads and connects else None,
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
        runs, searches = activity["runs"], activity["searches"]
        cells[1].metric("Active runs", runs["queued"] + runs["preProcessing"] + runs["processing"], border=True)
        cells[2].metric("Tokens stored", f"{activity['tokens']:,}", border=True)
        failed = activity["documentsFailedLastDay"]
        cells[3].metric("Failed in 24 hours", f"{failed:,}", border=True, help="And not repaired since.")
        columns = st.columns(4)
        columns[0].metric("Searches in 24 hours", f"{searches['count']:,}", border=True)
        columns[1].metric("Latency p50", format_milliseconds(searches["p50"]), border=True)
        columns[2].metric("Latency p95", format_milliseconds(searches["p95"]), border=True)
        if usage := answers["usage"]:
            about = (
                f"Of {usage['requests']['limit']:,} that the organization may make. In all its namespaces: "
                f"{usage['documents']:,} documents, {usage['chunks']:,} chunks, {format_size(usage['storageBytes'])}."
            )
            columns[3].metric("Requests this minute", f"{usage['requests']['used']:,}", border=True, help=about)


def _show_attention(person: session.Person, namespace: str, answers: Answers) -> None:
    causes, usage = answers["failures"], answers["usage"] or {}
    notices = [(escape_markdown(reason), "queue") for reason in (answers["queue"] or {"reasons": []})["reasons"]]
    notices += _list_stuck(answers["activity"])
    notices += _list_failing(answers)
    if total := (answers["removals"] or {}).get("total"):
        notices.append((f"{format_count(total, 'document')} deleted at source: pending confirmation", "connections"))
    for name, description in LIMIT_LABELS.items():
        use = usage.get(name, {"used": 0, "limit": 1})
        if use["used"] >= use["limit"]:
            notices.append((f"{use['used']:,} of {use['limit']:,} {description} are used", "keys"))
    if not notices and not causes:
        st.success("Nothing needs attention.", icon=":material/check_circle:")
        return
    with st.container(border=True):
        st.markdown(":orange[:material/notification_important: **Needs attention**]")
        if result := failures.offer_retries(person, namespace, causes or {}, "overview"):
            st.toast(result, icon=":material/replay:")
            st.rerun(scope="fragment")
        for label, page in notices:
            widgets.link_page(page, label, "arrow_forward")


def _list_failing(answers: Answers) -> list[tuple[str, str]]:
    """Return failing connections, schedules and webhooks with their pages."""
    notices = []
    for connection in (answers["connections"] or {"connections": []})["connections"]:
        title = f"The connection “{escape_markdown(connection['name'])}”"
        if connection["status"] == "FAILED":
            notices.append((f"{title} failed: reconnect it", "connections"))
        elif connection["status"] == "ACTIVE" and connection["health"]["state"] == "FAILING":
            notices.append((f"{title} has trouble: see why", "connections"))
    for schedule in (answers["schedules"] or {"schedules": []})["schedules"]:
        # The connection of a schedule has its own notice.
        if schedule["health"]["state"] == "FAILING" and not schedule["paused"] and not schedule["connectionId"]:
            title = escape_markdown(schedule["about"] or source_title(schedule["source"]))
            notices.append((f"The schedule of {title} fails: see why", "schedules"))
    failing_urls = [
        webhook["url"]
        for webhook in (answers["webhooks"] or {"webhooks": []})["webhooks"]
        if webhook["status"] == "ACTIVE" and webhook["health"]["state"] == "FAILING"
    ]
    return notices + [(f"The webhook {escape_markdown(url)} fails: see why", "webhooks") for url in failing_urls]


def _list_stuck(activity: Json | None) -> list[tuple[str, str]]:
    """Return a notice for a run queued for a minute while no other runs."""
    runs: Json = activity["runs"] if activity else {}
    oldest = runs.get("oldestQueuedAt")
    if not oldest or runs["preProcessing"] + runs["processing"] or (age := time_since(oldest)).endswith(" s"):
        return []
    page = "queue" if session.current_person().may("admin") else "runs"
    return [(f"A run has been queued for {age} and none is in progress: see why", page)]


main()
