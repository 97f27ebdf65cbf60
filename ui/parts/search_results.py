"""Results of a search with marked words, judged for a question set."""

from __future__ import annotations

import html
import re
import unicodedata
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from ui import session
from ui.client import ApiError, Json
from ui.parts import document_actions, frame, hit_tables
from ui.parts.hidden_passages import offer_hiding
from ui.parts.labels import document_label, format_count, format_milliseconds
from ui.parts.search_request import MODE_LABELS, SearchRequest
from ui.parts.widgets import escape_markdown, show_page_image

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
# Titles of the API's verdicts.
ANSWER_VERDICTS = {"likely": "Likely answered", "unclear": "Perhaps answered", "unlikely": "Probably not answered"}
MAX_OFFERED_SETS = 20
# Gets the judgements of people without a chosen set.
DEFAULT_SET = "Search lab"
# Marks a name of a set in the page's address: the first judgement creates the set.
NEW_SET_PREFIX = "new:"
# Number of judgements, a part of the thumbs' keys: after each one, they show the API's state.
JUDGEMENT_COUNT_KEY = "judgement_count"


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """Question set. `id`: None before the first judgement; `relevant`: right documents of the current query."""

    id: str | None
    name: str
    relevant: list[Json] = field(default_factory=list)


def choose_set(person: session.Person, request: SearchRequest) -> QuestionSet | None:
    """Show the choice of a question set for judgements, by default DEFAULT_SET; None without the permission."""
    if not (person.may("documents:write") and person.sees_all):
        return None
    scope: Json = {"namespaceId": request.namespace, "pageSize": MAX_OFFERED_SETS}
    sets = person.api.recall("/v1/evaluations", **scope)["evaluations"]
    set_names = {evaluation["id"]: evaluation["name"] for evaluation in sets}
    linked_set = session.read_parameter("set") or ""
    id_or_name = linked_set.removeprefix(NEW_SET_PREFIX)
    options = [*set_names, *([id_or_name] if linked_set.startswith(NEW_SET_PREFIX) else [])]
    chosen = st.selectbox(
        "Question set",
        options,
        index=options.index(id_or_name) if id_or_name in options else None,
        format_func=lambda set_id: f"{set_names[set_id]}  ·  {set_id[-6:]}" if set_id in set_names else set_id,
        placeholder=f"Question set: {DEFAULT_SET}",
        accept_new_options=True,
        label_visibility="collapsed",
    )
    session.set_parameters(set=chosen if chosen in set_names or not chosen else NEW_SET_PREFIX + chosen)
    chosen = chosen or next((key for key, name in set_names.items() if name == DEFAULT_SET), DEFAULT_SET)
    if chosen not in set_names:
        return QuestionSet(None, chosen)
    return QuestionSet(chosen, set_names[chosen], _read_relevant(person, request, chosen))


def _show_judgements(chosen: QuestionSet | None) -> None:
    """Show the last judgement's result, or the state of the question in the set."""
    if frame.show_outcome() or chosen is None or not session.read_parameter("set"):
        return
    if chosen.id is None:
        st.caption(f"“{escape_markdown(chosen.name)}” is created with the first hit that you mark as right.")
    else:
        st.caption(f"{format_count(len(chosen.relevant), 'document')} marked as right for this question.")


def mark_result(
    person: session.Person, request: SearchRequest, chosen: QuestionSet | None, hit: Json, mode: str
) -> None:
    if chosen is None or hit.get("namespaceId", request.namespace) != request.namespace:
        return
    count = st.session_state.get(JUDGEMENT_COUNT_KEY, 0)
    key = f"mark-{chosen.id}-{request.query}-{count}-{mode}-{hit['document']['id']}-{hit['chunk']['index']}"
    judge = partial(_send_judgement, person, request, chosen, hit, key)
    st.feedback("thumbs", key=key, default=1 if is_right(chosen.relevant, hit) else None, on_change=judge)


