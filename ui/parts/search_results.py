"""Results of a search, with their words marked; judged for a question set."""

from __future__ import annotations

import html
import re
import unicodedata
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import frame, hit_tables
from ui.parts.hidden_passages import offer_hiding
from ui.parts.labels import document_label, format_count, format_milliseconds
from ui.parts.search_request import MODES, Wanted
from ui.parts.widgets import escape_markdown, format_code, show_page_image

_STOP_WORDS = """aan aber about above after again against all alla alle als anche and any are auch auf aus aux avec
because been before bei being below between bij bin bis bist both but can ces cette che chi come comme como con could
cual cuando cui dal dalla damit dann dans das dass dat dei del della delle dem den der des desde deze did die dies
diese dieser dieses dit doch does doing don donde door dove down durch during each een ein eine einem einen einer
eines ella elle ellos entre era est esta este esto etre few for from fue fur further geen gli had has hat hatte have
having hay heb heeft her here hers het hij him his hoe how ich ihr ils into ist its itself just kan kann kein keine
las lei les leur loro los lui maar mais man mas meer mein meme mes met mijn mit mon more most muy naar nach nada nei
nel nella nicht niet noch nog noi non nor nos not notre nous now nur oder off ohne once only ook other our ours out
over own par para pas per perche pero piu por porque pour quale quando que quel quelle questa questo qui quien same
sans sehr sei sein seine ser ses shall she should sich sie sin sind sobre some son sono sont sua such suo sur sus
tambien tes than that the their theirs them then there these they this those through tiene todo ton too tot tra uber
uit una und under une uno uns unter until upon van very voi vom von voor vor vos votre vous waar war was wat wel wenn
wer werden were what when where which while who whom whose why wie wieso wij will wir wird with would you your yours
zich zij zijn zonder zum zur"""
"""Of English, German, French, Spanish, Italian and Dutch, from three letters on, without accents."""
STOP_WORDS: Final = frozenset(_STOP_WORDS.split())
LIKELY, UNLIKELY = 0.7, 0.3
"""Probabilities from which on, and below which, results are called an answer or none."""
SETS = 20
"""Newest question sets that are offered."""
_NEW = "new:"
"""Before the name of a set, in the page's address, that the first judgement makes."""
_ROUND = "judging_round"
"""Of the session: the number of judgements, after each of which the thumbs show what the API has."""


@dataclass(frozen=True, slots=True)
class Set:
    """A question set, and what it holds of the question; `id` is None for one that the first judgement makes."""

    id: str | None
    name: str
    relevant: list[Json] = field(default_factory=list)


def choose_set(person: session.Person, wanted: Wanted) -> Set | None:
    """The set that judgements go to, and what the last one came to; None without one, or without the right."""
    if not (person.may("documents:write") and person.sees_all):
        return None
    sets = person.api.get("/v1/evaluations", namespaceId=wanted.namespace, pageSize=SETS)["evaluations"]
    set_names = {evaluation["id"]: evaluation["name"] for evaluation in sets}
    linked = session.read_parameter("set") or ""
    at = linked.removeprefix(_NEW)
    options = [*set_names, *([at] if linked.startswith(_NEW) else [])]
    left_column, right_column = st.columns([2, 3], vertical_alignment="bottom")
    chosen = left_column.selectbox(
        "Question set",
        options,
        index=options.index(at) if at in options else None,
        format_func=lambda set_id: f"{set_names[set_id]}  ·  {set_id[-6:]}" if set_id in set_names else set_id,
        placeholder="Choose one, or type a new name",
        accept_new_options=True,
        help="Keeps hits that you mark as right as answers to this question. Evaluations compares settings by them.",
    )
    session.set_parameters(set=chosen if chosen in set_names or not chosen else _NEW + chosen)
    with right_column:
        is_judged = frame.show_outcome()
    if not chosen:
        right_column.caption("With a question set, each hit can be marked as right or wrong.")
        return None
    if chosen not in set_names:
        right_column.caption(f"“{escape_markdown(chosen)}” is created with the first hit that you mark as right.")
        return Set(None, chosen)
    relevant = _relevant(person, wanted, chosen)
    if not is_judged:
        right_column.caption(f"{format_count(len(relevant), 'document')} marked as right for this question.")
    return Set(chosen, set_names[chosen], relevant)


