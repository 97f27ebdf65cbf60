"""What a search found, in columns side by side: how the ranks move, and why a hit may be one."""

from __future__ import annotations

import html
import re

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts.labels import count, milliseconds
from ui.parts.text import plain

TITLES = {"semantic": "Semantic", "hybrid": "Hybrid", "keyword": "Keyword"}
EXCERPT = 240
"""Characters of a chunk that are shown."""
STYLE = """<style>
.hit {font-size: .9rem; line-height: 1.5; overflow-wrap: anywhere}
.hit mark {background: rgba(217,140,31,.28); color: inherit; border-radius: 2px}
</style>"""
_WORD = re.compile(r"\w+")


def show(who: session.Person, namespace: str, query: str, found: dict[str, Json], nothing: str) -> None:
    """A column a search; an arrow says how far a hit stands from its place in the first column. `nothing`: what a
    column without a hit advises."""
    st.html(STYLE)
    first = next(iter(found))
    places = ranks(found[first])
    words = frozenset(word.lower() for word in _WORD.findall(query) if len(word) > 2)
    for place, (kind, data) in zip(st.columns(len(found)), found.items(), strict=True):
        with place:
            st.subheader(TITLES[kind])
            took = sum(value or 0.0 for value in data["timings"].values())
            st.caption(f"{count(len(data['results']), 'result')} · {milliseconds(took)}")
            if not data["results"]:
                st.caption(f"Nothing found. {nothing}")
            for rank, hit in enumerate(data["results"], 1):
                move = "" if kind == first else _move(places.get(chunk(hit)), rank)
                _card(who, namespace, hit, rank, move, words)


def ranks(data: Json) -> dict[tuple[str, int], int]:
    """Where each chunk stands."""
    return {chunk(hit): rank for rank, hit in enumerate(data["results"], 1)}


def chunk(hit: Json) -> tuple[str, int]:
    """What makes two hits the same."""
    return hit["document"]["id"], hit["chunk"]["index"]


def excerpt(text: str, words: frozenset[str]) -> str:
    """The part of the text with the most of the words, as HTML with those words marked; nothing in it is markup."""
    flat = " ".join(text.split())
    spots = [found for found in _WORD.finditer(flat) if found.group().lower() in words]
    near = [sum(spot.start() <= other.end() <= spot.start() + EXCERPT - 40 for other in spots) for spot in spots]
    start = max(0, spots[near.index(max(near))].start() - 40) if spots else 0
    if start:
        start = flat.find(" ", start) + 1
    shown = flat[start : start + EXCERPT]
    before, after = "… " if start else "", " …" if start + EXCERPT < len(flat) else ""
    return before + _marked(shown, words) + after


def _marked(text: str, words: frozenset[str]) -> str:
    parts, end = [], 0
    for found in _WORD.finditer(text):
        if found.group().lower() in words:
            parts += [html.escape(text[end : found.start()]), f"<mark>{html.escape(found.group())}</mark>"]
            end = found.end()
    return "".join([*parts, html.escape(text[end:])])


def _move(before: int | None, now: int) -> str:
    if before is None:
        return " :violet-badge[new]"
    if before == now:
        return " :gray-badge[=]"
    return f" :green-badge[▲ {before - now}]" if before > now else f" :red-badge[▼ {now - before}]"


def _card(who: session.Person, namespace: str, hit: Json, rank: int, move: str, words: frozenset[str]) -> None:
    at, name = hit["chunk"], " ".join((hit["document"]["name"] or "").split())
    page = f" · page {at['page']}" if at["page"] else ""
    with st.container(border=True, gap="small"):
        st.markdown(f"**{rank}** · {hit['score']:.3f}{move}")
        label = f"**{plain(name if len(name) <= 80 else name[:80] + ' …')}** · chunk {at['index']}{page}"
        if who.may("documents:read"):
            place = {"namespace": namespace, "document": hit["document"]["id"], "chunk": str(at["index"])}
            st.page_link("views/documents.py", label=label, query_params=place)
        else:
            st.markdown(label)
        st.html(f'<div class="hit">{excerpt(hit["content"], words)}</div>')
