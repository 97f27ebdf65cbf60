"""The overview: counts, running work, and what needs attention; the first page after sign-in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import charts, frame, removals, waiting, widgets
from ui.parts.labels import (
    STATUS,
    document_counts,
    format_count,
    format_milliseconds,
    format_size,
    source_title,
    status_word,
    time_since,
)
from ui.parts.widgets import escape_markdown

LIVE_SECONDS = 5.0
RUNS = 100
CONNECTIONS = 40
LIMITS = {"requests": "requests of this minute", "namespaces": "namespaces of the organization"}
"""What of the organization's use may be full, in words."""
Known = Mapping[str, Json | None]
"""What the API said, by question; None for what the key may not ask."""


def main() -> None:
    person = session.current_person()
    namespace = frame.show_head(person, "Overview")

    @frame.live_fragment(LIVE_SECONDS)
    def live() -> None:
        _show(person, namespace)

    live()


def _show(person: session.Person, namespace: str) -> None:
    answers = waiting.ask_in_parallel(_questions(person, namespace))
    stats, activity = answers["stats"], answers["activity"]
    if stats is not None:
        st.caption(
            document_counts(stats)
        )  # a line of text stands there long before the browser has drawn a number or a chart
    _numbers(answers)
    if stats is not None and not stats["statsByStatus"]:
        widgets.show_empty("This namespace is empty.", "Add content: a text is searchable about two seconds later.")
        if person.may("ingest:write"):
            query_params = {"namespace": namespace}
            st.page_link(
                "views/add_content.py", label="Add content", icon=":material/add_circle:", query_params=query_params
            )
        return
    _attention(namespace, answers)
    left_column, right_column = st.columns(2)
    if stats is not None:
        with left_column:
            st.markdown("**Documents by status**")
            rows = [
                {"status": status_word(entry["status"]), "count": entry["totalCount"]}
                for entry in stats["statsByStatus"]
            ]
            charts.show_counts(rows, name="status", colors={name: color for name, color, _ in STATUS.values()})
        with right_column:
            st.markdown("**Documents by source**")
            rows = [
                {"source": source_title(entry["source"]), "count": entry["totalCount"]}
                for entry in stats["statsBySource"]
            ]
            charts.show_counts(rows, name="source")
    runs = answers["runs"]["ingestJobRuns"] if answers["runs"] else []
    brought = _history(runs)
    times = activity["searches"]["times"] if activity else []
    left_column, right_column = st.columns(2)
    if brought:
        with left_column:
            st.markdown(f"**Documents over time** (UTC), of the newest {format_count(len(runs), 'run')}")
            charts.over_time(brought, colors={"indexed": "green", "failed": "red"})
    if len(times) >= charts.LEAST_POINTS:  # the numbers above say all about fewer
        with right_column:
            st.markdown("**Search latency**, last 24 hours")
            charts.show_latency(times)


def _questions(person: session.Person, namespace: str) -> dict[str, Callable[[], Json] | None]:
    """Return the page's requests that the key allows; usage needs a key that is not bound."""
    get, scope = person.api.get, {"namespaceId": namespace}
    counts = {"documents": False, "statsBySource": True, "statsByStatus": True}
    body = {"filterConfig": {}, "includeConfig": counts, **scope}
    reads, runs, connects = person.may("documents:read"), person.may("ingest:read"), person.may("connections:read")
    owns = person.may("admin") and not person.namespace and not person.tenant
    return {
        "stats": (lambda: person.api.post("/v1/documents", body)) if reads else None,
        "runs": (lambda: get("/v1/ingest-job-runs", pageSize=RUNS, **scope)) if runs else None,
        "activity": (lambda: get("/v1/activity", **scope)) if runs and person.sees_all else None,
        "usage": (lambda: get("/v1/usage")) if owns else None,
        "connections": (lambda: get("/v1/connections", pageSize=CONNECTIONS, **scope)) if connects else None,
        "removals": (lambda: removals.count_of(person, namespace)) if reads and connects else None,
    }


