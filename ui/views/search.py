"""The search lab: one query in columns side by side, how the ranks move, where scores and time come from."""

from __future__ import annotations

import json
from typing import Any

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import charts, frame, snippets, status
from ui.parts.text import plain

KINDS = ("semantic", "hybrid", "keyword")
TITLES = {"semantic": "Semantic", "hybrid": "Hybrid", "keyword": "Keyword"}


def main() -> None:
    who = session.person()
    st.title("Search lab")
    namespace = frame.choose_namespace(who)
    query, wanted = _form()
    if wanted is None:
        return
    if not query:
        status.empty(
            "Nothing to search for yet.", "Type a question or a few words; the same query runs in each column."
        )
        return
    found = {kind: _search(who, namespace, query, wanted, kind) for kind in wanted["columns"]}
    _columns(namespace, found)
    for kind, data in found.items():
        if data is not None:
            with st.expander(f"{TITLES[kind]}: where score and time come from"):
                _explain(data, wanted, kind)
    with st.expander("Copy as curl or Python", icon=":material/code:"):
        path, body = _request(namespace, query, wanted, wanted["columns"][-1])
        body.pop("explain")
        snippets.show(who, path, body)


def _form() -> tuple[str, Json | None]:
    """The query and how to search, kept in the page's address; None where they cannot be used."""
    query = st.text_input("Query", value=session.parameter("q") or "", placeholder="What do you want to know?")
    left, middle, right = st.columns([2, 2, 1])
    linked = [kind for kind in (session.parameter("columns") or "").split(",") if kind in KINDS]
    columns = left.segmented_control(
        "Columns",
        KINDS,
        selection_mode="multi",
        default=linked or ["semantic", "hybrid"],
        format_func=lambda kind: TITLES[kind],
    )
    weight = middle.slider("Weight of meaning in hybrid", 0.0, 1.0, _number("weight", 0.5), 0.05)
    top = right.number_input("Results", 1, 100, int(_number("top", 10)))
    with st.expander("Filter and threshold", icon=":material/filter_alt:"):
        typed = st.text_input(
            "Metadata (JSON object: every key must match, a list means any of)",
            value=session.parameter("filter") or "",
            placeholder='{"team": ["docs", "sales"]}',
        )
        threshold = st.slider("Least score", 0.0, 1.0, _number("least", 0.0), 0.05)
    session.remember(
        q=query,
        columns=",".join(columns),
        weight=f"{weight:g}",
        top=str(int(top)),
        filter=typed,
        least=f"{threshold:g}" if threshold else None,
    )
    try:
        metadata = json.loads(typed) if typed.strip() else None
    except ValueError:
        st.error('The filter is not JSON. It is an object, such as {"team": "docs"}.')
        return query, None
    if not columns:
        st.info("Choose at least one column.")
        return query, None
    ordered = [kind for kind in KINDS if kind in columns]
    return query.strip(), {
        "columns": ordered,
        "weight": weight,
        "topK": int(top),
        "threshold": threshold,
        "metadata": metadata,
    }


def _number(name: str, default: float) -> float:
    try:
        return min(max(float(session.parameter(name) or default), 0.0), 100.0 if name == "top" else 1.0)
    except ValueError:
        return default


def _request(namespace: str, query: str, wanted: Json, kind: str) -> tuple[str, Json]:
    body: Json = {
        "namespaceId": namespace,
        "query": query,
        "topK": wanted["topK"],
        "scoreThreshold": wanted["threshold"],
        "explain": True,
    }
    if wanted["metadata"]:
        body["filter"] = {"metadata": wanted["metadata"]}
    if kind == "semantic":
        return "/v1/search", body
    weight = 0.0 if kind == "keyword" else wanted["weight"]
    body["hybridConfig"] = {"semanticWeight": round(weight, 6), "keywordWeight": round(1 - weight, 6)}
    return "/v1/search/hybrid", body


def _search(who: session.Person, namespace: str, query: str, wanted: Json, kind: str) -> Json | None:
    path, body = _request(namespace, query, wanted, kind)
    try:
        return who.api.post(path, body)
    except ApiError as error:
        if session.unauthorized(error):
            raise
        frame.show(error)
        return None


def _columns(namespace: str, found: dict[str, Json | None]) -> None:
    """The results side by side; an arrow says how far a hit stands from its place in the first column."""
    shown = {kind: data for kind, data in found.items() if data is not None}
    if not shown:
        return
    first = next(iter(shown))
    places = {_chunk(hit): rank for rank, hit in enumerate(shown[first]["results"], 1)}
    for place, (kind, data) in zip(st.columns(len(shown)), shown.items(), strict=True):
        with place:
            st.subheader(TITLES[kind])
            took = sum(value or 0.0 for value in data["timings"].values())
            st.caption(f"{len(data['results'])} results · {took:.0f} ms")
            if not data["results"]:
                st.caption("Nothing found. Lower the least score, or take the filter away.")
            for rank, hit in enumerate(data["results"], 1):
                move = "" if kind == first else _move(places.get(_chunk(hit)), rank)
                _card(namespace, hit, rank, move)


def _chunk(hit: Json) -> tuple[str, int]:
    return hit["document"]["id"], hit["chunk"]["index"]


def _move(before: int | None, now: int) -> str:
    if before is None:
        return " :violet-badge[new]"
    if before == now:
        return " :gray-badge[=]"
    return f" :green-badge[▲ {before - now}]" if before > now else f" :red-badge[▼ {now - before}]"


def _card(namespace: str, hit: Json, rank: int, move: str) -> None:
    page = f" · page {hit['chunk']['page']}" if hit["chunk"]["page"] else ""
    with st.container(border=True):
        st.markdown(f"**{rank}** · **{hit['score']:.3f}**{move}")
        st.markdown(f"**{plain(hit['document']['name'])[:300]}**")
        st.text(_excerpt(hit["content"]))
        place = {"namespace": namespace, "document": hit["document"]["id"], "chunk": str(hit["chunk"]["index"])}
        label = f"chunk {hit['chunk']['index']}{page}"
        st.page_link("views/documents.py", label=label, icon=":material/description:", query_params=place)


def _excerpt(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 280 else words[:280] + " …"


def _explain(data: Json, wanted: Json, kind: str) -> None:
    weight = float({"semantic": 1.0, "keyword": 0.0}.get(kind, 0.0) if kind != "hybrid" else wanted["weight"])
    rows: list[dict[str, Any]] = []
    for rank, hit in enumerate(data["results"], 1):
        parts = hit["explanation"]
        rows.append({"rank": rank, "kind": "meaning", "part": weight * (parts["semanticScore"] or 0.0)})
        rows.append({"rank": rank, "kind": "words", "part": (1 - weight) * (parts["keywordScore"] or 0.0)})
    left, right = st.columns(2)
    with left:
        charts.score_parts(rows)
    with right:
        times = [
            {"step": name, "count": round(value, 1)} for name, value in data["timings"].items() if value is not None
        ]
        st.markdown("**Milliseconds by step**")
        charts.counts(times, name="step")
    table = [
        {"rank": rank, "score": hit["score"], **hit["explanation"], "document": hit["document"]["name"]}
        for rank, hit in enumerate(data["results"], 1)
    ]
    if table:
        st.dataframe(table, hide_index=True, width="stretch")


main()