def mark_result(person: session.Person, wanted: Wanted, chosen: Set | None, hit: Json, mode: str) -> None:
    if chosen is None or hit.get("namespaceId", wanted.namespace) != wanted.namespace:
        return
    rounds = st.session_state.get(_ROUND, 0)
    key = f"mark-{chosen.id}-{wanted.query}-{rounds}-{mode}-{hit['document']['id']}-{hit['chunk']['index']}"
    judge = partial(_judge, person, wanted, chosen, hit, key)
    st.feedback("thumbs", key=key, default=1 if is_right(chosen.relevant, hit) else None, on_change=judge)


def is_right(relevant: list[Json], hit: Json) -> bool:
    names = {hit["document"]["id"], hit["document"]["externalId"]}
    return any(names & {judged.get("documentId"), judged.get("externalId")} for judged in relevant)


def _judge(person: session.Person, wanted: Wanted, chosen: Set, hit: Json, key: str) -> None:
    """Send the judgement, read the question back, and say what is there now."""
    right = st.session_state.get(key) == 1
    st.session_state[_ROUND] = st.session_state.get(_ROUND, 0) + 1
    with frame.shown_refusal(frame.keep_outcome):
        frame.keep_outcome(_confirmed(person, wanted, chosen, hit, right=right))


def _confirmed(person: session.Person, wanted: Wanted, chosen: Set, hit: Json, *, right: bool) -> str:
    name = escape_markdown(hit["document"]["name"])
    if not right and (chosen.id is None or not is_right(chosen.relevant, hit)):
        return f"“{name}” was not marked as right: a question set keeps right documents, and all others count as wrong."
    title = escape_markdown(chosen.name)
    set_id = _send(person, wanted, chosen, hit, right=right)
    session.set_parameters(set=set_id)
    relevant = _relevant(person, wanted, set_id)
    if is_right(relevant, hit) is not right:
        return f"The API took the judgement, but does not show it: look at the question in “{title}”."
    verb = "is now marked as right" if right else "is not marked as right any more"
    return f"“{name}” {verb} in “{title}”: {format_count(len(relevant), 'right document')} for this question."


def _send(person: session.Person, wanted: Wanted, chosen: Set, hit: Json, *, right: bool) -> str:
    external: Json = {"externalId": hit["document"]["externalId"]}
    narrow: Json = {"filter": wanted.filter} if wanted.filter else {}
    scope = {"namespaceId": wanted.namespace}
    if chosen.id is None:
        question = {"query": wanted.query, "relevant": [external], **narrow}
        response = person.api.post("/v1/evaluations", {**scope, "name": chosen.name, "questions": [question]})
        return str(response["evaluation"]["id"])
    verdict = {"query": wanted.query, **external, "grade": int(right), **narrow}
    person.api.patch(f"/v1/evaluations/{chosen.id}", {**scope, "judge": [verdict]})
    return chosen.id


def _relevant(person: session.Person, wanted: Wanted, evaluation: str) -> list[Json]:
    query = {"namespaceId": wanted.namespace, "query": wanted.query, "pageSize": 1}
    questions = person.api.get(f"/v1/evaluations/{evaluation}/questions", **query)["questions"]
    return list(questions[0]["relevant"]) if questions else []


