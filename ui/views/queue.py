"""The queue and the workers: whether something is stuck, and why."""

from __future__ import annotations

from datetime import UTC, datetime

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import frame, widgets
from ui.parts.labels import ago, count, lasting, moment, span, title
from ui.parts.widgets import plain

LIVE_SECONDS = 5.0
LONG_SECONDS = 60.0
"""A job run that has waited for so long while workers are there is worth a look."""
LOOPS = {
    "dispatch": "Starts accepted work",
    "reconcile": "Takes back what a lost worker had",
    "schedule": "Keeps the schedules of connections",
    "sweep": "Deletes what is not needed any more",
    "maintain": "Builds and packs indexes",
    "listen": "Hears of new work",
    "webhooks": "Sends events to webhooks",
}


def main() -> None:
    who = session.person()
    st.title("Queue and workers")

    @frame.live(LIVE_SECONDS)
    def live() -> None:
        _show(who, who.api.get("/v1/queue"))

    live()


def _show(who: session.Person, queue: Json) -> None:
    _numbers(queue)
    if troubles := _troubles(queue):
        st.warning("  \n".join(troubles), icon=":material/notification_important:")
    else:
        st.success("Nothing is stuck.", icon=":material/check_circle:")
    for warning in queue["warnings"]:
        st.warning(plain(warning), icon=":material/gpp_maybe:")
    st.header("In progress")
    if queue["working"]:
        _working(queue["working"])
    else:
        widgets.show_empty("No worker is busy.", "What is accepted appears here while it is worked on.")
        if who.may("ingest:write"):
            st.page_link("views/runs.py", label="Open the runs", icon=":material/play_circle:")
    if queue["breakers"]:
        st.header("Not answering")
        _breakers(queue["breakers"])
    with st.expander("Background loops of the dispatcher"):
        _loops(queue["loops"])


def _numbers(queue: Json) -> None:
    cells = st.columns(4)
    cells[0].metric("Queued", f"{queue['queued']:,}", border=True, help="Job runs that wait for a worker.")
    oldest = queue["oldestQueuedAt"]
    cells[1].metric("Oldest queued for", lasting(oldest) if oldest else "-", border=True)
    cells[2].metric(
        "On hold",
        f"{queue['held']:,}",
        border=True,
        help="Job runs that wait for a vendor or site that does not answer. More workers do not help them.",
    )
    cells[3].metric(
        "Workers online",
        f"{queue['workers']:,}",
        border=True,
        help="Of the whole installation, whichever organization they work for.",
    )


def _troubles(queue: Json) -> list[str]:
    """Why something may be stuck, in words; nothing if all is well."""
    found = [plain(reason) for reason in queue["reasons"]]
    waits, oldest = queue["queued"], moment(queue["oldestQueuedAt"])
    if not queue["workers"]:
        found.append("No worker is online: start one with `retrieval worker`, or `retrieval up`.")
    elif waits and oldest and (datetime.now(UTC) - oldest).total_seconds() > LONG_SECONDS and not queue["working"]:
        found.append("Workers are online and busy with other organizations: more workers shorten the queue.")
    now = datetime.now(UTC)
    lost = [one for one in queue["working"] if (until := moment(one["leaseUntil"])) and until < now]
    if lost:
        found.append(f"{count(len(lost), 'worker')} gave no sign of life in time: another one takes over by itself.")
    found += [
        f"{plain(one['name'])} does not answer: {count(one['waitingJobRuns'], 'job run')} on hold."
        for one in queue["breakers"]
    ]
    return found


def _working(working: list[Json]) -> None:
    rows = [
        {
            "Source": title(one["source"]),
            "Job runs": one["jobRuns"],
            "Document": one["document"] or ("several" if one["startedAt"] else "starting"),
            "Running for": lasting(one["startedAt"] or one["createdAt"]),
            "Attempt": one["attempt"],
            "Tenant": one["tenantId"] or "",
            "Namespace": one["namespaceId"],
        }
        for one in working
    ]
    chosen = widgets.clicked_row(
        rows, "queue_working", [{"namespace": one["namespaceId"], "run": one["ingestJobRunId"]} for one in working]
    )
    st.caption("Click a row to open its run.")
    if chosen is not None:
        st.switch_page("views/runs.py", query_params=chosen)


def _breakers(breakers: list[Json]) -> None:
    rows = [
        {
            "Vendor or site": one["name"],
            "Job runs on hold": one["waitingJobRuns"],
            "Since": ago(one["since"]),
            "Tried again": "now" if _left(one) <= 0 else f"in {span(_left(one))}",
            "Failures in a row": one["failures"],
            "Reason": one["reason"],
        }
        for one in breakers
    ]
    st.dataframe(rows, hide_index=True, width="stretch")


def _left(breaker: Json) -> float:
    until = moment(breaker["until"])
    return (until - datetime.now(UTC)).total_seconds() if until else 0.0


def _loops(loops: list[Json]) -> None:
    if not loops:
        st.caption("No dispatcher reports: start one with `retrieval dispatcher`, or `retrieval up`.")
        return
    rows = [
        {
            "Loop": one["loop"],
            "What it does": LOOPS.get(one["loop"], ""),
            "State": "late" if one["late"] else "on time",
            "Last success": f"{span(one['lastSuccessSeconds'])} ago",
            "Error": one["reason"] or "",
        }
        for one in loops
    ]
    st.dataframe(rows, hide_index=True, width="stretch")


main()
