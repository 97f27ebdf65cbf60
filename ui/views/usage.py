"""Usage: tokens and cost by day, namespace or tenant, and quotas."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from functools import partial

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import charts, url_state, widgets
from ui.parts.labels import format_size

GROUP_LABELS = {"day": "Day", "namespace": "Namespace", "tenant": "Tenant"}
PERIOD_CHOICES = ("This month", "Last month", "Last 7 days", "Last 90 days")
QUOTA_LABELS = {
    "documents": "Documents",
    "storedBytes": "Storage used",
    "tokensPerMonth": "Tokens this month",
    "concurrentRuns": "Active runs",
}
# The file has all rows.
MAX_SHOWN_ROWS = 100
MAX_CHART_NAMESPACES, OTHERS_LABEL = 5, "other namespaces"
DAYS_OF_MONTH = 30


def main() -> None:
    person = session.current_person()
    st.title("Usage")
    left_column, right_column = st.columns(2)
    field = partial(url_state.bind_field, prefix="usage")
    period = field(left_column.selectbox, "period", "Period", default=PERIOD_CHOICES[0], options=PERIOD_CHOICES)
    by = field(right_column.selectbox, "by", "Group by", default="day", options=GROUP_LABELS)
    start, end = first_and_last_day(period, datetime.now(UTC).date())
    query: Json = {"from": str(start), "to": str(end), "by": by, "daily": True}
    usage = person.api.get("/v1/usage", **query)
    _show_numbers(usage)
    _show_quotas(usage)
    names = session.namespace_names(person, [entry.get("namespaceId") for entry in usage["usage"]])
    groups = [_usage_row(entry, by, usage["currency"], names) for entry in usage["usage"]]
    if not groups:
        widgets.show_empty("Nothing was ingested in this period.", "Choose another period, or add content.")
        if person.may("ingest:write"):
            widgets.link_page("add_content", "Add content")
        return
    _show_days(person, usage)
    figures: Json = dict.fromkeys(("Tokens", "Documents"), st.column_config.NumberColumn(format="localized"))
    figures[f"Cost ({usage['currency']})"] = st.column_config.NumberColumn(format="%.2f")
    widgets.show_table(groups[-MAX_SHOWN_ROWS:] if by == "day" else groups[:MAX_SHOWN_ROWS], **figures)
    if any(entry["cost"] is None for entry in usage["usage"]):
        st.caption("A cost that is not shown has a model without a price: set it in RETRIEVAL_PRICES.")
    widgets.download_csv("Download as CSV", groups, f"usage-{start}-{end}.csv")


def _show_days(person: session.Person, usage: Json) -> None:
    """Show tokens or cost by day and namespace, with the line of a day's share of the month's quota."""
    daily = [entry for entry in usage["daily"] if entry["tokens"]]
    if len({entry["day"] for entry in daily}) < charts.MIN_CHART_POINTS:
        return
    has_cost = any(entry["cost"] for entry in daily)
    measures = ["Tokens", f"Cost ({usage['currency']})"] if has_cost else ["Tokens"]
    measure = st.segmented_control("By day", measures, default="Tokens", required=True) if has_cost else "Tokens"
    totals: Counter[str] = Counter()
    for entry in daily:
        totals[entry["namespaceId"]] += entry["tokens"]
    largest = [namespace for namespace, _ in totals.most_common(MAX_CHART_NAMESPACES)]
    known_names = session.namespace_names(person, largest)
    names = {namespace: known_names.get(namespace, namespace) for namespace in largest}
    field = "tokens" if measure == "Tokens" else "cost"
    rows = [
        {"day": entry["day"], "namespace": names.get(entry["namespaceId"], OTHERS_LABEL), "value": entry[field] or 0}
        for entry in daily
    ]
    limit = usage["limit"]["tokensPerMonth"] if measure == "Tokens" else None
    charts.usage_by_day(rows, str(measure).lower(), None if limit is None else limit / DAYS_OF_MONTH)
    if limit is not None:
        st.caption(f"The line is a day's share of the month's {limit:,} tokens.")


def first_and_last_day(period: str, today: date) -> tuple[date, date]:
    if period == "Last month":
        last = today.replace(day=1) - timedelta(days=1)
        return last.replace(day=1), last
    days = {"Last 7 days": 7, "Last 90 days": 90}.get(period)
    return today - timedelta(days=days - 1) if days else today.replace(day=1), today


def _show_numbers(usage: Json) -> None:
    groups, cells = usage["usage"], st.columns(4)
    costs = [group["cost"] for group in groups if group["cost"] is not None]
    cells[0].metric(
        "Tokens embedded",
        f"{sum(group['tokens'] for group in groups):,}",
        border=True,
        help="Sent to the model in this period, deleted and replaced documents included.",
    )
    cells[1].metric("Cost", _format_money(sum(costs), usage["currency"]) if costs else "-", border=True)
    cells[2].metric("Documents", f"{usage['documents']:,}", border=True, help="All that are there now.")
    stored = usage["used"]["storedBytes"] or usage["storageBytes"]
    cells[3].metric("Storage used", format_size(stored), border=True, help="All content, as it was sent.")


def _format_money(amount: float, currency: str) -> str:
    return f"{amount:,.2f} {currency}" if amount >= 0.01 or not amount else f"{amount:.4f} {currency}"


def _show_quotas(usage: Json) -> None:
    for name, label in QUOTA_LABELS.items():
        used, limit = usage["used"][name], usage["limit"][name]
        if limit is None:
            continue
        figures = [format_size(number) if name == "storedBytes" else f"{number or 0:,}" for number in (used, limit)]
        st.progress(min(1.0, (used or 0) / limit) if limit else 1.0, text=f"{label}: {figures[0]} of {figures[1]}")


def _usage_row(group: Json, by: str, currency: str, names: dict[str, str]) -> Json:
    key = {"day": "day", "namespace": "namespaceId", "tenant": "tenantId"}[by]
    return {
        GROUP_LABELS[by]: names.get(group[key], group[key]) or "(no tenant)",
        "Tokens": group["tokens"],
        f"Cost ({currency})": group["cost"],
        "Documents": group["documents"],
        "Storage": format_size(group["storedBytes"]),
        "Models": ", ".join(f"{model['provider']} {model['model']}" for model in group["models"]),
    }


main()
