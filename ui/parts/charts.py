"""Charts of runs, usage and searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import cycle
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


def show_funnel(progress: Mapping[str, int]) -> None:
    """Show how many documents have reached each stage, with failed ones beside them."""
    counts = {stage: progress.get(stage, 0) for stage in STAGES}
    counts |= {"failed": progress["failed"]} if progress.get("failed") else {}
    _bars(counts, alt.condition("datum.name == 'failed'", alt.value(COLORS["red"]), alt.value(COLORS["blue"])))


def stage_times(timings: Mapping[str, float]) -> None:
    stages = sorted(timings.items(), key=lambda item: STEPS.index(item[0]) if item[0] in STEPS else len(STEPS))
    _bars({name: round(value, 3) for name, value in stages}, alt.value(COLORS["violet"]), "seconds")


LEAST_POINTS = 3
"""With fewer there are numbers instead of a chart."""
HEIGHT = 220


def show_counts(counts: Mapping[str, int]) -> None:
    if len(counts) < LEAST_POINTS:
        _numbers(counts)
    else:
        _bars(dict(sorted(counts.items(), key=lambda item: -item[1])), alt.value(COLORS["blue"]))


def _numbers(counts: Mapping[str, int]) -> None:
    with st.container(horizontal=True):
        for name, count in counts.items():
            st.metric(name, f"{count:,}")


def _bars(values: Mapping[str, float], color: Any, title: str | None = None) -> None:
    rows = [{"name": name, "value": value, "order": at} for at, (name, value) in enumerate(values.items())]
    axis = alt.Axis() if title else alt.Axis(tickMinStep=1)
    scale = alt.Undefined if any(values.values()) else alt.Scale(domain=[0, 1])
    bars = (
        alt.Chart(_data(rows))
        .mark_bar(cornerRadiusEnd=3)
        .encode(
            x=alt.X("value:Q", title=title, axis=axis, scale=scale),
            y=alt.Y("name:N", sort=alt.SortField("order"), title=None),
            color=color,
            tooltip=["name:N", "value:Q"],
        )
    )
    number = alt.Text("value:Q", format=",.6~g")
    labels = bars.mark_text(align="left", dx=4).encode(text=number, color=alt.value(COLORS["gray"]))
    st.altair_chart((bars + labels).properties(height=alt.Step(24)), width="stretch")


def documents_by(counts: Sequence[Mapping[str, Any]]) -> None:
    """Stacked bars of indexed and failed documents of each hour or day; their sums where there are few."""
    colors = {"indexed": COLORS["green"], "failed": COLORS["red"]}
    if sum(any(count[kind] for kind in colors) for count in counts) < LEAST_POINTS:
        _numbers({kind.capitalize(): sum(count[kind] for count in counts) for kind in colors})
        return
    rows = [{"time": _moment(count), **{kind: count[kind] for kind in colors}} for count in counts]
    st.bar_chart(rows, x="time", y=list(colors), color=[*colors.values()], x_label="", y_label="", height=HEIGHT)


def latency_by_hour(hours: Sequence[Mapping[str, Any]]) -> None:
    """Lines of p50 and p95 in milliseconds; nothing where few hours have searches."""
    if sum(bool(hour["count"]) for hour in hours) >= LEAST_POINTS:
        rows = [{"time": _moment(hour), "p50": hour["p50"], "p95": hour["p95"]} for hour in hours]
        colors: list[Any] = [COLORS["blue"], COLORS["violet"]]
        st.line_chart(rows, x="time", y=["p50", "p95"], color=colors, x_label="", y_label="milliseconds", height=HEIGHT)


def _moment(count: Mapping[str, Any]) -> datetime:
    """Return the moment without its zone: the axis shows UTC, as its title says."""
    return datetime.fromisoformat(count["at"]["isoString"]).replace(tzinfo=None)


def tokens_by_day(tokens: Mapping[str, int], start: date, end: date) -> None:
    """A bar for each day (ISO 8601) from the first to the last, also for days without any."""
    days = [start + timedelta(days=number) for number in range((end - start).days + 1)]
    rows = [{"day": day, "tokens": tokens.get(day.isoformat(), 0)} for day in days]
    st.bar_chart(rows, x="day", y="tokens", color=COLORS["blue"], x_label="", y_label="tokens", height=HEIGHT)


def _data(rows: Sequence[Mapping[str, Any]]) -> Any:
    return alt.Data(values=[dict(row) for row in rows])  # type: ignore[no-untyped-call]


MOVES = {"up": "green", "same": "gray", "down": "red", "not in all": "violet"}
KINDS = {"Semantic score": "blue", "Keyword score": "orange", "Reranker": "green", "Recency": "violet"}
_SERIES = ("blue", "orange", "green", "violet", "red", "gray")
_EXACT = [alt.Tooltip(f"{name}:Q", format=".4f") for name in ("value", "low", "high")]


def rank_moves(rows: Sequence[Mapping[str, Any]], searches: Sequence[str]) -> None:
    """A line for each `chunk` from its `rank` in one of the searches to that in the next, coloured by its `move`."""
    last_rank = max(row["rank"] for row in rows)
    chart = (
        alt.Chart(_data(rows))
        .mark_line(point=alt.OverlayMarkDef(size=90, filled=True), strokeWidth=2)
        .encode(
            x=alt.X("search:N", sort=list(searches), title=None, axis=alt.Axis(labelAngle=0, orient="top")),
            y=alt.Y(
                "rank:Q",
                scale=alt.Scale(reverse=True, domain=[0.5, last_rank + 0.5], nice=False),
                axis=alt.Axis(tickMinStep=1, format="d"),
                title="rank",
            ),
            color=_color("move", MOVES, "from the first to the last"),
            detail="chunk:N",
            tooltip=[alt.Tooltip("name:N", title="chunk"), "search:N", "rank:Q", "move:N"],
        )
        .properties(height=min(120 + 18 * last_rank, 480))
    )
    st.altair_chart(chart, width="stretch")


def score_parts(rows: Sequence[Mapping[str, Any]]) -> None:
    kinds = {kind: color for kind, color in KINDS.items() if any(row["kind"] == kind and row["part"] for row in rows)}
    chart = (
        alt.Chart(_data(rows))
        .mark_bar()
        .encode(
            x=alt.X("part:Q", title="score", stack=True, scale=alt.Scale(domain=[0, 1])),
            y=alt.Y("rank:O", title=None),
            color=_color("kind", kinds, None),
            tooltip=["rank:O", "kind:N", alt.Tooltip("part:Q", format=".3f")],
        )
    )
    st.altair_chart(chart, width="stretch")


def search_steps(rows: Sequence[Mapping[str, Any]]) -> None:
    steps = dict.fromkeys(row["step"] for row in rows)
    bars = (
        alt.Chart(_data(rows))
        .mark_bar(cornerRadius=2)
        .encode(
            x=alt.X("milliseconds:Q", title=None, stack=True),
            y=alt.Y("search:N", sort=None, title=None),
            color=_color("step", dict(zip(steps, cycle(_SERIES), strict=False)), None),
            order=alt.Order("order:Q"),
            tooltip=["search:N", "step:N", "milliseconds:Q"],
        )
        .properties(height=alt.Step(26))
    )
    st.altair_chart(bars, width="stretch")


def interval_chart(rows: Sequence[Mapping[str, Any]], *, title: str, zero: bool = False) -> None:
    """Per `setting` its `value` with the interval from `low` to `high`; `zero` draws the line of no difference."""
    order = list(dict.fromkeys(str(row["setting"]) for row in rows))
    base = alt.Chart(_data(rows)).encode(y=alt.Y("setting:N", sort=order, title=None))
    tooltip = ["setting:N", *_EXACT]
    color = alt.value(COLORS["blue"])
    axis = alt.X("low:Q", title=title, scale=alt.Scale(zero=False))
    lines = base.mark_rule(strokeWidth=3, opacity=0.55).encode(x=axis, x2="high:Q", color=color, tooltip=tooltip)
    points = base.mark_point(size=110, filled=True, opacity=1).encode(x="value:Q", color=color, tooltip=tooltip)
    layers = [lines, points]
    if zero:
        line = alt.Chart(_data([{"at": 0}])).mark_rule(strokeDash=[4, 4], color=COLORS["gray"]).encode(x="at:Q")
        layers.insert(0, line)
    st.altair_chart(alt.layer(*layers).properties(height=alt.Step(34)), width="stretch")


def score_history(rows: Sequence[Mapping[str, Any]], *, title: str) -> None:
    """A line per `setting` of `value` over `time` (ISO 8601), with its interval from `low` to `high`."""
    names = dict.fromkeys(str(row["setting"]) for row in rows)
    colors = dict(zip(names, cycle(_SERIES), strict=False))
    base = alt.Chart(_data(rows)).encode(
        x=alt.X("time:T", title=None, axis=alt.Axis(labelOverlap=True)), color=_color("setting", colors, None)
    )
    tooltip = [alt.Tooltip("time:T", format="%d %b %Y %H:%M"), "setting:N", *_EXACT]
    spans = base.mark_rule(opacity=0.4, strokeWidth=2).encode(
        y=alt.Y("low:Q", title=title, scale=alt.Scale(zero=False)), y2="high:Q", tooltip=tooltip
    )
    lines = base.mark_line(point=alt.OverlayMarkDef(size=80, filled=True)).encode(y="value:Q", tooltip=tooltip)
    st.altair_chart(alt.layer(spans, lines).properties(height=260), width="stretch")


def _color(name: str, colors: Mapping[str, str], title: str | None) -> Any:
    scale = alt.Scale(domain=list(colors), range=[COLORS[color] for color in colors.values()])
    return alt.Color(f"{name}:N", title=title, scale=scale, legend=alt.Legend(orient="top"))
