"""The few pictures: a run's funnel and stage times, counts over time, parts of a score. Altair, themed by Streamlit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import altair as alt
import streamlit as st

from ui.parts.labels import STAGES, STEPS

COLORS = {
    "green": "#2f9e5f",
    "red": "#d64545",
    "blue": "#3b74e0",
    "orange": "#d98c1f",
    "gray": "#8a94a6",
    "violet": "#8562d8",
}


def funnel(progress: Mapping[str, int]) -> None:
    """How many of the found documents have come how far; failed ones beside them."""
    rows = [{"stage": stage, "documents": progress.get(stage, 0), "order": at} for at, stage in enumerate(STAGES)]
    if progress.get("failed"):
        rows.append({"stage": "failed", "documents": progress["failed"], "order": len(STAGES)})
    bars = (
        alt.Chart(_data(rows))
        .mark_bar(cornerRadiusEnd=3)
        .encode(
            x=alt.X("documents:Q", title=None, axis=alt.Axis(tickMinStep=1)),
            y=alt.Y("stage:N", sort=alt.SortField("order"), title=None),
            color=alt.condition("datum.stage == 'failed'", alt.value(COLORS["red"]), alt.value(COLORS["blue"])),
            tooltip=["stage:N", "documents:Q"],
        )
    )
    st.altair_chart(_with_numbers(bars, "documents:Q"), width="stretch")


def stage_times(timings: Mapping[str, float]) -> None:
    """Seconds that each step took, in the order of the steps."""
    known = sorted(timings.items(), key=lambda item: STEPS.index(item[0]) if item[0] in STEPS else len(STEPS))
    rows = [{"step": name, "seconds": round(value, 3), "order": at} for at, (name, value) in enumerate(known)]
    bars = (
        alt.Chart(_data(rows))
        .mark_bar(cornerRadiusEnd=3, color=COLORS["violet"])
        .encode(
            x=alt.X("seconds:Q", title="seconds"),
            y=alt.Y("step:N", sort=alt.SortField("order"), title=None),
            tooltip=["step:N", "seconds:Q"],
        )
    )
    st.altair_chart(_with_numbers(bars, "seconds:Q"), width="stretch")


def counts(rows: Sequence[Mapping[str, Any]], *, name: str, colors: Mapping[str, str] | None = None) -> None:
    """Horizontal bars of `count` by `name`, largest first."""
    color = (
        alt.Color(
            f"{name}:N", legend=None, scale=alt.Scale(domain=list(colors), range=[COLORS[c] for c in colors.values()])
        )
        if colors
        else alt.value(COLORS["blue"])
    )
    bars = (
        alt.Chart(_data(rows))
        .mark_bar(cornerRadiusEnd=3)
        .encode(
            x=alt.X("count:Q", title=None, axis=alt.Axis(tickMinStep=1)),
            y=alt.Y(f"{name}:N", sort="-x", title=None),
            color=color,
            tooltip=[f"{name}:N", "count:Q"],
        )
    )
    st.altair_chart(_with_numbers(bars, "count:Q"), width="stretch")


def over_time(rows: Sequence[Mapping[str, Any]], *, colors: Mapping[str, str]) -> None:
    """Stacked bars of `count` by `kind` over `time` (ISO 8601), by the minute, hour or day as the span asks for."""
    unit, style = _unit([str(row["time"]) for row in rows])
    chart = (
        alt.Chart(_data(rows))
        .mark_bar()
        .encode(
            x=alt.X("time:T", timeUnit=unit, title=None, axis=alt.Axis(format=style, labelOverlap=True)),
            y=alt.Y("sum(count):Q", title=None, axis=alt.Axis(tickMinStep=1)),
            color=alt.Color(
                "kind:N",
                title=None,
                scale=alt.Scale(domain=list(colors), range=[COLORS[c] for c in colors.values()]),
                legend=alt.Legend(orient="top"),
            ),
            tooltip=[alt.Tooltip("time:T", timeUnit=unit, format=style), "kind:N", "sum(count):Q"],
        )
        .properties(height=200)
    )
    st.altair_chart(chart, width="stretch")


def latency(rows: Sequence[Mapping[str, Any]]) -> None:
    """How many searches took how long: `count` by `milliseconds`, on a scale that doubles."""
    doubled = [
        {"within": 2 ** math.ceil(math.log2(max(row["milliseconds"], 1))), "count": row["count"]} for row in rows
    ]
    chart = (
        alt.Chart(_data(doubled))
        .mark_bar(cornerRadiusEnd=3, color=COLORS["violet"])
        .encode(
            x=alt.X("within:O", title="milliseconds at most", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("sum(count):Q", title=None, axis=alt.Axis(tickMinStep=1)),
            tooltip=[alt.Tooltip("within:O", title="milliseconds at most"), alt.Tooltip("sum(count):Q", title="count")],
        )
        .properties(height=200)
    )
    st.altair_chart(chart, width="stretch")


def score_parts(rows: Sequence[Mapping[str, Any]]) -> None:
    """Per result (`rank`) the weighted parts of its score, stacked."""
    chart = (
        alt.Chart(_data(rows))
        .mark_bar()
        .encode(
            x=alt.X("part:Q", title="score", stack=True, scale=alt.Scale(domain=[0, 1])),
            y=alt.Y("rank:O", title=None),
            color=alt.Color(
                "kind:N",
                title=None,
                scale=alt.Scale(domain=["meaning", "words"], range=[COLORS["blue"], COLORS["orange"]]),
                legend=alt.Legend(orient="top"),
            ),
            tooltip=["rank:O", "kind:N", alt.Tooltip("part:Q", format=".3f")],
        )
    )
    st.altair_chart(chart, width="stretch")


def rank_moves(rows: Sequence[Mapping[str, Any]], searches: Sequence[str]) -> None:
    """A line for each `chunk` from its `rank` in one of the searches to that in the next."""
    most = max(row["rank"] for row in rows)
    lines = (
        alt.Chart(_data(rows))
        .mark_line(point=alt.OverlayMarkDef(size=90, filled=True), strokeWidth=2)
        .encode(
            x=alt.X("search:N", sort=list(searches), title=None, axis=alt.Axis(labelAngle=0, orient="top")),
            y=alt.Y("rank:Q", scale=alt.Scale(reverse=True, domain=[0.5, most + 0.5], nice=False), title="rank"),
            color=alt.Color("chunk:N", legend=None),
            tooltip=["name:N", "search:N", "rank:Q"],
        )
        .properties(height=min(120 + 18 * most, 480))
    )
    st.altair_chart(lines, width="stretch")


def search_steps(rows: Sequence[Mapping[str, Any]]) -> None:
    """The steps of each search, one after the other, in milliseconds."""
    bars = (
        alt.Chart(_data(rows))
        .mark_bar(cornerRadius=2)
        .encode(
            x=alt.X("milliseconds:Q", title=None, stack=True),
            y=alt.Y("search:N", sort=None, title=None),
            color=alt.Color(
                "step:N",
                sort=None,
                title=None,
                scale=alt.Scale(range=[COLORS[name] for name in ("blue", "violet", "gray", "orange", "green")]),
                legend=alt.Legend(orient="top"),
            ),
            order=alt.Order("order:Q"),
            tooltip=["search:N", "step:N", "milliseconds:Q"],
        )
        .properties(height=alt.Step(26))
    )
    st.altair_chart(bars, width="stretch")


def _unit(times: Sequence[str]) -> tuple[Any, str]:
    """What one bar stands for, and how its time is written."""
    span = datetime.fromisoformat(max(times)) - datetime.fromisoformat(min(times))
    if span <= timedelta(hours=2):
        return "yearmonthdatehoursminutes", "%H:%M"
    return ("yearmonthdatehours", "%d %b %H:%M") if span <= timedelta(days=3) else ("yearmonthdate", "%d %b")


def _data(rows: Sequence[Mapping[str, Any]]) -> Any:
    return alt.Data(values=[dict(row) for row in rows])  # type: ignore[no-untyped-call]


def _with_numbers(bars: alt.Chart, value: str) -> Any:
    number = alt.Text(value, format=",.6~g")
    labels = bars.mark_text(align="left", dx=4).encode(text=number, color=alt.value(COLORS["gray"]))
    return (bars + labels).properties(height=alt.Step(24))