def is_right(relevant: list[Json], hit: Json) -> bool:
    names = {hit["document"]["id"], hit["document"]["externalId"]}
    return any(names & {judged.get("documentId"), judged.get("externalId")} for judged in relevant)


def _send_judgement(person: session.Person, request: SearchRequest, chosen: QuestionSet, hit: Json, key: str) -> None:
    """Send a judgement and keep its outcome for the next run of the script."""
    right = st.session_state.get(key) == 1
    st.session_state[JUDGEMENT_COUNT_KEY] = st.session_state.get(JUDGEMENT_COUNT_KEY, 0) + 1
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


# Shown text of a chunk, and of it before the first marked word.
EXCERPT_CHARACTERS, LEAD_CHARACTERS = 240, 40
# Per search mode: the API draws a page for each.
MAX_THUMBNAILS = 3
MAX_KEPT_THUMBNAILS, THUMBNAIL_WIDTH = 60, 84
_THUMBNAILS_KEY = "thumbnails"
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


def show_results(
    person: session.Person, request: SearchRequest, answers: dict[str, Json], advice: str, chosen: QuestionSet | None
) -> None:
    """Show one column per search, with rank differences from the first column."""
    _show_judgements(chosen)
    first = next(iter(answers))
    former_ranks = rank_chunks(answers[first])
    words = query_words(request.query)
    thumbnails: list[tuple[DeltaGenerator, str, Json]] = []
    badges: list[tuple[DeltaGenerator, str, str]] = []
    for column, (mode, data) in zip(st.columns(len(answers)), answers.items(), strict=True):
        with column:
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                st.header(MODE_LABELS[mode], width="content")
                verdict, share_help = describe_answerable(data["answerable"])
                about = f"{share_help} Time: {_list_steps(data)}."
                st.caption(f"{_summarize_answer(data)} · {verdict}", width="content", help=about)
            if data.get("note"):
                st.info(escape_markdown(data["note"]), icon=":material/spellcheck:")
            elif not data["results"]:
                st.caption(f"Nothing found. {advice}")
            for rank, hit in enumerate(data["results"], 1):
                move = "" if mode == first else _format_move(former_ranks.get(chunk_key(hit)), rank)
                space, has_page = hit.get("namespaceId", request.namespace), bool(hit["chunk"]["page"])
                with st.container(border=True, key=f"hit_{mode}_{rank}"):
                    text_column = st.container()
                    if has_page and person.may("documents:read") and rank <= MAX_THUMBNAILS:
                        text_column, picture_column = st.columns([5, 1], gap="small")
                        thumbnails.append((picture_column.empty(), space, hit))
                    with text_column:
                        _show_card(person, space, hit, rank, words)
                    with st.container(horizontal=True, vertical_alignment="center", key=f"foot_{mode}_{rank}"):
                        st.caption(f"{hit['score']:.3f}{move} · {score_parts(hit)}", width="stretch")
                        badges.append((st.empty(), space, hit["document"]["id"]))
                        mark_result(person, request, chosen, hit, mode)
                        _offer_actions(person, request, hit, f"{mode}-{rank}")
    _show_badges(person, badges)
    # After the texts: the API draws a page in some tenths of a second.
    for slot, space, hit in thumbnails:
        if picture := _read_thumbnail(person, space, hit):
            slot.image(picture, width=THUMBNAIL_WIDTH, alt=f"Page {hit['chunk']['page']} with the passage")


def _show_badges(person: session.Person, badges: list[tuple[DeltaGenerator, str, str]]) -> None:
    """Show who may see the document of each slot."""
    if not person.may("documents:read") or person.api.viewer:
        return
    for namespace in {space for _, space, _ in badges}:
        slots = [(slot, document) for slot, space, document in badges if space == namespace]
        ids = sorted({document for _, document in slots})
        listed = person.api.list_documents(namespace, {"documentIds": ids}, size=len(ids), recent=True)["documents"]
        documents = {document["id"]: document for document in listed}
        for slot, name in slots:
            if document := documents.get(name):
                label, summary = document_actions.label_access(document), document_actions.summarize_access(document)
                slot.badge(label, icon=":material/group:", color="gray", help=f"Who may see it: {summary}")


