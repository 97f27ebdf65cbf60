"""Results of a search with marked words, judged for a question set."""

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
from ui.parts.search_request import MODE_LABELS, SearchRequest
from ui.parts.widgets import escape_markdown, format_code, show_page_image

# English, German, French, Spanish, Italian and Dutch, from three letters, without accents.
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
STOP_WORDS: Final = frozenset(_STOP_WORDS.split())
# Bounds for likely answered and probably not answered.
ANSWER_VERDICTS = {"likely": "Likely answered", "unclear": "Perhaps answered", "unlikely": "Probably not answered"}
MAX_OFFERED_SETS = 20
# In the page's address, before the name of a set created by the first judgement.
NEW_SET_PREFIX = "new:"
# Number of judgements; a new number makes the thumbs show the API's state.
ROUND_KEY = "judging_round"


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """Question set with the question's documents; `id` is None before the first judgement."""

    id: str | None
    name: str
    relevant: list[Json] = field(default_factory=list)


def choose_set(person: session.Person, request: SearchRequest) -> QuestionSet | None:
    """Show the choice of a question set for judgements; None without a choice or the right."""
    if not (person.may("documents:write") and person.sees_all):
        return None
    sets = person.api.get("/v1/evaluations", namespaceId=request.namespace, pageSize=MAX_OFFERED_SETS)["evaluations"]
    set_names = {evaluation["id"]: evaluation["name"] for evaluation in sets}
    linked = session.read_parameter("set") or ""
    set_name = linked.removeprefix(NEW_SET_PREFIX)
    options = [*set_names, *([set_name] if linked.startswith(NEW_SET_PREFIX) else [])]
    left_column, right_column = st.columns([2, 3], vertical_alignment="bottom")
    chosen = left_column.selectbox(
        "Question set",
        options,
        index=options.index(set_name) if set_name in options else None,
        format_func=lambda set_id: f"{set_names[set_id]}  ·  {set_id[-6:]}" if set_id in set_names else set_id,
        placeholder="Choose one, or type a new name",
        accept_new_options=True,
        help="Keeps hits that you mark as right as answers to this question. Evaluations compares settings by them.",
    )
    session.set_parameters(set=chosen if chosen in set_names or not chosen else NEW_SET_PREFIX + chosen)
    with right_column:
        is_judged = frame.show_outcome()
    if not chosen:
        right_column.caption("With a question set, each hit can be marked as right or wrong.")
        return None
    if chosen not in set_names:
        right_column.caption(f"“{escape_markdown(chosen)}” is created with the first hit that you mark as right.")
        return QuestionSet(None, chosen)
    relevant = _read_relevant(person, request, chosen)
    if not is_judged:
        right_column.caption(f"{format_count(len(relevant), 'document')} marked as right for this question.")
    return QuestionSet(chosen, set_names[chosen], relevant)


def mark_result(
    person: session.Person, request: SearchRequest, chosen: QuestionSet | None, hit: Json, mode: str
) -> None:
    if chosen is None or hit.get("namespaceId", request.namespace) != request.namespace:
        return
    rounds = st.session_state.get(ROUND_KEY, 0)
    key = f"mark-{chosen.id}-{request.query}-{rounds}-{mode}-{hit['document']['id']}-{hit['chunk']['index']}"
    judge = partial(_send_judgement, person, request, chosen, hit, key)
    st.feedback("thumbs", key=key, default=1 if is_right(chosen.relevant, hit) else None, on_change=judge)


def is_right(relevant: list[Json], hit: Json) -> bool:
    names = {hit["document"]["id"], hit["document"]["externalId"]}
    return any(names & {judged.get("documentId"), judged.get("externalId")} for judged in relevant)


def _send_judgement(person: session.Person, request: SearchRequest, chosen: QuestionSet, hit: Json, key: str) -> None:
    """Send the judgement and keep the resulting state."""
    right = st.session_state.get(key) == 1
    st.session_state[ROUND_KEY] = st.session_state.get(ROUND_KEY, 0) + 1
    with frame.shown_refusal(frame.keep_outcome):
        frame.keep_outcome(_apply_judgement(person, request, chosen, hit, right=right))


def _apply_judgement(
    person: session.Person, request: SearchRequest, chosen: QuestionSet, hit: Json, *, right: bool
) -> str:
    name = escape_markdown(hit["document"]["name"])
    if not right and (chosen.id is None or not is_right(chosen.relevant, hit)):
        return f"“{name}” was not marked as right: a question set keeps right documents, and all others count as wrong."
    title = escape_markdown(chosen.name)
    set_id = _write_judgement(person, request, chosen, hit, right=right)
    session.set_parameters(set=set_id)
    relevant = _read_relevant(person, request, set_id)
    if is_right(relevant, hit) is not right:
        return f"The API took the judgement, but does not show it: look at the question in “{title}”."
    verb = "is now marked as right" if right else "is not marked as right any more"
    return f"“{name}” {verb} in “{title}”: {format_count(len(relevant), 'right document')} for this question."


