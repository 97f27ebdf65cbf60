"""What is there, what moves, and what needs somebody: the page that staff open first."""

from __future__ import annotations

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import charts, frame, status
from ui.parts.text import plain
from ui.parts.words import STATUS, TITLES, ago, size

LIVE_SECONDS = 5.0
RUNS = 100


def main() -> None:
    who = session.person()
    st.title("Overview")
    namespace = frame.choose_namespace(who)

    @st.fragment(run_every=LIVE_SECONDS)
    def live() -> None:
        with frame.trouble():
            _show(who, namespace)

    live()


def _show(who: session.Person, namespace: str) -> None:
    stats = _stats(who, namespace) if who.may("documents:read") else None
    runs = _runs(who, namespace) if who.may("ingest:read") else []
    _numbers(who, stats, runs)
    if stats is not None and not stats["statsByStatus"]:
        status.empty("This namespace is empty.", "Start an ingestion on the Runs page; a text takes about two seconds.")
        return
    _attention(who, namespace, stats, runs)
    left, right = st.columns(2)
    if stats is not None:
        with left:
            st.markdown("**Documents by status**")
            rows = [{"status": one["status"], "count": one["totalCount"]} for one in stats["statsByStatus"]]
            charts.counts(rows, name="status", colors={name: color for name, (_, color, _) in STATUS.items()})
        with right:
            st.markdown("**Documents by source**")
            rows = [
                {"source": TITLES.get(one["source"], one["source"]), "count": one["totalCount"]}
                for one in stats["statsBySource"]
            ]
            charts.counts(rows, name="source")
    if runs:
        st.markdown("**Documents over time**, by the run that brought them")
        charts.over_time(_history(runs), colors={"upserted": "green", "failed": "red"})


def _stats(who: session.Person, namespace: str) -> Json:
    include = {"documents": False, "statsBySource": True, "statsByStatus": True}
    return who.api.post("/v1/documents", {"namespaceId": namespace, "filterConfig": {}, "includeConfig": include})


def _runs(who: session.Person, namespace: str) -> list[Json]:
    data = who.api.get("/v1/ingest-job-runs", namespaceId=namespace, pageSize=RUNS)
    return list(data["ingestJobRuns"])


def _numbers(who: session.Person, stats: Json | None, runs: list[Json]) -> None:
    cells = st.columns(4)
    if stats is not None:
        by_status = {one["status"]: one["totalCount"] for one in stats["statsByStatus"]}
        cells[0].metric("Documents", f"{sum(by_status.values()):,}", border=True)
        cells[1].metric("Failed", f"{by_status.get('FAILED', 0):,}", border=True)
    moving = sum(run["status"] != "COMPLETED" for run in runs)
    cells[2].metric("Runs under way", f"{moving}{'+' if moving == RUNS else ''}", border=True)
    if who.may("admin") and not (who.namespace or who.tenant):
        usage = who.api.get("/v1/usage")
        requests = usage["requests"]
        cells[3].metric(
            "Requests this minute",
            f"{requests['used']:,} of {requests['limit']:,}",
            border=True,
            help=f"All namespaces: {usage['documents']:,} documents, {usage['chunks']:,} chunks, "
            f"{size(usage['storageBytes'])}.",
        )


def _attention(who: session.Person, namespace: str, stats: Json | None, runs: list[Json]) -> None:
    """What somebody should look at, each with the way there; nothing is good news and is said."""
    found: list[tuple[str, str, dict[str, str]]] = []
    failed = next((one["totalCount"] for one in (stats or {}).get("statsByStatus", []) if one["status"] == "FAILED"), 0)
    if failed:
        found.append((f"{failed} failed documents: see why", "documents", {"status": "FAILED"}))
    waiting = [run for run in runs if run["status"] == "QUEUED"]
    if waiting and not (age := ago(waiting[-1]["createdAt"])).endswith(" s ago"):
        found.append((f"A run waits since {age}: is a worker running?", "runs", {"status": "QUEUED"}))
    if who.may("connections:read"):
        connections = who.api.get("/v1/connections", namespaceId=namespace)["connections"]
        broken = (plain(one["name"]) for one in connections if one["status"] == "FAILED")
        found.extend((f"The connection “{name}” failed: authorize it again", "connections", {}) for name in broken)
    if not found:
        st.success("Nothing needs attention.", icon=":material/check_circle:")
        return
    with st.container(border=True):
        st.markdown(":orange[:material/notification_important: **Needs attention**]")
        for label, page, place in found:
            query = {"namespace": namespace, **place}
            st.page_link(f"views/{page}.py", label=label, icon=":material/arrow_forward:", query_params=query)


def _history(runs: list[Json]) -> list[Json]:
    """Documents that ended, by the minute at which their run was accepted."""
    return [
        {"time": run["createdAt"]["isoString"][:16] + ":00Z", "kind": kind, "count": run["progress"][kind]}
        for run in runs
        for kind in ("upserted", "failed")
        if run["progress"][kind]
    ]


main()