def _read_thumbnail(person: session.Person, namespace: str, hit: Json) -> bytes | None:
    """Return the picture of the hit's page with the passage shaded; None without one."""
    document, chunk = hit["document"]["id"], hit["chunk"]
    kept: dict[tuple[str, str, int, str], bytes | None] = st.session_state.setdefault(_THUMBNAILS_KEY, {})
    key = (namespace, document, chunk["index"], person.api.viewer)
    if key not in kept:
        if len(kept) >= MAX_KEPT_THUMBNAILS:
            kept.clear()
        query = {"namespaceId": namespace, "chunk": chunk["index"]}
        try:
            kept[key] = person.api.fetch_picture(f"/v1/documents/{document}/pages/{chunk['page']}", **query)
        except ApiError:
            kept[key] = None
    return kept[key]


def _offer_actions(person: session.Person, request: SearchRequest, hit: Json, key_prefix: str) -> None:
    """Offer the page, the context and hiding of a hit in a menu."""
    chunk, document, context = hit["chunk"], hit["document"]["id"], hit.get("context")
    space, may_read = hit.get("namespaceId", request.namespace), person.may("documents:read")
    wider_context = context if context and context["content"] != hit["content"] else None
    if not ((may_read and chunk["page"]) or wider_context or person.may("documents:write")):
        return
    key = f"more-{key_prefix}-{document}-{chunk['index']}-{request.query}"
    with st.popover("More", type="tertiary", key=key, on_change="rerun") as menu:
        if not menu.open:
            return
        if may_read and chunk["page"]:
            show_page_image(person, space, document, chunk["page"], chunk["index"])
        if wider_context:
            st.caption(f"Context: characters {wider_context['start']:,} to {wider_context['end']:,}")
            st.text(wider_context["content"])
        offer_hiding(person, space, document, chunk["index"], key_prefix)


def rank_chunks(data: Json) -> dict[tuple[str, int], int]:
    return {chunk_key(hit): rank for rank, hit in enumerate(data["results"], 1)}


def chunk_key(hit: Json) -> tuple[str, int]:
    return hit["document"]["id"], hit["chunk"]["index"]


def query_words(query: str) -> frozenset[str]:
    """Return the words to mark: normalized content words, abbreviations such as IT as written; else all words."""
    normalized = {word: _normalize_word(word) for word in WORD_PATTERN.findall(query)}
    content_words = {
        form for word, form in normalized.items() if form not in STOP_WORDS and (len(form) > 2 or not word.isalnum())
    }
    abbreviations = {word for word in normalized if len(word) > 1 and word.isupper()}
    stop_abbreviations = {word for word in abbreviations if normalized[word] not in content_words}
    return frozenset(content_words | stop_abbreviations or normalized.values())


def plain_text(markdown: str) -> str:
    for pattern, replacement in MARKDOWN_PATTERNS:
        markdown = pattern.sub(replacement, markdown)
    return markdown


def best_excerpt(text: str, words: frozenset[str]) -> str:
    """Return the excerpt with most query words, as HTML with marks."""
    plain = " ".join(plain_text(text).split())
    matches = [match for match in WORD_PATTERN.finditer(plain) if _matches_query(match.group(), words)]

    def count_words(first: re.Match[str]) -> int:
        end = first.start() + EXCERPT_CHARACTERS - LEAD_CHARACTERS
        return sum(first.start() <= match.end() <= end for match in matches)

    start = max(0, max(matches, key=count_words).start() - LEAD_CHARACTERS) if matches else 0
    if start:
        start = plain.find(" ", start) + 1
    excerpt = plain[start : start + EXCERPT_CHARACTERS]
    prefix, suffix = "… " if start else "", " …" if start + EXCERPT_CHARACTERS < len(plain) else ""
    return prefix + _mark_words(excerpt, words) + suffix


