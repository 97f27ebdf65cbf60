"""Pictures of searches and evaluations: ranks that move, parts of scores, steps, intervals, and how they change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import streamlit as st

from ui.parts.charts import COLORS

MOVES = {"up": "green", "same": "gray", "down": "red", "not in all": "violet"}
KINDS = {"Semantic score": "blue", "Keyword score": "orange", "Reranker": "green", "Recency": "violet"}
_SERIES = ("blue", "orange", "green", "violet", "red", "gray")


def rank_moves(rows: Sequence[Mapping[str, Any]], searches: Sequence[str]) -> None:
    """A line for each `chunk` from its `rank` in one of the searches to that in the next, coloured by its `move`."""
    most = max(row["rank"] for row in rows)
    chart = (
        alt.Chart(_data(rows))
        .mark_line(point=alt.OverlayMarkDef(size=90, filled=True), strokeWidth=2)
        .encode(
            x=alt.X("search:N", sort=list(searches), title=None, axis=alt.Axis(labelAngle=0, orient="top")),
            y=alt.Y(
                "rank:Q",
                scale=alt.Scale(reverse=True, domain=[0.5, most + 0.5], nice=False),
                axis=alt.Axis(tickMinStep=1, format="d"),
                title="rank",
            ),
            color=_color("move", MOVES, "from the first to the last"),
            detail="chunk:N",
            tooltip=[alt.Tooltip("name:N", title="chunk"), "search:N", "rank:Q", "move:N"],
        )
        .properties(height=min(120 + 18 * most, 480))
    )
    st.altair_chart(chart, width="stretch")


def score_parts(rows: Sequence[Mapping[str, Any]]) -> None:
    """Per result (`rank`) the weighted parts of its score, stacked."""
    kinds = {kind: color for kind, color in KINDS.items() if any(row["kind"] == kind for row in rows)}
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


def intervals(rows: Sequence[Mapping[str, Any]], *, title: str, zero: bool = False) -> None:
    """Per `setting` its `value` with the interval from `low` to `high`; `zero` draws the line of no difference."""
    order = list(dict.fromkeys(str(row["setting"]) for row in rows))
    base = alt.Chart(_data(rows)).encode(y=alt.Y("setting:N", sort=order, title=None))
    exact = [alt.Tooltip(f"{name}:Q", format=".4f") for name in ("value", "low", "high")]
    told = ["setting:N", *exact]
    color = alt.value(COLORS["blue"])
    axis = alt.X("low:Q", title=title, scale=alt.Scale(zero=False))
    lines = base.mark_rule(strokeWidth=3, opacity=0.55).encode(x=axis, x2="high:Q", color=color, tooltip=told)
    points = base.mark_point(size=110, filled=True, opacity=1).encode(x="value:Q", color=color, tooltip=told)
    layers = [lines, points]
    if zero:
        line = alt.Chart(_data([{"at": 0}])).mark_rule(strokeDash=[4, 4], color=COLORS["gray"]).encode(x="at:Q")
        layers.insert(0, line)
    st.altair_chart(alt.layer(*layers).properties(height=alt.Step(34)), width="stretch")


def history(rows: Sequence[Mapping[str, Any]], *, title: str) -> None:
    """A line per `setting` of `value` over `time` (ISO 8601), with its interval from `low` to `high`."""
    order = list(dict.fromkeys(str(row["setting"]) for row in rows))
    scale = alt.Scale(domain=order, range=[COLORS[_SERIES[at % len(_SERIES)]] for at in range(len(order))])
    base = alt.Chart(_data(rows)).encode(
        x=alt.X("time:T", title=None, axis=alt.Axis(labelOverlap=True)),
        color=alt.Color("setting:N", title=None, scale=scale, legend=alt.Legend(orient="top")),
    )
    told = [
        alt.Tooltip("time:T", format="%d %b %Y %H:%M"),
        "setting:N",
        *(alt.Tooltip(f"{name}:Q", format=".4f") for name in ("value", "low", "high")),
    ]
    spans = base.mark_rule(opacity=0.4, strokeWidth=2).encode(
        y=alt.Y("low:Q", title=title, scale=alt.Scale(zero=False)), y2="high:Q", tooltip=told
    )
    lines = base.mark_line(point=alt.OverlayMarkDef(size=80, filled=True)).encode(y="value:Q", tooltip=told)
    st.altair_chart(alt.layer(spans, lines).properties(height=260), width="stretch")


def _color(name: str, colors: Mapping[str, str], title: str | None) -> Any:
    scale = alt.Scale(domain=list(colors), range=[COLORS[color] for color in colors.values()])
    return alt.Color(f"{name}:N", title=title, scale=scale, legend=alt.Legend(orient="top"))


def _data(rows: Sequence[Mapping[str, Any]]) -> Any:
    return alt.Data(values=[dict(row) for row in rows])  # type: ignore[no-untyped-call]