def _numbers(known: Known) -> None:
    stats, activity = known["stats"], known["activity"]
    cells = st.columns(4)
    if stats is not None:
        by_status = {entry["status"]: entry["totalCount"] for entry in stats["statsByStatus"]}
        cells[0].metric("Documents", f"{sum(by_status.values()):,}", border=True)
    if activity is not None:
        runs, searches = activity["runs"], activity["searches"]
        cells[1].metric("Active runs", runs["queued"] + runs["preProcessing"] + runs["processing"], border=True)
        cells[2].metric("Tokens embedded", f"{activity['tokens']:,}", border=True)
        cells[3].metric("Failed in 24 hours", f"{activity['documentsFailedLastDay']:,}", border=True)
        columns = st.columns(4)
        columns[0].metric("Searches in 24 hours", f"{searches['count']:,}", border=True)
        columns[1].metric("Latency p50", format_milliseconds(searches["p50"]), border=True)
        columns[2].metric("Latency p95", format_milliseconds(searches["p95"]), border=True)
        if usage := known["usage"]:
            _requests(usage, columns[3])


def _requests(usage: Json, cell: Any) -> None:
    """Show the requests of this minute, with the limit."""
    requests = usage["requests"]
    cell.metric(
        "Requests this minute",
        f"{requests['used']:,}",
        border=True,
        help=f"Of {requests['limit']:,} that the organization may make. In all its namespaces: "
        f"{usage['documents']:,} documents, {usage['chunks']:,} chunks, "
        f"{format_size(usage['storageBytes'])}.",
    )


def _attention(namespace: str, known: Known) -> None:
    """Show problems, each with a link; without problems, a text that states so."""
    notices: list[tuple[str, str, dict[str, str]]] = []
    stats, activity, connections = known["stats"], known["activity"], known["connections"] or {"connections": []}
    failed = next(
        (entry["totalCount"] for entry in (stats or {}).get("statsByStatus", []) if entry["status"] == "FAILED"), 0
    )
    if failed:
        notices.append((f"{format_count(failed, 'failed document')}: see why", "documents", {"status": "FAILED"}))
    if stuck := _stuck(activity):
        notices.append(stuck)
    broken = (escape_markdown(entry["name"]) for entry in connections["connections"] if entry["status"] == "FAILED")
    notices.extend((f"The connection “{name}” failed: reconnect it", "connections", {}) for name in broken)
    uneasy = (entry for entry in connections["connections"] if entry["status"] == "ACTIVE" and entry["statusReason"])
    notices.extend(
        (f"The connection “{escape_markdown(entry['name'])}” has trouble: see why", "connections", {})
        for entry in uneasy
    )
    if waiting := (known["removals"] or {}).get("total"):
        notices.append(
            (f"{format_count(waiting, 'document')} deleted at source: pending confirmation", "connections", {})
        )
    usage = known["usage"] or {}
    for name, description in LIMITS.items():
        use = usage.get(name, {"used": 0, "limit": 1})
        if use["used"] >= use["limit"]:
            notices.append((f"{use['used']:,} of {use['limit']:,} {description} are used", "keys", {}))
    if not notices:
        st.success("Nothing needs attention.", icon=":material/check_circle:")
        return
    with st.container(border=True):
        st.markdown(":orange[:material/notification_important: **Needs attention**]")
        for label, page, query_params in notices:
            query = {"namespace": namespace, **query_params}
            st.page_link(f"views/{page}.py", label=label, icon=":material/arrow_forward:", query_params=query)


def _stuck(activity: Json | None) -> tuple[str, str, dict[str, str]] | None:
    """A run that has been queued for a minute or more while no other is worked on, and the way to the reason."""
    runs: Json = activity["runs"] if activity else {}
    oldest = runs.get("oldestQueuedAt")
    if not oldest or runs["preProcessing"] + runs["processing"] or (age := time_since(oldest)).endswith(" s"):
        return None
    page = "queue" if session.current_person().may("admin") else "runs"
    return f"A run has been queued for {age} and none is in progress: see why", page, {}


def _history(runs: list[Json]) -> list[Json]:
    """Documents that ended, by the time at which their run was created."""
    return [
        {"time": run["createdAt"]["isoString"], "kind": name, "count": run["progress"][kind]}
        for run in runs
        for kind, name in (("upserted", "indexed"), ("failed", "failed"))
        if run["progress"][kind]
    ]


main()
