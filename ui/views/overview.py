"""The overview: counts, running work, and what needs attention; the first page after sign-in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import charts, frame, removals, waiting, widgets
from ui.parts.labels import STATUS, count, counted, lasting, milliseconds, size, title, word
from ui.parts.widgets import plain

LIVE_SECONDS = 5.0
RUNS = 100
CONNECTIONS = 40
LIMITS = {"requests": "requests of this minute", "namespaces": "namespaces of the organization"}
"""What of the organization's use may be full, in words."""
Known = Mapping[str, Json | None]
"""What the API said, by question; None for what the key may not ask."""


def main() -> None:
    who = session.person()
    namespace = frame.head(who, "Overview")

    @frame.live(LIVE_SECONDS)
    def live() -> None:
        _show(who, namespace)

    live()


def _show(who: session.Person, namespace: str) -> None:
    known = waiting.ask_in_parallel(_questions(who, namespace))
    stats, activity = known["stats"], known["activity"]
    if stats is not None:
        st.caption(counted(stats))  # a line of text stands there long before the browser has drawn a number or a chart
    _numbers(known)
    if stats is not None and not stats["statsByStatus"]:
        widgets.show_empty("This namespace is empty.", "Add content: a text is searchable about two seconds later.")
        if who.may("ingest:write"):
            place = {"namespace": namespace}
            st.page_link("views/add_content.py", label="Add content", icon=":material/add_circle:", query_params=place)
        return
    _attention(namespace, known)
    left, right = st.columns(2)
    if stats is not None:
        with left:
            st.markdown("**Documents by status**")
            rows = [{"status": word(one["status"]), "count": one["totalCount"]} for one in stats["statsByStatus"]]
            charts.counts(rows, name="status", colors={name: color for name, color, _ in STATUS.values()})
        with right:
            st.markdown("**Documents by source**")
            rows = [{"source": title(one["source"]), "count": one["totalCount"]} for one in stats["statsBySource"]]
            charts.counts(rows, name="source")
    runs = known["runs"]["ingestJobRuns"] if known["runs"] else []
    brought = _history(runs)
    times = activity["searches"]["times"] if activity else []
    left, right = st.columns(2)
    if brought:
        with left:
            st.markdown(f"**Documents over time** (UTC), of the newest {count(len(runs), 'run')}")
            charts.over_time(brought, colors={"indexed": "green", "failed": "red"})
    if times:
        with right:
            st.markdown("**Search latency**, last 24 hours")
            charts.latency(times)


def _questions(who: session.Person, namespace: str) -> dict[str, Callable[[], Json] | None]:
    """What the page asks, as far as the key may; usage is an organization's affair, for keys that are not bound."""
    get, place = who.api.get, {"namespaceId": namespace}
    counts = {"documents": False, "statsBySource": True, "statsByStatus": True}
    asked = {"filterConfig": {}, "includeConfig": counts, **place}
    reads, runs, connects = who.may("documents:read"), who.may("ingest:read"), who.may("connections:read")
    owns = who.may("admin") and not who.namespace and not who.tenant
    return {
        "stats": (lambda: who.api.post("/v1/documents", asked)) if reads else None,
        "runs": (lambda: get("/v1/ingest-job-runs", pageSize=RUNS, **place)) if runs else None,
        "activity": (lambda: get("/v1/activity", **place)) if runs and who.sees_all else None,
        "usage": (lambda: get("/v1/usage")) if owns else None,
        "connections": (lambda: get("/v1/connections", pageSize=CONNECTIONS, **place)) if connects else None,
        "removals": (lambda: removals.count_of(who, namespace)) if reads and connects else None,
    }


def _numbers(known: Known) -> None:
    stats, activity = known["stats"], known["activity"]
    cells = st.columns(4)
    if stats is not None:
        by_status = {one["status"]: one["totalCount"] for one in stats["statsByStatus"]}
        cells[0].metric("Documents", f"{sum(by_status.values()):,}", border=True)
    if activity is not None:
        runs, searches = activity["runs"], activity["searches"]
        cells[1].metric("Active runs", runs["queued"] + runs["preProcessing"] + runs["processing"], border=True)
        cells[2].metric("Tokens embedded", f"{activity['tokens']:,}", border=True)
        cells[3].metric("Failed in 24 hours", f"{activity['documentsFailedLastDay']:,}", border=True)
        more = st.columns(4)
        more[0].metric("Searches in 24 hours", f"{searches['count']:,}", border=True)
        more[1].metric("Latency p50", milliseconds(searches["p50"]), border=True)
        more[2].metric("Latency p95", milliseconds(searches["p95"]), border=True)
        if usage := known["usage"]:
            _requests(usage, more[3])


def _requests(usage: Json, cell: Any) -> None:
    """What is left of this minute."""
    requests = usage["requests"]
    cell.metric(
        "Requests this minute",
        f"{requests['used']:,}",
        border=True,
        help=f"Of {requests['limit']:,} that the organization may make. In all its namespaces: "
        f"{usage['documents']:,} documents, {usage['chunks']:,} chunks, "
        f"{size(usage['storageBytes'])}.",
    )


def _attention(namespace: str, known: Known) -> None:
    """What somebody should look at, each with the way there; nothing is good news and is said."""
    found: list[tuple[str, str, dict[str, str]]] = []
    stats, activity, connections = known["stats"], known["activity"], known["connections"] or {"connections": []}
    failed = next((one["totalCount"] for one in (stats or {}).get("statsByStatus", []) if one["status"] == "FAILED"), 0)
    if failed:
        found.append((f"{count(failed, 'failed document')}: see why", "documents", {"status": "FAILED"}))
    if stuck := _stuck(activity):
        found.append(stuck)
    broken = (plain(one["name"]) for one in connections["connections"] if one["status"] == "FAILED")
    found.extend((f"The connection “{name}” failed: reconnect it", "connections", {}) for name in broken)
    uneasy = (one for one in connections["connections"] if one["status"] == "ACTIVE" and one["statusReason"])
    found.extend((f"The connection “{plain(one['name'])}” has trouble: see why", "connections", {}) for one in uneasy)
    if waiting := (known["removals"] or {}).get("total"):
        found.append((f"{count(waiting, 'document')} deleted at source: pending confirmation", "connections", {}))
    usage = known["usage"] or {}
    for name, what in LIMITS.items():
        use = usage.get(name, {"used": 0, "limit": 1})
        if use["used"] >= use["limit"]:
            found.append((f"{use['used']:,} of {use['limit']:,} {what} are used", "keys", {}))
    if not found:
        st.success("Nothing needs attention.", icon=":material/check_circle:")
        return
    with st.container(border=True):
        st.markdown(":orange[:material/notification_important: **Needs attention**]")
        for label, page, place in found:
            query = {"namespace": namespace, **place}
            st.page_link(f"views/{page}.py", label=label, icon=":material/arrow_forward:", query_params=query)


def _stuck(activity: Json | None) -> tuple[str, str, dict[str, str]] | None:
    """A run that has been queued for a minute or more while no other is worked on, and the way to the reason."""
    runs: Json = activity["runs"] if activity else {}
    oldest = runs.get("oldestQueuedAt")
    if not oldest or runs["preProcessing"] + runs["processing"] or (age := lasting(oldest)).endswith(" s"):
        return None
    page = "queue" if session.person().may("admin") else "runs"
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