EXCERPT = 240
"""Characters of a chunk that are shown."""
STYLE = """<style>
.hit {font-size: .9rem; line-height: 1.5; overflow-wrap: anywhere; overflow-x: auto}
.hit table {border-collapse: collapse; margin-top: .35rem; font-size: .85rem; overflow-wrap: normal}
.hit th, .hit td {border: 1px solid rgba(128,128,128,.35); padding: .1rem .5rem; text-align: left}
.hit mark {background: rgba(217,140,31,.28); color: inherit; border-radius: 2px}
.st-key-lab h2 {font-size: 1.35rem; padding-top: .25rem}
</style>"""
_LETTER = r"[\w\u00ad\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u0963\u0980-\u09e3\u0b80-\u0bd7\u200b-\u200d\u2060]"
_WORD = re.compile(rf"{_LETTER}+(?:&{_LETTER}+)+|[^\W_]+(?:\+\+|#)|{_LETTER}+")
_MARKS = (
    (re.compile(r"!?\[([^\]\n]*)\]\((?:[^()\s]|\([^()\s]*\))*\)"), r"\1"),
    (re.compile(r"^ {0,3}(?:#{1,6} |> ?|```\w*$|\|?(?: *:?-{3,}:? *\|)+(?: *:?-{3,}:? *)?$)", re.MULTILINE), ""),
    (re.compile(r"^ *\| ?| ?\| *$", re.MULTILINE), ""),
    (re.compile(r" \| "), " · "),
    (re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1"), r"\2"),
)
"""Marks of Markdown, and what a reader sees in their place."""
_ALIKE = str.maketrans("ةىیکہ", "هييكه")
"""Letters of Arabic and Persian that are typed for one another."""


def show_results(person: session.Person, wanted: Wanted, found: dict[str, Json], nothing: str) -> None:
    """Show one column per search; an arrow marks the rank difference from the first column. `nothing`: the advice of a
    column without a hit, unless the answer has a note."""
    chosen = choose_set(person, wanted)
    first = next(iter(found))
    places = rank_chunks(found[first])
    words = words_of(wanted.query)
    for column, (mode, data) in zip(st.columns(len(found)), found.items(), strict=True):
        with column:
            st.header(MODES[mode])
            st.caption(_told(data))
            st.caption(describe_answerable(data["answerable"]))
            if data.get("note"):
                st.info(escape_markdown(data["note"]), icon=":material/spellcheck:")
            elif not data["results"]:
                st.caption(f"Nothing found. {nothing}")
            for rank, hit in enumerate(data["results"], 1):
                move = "" if mode == first else _move(places.get(chunk_key(hit)), rank)
                with st.container(border=True, gap="small"):
                    _card(person, wanted, hit, rank, move, words)
                    if hit["chunk"]["page"] and person.may("documents:read"):
                        _page_picture(person, wanted, hit, f"{mode}-{rank}")
                    mark_result(person, wanted, chosen, hit, mode)
                    space = hit.get("namespaceId", wanted.namespace)
                    offer_hiding(person, space, hit["document"]["id"], hit["chunk"]["index"], f"{mode}-{rank}")


def rank_chunks(data: Json) -> dict[tuple[str, int], int]:
    return {chunk_key(hit): rank for rank, hit in enumerate(data["results"], 1)}


def chunk_key(hit: Json) -> tuple[str, int]:
    return hit["document"]["id"], hit["chunk"]["index"]


def words_of(query: str) -> frozenset[str]:
    """The words of a query that say what it is about; those in capitals that would be stop words as they are."""
    words = _WORD.findall(query)
    bare = {word: _bare(word) for word in words}
    about = {
        bare_word
        for word, bare_word in bare.items()
        if bare_word not in STOP_WORDS and (len(bare_word) > 2 or not word.isalnum())
    }
    names = {word for word in words if len(word) > 1 and word.isupper()}
    return frozenset(about | (names - {word for word in names if bare[word] in about}) or bare.values())


def plain_text(markdown: str) -> str:
    for pattern, replacement in _MARKS:
        markdown = pattern.sub(replacement, markdown)
    return markdown


def best_excerpt(text: str, words: frozenset[str]) -> str:
    """The part of the text with the most of the words, as HTML with those words marked; nothing in it is markup."""
    flat = " ".join(plain_text(text).split())
    spots = [match for match in _WORD.finditer(flat) if _is_one(match.group(), words)]
    near = [sum(spot.start() <= neighbor.end() <= spot.start() + EXCERPT - 40 for neighbor in spots) for spot in spots]
    start = max(0, spots[near.index(max(near))].start() - 40) if spots else 0
    if start:
        start = flat.find(" ", start) + 1
    window = flat[start : start + EXCERPT]
    prefix, suffix = "… " if start else "", " …" if start + EXCERPT < len(flat) else ""
    return prefix + _marked(window, words) + suffix


def score_parts(hit: Json) -> str:
    explanation, figures = hit["explanation"], []
    for name in ("semantic", "keyword"):
        rank = explanation[f"{name}Rank"]
        figures.append(f"{name} {explanation[f'{name}Score'] or 0:.3f}" + (f" (rank {rank})" if rank else ""))
    if explanation.get("recencyScore") is not None:
        figures.append(f"recency {explanation['recencyScore']:.3f}")
    if explanation.get("rerankScore") is not None:
        figures.append(f"reranker {explanation['rerankScore']:.3f} (rank {explanation['rankBefore']} before)")
    return " · ".join(figures)


def _told(data: Json) -> str:
    took = sum(value or 0.0 for value in data["timings"].values())
    summary = f"{format_count(len(data['results']), 'result')} · {format_milliseconds(took)}"
    if "reranked" in data:
        summary += " · reranked" if data["reranked"] else " · not reranked: the reranker is away or late"
    return summary


def describe_answerable(answerable: Json) -> str:
    probability = answerable["probability"]
    verdict = "Perhaps answered" if probability >= UNLIKELY else "Probably not answered"
    verdict = "Likely answered" if probability >= LIKELY else verdict
    return f"{verdict} by these documents: {probability:.0%} ({answerable['basis']})."


def _is_one(word: str, words: frozenset[str]) -> bool:
    """Tell whether it is one of the words, or another form of one: the longer begins with the shorter."""
    lower = _bare(word)
    if lower in words or word in words:
        return True
    if len(lower) < 3 or lower in STOP_WORDS:
        return False
    return any(_forms(*sorted((lower, query_word), key=len)) for query_word in words)


def _bare(word: str) -> str:
    """The word as it is compared: without capitals, accents, points and what is not seen, its digits those of ASCII."""
    letters = unicodedata.normalize("NFKD", word.casefold()).translate(_ALIKE)
    return "".join(
        str(unicodedata.decimal(letter)) if letter.isdecimal() else letter
        for letter in letters
        if not unicodedata.combining(letter) and unicodedata.category(letter) != "Cf"
    )


def _forms(short: str, long: str) -> bool:
    extra = len(long) - len(short)
    return long.startswith(short) and (extra <= 1 if len(short) == 3 else extra <= 3)


def _marked(text: str, words: frozenset[str]) -> str:
    pieces, end = [], 0
    for match in _WORD.finditer(text):
        if _is_one(match.group(), words):
            pieces += [html.escape(text[end : match.start()]), f"<mark>{html.escape(match.group())}</mark>"]
            end = match.end()
    return "".join([*pieces, html.escape(text[end:])])


def _move(before: int | None, now: int) -> str:
    if before is None:
        return " :violet-badge[new]"
    if before == now:
        return " :gray-badge[=]"
    return f" :green-badge[▲ {before - now}]" if before > now else f" :red-badge[▼ {now - before}]"


def _card(person: session.Person, wanted: Wanted, hit: Json, rank: int, move: str, words: frozenset[str]) -> None:
    at, name = hit["chunk"], document_label(hit["document"]["name"])
    page = f" · page {at['page']}" if at["page"] else ""
    st.markdown(f"**{rank}** · {hit['score']:.3f}{move}")
    label = f"**{escape_markdown(name if len(name) <= 80 else name[:80] + ' …')}** · chunk {at['index']}{page}"
    if person.may("documents:read"):
        space = hit.get("namespaceId", wanted.namespace)
        query_params = {"namespace": space, "document": hit["document"]["id"], "chunk": str(at["index"])}
        st.page_link("views/documents.py", label=label, query_params=query_params)
    else:
        st.markdown(label)
    if (url := hit["document"]["externalId"]).startswith(("http://", "https://")) and url != name:
        st.caption(format_code(url))
    context = hit.get("context", {})
    passage = hit_tables.read_passage(hit["content"], context.get("header", ""))
    path = [*context.get("header", "").split("\n")[:-1], *map(plain_text, passage.headings)]
    if path:
        st.caption(escape_markdown(" > ".join(path)))
    table = hit_tables.build_table(passage, partial(_marked, words=words))
    excerpt = best_excerpt(passage.text or ("" if table else hit["content"]), words)
    st.html(f'<div class="hit">{excerpt}{table}</div>')
    st.caption(score_parts(hit))
    if copies := hit.get("duplicates"):
        names = ", ".join(escape_markdown(document_label(copy["name"])) for copy in copies)
        st.caption(f"The same text is in: {names}")
    if context and context["content"] != hit["content"]:
        with st.expander(f"Context: characters {context['start']:,} to {context['end']:,}"):
            st.text(context["content"])


def _page_picture(person: session.Person, wanted: Wanted, hit: Json, place: str) -> None:
    """The page that the passage begins on, with the passage shaded; drawn when it is opened."""
    at, document = hit["chunk"], hit["document"]["id"]
    key = f"page-{place}-{document}-{at['index']}-{wanted.query}"
    with st.expander(f"Page {at['page']}", icon=":material/find_in_page:", key=key, on_change="rerun") as picture:
        if picture.open:
            show_page_image(person, hit.get("namespaceId", wanted.namespace), document, at["page"], at["index"])