def _write_judgement(
    person: session.Person, request: SearchRequest, chosen: QuestionSet, hit: Json, *, right: bool
) -> str:
    external: Json = {"externalId": hit["document"]["externalId"]}
    question_filter: Json = {"filter": request.filter} if request.filter else {}
    scope = {"namespaceId": request.namespace}
    if chosen.id is None:
        question = {"query": request.query, "relevant": [external], **question_filter}
        response = person.api.post("/v1/evaluations", {**scope, "name": chosen.name, "questions": [question]})
        return str(response["evaluation"]["id"])
    verdict = {"query": request.query, **external, "grade": int(right), **question_filter}
    person.api.patch(f"/v1/evaluations/{chosen.id}", {**scope, "judge": [verdict]})
    return chosen.id


def _read_relevant(person: session.Person, request: SearchRequest, evaluation: str) -> list[Json]:
    query = {"namespaceId": request.namespace, "query": request.query, "pageSize": 1}
    questions = person.api.get(f"/v1/evaluations/{evaluation}/questions", **query)["questions"]
    return list(questions[0]["relevant"]) if questions else []


# Shown of a chunk.
EXCERPT_CHARACTERS = 240
HIT_STYLE = """<style>
.hit {font-size: .9rem; line-height: 1.5; overflow-wrap: anywhere; overflow-x: auto}
.hit table {border-collapse: collapse; margin-top: .35rem; font-size: .85rem; overflow-wrap: normal}
.hit th, .hit td {border: 1px solid rgba(128,128,128,.35); padding: .1rem .5rem; text-align: left}
.hit mark {background: rgba(217,140,31,.28); color: inherit; border-radius: 2px}
.st-key-lab h2 {font-size: 1.35rem; padding-top: .25rem}
</style>"""
LETTER_CLASS = (
    r"[\w\u00ad\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u0963\u0980-\u09e3\u0b80-\u0bd7\u200b-\u200d\u2060]"
)
WORD_PATTERN = re.compile(rf"{LETTER_CLASS}+(?:&{LETTER_CLASS}+)+|[^\W_]+(?:\+\+|#)|{LETTER_CLASS}+")
# Replacements of Markdown marks for plain text.
MARKDOWN_PATTERNS = (
    (re.compile(r"!?\[([^\]\n]*)\]\((?:[^()\s]|\([^()\s]*\))*\)"), r"\1"),
    (re.compile(r"^ {0,3}(?:#{1,6} |> ?|```\w*$|\|?(?: *:?-{3,}:? *\|)+(?: *:?-{3,}:? *)?$)", re.MULTILINE), ""),
    (re.compile(r"^ *\| ?| ?\| *$", re.MULTILINE), ""),
    (re.compile(r" \| "), " · "),
    (re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1"), r"\2"),
)
# Interchangeable letters of Arabic and Persian.
ARABIC_VARIANTS = str.maketrans("ةىیکہ", "هييكه")


def show_results(person: session.Person, request: SearchRequest, answers: dict[str, Json], advice: str) -> None:
    """Show one column per search, with rank differences from the first column."""
    chosen = choose_set(person, request)
    first = next(iter(answers))
    former_ranks = rank_chunks(answers[first])
    words = query_words(request.query)
    for column, (mode, data) in zip(st.columns(len(answers)), answers.items(), strict=True):
        with column:
            st.header(MODE_LABELS[mode])
            st.caption(_summarize_answer(data))
            st.caption(describe_answerable(data["answerable"]))
            if data.get("note"):
                st.info(escape_markdown(data["note"]), icon=":material/spellcheck:")
            elif not data["results"]:
                st.caption(f"Nothing found. {advice}")
            for rank, hit in enumerate(data["results"], 1):
                move = "" if mode == first else _format_move(former_ranks.get(chunk_key(hit)), rank)
                with st.container(border=True, gap="small"):
                    _show_card(person, request, hit, rank, move, words)
                    if hit["chunk"]["page"] and person.may("documents:read"):
                        _show_page(person, request, hit, f"{mode}-{rank}")
                    mark_result(person, request, chosen, hit, mode)
                    space = hit.get("namespaceId", request.namespace)
                    offer_hiding(person, space, hit["document"]["id"], hit["chunk"]["index"], f"{mode}-{rank}")


def rank_chunks(data: Json) -> dict[tuple[str, int], int]:
    return {chunk_key(hit): rank for rank, hit in enumerate(data["results"], 1)}


def chunk_key(hit: Json) -> tuple[str, int]:
    return hit["document"]["id"], hit["chunk"]["index"]


def query_words(query: str) -> frozenset[str]:
    """Return the query's content words; capitalized stop words such as IT count."""
    words = WORD_PATTERN.findall(query)
    bare = {word: _normalize_word(word) for word in words}
    about = {
        bare_word
        for word, bare_word in bare.items()
        if bare_word not in STOP_WORDS and (len(bare_word) > 2 or not word.isalnum())
    }
    names = {word for word in words if len(word) > 1 and word.isupper()}
    return frozenset(about | (names - {word for word in names if bare[word] in about}) or bare.values())


def plain_text(markdown: str) -> str:
    for pattern, replacement in MARKDOWN_PATTERNS:
        markdown = pattern.sub(replacement, markdown)
    return markdown


def best_excerpt(text: str, words: frozenset[str]) -> str:
    """Return the part of the text with most of the words as escaped HTML, words marked."""
    flat = " ".join(plain_text(text).split())
    spots = [match for match in WORD_PATTERN.finditer(flat) if _matches_query(match.group(), words)]
    near = [
        sum(spot.start() <= neighbor.end() <= spot.start() + EXCERPT_CHARACTERS - 40 for neighbor in spots)
        for spot in spots
    ]
    start = max(0, spots[near.index(max(near))].start() - 40) if spots else 0
    if start:
        start = flat.find(" ", start) + 1
    window = flat[start : start + EXCERPT_CHARACTERS]
    prefix, suffix = "… " if start else "", " …" if start + EXCERPT_CHARACTERS < len(flat) else ""
    return prefix + _mark_words(window, words) + suffix


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


def _summarize_answer(data: Json) -> str:
    took = sum(value or 0.0 for value in data["timings"].values())
    summary = f"{format_count(len(data['results']), 'result')} · {format_milliseconds(took)}"
    if "reranked" in data:
        summary += " · reranked" if data["reranked"] else " · not reranked: the reranker is away or late"
    return summary


def describe_answerable(answerable: Json) -> str:
    """Return the verdict with its measured share, or with the probability of a fit."""
    lead = ANSWER_VERDICTS[answerable["verdict"]]
    if "answeredShare" in answerable:
        return f"{lead} by these documents: of questions judged so, {answerable['answeredShare']:.0%} had an answer."
    return f"{lead} by these documents: {answerable['probability']:.0%} ({answerable['basis']})."


def _matches_query(word: str, words: frozenset[str]) -> bool:
    """Check for a query word or another form of it."""
    lower = _normalize_word(word)
    if lower in words or word in words:
        return True
    if len(lower) < 3 or lower in STOP_WORDS:
        return False
    return any(_is_word_form(*sorted((lower, query_word), key=len)) for query_word in words)


def _normalize_word(word: str) -> str:
    """Fold case, accents, vowel points, invisible characters and digits."""
    letters = unicodedata.normalize("NFKD", word.casefold()).translate(ARABIC_VARIANTS)
    return "".join(
        str(unicodedata.decimal(letter)) if letter.isdecimal() else letter
        for letter in letters
        if not unicodedata.combining(letter) and unicodedata.category(letter) != "Cf"
    )


def _is_word_form(short: str, long: str) -> bool:
    extra = len(long) - len(short)
    return long.startswith(short) and (extra <= 1 if len(short) == 3 else extra <= 3)


def _mark_words(text: str, words: frozenset[str]) -> str:
    pieces, end = [], 0
    for match in WORD_PATTERN.finditer(text):
        if _matches_query(match.group(), words):
            pieces += [html.escape(text[end : match.start()]), f"<mark>{html.escape(match.group())}</mark>"]
            end = match.end()
    return "".join([*pieces, html.escape(text[end:])])


def _format_move(former_rank: int | None, rank: int) -> str:
    if former_rank is None:
        return " :violet-badge[new]"
    if former_rank == rank:
        return " :gray-badge[=]"
    return f" :green-badge[▲ {former_rank - rank}]" if former_rank > rank else f" :red-badge[▼ {rank - former_rank}]"


def _show_card(
    person: session.Person, request: SearchRequest, hit: Json, rank: int, move: str, words: frozenset[str]
) -> None:
    chunk, name = hit["chunk"], document_label(hit["document"]["name"])
    page = f" · page {chunk['page']}" if chunk["page"] else ""
    st.markdown(f"**{rank}** · {hit['score']:.3f}{move}")
    label = f"**{escape_markdown(name if len(name) <= 80 else name[:80] + ' …')}** · chunk {chunk['index']}{page}"
    if person.may("documents:read"):
        space = hit.get("namespaceId", request.namespace)
        query_params = {"namespace": space, "document": hit["document"]["id"], "chunk": str(chunk["index"])}
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
    table = hit_tables.build_table(passage, partial(_mark_words, words=words))
    excerpt = best_excerpt(passage.text or ("" if table else hit["content"]), words)
    st.html(f'<div class="hit">{excerpt}{table}</div>')
    st.caption(score_parts(hit))
    if copies := hit.get("duplicates"):
        names = ", ".join(escape_markdown(document_label(copy["name"])) for copy in copies)
        st.caption(f"The same text is in: {names}")
    if context and context["content"] != hit["content"]:
        with st.expander(f"Context: characters {context['start']:,} to {context['end']:,}"):
            st.text(context["content"])


def _show_page(person: session.Person, request: SearchRequest, hit: Json, key_prefix: str) -> None:
    # Drawn only when opened; the passage is shaded.
    chunk, document = hit["chunk"], hit["document"]["id"]
    key = f"page-{key_prefix}-{document}-{chunk['index']}-{request.query}"
    with st.expander(f"Page {chunk['page']}", icon=":material/find_in_page:", key=key, on_change="rerun") as picture:
        if picture.open:
            show_page_image(person, hit.get("namespaceId", request.namespace), document, chunk["page"], chunk["index"])
