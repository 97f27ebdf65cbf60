"""Charts of runs, usage and searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import cycle
from typing import Any

import altair as alt
import streamlit as st

from ui.parts.labels import DOCUMENT_STAGES, PIPELINE_STEPS

CHART_COLORS = {
    "green": "#2f9e5f",
    "red": "#d64545",
    "blue": "#3b74e0",
    "orange": "#d98c1f",
    "gray": "#8a94a6",
    "violet": "#8562d8",
}


def stage_waterfall(timings: Mapping[str, float], progress: Mapping[str, Any]) -> None:
    """Show a waterfall of the stages' work in seconds, with numbers of documents."""
    rows, begun = [], 0.0
    for step, stage in zip(PIPELINE_STEPS, DOCUMENT_STAGES, strict=True):
        if step in timings:
            name = f"{step} · {progress.get(stage, 0):,}"
            rows.append({"stage": name, "from": begun, "to": begun + timings[step], "seconds": timings[step]})
            begun += timings[step]
    base = alt.Chart(_chart_data(rows)).encode(y=alt.Y("stage:N", sort=None, title=None))
    bars = base.mark_bar(cornerRadius=2).encode(
        x=alt.X("from:Q", title="seconds"),
        x2="to:Q",
        color=alt.value(CHART_COLORS["blue"]),
        tooltip=["stage:N", alt.Tooltip("seconds:Q", format=".3f")],
    )
    text = alt.Text("seconds:Q", format=".2~f")
    labels = base.mark_text(align="left", dx=4).encode(x="to:Q", text=text, color=alt.value(CHART_COLORS["gray"]))
    st.altair_chart((bars + labels).properties(height=alt.Step(26)), width="stretch")


# Fewer values are no course.
MIN_CHART_POINTS = 3
CHART_HEIGHT = 220


def documents_by(counts: Sequence[Mapping[str, Any]], title: str) -> None:
    """Show indexed and failed documents per hour or day, given enough of them."""
    colors = {"indexed": CHART_COLORS["green"], "failed": CHART_COLORS["red"]}
    if sum(any(count[kind] for kind in colors) for count in counts) < MIN_CHART_POINTS:
        return
    st.markdown(title)
    rows = [{"time": _parse_moment(count), **{kind: count[kind] for kind in colors}} for count in counts]
    st.bar_chart(rows, x="time", y=list(colors), color=[*colors.values()], x_label="", y_label="", height=CHART_HEIGHT)


def latency_by_hour(hours: Sequence[Mapping[str, Any]], title: str) -> None:
    """Show p50 and p95 latency per hour in milliseconds, given enough hours."""
    if sum(bool(hour["count"]) for hour in hours) >= MIN_CHART_POINTS:
        st.markdown(title)
        rows = [{"time": _parse_moment(hour), "p50": hour["p50"], "p95": hour["p95"]} for hour in hours]
        colors: list[Any] = [CHART_COLORS["blue"], CHART_COLORS["violet"]]
        st.line_chart(
            rows, x="time", y=["p50", "p95"], color=colors, x_label="", y_label="milliseconds", height=CHART_HEIGHT
        )


def _parse_moment(count: Mapping[str, Any]) -> datetime:
    # Without a zone: the axis is in UTC, as its title says.
    return datetime.fromisoformat(count["at"]["isoString"]).replace(tzinfo=None)


def usage_by_day(rows: Sequence[Mapping[str, Any]], title: str, budget: float | None) -> None:
    """Show `value` per `day` stacked by `namespace`, with a line at the budget of a day."""
    names = dict.fromkeys(str(row["namespace"]) for row in rows)
    colors = [CHART_COLORS[color] for _, color in zip(names, cycle(_SERIES_COLORS), strict=False)]
    scale = alt.Scale(domain=list(names), range=colors)
    bars = (
        alt.Chart(_chart_data(rows))
        .mark_bar()
        .encode(
            x=alt.X("yearmonthdate(day):T", title=None, axis=alt.Axis(format="%d %b")),
            y=alt.Y("sum(value):Q", title=title),
            color=alt.Color("namespace:N", title=None, scale=scale, legend=alt.Legend(orient="top")),
            tooltip=["day:N", "namespace:N", alt.Tooltip("sum(value):Q", title=title, format=",.6~g")],
        )
    )
    layers = [bars]
    if budget is not None:
        line = alt.Chart(_chart_data([{"budget": budget}])).mark_rule(strokeDash=[4, 4], strokeWidth=2)
        layers.append(line.encode(y="budget:Q", color=alt.value(CHART_COLORS["red"])))
    st.altair_chart(alt.layer(*layers).properties(height=CHART_HEIGHT), width="stretch")


def _chart_data(rows: Sequence[Mapping[str, Any]]) -> Any:
    return alt.Data(values=[dict(row) for row in rows])  # type: ignore[no-untyped-call]


_SERIES_COLORS = ("blue", "orange", "green", "violet", "red", "gray")
_INTERVAL_TOOLTIP = [alt.Tooltip(f"{name}:Q", format=".4f") for name in ("value", "low", "high")]


def interval_chart(rows: Sequence[Mapping[str, Any]], *, title: str, zero: bool = False) -> None:
    """Show `value` per `setting` with its interval `low` to `high`; `zero` draws a line at 0."""
    order = list(dict.fromkeys(str(row["setting"]) for row in rows))
    base = alt.Chart(_chart_data(rows)).encode(y=alt.Y("setting:N", sort=order, title=None))
    tooltip = ["setting:N", *_INTERVAL_TOOLTIP]
    color = alt.value(CHART_COLORS["blue"])
    axis = alt.X("low:Q", title=title, scale=alt.Scale(zero=False))
    lines = base.mark_rule(strokeWidth=3, opacity=0.55).encode(x=axis, x2="high:Q", color=color, tooltip=tooltip)
    points = base.mark_point(size=110, filled=True, opacity=1).encode(x="value:Q", color=color, tooltip=tooltip)
    layers = [lines, points]
    if zero:
        line = (
            alt.Chart(_chart_data([{"at": 0}]))
            .mark_rule(strokeDash=[4, 4], color=CHART_COLORS["gray"])
            .encode(x="at:Q")
        )
        layers.insert(0, line)
    st.altair_chart(alt.layer(*layers).properties(height=alt.Step(34)), width="stretch")
