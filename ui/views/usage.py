"""Usage: tokens and money by day, namespace or tenant, and what is used of the quotas."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import charts, url_state, widgets
from ui.parts.labels import format_size
from ui.parts.widgets import csv_bytes

BY = {"day": "Day", "namespace": "Namespace", "tenant": "Tenant"}
PERIODS = ("This month", "Last month", "Last 7 days", "Last 90 days")
QUOTAS = {
    "documents": "Documents",
    "storedBytes": "Storage used",
    "tokensPerMonth": "Tokens this month",
    "concurrentRuns": "Active runs",
}
FIELDS = url_state.Fields("usage", ("period", "by"))
MOST = 100
"""Rows that are shown; the file has them all."""


def main() -> None:
    person = session.current_person()
    st.title("Usage")
    options = {"period": PERIODS, "by": tuple(BY)}
    FIELDS.follow({name: url_state.one_of(name, values) for name, values in options.items()})
    left_column, right_column = st.columns(2)
    period = left_column.selectbox("Period", PERIODS, key="usage_period")
    by = right_column.selectbox("Group by", list(BY), format_func=BY.__getitem__, key="usage_by")
    FIELDS.write(period=None if period == PERIODS[0] else period, by=None if by == "day" else by)
    start, end = first_and_last_day(period, datetime.now(UTC).date())
    query: Json = {"from": str(start), "to": str(end), "by": by}
    usage = person.api.get("/v1/usage", **query)
    _numbers(usage)
    _quotas(usage)
    groups = [_row(entry, by, usage["currency"]) for entry in usage["usage"]]
    if not groups:
        widgets.show_empty("Nothing was ingested in this period.", "Choose another period, or add content.")
        if person.may("ingest:write"):
            st.page_link("views/add_content.py", label="Add content", icon=":material/add_circle:")
        return
    if by == "day" and len(groups) >= charts.LEAST_POINTS:
        charts.tokens_by_day({entry["day"]: entry["tokens"] for entry in usage["usage"]}, start, end)
    st.dataframe(groups[-MOST:] if by == "day" else groups[:MOST], hide_index=True, width="stretch")
    if any(entry["cost"] is None for entry in usage["usage"]):
        st.caption("A cost that is not shown has a model without a price: set it in RETRIEVAL_PRICES.")
    st.download_button(
        "Download as CSV", csv_bytes(groups, list(groups[0])), f"usage-{start}-{end}.csv", icon=":material/download:"
    )


def first_and_last_day(period: str, today: date) -> tuple[date, date]:
    """The first and the last day of a period."""
    if period == "Last month":
        last = today.replace(day=1) - timedelta(days=1)
        return last.replace(day=1), last
    if period == "Last 7 days":
        return today - timedelta(days=6), today
    if period == "Last 90 days":
        return today - timedelta(days=89), today
    return today.replace(day=1), today


def _numbers(usage: Json) -> None:
    groups, cells = usage["usage"], st.columns(4)
    costs = [group["cost"] for group in groups if group["cost"] is not None]
    cells[0].metric(
        "Tokens embedded",
        f"{sum(group['tokens'] for group in groups):,}",
        border=True,
        help="Sent to the model in this period, deleted and replaced documents included.",
    )
    cells[1].metric("Cost", _money(sum(costs), usage["currency"]) if costs else "-", border=True)
    cells[2].metric("Documents", f"{usage['documents']:,}", border=True, help="All that are there now.")
    stored = usage["used"]["storedBytes"] or usage["storageBytes"]
    cells[3].metric("Storage used", format_size(stored), border=True, help="All content, as it was sent.")


def _money(amount: float, currency: str) -> str:
    return f"{amount:,.2f} {currency}" if amount >= 0.01 or not amount else f"{amount:.4f} {currency}"


def _quotas(usage: Json) -> None:
    """Show usage against the organization's limits; nothing without limits."""
    for name, label in QUOTAS.items():
        used, limit = usage["used"][name], usage["limit"][name]
        if limit is None:
            continue
        figures = [format_size(number) if name == "storedBytes" else f"{number or 0:,}" for number in (used, limit)]
        st.progress(min(1.0, (used or 0) / limit) if limit else 1.0, text=f"{label}: {figures[0]} of {figures[1]}")


def _row(group: Json, by: str, currency: str) -> Json:
    key = {"day": "day", "namespace": "namespaceId", "tenant": "tenantId"}[by]
    return {
        BY[by]: group[key] or "(no tenant)",
        "Tokens": group["tokens"],
        f"Cost ({currency})": group["cost"],
        "Documents": group["documents"],
        "Storage": format_size(group["storedBytes"]),
        "Models": ", ".join(f"{model['provider']} {model['model']}" for model in group["models"]),
    }


main()
