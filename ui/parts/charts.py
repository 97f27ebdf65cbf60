"""Charts of runs, usage and searches."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
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


_EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
"""A Monday: weeks begin with it."""


def show_funnel(progress: Mapping[str, int]) -> None:
    """Show how many documents have reached each stage, with failed ones beside them."""
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
    stages = sorted(timings.items(), key=lambda item: STEPS.index(item[0]) if item[0] in STEPS else len(STEPS))
    rows = [{"step": name, "seconds": round(value, 3), "order": at} for at, (name, value) in enumerate(stages)]
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


LEAST_POINTS = 3
"""With fewer there are numbers instead of a chart."""


def show_counts(rows: Sequence[Mapping[str, Any]], *, name: str, colors: Mapping[str, str] | None = None) -> None:
    """Horizontal bars of `count` by `name`, largest first; numbers where they are few."""
    if len(rows) < LEAST_POINTS:
        with st.container(horizontal=True):
            for row in rows:
                st.metric(str(row[name]), f"{row['count']:,}")
        return
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


STEPS_OF_TIME = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 15, 60, 360, 1440, 10080))
"""What one bar may stand for."""
BARS = (12, 30)
"""How many bars there are at least and, up to 30 weeks, at most."""


def over_time(rows: Sequence[Mapping[str, Any]], *, colors: Mapping[str, str]) -> None:
    """Stacked bars of `count` by `kind` over `time` (ISO 8601), with a place for each step of time, UTC."""
    slots = time_buckets([datetime.fromisoformat(str(row["time"])) for row in rows])
    step = slots[1] - slots[0]
    counted: Counter[tuple[datetime, str]] = Counter()
    for row in rows:
        at = slots[0] + (datetime.fromisoformat(str(row["time"])) - slots[0]) // step * step
        counted[at, str(row["kind"])] += row["count"]
    style = "%d %b" if step >= timedelta(days=1) else "%d %b %H:%M" if slots[0].date() != slots[-1].date() else "%H:%M"
    points = [
        {"time": slot.strftime(style), "order": index, "kind": kind, "count": counted[slot, kind]}
        for index, slot in enumerate(slots)
        for kind in colors
    ]
    _columns(points, colors, "")


def by_day(rows: Sequence[Mapping[str, Any]], what: str, start: date, end: date) -> None:
    """A bar of `count` for each `day` (ISO 8601) from the first to the last, empty ones too; `what` is counted."""
    counts = {str(row["day"]): row["count"] for row in rows}
    days = [start + timedelta(days=number) for number in range((end - start).days + 1)]
    points = [
        {"time": day.strftime("%d %b"), "order": index, "kind": what, "count": counts.get(day.isoformat(), 0)}
        for index, day in enumerate(days)
    ]
    _columns(points, {what: "blue"}, what)


def time_buckets(times: Sequence[datetime]) -> list[datetime]:
    """The beginnings of steps of one length that hold all these times, 12 at least; the last one holds the newest."""
    first, last = min(times).astimezone(UTC), max(times).astimezone(UTC)
    min_bars, max_bars = BARS
    step = next((width for width in STEPS_OF_TIME if (last - first) / width < max_bars - 1), STEPS_OF_TIME[-1])
    end = _EPOCH + (last - _EPOCH) // step * step
    start = min(_EPOCH + (first - _EPOCH) // step * step, end - (min_bars - 1) * step)
    return [start + number * step for number in range((end - start) // step + 1)]


def _columns(points: Sequence[Mapping[str, Any]], colors: Mapping[str, str], title: str) -> None:
    """Stacked columns of `count` by `kind` at each `time`, in the order of `order`; a legend for several kinds."""
    chart = (
        alt.Chart(_data(points))
        .mark_bar()
        .encode(
            x=alt.X(
                "time:O",
                sort=alt.SortField("order"),
                title=None,
                axis=alt.Axis(labelAngle=0, labelOverlap="greedy", labelSeparation=8),
            ),
            y=alt.Y("count:Q", title=title or None, axis=alt.Axis(tickMinStep=1, format="~s")),
            color=alt.Color(
                "kind:N",
                title=None,
                scale=alt.Scale(domain=list(colors), range=[COLORS[c] for c in colors.values()]),
                legend=alt.Legend(orient="top") if len(colors) > 1 else None,
            ),
            tooltip=["time:O", "kind:N", alt.Tooltip("count:Q", format=",")],
        )
        .properties(height=200)
    )
    st.altair_chart(chart, width="stretch")


def show_latency(rows: Sequence[Mapping[str, Any]]) -> None:
    """Show the number of searches by duration: `count` by `milliseconds`, on a scale that doubles."""
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


def _data(rows: Sequence[Mapping[str, Any]]) -> Any:
    return alt.Data(values=[dict(row) for row in rows])  # type: ignore[no-untyped-call]


def _with_numbers(bars: alt.Chart, value: str) -> Any:
    number = alt.Text(value, format=",.6~g")
    labels = bars.mark_text(align="left", dx=4).encode(text=number, color=alt.value(COLORS["gray"]))
    return (bars + labels).properties(height=alt.Step(24))


MOVES = {"up": "green", "same": "gray", "down": "red", "not in all": "violet"}
KINDS = {"Semantic score": "blue", "Keyword score": "orange", "Reranker": "green", "Recency": "violet"}
_SERIES = ("blue", "orange", "green", "violet", "red", "gray")


def rank_moves(rows: Sequence[Mapping[str, Any]], searches: Sequence[str]) -> None:
    """A line for each `chunk` from its `rank` in one of the searches to that in the next, coloured by its `move`."""
    last_rank = max(row["rank"] for row in rows)
    chart = (
        alt.Chart(_series_data(rows))
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
    """Per result (`rank`) the weighted parts of its score, stacked."""
    kinds = {kind: color for kind, color in KINDS.items() if any(row["kind"] == kind for row in rows)}
    chart = (
        alt.Chart(_series_data(rows))
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
    """The steps of each search, one after the other, in milliseconds."""
    bars = (
        alt.Chart(_series_data(rows))
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


def interval_chart(rows: Sequence[Mapping[str, Any]], *, title: str, zero: bool = False) -> None:
    """Per `setting` its `value` with the interval from `low` to `high`; `zero` draws the line of no difference."""
    order = list(dict.fromkeys(str(row["setting"]) for row in rows))
    base = alt.Chart(_series_data(rows)).encode(y=alt.Y("setting:N", sort=order, title=None))
    exact = [alt.Tooltip(f"{name}:Q", format=".4f") for name in ("value", "low", "high")]
    tooltip = ["setting:N", *exact]
    color = alt.value(COLORS["blue"])
    axis = alt.X("low:Q", title=title, scale=alt.Scale(zero=False))
    lines = base.mark_rule(strokeWidth=3, opacity=0.55).encode(x=axis, x2="high:Q", color=color, tooltip=tooltip)
    points = base.mark_point(size=110, filled=True, opacity=1).encode(x="value:Q", color=color, tooltip=tooltip)
    layers = [lines, points]
    if zero:
        line = alt.Chart(_series_data([{"at": 0}])).mark_rule(strokeDash=[4, 4], color=COLORS["gray"]).encode(x="at:Q")
        layers.insert(0, line)
    st.altair_chart(alt.layer(*layers).properties(height=alt.Step(34)), width="stretch")


def score_history(rows: Sequence[Mapping[str, Any]], *, title: str) -> None:
    """A line per `setting` of `value` over `time` (ISO 8601), with its interval from `low` to `high`."""
    order = list(dict.fromkeys(str(row["setting"]) for row in rows))
    scale = alt.Scale(domain=order, range=[COLORS[_SERIES[at % len(_SERIES)]] for at in range(len(order))])
    base = alt.Chart(_series_data(rows)).encode(
        x=alt.X("time:T", title=None, axis=alt.Axis(labelOverlap=True)),
        color=alt.Color("setting:N", title=None, scale=scale, legend=alt.Legend(orient="top")),
    )
    tooltip = [
        alt.Tooltip("time:T", format="%d %b %Y %H:%M"),
        "setting:N",
        *(alt.Tooltip(f"{name}:Q", format=".4f") for name in ("value", "low", "high")),
    ]
    spans = base.mark_rule(opacity=0.4, strokeWidth=2).encode(
        y=alt.Y("low:Q", title=title, scale=alt.Scale(zero=False)), y2="high:Q", tooltip=tooltip
    )
    lines = base.mark_line(point=alt.OverlayMarkDef(size=80, filled=True)).encode(y="value:Q", tooltip=tooltip)
    st.altair_chart(alt.layer(spans, lines).properties(height=260), width="stretch")


def _color(name: str, colors: Mapping[str, str], title: str | None) -> Any:
    scale = alt.Scale(domain=list(colors), range=[COLORS[color] for color in colors.values()])
    return alt.Color(f"{name}:N", title=title, scale=scale, legend=alt.Legend(orient="top"))


def _series_data(rows: Sequence[Mapping[str, Any]]) -> Any:
    return alt.Data(values=[dict(row) for row in rows])  # type: ignore[no-untyped-call]
