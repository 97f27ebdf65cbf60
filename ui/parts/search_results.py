"""What a search found, in columns side by side: how ranks move, what a score is made of, whether it is right."""

from __future__ import annotations

import html
import re
import unicodedata

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import search_judging
from ui.parts.labels import called, count, milliseconds
from ui.parts.search_request import MODES, Wanted
from ui.parts.stop_words import STOP_WORDS
from ui.parts.widgets import plain

EXCERPT = 240
"""Characters of a chunk that are shown."""
STYLE = """<style>
.hit {font-size: .9rem; line-height: 1.5; overflow-wrap: anywhere}
.hit mark {background: rgba(217,140,31,.28); color: inherit; border-radius: 2px}
.st-key-lab h2 {font-size: 1.35rem; padding-top: .25rem}
</style>"""
_LETTER = r"[\w\u00ad\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u0963\u0980-\u09e3\u0b80-\u0bd7\u200b-\u200d\u2060]"
_WORD = re.compile(rf"{_LETTER}+(?:&{_LETTER}+)+|[^\W_]+(?:\+\+|#)|{_LETTER}+")
_ALIKE = str.maketrans("ةىیکہ", "هييكه")
"""Letters of Arabic and Persian that are typed for one another."""


def show(who: session.Person, wanted: Wanted, found: dict[str, Json], nothing: str) -> None:
    """A column a search; an arrow says how far a hit stands from its place in the first column. `nothing`: what a
    column without a hit advises, unless the answer tells why it has none."""
    st.html(STYLE)
    chosen = search_judging.choose(who, wanted)
    first = next(iter(found))
    places = ranks(found[first])
    words = words_of(wanted.query)
    with st.container(key="lab"):
        for place, (mode, data) in zip(st.columns(len(found)), found.items(), strict=True):
            with place:
                st.header(MODES[mode])
                st.caption(_told(data))
                if not data["results"]:
                    st.caption(data.get("note") or f"Nothing found. {nothing}")
                for rank, hit in enumerate(data["results"], 1):
                    move = "" if mode == first else _move(places.get(chunk(hit)), rank)
                    with st.container(border=True, gap="small"):
                        _card(who, wanted, hit, rank, move, words)
                        search_judging.mark(who, wanted, chosen, hit, mode)


def ranks(data: Json) -> dict[tuple[str, int], int]:
    """Where each chunk stands."""
    return {chunk(hit): rank for rank, hit in enumerate(data["results"], 1)}


def chunk(hit: Json) -> tuple[str, int]:
    """What makes two hits the same."""
    return hit["document"]["id"], hit["chunk"]["index"]


def words_of(query: str) -> frozenset[str]:
    """The words of a query that say what it is about; those in capitals that would be stop words as they are."""
    found = _WORD.findall(query)
    bare = {word: _bare(word) for word in found}
    about = {one for word, one in bare.items() if one not in STOP_WORDS and (len(one) > 2 or not word.isalnum())}
    names = {word for word in found if len(word) > 1 and word.isupper()}
    return frozenset(about | (names - {word for word in names if bare[word] in about}) or bare.values())


def excerpt(text: str, words: frozenset[str]) -> str:
    """The part of the text with the most of the words, as HTML with those words marked; nothing in it is markup."""
    flat = " ".join(text.split())
    spots = [found for found in _WORD.finditer(flat) if _is_one(found.group(), words)]
    near = [sum(spot.start() <= other.end() <= spot.start() + EXCERPT - 40 for other in spots) for spot in spots]
    start = max(0, spots[near.index(max(near))].start() - 40) if spots else 0
    if start:
        start = flat.find(" ", start) + 1
    shown = flat[start : start + EXCERPT]
    before, after = "… " if start else "", " …" if start + EXCERPT < len(flat) else ""
    return before + _marked(shown, words) + after


def parts(hit: Json) -> str:
    """What a score is made of, in one line."""
    told = hit["explanation"]
    said = [
        f"semantic {told['semanticScore'] or 0:.3f}" + _at(told["semanticRank"]),
        f"keyword {told['keywordScore'] or 0:.3f}" + _at(told["keywordRank"]),
    ]
    if told.get("recencyScore") is not None:
        said.append(f"recency {told['recencyScore']:.3f}")
    if told.get("rerankScore") is not None:
        said.append(f"reranker {told['rerankScore']:.3f} (rank {told['rankBefore']} before)")
    return " · ".join(said)


def _at(rank: int | None) -> str:
    return "" if rank is None else f" (rank {rank})"


def _told(data: Json) -> str:
    took = sum(value or 0.0 for value in data["timings"].values())
    said = f"{count(len(data['results']), 'result')} · {milliseconds(took)}"
    if "reranked" in data:
        said += " · reranked" if data["reranked"] else " · not reranked: the reranker is away or late"
    return said


def _is_one(word: str, words: frozenset[str]) -> bool:
    """Whether it is one of the words, or another form of one: the longer begins with the shorter."""
    lower = _bare(word)
    if lower in words or word in words:
        return True
    if len(lower) < 3 or lower in STOP_WORDS:
        return False
    return any(_forms(*sorted((lower, one), key=len)) for one in words)


def _bare(word: str) -> str:
    """The word as it is compared: without capitals, accents, points and what is not seen, its digits those of ASCII."""
    letters = unicodedata.normalize("NFKD", word.casefold()).translate(_ALIKE)
    return "".join(
        str(unicodedata.decimal(letter)) if letter.isdecimal() else letter
        for letter in letters
        if not unicodedata.combining(letter) and unicodedata.category(letter) != "Cf"
    )


def _forms(short: str, long: str) -> bool:
    more = len(long) - len(short)
    return long.startswith(short) and (more <= 1 if len(short) == 3 else more <= 3)


def _marked(text: str, words: frozenset[str]) -> str:
    pieces, end = [], 0
    for found in _WORD.finditer(text):
        if _is_one(found.group(), words):
            pieces += [html.escape(text[end : found.start()]), f"<mark>{html.escape(found.group())}</mark>"]
            end = found.end()
    return "".join([*pieces, html.escape(text[end:])])


def _move(before: int | None, now: int) -> str:
    if before is None:
        return " :violet-badge[new]"
    if before == now:
        return " :gray-badge[=]"
    return f" :green-badge[▲ {before - now}]" if before > now else f" :red-badge[▼ {now - before}]"


def _card(who: session.Person, wanted: Wanted, hit: Json, rank: int, move: str, words: frozenset[str]) -> None:
    at, name = hit["chunk"], called(hit["document"]["name"])
    page = f" · page {at['page']}" if at["page"] else ""
    st.markdown(f"**{rank}** · {hit['score']:.3f}{move}")
    label = f"**{plain(name if len(name) <= 80 else name[:80] + ' …')}** · chunk {at['index']}{page}"
    if who.may("documents:read"):
        space = hit.get("namespaceId", wanted.namespace)
        place = {"namespace": space, "document": hit["document"]["id"], "chunk": str(at["index"])}
        st.page_link("views/documents.py", label=label, query_params=place)
    else:
        st.markdown(label)
    context = hit.get("context", {})
    if header := context.get("header"):
        st.caption(plain(header))
    st.html(f'<div class="hit">{excerpt(hit["content"], words)}</div>')
    st.caption(parts(hit))
    if context and context["content"] != hit["content"]:
        with st.expander(f"Context: characters {context['start']:,} to {context['end']:,}"):
            st.text(context["content"])
