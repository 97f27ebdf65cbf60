"""One job run: how far its documents are, where its time went, each of its documents; and how long it waits."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import added, charts, frame, widgets
from ui.parts.ingest_forms import PARSING, PARSING_HELP
from ui.parts.labels import MOVING, format_count, format_seconds, parse_time, source_title, time_ago
from ui.parts.widgets import csv_bytes, escape_markdown

SAME = "As before"
CHANGEABLE = frozenset({"TEXT", "LOCAL_FILE", "URLS_LIST"})
"""Sources of which the API takes other settings with a retry."""


def show_controls(sources: frozenset[str], key: str) -> Json:
    """The fields for other settings, as far as these sources take them, and what they ask for."""
    if not sources <= CHANGEABLE:
        return {}
    changes: Json = {}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        if sources & {"LOCAL_FILE", "URLS_LIST"}:
            parsing = st.radio("Parsing", [SAME, *PARSING], horizontal=True, key=f"parsing-{key}", help=PARSING_HELP)
            if parsing and parsing != SAME:
                changes["ocrConfig"] = {"strategy": PARSING[parsing]}
        with st.popover("Chunk settings", icon=":material/tune:"):
            rechunk = st.toggle("Other chunks than before", key=f"cut-{key}")
            size = st.number_input("Chunk size (tokens)", 1, 8191, 1000, key=f"size-{key}", disabled=not rechunk)
            overlap = st.number_input(
                "Chunk overlap (tokens)", 0, 8190, 200, key=f"overlap-{key}", disabled=not rechunk
            )
    if rechunk:
        changes["chunkConfig"] = {"chunkSize": int(size), "chunkOverlap": int(overlap)}
    return changes


def retry_run(person: session.Person, namespace: str, run: str, changes: Json) -> str | None:
    """The run that runs the failed documents again; None if that was refused, which is shown."""
    try:
        response = widgets.post_once(person, f"/v1/ingest-job-runs/{run}/retry", {"namespaceId": namespace, **changes})
    except ApiError as error:
        frame.show_error(error)
        return None
    return str(response["id"])


PATIENCE_SECONDS = 60.0
"""Seconds before the page advises to check the workers: a job run usually begins within seconds."""


def waiting_since(created: dict[str, Any]) -> str:
    """Return the waiting time: `2 min`."""
    return time_ago(created).removesuffix(" ago")


def queue_status(run: dict[str, Any], now: datetime | None = None) -> str:
    """Return the waiting time of a QUEUED run, its position, and its likely start.

    The text points to the page of workers only if the run waits for an hour and no start can be estimated.
    """
    now = now or datetime.now(UTC)
    parts = [f"Queued for {waiting_since(run['createdAt'])}"]
    if run["queuePosition"]:
        parts.append(f"place {run['queuePosition']:,} in its queue")
    created, start = parse_time(run["createdAt"]), parse_time(run["estimatedStart"])
    if start is not None and start > now:
        parts.append(f"likely to begin in {format_seconds((start - now).total_seconds())}")
    elif nobody_works(run) and created and (now - created).total_seconds() > PATIENCE_SECONDS:
        parts.append("nothing has begun for an hour: see Queue and workers")
    return " · ".join(parts)


def nobody_works(run: dict[str, Any]) -> bool:
    """Tell whether a QUEUED run, as GET answers it, may lack a worker: no start can be estimated."""
    return run["queuePosition"] is not None and run["estimatedStart"] is None and not run["notices"]


MOST = 100
"""Documents of a run that are fetched and shown; failed and unfinished ones come first."""
GROUPS = ("failed", "processing", "queued", "cancelled", "completed")


def fetch_run(person: session.Person, namespace: str, run_id: str) -> Json:
    """The run with the first of its documents."""
    return person.api.get(f"/v1/ingest-job-runs/{run_id}", namespaceId=namespace, documentLimit=MOST)


def show_run(person: session.Person, namespace: str, run: Json) -> None:
    """Show all details of the run."""
    _head(run)
    for notice in run["notices"]:
        text = escape_markdown(notice["reason"]) + (f" ({notice['count']:,})" if notice["count"] else "")
        st.warning(text, icon=":material/notification_important:")
    if run.get("dryRun"):
        if run.get("report"):
            added.show_numbers([run["report"]])
        return
    left_column, right_column = st.columns(2)
    with left_column:
        st.markdown("**Progress**")
        charts.show_funnel(run["progress"])
    with right_column:
        st.markdown("**Stage durations**")
        if run["timings"]:
            charts.stage_times(run["timings"])
        else:
            st.caption("No stage has ended." if run["outcome"] else "No stage has ended yet.")
    _left_out(run["progress"])
    _documents(person, namespace, run)


def _head(run: Json) -> None:
    progress, total = run["progress"], run["progress"]["found"]
    st.header(escape_markdown(run["name"]) or source_title(run["source"]))
    with st.container(horizontal=True, vertical_alignment="center"):
        widgets.status_badge(run["outcome"] or run["status"])
        kind = source_title(run["source"]) + (" (dry run)" if run.get("dryRun") else "")
        st.caption(f"{kind} · created {time_ago(run['createdAt'])} · `{run['id']}`")
    if run["status"] in MOVING:
        ended = _ended(run)
        listed_count = sum(len(group) for group in run["documents"].values())
        total = max(total, listed_count, ended)  # what failed while a site was walked does not count as found
        done = ended / total if total else 0.0
        st.progress(done, text=f"{ended:,} of {total:,} documents at their end" if total else "Discovering …")
    facts = [("removed", "deleted at source and removed"), ("awaitingConfirmation", "waiting to be removed")]
    counts = [f"{progress[name]:,} {label}" for name, label in facts if progress.get(name)]
    if run["status"] == "QUEUED":
        counts.append(queue_status(run))
    if counts:
        st.caption(" · ".join(counts))


def _ended(run: Json) -> int:
    """Unchanged documents end after they were fetched: what is neither queued nor at work has ended."""
    groups = run["documents"]
    if run["progress"]["found"] <= MOST:
        return len(groups["failed"]) + len(groups["cancelled"]) + len(groups["completed"])
    return int(run["progress"]["upserted"] + run["progress"]["failed"])


def _left_out(progress: Json) -> None:
    reasons = progress.get("skippedReasons") or {}
    if reasons:
        text = " · ".join(f"{number:,} {reason.replace('_', ' ')}" for reason, number in reasons.items())
        st.caption(escape_markdown(f"Left out: {text}"))


def _documents(person: session.Person, namespace: str, run: Json) -> None:
    entries = [entry for group in GROUPS for entry in run["documents"][group]]
    total = max(run["progress"]["found"], len(entries))
    st.markdown(f"**Documents** ({total:,})")
    reasons = Counter(entry["error"] or "No reason was given." for entry in run["documents"]["failed"])
    for reason, number in reasons.most_common(3):
        times = f" ({format_count(number, 'document')})" if number > 1 else ""
        st.error(escape_markdown(reason + times), icon=":material/error:")
    if not entries:
        st.caption("None: there was nothing to do." if run["status"] == "COMPLETED" else "None is known yet.")
        return
    names = _names(person, namespace, entries)
    rows = [
        {
            "status": [document["status"]],
            "document": names.get(document["id"], document["id"]),
            "error": document["error"] or "",
        }
        for document in entries
    ]
    chosen = widgets.clicked_row(
        rows,
        "run_documents",
        [document["id"] for document in entries],
        document=st.column_config.TextColumn("Document", width=300),
        status=widgets.status_column(),
        error=st.column_config.TextColumn("Error", width="large"),
    )
    if total > len(entries):
        st.caption(
            f"The first {format_count(len(entries), 'document')} of {total:,}, failed and unfinished ones first."
        )
    if chosen is not None and person.may("documents:read"):
        query_params = {"namespace": namespace, "document": chosen}
        st.switch_page("views/documents.py", query_params=query_params)
    rows_with_id = [{**row, "id": document["id"]} for row, document in zip(rows, entries, strict=True)]
    file = csv_bytes(rows_with_id, ["status", "document", "id", "error"])
    st.download_button("Documents as CSV", file, "documents.csv", "text/csv", icon=":material/download:", key="run_csv")


def _names(person: session.Person, namespace: str, entries: list[Json]) -> dict[str, str]:
    """Return names of the documents by id; deleted ones have their id alone."""
    if not person.may("documents:read"):
        return {}
    config = {"documentIds": [entry["id"] for entry in entries]}
    data = person.api.post("/v1/documents", {"namespaceId": namespace, "filterConfig": config})
    return {document["id"]: document["name"] for document in data["documents"] if document["name"]}
