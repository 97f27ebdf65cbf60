"""Charts of runs, usage and searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
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


def show_funnel(progress: Mapping[str, int]) -> None:
    """Show the documents that reached each stage, and the failed ones."""
    counts = {stage: progress.get(stage, 0) for stage in DOCUMENT_STAGES}
    counts |= {"failed": progress["failed"]} if progress.get("failed") else {}
    _show_bars(
        counts, alt.condition("datum.name == 'failed'", alt.value(CHART_COLORS["red"]), alt.value(CHART_COLORS["blue"]))
    )


def stage_times(timings: Mapping[str, float]) -> None:
    stages = sorted(
        timings.items(),
        key=lambda item: PIPELINE_STEPS.index(item[0]) if item[0] in PIPELINE_STEPS else len(PIPELINE_STEPS),
    )
    _show_bars({name: round(value, 3) for name, value in stages}, alt.value(CHART_COLORS["violet"]), "seconds")


# Fewer values are shown as numbers.
MIN_CHART_POINTS = 3
CHART_HEIGHT = 220


def show_counts(counts: Mapping[str, int]) -> None:
    if len(counts) < MIN_CHART_POINTS:
        _show_numbers(counts)
    else:
        _show_bars(dict(sorted(counts.items(), key=lambda item: -item[1])), alt.value(CHART_COLORS["blue"]))


def _show_numbers(counts: Mapping[str, int]) -> None:
    with st.container(horizontal=True):
        for name, count in counts.items():
            st.metric(name, f"{count:,}")


def _show_bars(values: Mapping[str, float], color: Any, title: str | None = None) -> None:
    rows = [{"name": name, "value": value, "order": at} for at, (name, value) in enumerate(values.items())]
    axis = alt.Axis() if title else alt.Axis(tickMinStep=1)
    scale = alt.Undefined if any(values.values()) else alt.Scale(domain=[0, 1])
    bars = (
        alt.Chart(_chart_data(rows))
        .mark_bar(cornerRadiusEnd=3)
        .encode(
            x=alt.X("value:Q", title=title, axis=axis, scale=scale),
            y=alt.Y("name:N", sort=alt.SortField("order"), title=None),
            color=color,
            tooltip=["name:N", "value:Q"],
        )
    )
    number = alt.Text("value:Q", format=",.6~g")
    labels = bars.mark_text(align="left", dx=4).encode(text=number, color=alt.value(CHART_COLORS["gray"]))
    st.altair_chart((bars + labels).properties(height=alt.Step(24)), width="stretch")


def documents_by(counts: Sequence[Mapping[str, Any]]) -> None:
    """Show indexed and failed documents per hour or day."""
    colors = {"indexed": CHART_COLORS["green"], "failed": CHART_COLORS["red"]}
    if sum(any(count[kind] for kind in colors) for count in counts) < MIN_CHART_POINTS:
        _show_numbers({kind.capitalize(): sum(count[kind] for count in counts) for kind in colors})
        return
    rows = [{"time": _parse_moment(count), **{kind: count[kind] for kind in colors}} for count in counts]
    st.bar_chart(rows, x="time", y=list(colors), color=[*colors.values()], x_label="", y_label="", height=CHART_HEIGHT)


def latency_by_hour(hours: Sequence[Mapping[str, Any]]) -> None:
    """Show p50 and p95 latency per hour in milliseconds, given enough hours."""
    if sum(bool(hour["count"]) for hour in hours) >= MIN_CHART_POINTS:
        rows = [{"time": _parse_moment(hour), "p50": hour["p50"], "p95": hour["p95"]} for hour in hours]
        colors: list[Any] = [CHART_COLORS["blue"], CHART_COLORS["violet"]]
        st.line_chart(
            rows, x="time", y=["p50", "p95"], color=colors, x_label="", y_label="milliseconds", height=CHART_HEIGHT
        )


def _parse_moment(count: Mapping[str, Any]) -> datetime:
    # Without a zone: the axis is in UTC, as its title says.
    return datetime.fromisoformat(count["at"]["isoString"]).replace(tzinfo=None)


def tokens_by_day(tokens: Mapping[str, int], start: date, end: date) -> None:
    """Show tokens per day (ISO 8601), including empty days."""
    days = [start + timedelta(days=number) for number in range((end - start).days + 1)]
    rows = [{"day": day, "tokens": tokens.get(day.isoformat(), 0)} for day in days]
    st.bar_chart(
        rows, x="day", y="tokens", color=CHART_COLORS["blue"], x_label="", y_label="tokens", height=CHART_HEIGHT
    )


def _chart_data(rows: Sequence[Mapping[str, Any]]) -> Any:
    return alt.Data(values=[dict(row) for row in rows])  # type: ignore[no-untyped-call]


MOVE_COLORS = {"up": "green", "same": "gray", "down": "red", "not in all": "violet"}
SCORE_COLORS = {"Semantic score": "blue", "Keyword score": "orange", "Reranker": "green", "Recency": "violet"}
_SERIES_COLORS = ("blue", "orange", "green", "violet", "red", "gray")
_INTERVAL_TOOLTIP = [alt.Tooltip(f"{name}:Q", format=".4f") for name in ("value", "low", "high")]


def rank_moves(rows: Sequence[Mapping[str, Any]], searches: Sequence[str]) -> None:
    """Show a line per `chunk` through its `rank` in each search, colored by `move`."""
    last_rank = max(row["rank"] for row in rows)
    chart = (
        alt.Chart(_chart_data(rows))
        .mark_line(point=alt.OverlayMarkDef(size=90, filled=True), strokeWidth=2)
        .encode(
            x=alt.X("search:N", sort=list(searches), title=None, axis=alt.Axis(labelAngle=0, orient="top")),
            y=alt.Y(
                "rank:Q",
                scale=alt.Scale(reverse=True, domain=[0.5, last_rank + 0.5], nice=False),
                axis=alt.Axis(tickMinStep=1, format="d"),
                title="rank",
            ),
            color=_color_scale("move", MOVE_COLORS, "from the first to the last"),
            detail="chunk:N",
            tooltip=[alt.Tooltip("name:N", title="chunk"), "search:N", "rank:Q", "move:N"],
        )
        .properties(height=min(120 + 18 * last_rank, 480))
    )
    st.altair_chart(chart, width="stretch")


def score_parts(rows: Sequence[Mapping[str, Any]]) -> None:
    kinds = {
        kind: color for kind, color in SCORE_COLORS.items() if any(row["kind"] == kind and row["part"] for row in rows)
    }
    chart = (
        alt.Chart(_chart_data(rows))
        .mark_bar()
        .encode(
            x=alt.X("part:Q", title="score", stack=True, scale=alt.Scale(domain=[0, 1])),
            y=alt.Y("rank:O", title=None),
            color=_color_scale("kind", kinds, None),
            tooltip=["rank:O", "kind:N", alt.Tooltip("part:Q", format=".3f")],
        )
    )
    st.altair_chart(chart, width="stretch")


def search_steps(rows: Sequence[Mapping[str, Any]]) -> None:
    steps = dict.fromkeys(row["step"] for row in rows)
    bars = (
        alt.Chart(_chart_data(rows))
        .mark_bar(cornerRadius=2)
        .encode(
            x=alt.X("milliseconds:Q", title=None, stack=True),
            y=alt.Y("search:N", sort=None, title=None),
            color=_color_scale("step", dict(zip(steps, cycle(_SERIES_COLORS), strict=False)), None),
            order=alt.Order("order:Q"),
            tooltip=["search:N", "step:N", "milliseconds:Q"],
        )
        .properties(height=alt.Step(26))
    )
    st.altair_chart(bars, width="stretch")


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


def score_history(rows: Sequence[Mapping[str, Any]], *, title: str) -> None:
    """Show `value` per `setting` over `time` (ISO 8601) with its interval."""
    names = dict.fromkeys(str(row["setting"]) for row in rows)
    colors = dict(zip(names, cycle(_SERIES_COLORS), strict=False))
    base = alt.Chart(_chart_data(rows)).encode(
        x=alt.X("time:T", title=None, axis=alt.Axis(labelOverlap=True)), color=_color_scale("setting", colors, None)
    )
    tooltip = [alt.Tooltip("time:T", format="%d %b %Y %H:%M"), "setting:N", *_INTERVAL_TOOLTIP]
    spans = base.mark_rule(opacity=0.4, strokeWidth=2).encode(
        y=alt.Y("low:Q", title=title, scale=alt.Scale(zero=False)), y2="high:Q", tooltip=tooltip
    )
    lines = base.mark_line(point=alt.OverlayMarkDef(size=80, filled=True)).encode(y="value:Q", tooltip=tooltip)
    st.altair_chart(alt.layer(spans, lines).properties(height=260), width="stretch")


def _color_scale(name: str, colors: Mapping[str, str], title: str | None) -> Any:
    scale = alt.Scale(domain=list(colors), range=[CHART_COLORS[color] for color in colors.values()])
    return alt.Color(f"{name}:N", title=title, scale=scale, legend=alt.Legend(orient="top"))
