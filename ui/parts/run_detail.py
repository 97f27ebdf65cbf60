"""One job run: progress, durations, documents, waiting time, and the report of a dry run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import streamlit as st

from ui import session
from ui.client import Json
from ui.exports import csv_bytes
from ui.parts import charts, failures, frame, widgets
from ui.parts.labels import (
    ACTIVE_STATUSES,
    format_cost,
    format_count,
    format_seconds,
    parse_time,
    plain_error,
    source_title,
    time_ago,
    time_since,
)
from ui.parts.widgets import escape_markdown


def show_remedies(person: session.Person, namespace: str, runs: Sequence[Json], key: str) -> dict[str, str]:
    """Show failure causes with remedies; after a retry, return new run ids by former ones, else {}."""
    counts: Counter[str] = Counter()
    for run in runs:
        counts.update(failures.count_open(run["failures"]))
    errors = [document["error"] for run in runs for document in run["documents"]["failed"]]
    # A run does not name the cause of each document.
    reasons = (
        failures.shared_reasons([(next(iter(counts)), error) for error in errors], counts) if len(counts) == 1 else {}
    )
    by_count = dict(counts.most_common())
    retry = failures.show_causes(person, by_count, key, scope="ingest:write", linked=False, reasons=reasons)
    if retry is None:
        return {}
    body = {"namespaceId": namespace, "failureCauses": [retry.cause], **retry.changes}
    new: dict[str, str] = {}
    with frame.shown_refusal():
        for run in runs:
            if retry.cause in failures.count_open(run["failures"]):
                path = f"/v1/ingest-job-runs/{run['id']}/retry"
                new[run["id"]] = str(widgets.post_once(person, path, body)["id"])
    return new


# A job run usually starts within seconds.
WORKER_ADVICE_SECONDS = 60.0


def queue_status(run: dict[str, Any], current_time: datetime | None = None) -> str:
    """Describe a QUEUED run's waiting time, position and likely start."""
    # The advice on workers appears only if no start can be estimated.
    reference_time = current_time or datetime.now(UTC)
    parts = [f"Queued for {time_since(run['createdAt'])}"]
    if run["queuePosition"]:
        parts.append(f"place {run['queuePosition']:,} in its queue")
    created, start = parse_time(run["createdAt"]), parse_time(run["estimatedStart"])
    lacks_worker = run["queuePosition"] is not None and start is None and not run["notices"]
    if start is not None and start > reference_time:
        parts.append(f"likely to begin in {format_seconds((start - reference_time).total_seconds())}")
    elif lacks_worker and created and (reference_time - created).total_seconds() > WORKER_ADVICE_SECONDS:
        parts.append("nothing has begun for an hour: see Queue and workers")
    return " · ".join(parts)


# Failed and unfinished ones first.
MAX_SHOWN_DOCUMENTS = 100
MAX_CSV_DOCUMENTS = 1000
DOCUMENT_GROUPS = ("failed", "processing", "queued", "cancelled", "completed")


def fetch_run(
    person: session.Person, namespace: str, run_id: str, *, document_limit: int = MAX_SHOWN_DOCUMENTS
) -> Json:
    """Return the run with the first documents and the states of the flow run."""
    query = {"namespaceId": namespace, "documentLimit": document_limit, "withFlowRun": "true"}
    return person.api.get(f"/v1/ingest-job-runs/{run_id}", **query)


def show_run(person: session.Person, namespace: str, run: Json) -> None:
    _show_head(run)
    for notice in run["notices"]:
        text = escape_markdown(notice["reason"]) + (f" ({notice['count']:,})" if notice["count"] else "")
        st.warning(text, icon=":material/notification_important:")
    _show_flow_run(run)
    if run.get("dryRun"):
        if run.get("report"):
            show_report_numbers([run["report"]])
            show_planned(run["report"].get("documents", []))
        return
    if run["timings"]:
        st.markdown("**Work by stage** with the documents that passed it")
        charts.stage_waterfall(run["timings"], run["progress"])
    if reasons := run["progress"].get("skippedReasons"):
        text = " · ".join(f"{number:,} {reason.replace('_', ' ')}" for reason, number in reasons.items())
        st.caption(escape_markdown(f"Left out: {text}"))
    _show_documents(person, namespace, run)


