"""Report of a dry run: its figures and planned documents."""

from __future__ import annotations

import streamlit as st

from ui.client import Json
from ui.parts import widgets
from ui.parts.labels import format_cost, format_count, format_seconds

REPORT_COUNTS = {
    "create": "Created",
    "update": "Updated",
    "unchanged": "Unchanged",
    "remove": "Removed",
    "failed": "Failed",
}


def show_numbers(reports: list[Json]) -> None:
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
            "Reason": document["error"] or "",
            "Linked from": document["linkedFrom"] or "",
        }
        for document in sorted(documents, key=lambda document: ACTION_ORDER.index(document["action"].lower()))
    ]
    if not rows:
        return
    widgets.show_table(widgets.drop_empty(rows))
    widgets.download_csv("List as CSV", rows, "preview.csv", key="preview_csv")