def score_parts(hit: Json) -> str:
    explanation, figures = hit["explanation"], []
    for name in ("semantic", "keyword"):
        rank, score = explanation[f"{name}Rank"], explanation[f"{name}Score"]
        if rank or score:
            figures.append(f"{name} {score or 0:.3f}" + (f" (rank {rank})" if rank else ""))
    if explanation.get("recencyScore") is not None:
        figures.append(f"recency {explanation['recencyScore']:.3f}")
    if explanation.get("rerankScore") is not None:
        figures.append(f"reranker {explanation['rerankScore']:.3f} (rank {explanation['rankBefore']} before)")
    return " · ".join(figures)


def _summarize_answer(data: Json) -> str:
    milliseconds = sum(value or 0.0 for value in data["timings"].values())
    summary = f"{format_count(len(data['results']), 'result')} · {format_milliseconds(milliseconds)}"
    if "reranked" in data:
        summary += " · reranked" if data["reranked"] else " · not reranked: the reranker is away or late"
    return summary


def _list_steps(data: Json) -> str:
    return ", ".join(f"{step} {format_milliseconds(value)}" for step, value in data["timings"].items() if value)


def describe_answerable(answerable: Json) -> tuple[str, str]:
    """Return the verdict with a percentage, and a sentence that explains the percentage."""
    title = ANSWER_VERDICTS[answerable["verdict"]]
    if "answeredShare" in answerable:
        share = f"{answerable['answeredShare']:.0%}"
        return f"{title}: {share}", f"Of questions judged so, {share} had an answer in the documents."
    return f"{title}: {answerable['probability']:.0%}", escape_markdown(answerable["basis"])


def _matches_query(word: str, words: frozenset[str]) -> bool:
    """Check for a query word or a similar form, such as its plural."""
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
    max_ending = 1 if len(short) == 3 else 3
    return long.startswith(short) and len(long) - len(short) <= max_ending


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


def _show_card(person: session.Person, namespace: str, hit: Json, rank: int, words: frozenset[str]) -> None:
    chunk, name = hit["chunk"], document_label(hit["document"]["name"])
    page = f", page {chunk['page']}" if chunk["page"] else ""
    title = escape_markdown(name if len(name) <= 80 else name[:80] + " …")
    label = f"{rank}. **{title}** :gray[chunk {chunk['index']}{page}]"
    if person.may("documents:read"):
        query_params = {"namespace": namespace, "document": hit["document"]["id"], "chunk": str(chunk["index"])}
        st.page_link("views/documents.py", label=label, query_params=query_params)
    else:
        st.markdown(label)
    context = hit.get("context", {})
    passage = hit_tables.read_passage(hit["content"], context.get("header", ""))
    path = [*context.get("header", "").split("\n")[:-1], *map(plain_text, passage.headings)]
    heading = f'<div class="path">{html.escape(" > ".join(path))}</div>' if path else ""
    table = hit_tables.build_table(passage, partial(_mark_words, words=words))
    excerpt = best_excerpt(passage.text or ("" if table else hit["content"]), words)
    focus = ' tabindex="0"' if table else ""  # a wide table is scrolled by the keyboard too
    url = hit["document"]["externalId"]
    address = f"<div><code>{html.escape(url)}</code></div>" if url.startswith(("http://", "https://")) else ""
    st.html(f'{heading}<div class="hit"{focus}><p>{excerpt}</p>{table}{address if url != name else ""}</div>')
    if copies := hit.get("duplicates"):
        names = ", ".join(escape_markdown(document_label(copy["name"])) for copy in copies)
        st.caption(f"The same text is in: {names}")