def _show_head(run: Json) -> None:
    progress, total = run["progress"], run["progress"]["found"]
    st.header(escape_markdown(run["name"]) or source_title(run["source"]))
    with st.container(horizontal=True, vertical_alignment="center"):
        widgets.status_badge(run["outcome"] or run["status"])
        kind = source_title(run["source"]) + (" (dry run)" if run.get("dryRun") else "")
        st.caption(f"{kind} · created {time_ago(run['createdAt'])}")
    if run["status"] in ACTIVE_STATUSES:
        ended = _count_ended(run)
        listed_count = sum(len(group) for group in run["documents"].values())
        total = max(total, listed_count, ended)  # what failed while a site was walked does not count as found
        done = ended / total if total else 0.0
        start = "Not begun yet" if run["status"] == "QUEUED" else "Discovering …"
        st.progress(done, text=f"{ended:,} of {total:,} documents finished" if total else start)
    if not run.get("dryRun"):
        st.markdown(describe_counts(progress))
    facts = [f"{progress['awaitingConfirmation']:,} waiting to be removed"] if progress["awaitingConfirmation"] else []
    if run["status"] == "QUEUED":
        facts.append(queue_status(run))
    if facts:
        st.caption(" · ".join(facts))


# Parts of what a run found, in words.
COUNT_LABELS = {
    "indexed": "indexed",
    "unchanged": "unchanged",
    "failed": "failed",
    "skipped": "left out",
    "removed": "deleted at source and removed",
    "cancelled": "cancelled",
    "open": "not finished",
}


def count_found(progress: Json) -> int:
    # What failed while a site was walked does not count as found by the API.
    return sum(progress[name] for name in COUNT_LABELS)


def describe_counts(progress: Json) -> str:
    """Describe what the run found as Markdown, as a sum."""
    by_label = {label: progress[name] for name, label in COUNT_LABELS.items() if progress[name]}
    counts = [
        f":red[{count:,} {label}]" if label == "failed" else f"{count:,} {label}" for label, count in by_label.items()
    ]
    found = f"**Found {count_found(progress):,}**"
    return f"{found} = {' + '.join(counts)}" if counts else found


FINAL_STATES = ("COMPLETED", "FAILED", "CANCELLED", "CRASHED")


def find_progress(run: Json) -> int:
    """Return 0 once the run and its flow run have ended."""
    states = (run.get("flowRun") or {}).get("states") or []
    return 2 * (run["status"] in ACTIVE_STATUSES) + (bool(states) and states[-1]["type"] not in FINAL_STATES)


# The last states of a flow run.
MAX_SHOWN_STATES = 8


def _show_flow_run(run: Json) -> None:
    flow_run = run.get("flowRun")
    if not flow_run or not run["prefectUrl"]:
        return
    states = flow_run["states"]
    if not states:
        answer = "has no such flow run any more" if flow_run["reachable"] else "does not answer"
        st.caption(f"**Prefect** {answer} · [open its page]({run['prefectUrl']})")
        return
    steps = [
        f"{state['beganAt']['isoString'][11:19]} {escape_markdown(state['name'])}"
        for state in states[-MAX_SHOWN_STATES:]
    ]
    message = escape_markdown((states[-1]["message"] or "").partition(". ")[0])
    link = f"[open the flow run]({run['prefectUrl']})"
    # A flow run processes job runs of one source together; its numbers are theirs.
    whole = f"of its whole batch: {message}" if message else ""
    parts = [f"**Flow run in Prefect: {escape_markdown(states[-1]['name'])}**", whole, link]
    st.caption(" · ".join(filter(None, parts)) + "  \n" + " → ".join(steps))


def _count_ended(run: Json) -> int:
    """Count ended documents."""
    # Unchanged documents end after their download: neither queued nor processing.
    groups = run["documents"]
    if run["progress"]["found"] <= MAX_SHOWN_DOCUMENTS:
        return len(groups["failed"]) + len(groups["cancelled"]) + len(groups["completed"])
    return int(run["progress"]["upserted"] + run["progress"]["failed"])


def _show_documents(person: session.Person, namespace: str, run: Json) -> None:
    entries = [entry for group in DOCUMENT_GROUPS for entry in run["documents"][group]]
    total = max(run["progress"]["found"], len(entries))
    st.markdown(f"**Documents** ({total:,})")
    if not entries:
        st.caption("None: there was nothing to do." if run["status"] == "COMPLETED" else "None is known yet.")
        return
    linked: Json = {"linked from": st.column_config.TextColumn("Linked from", width="medium")}
    chosen = widgets.clicked_row(
        widgets.drop_empty([_document_row(document) for document in entries]),
        "run_documents",
        [document["id"] for document in entries],
        document=st.column_config.TextColumn("Document", width=300),
        status=widgets.status_column(width=110),
        error=st.column_config.TextColumn("Error", width="medium"),
        **linked,
    )
    if total > len(entries):
        first = format_count(len(entries), "document")
        st.caption(f"The first {first} of {total:,}, failed and unfinished ones first.")
    if chosen is not None and person.may("documents:read"):
        widgets.open_page("documents", document=chosen)
    st.download_button(
        "Documents as CSV",
        lambda: _build_csv(fetch_run(person, namespace, run["id"], document_limit=MAX_CSV_DOCUMENTS)),
        "documents.csv",
        "text/csv",
        icon=":material/download:",
        key="run_csv",
    )


def _document_row(document: Json) -> Json:
    return {
        "status": [document["status"]],
        "document": document["name"],
        "error": plain_error(document["error"]),
        "linked from": document.get("linkedFrom", ""),
    }


def _build_csv(run: Json) -> bytes:
    rows = [
        {**_document_row(document), "id": document["id"]}
        for group in DOCUMENT_GROUPS
        for document in run["documents"][group]
    ]
    return csv_bytes(rows, ["status", "document", "id", "error", "linked from"])


def explain_failure(document: Json) -> str:
    linked_from = document.get("linkedFrom")
    return (plain_error(document["error"]) or "No reason was given.") + (
        f" Linked from {linked_from}" if linked_from else ""
    )


REPORT_COUNTS = {
    "create": "Created",
    "update": "Updated",
    "unchanged": "Unchanged",
    "remove": "Removed",
    "failed": "Failed",
}


def show_report_numbers(reports: list[Json]) -> None:
    for cell, (name, label) in zip(st.columns(len(REPORT_COUNTS)), REPORT_COUNTS.items(), strict=True):
        cell.metric(label, f"{sum(report[name] for report in reports):,}")
    names = ("chunks", "tokensToEmbed", "pagesRecognised", "pagesUnread", "estimatedSeconds")
    total = {name: sum(report.get(name, 0) for report in reports) for name in names}
    figures = [format_count(total["chunks"], "chunk"), f"{format_count(total['tokensToEmbed'], 'token')} to embed"]
    for name, word in (("pagesRecognised", "recognised"), ("pagesUnread", "not readable")):
        figures += [f"{format_count(total[name], 'page')} {word}"] if total[name] else []
    figures += [format_cost(reports), f"about {format_seconds(total['estimatedSeconds'])}"]
    figures += ["estimated from a sample"] if any(report["sampled"] for report in reports) else []
    figures += dict.fromkeys(report["modelChoice"] for report in reports if report.get("modelChoice"))
    st.caption(" · ".join(figures))


# Order of a report's documents.
ACTION_ORDER = ("failed", "create", "update", "remove")


def show_planned(documents: list[Json]) -> None:
    """Show the documents of dry runs by action, failed first, with a CSV file."""
    rows = [
        {
            "Action": REPORT_COUNTS[document["action"].lower()],
            "Name": document["name"],
            "Reason": plain_error(document["error"]),
            "Linked from": document["linkedFrom"] or "",
        }
        for document in sorted(documents, key=lambda document: ACTION_ORDER.index(document["action"].lower()))
    ]
    if not rows:
        return
    widgets.show_table(widgets.drop_empty(rows))
    widgets.download_csv("List as CSV", rows, "preview.csv", key="preview_csv")
