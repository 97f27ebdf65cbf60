"""Why results are where they are: moves, parts of scores, steps, and why a document is missing."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import charts, search_request, url_state, waiting, widgets
from ui.parts.labels import document_label, status_word
from ui.parts.search_request import MODES, MOST, Wanted
from ui.parts.search_results import rank_chunks
from ui.parts.widgets import escape_markdown


def show_reasons(found: dict[str, Json], wanted: Wanted) -> None:
    if not any(data["results"] for data in found.values()):
        st.caption("Nothing was found, so there is nothing to compare.")
        return
    if len(found) > 1:
        st.header("How the ranks move")
        st.caption("A line is a chunk, from its rank in one search to that in the next.")
        charts.rank_moves(_moves(found), [MODES[mode] for mode in found])
    st.header("What the scores are made of")
    for column, (mode, data) in zip(st.columns(len(found)), found.items(), strict=True):
        with column:
            st.caption(f"{MODES[mode]}, by rank")
            charts.score_parts(_parts(data, mode, wanted))
    st.header("Stage durations")
    st.caption("In milliseconds.")
    charts.search_steps(
        [
            {"search": MODES[mode], "step": name, "milliseconds": round(value, 1), "order": at}
            for mode, data in found.items()
            for at, (name, value) in enumerate(data["timings"].items())
            if value is not None
        ]
    )
    for mode, data in found.items():
        with st.expander(f"{MODES[mode]}: the figures"):
            widgets.show_table(
                [
                    {"rank": rank, "score": hit["score"], **hit["explanation"], "document": hit["document"]["name"]}
                    for rank, hit in enumerate(data["results"], 1)
                ]
            )


def _moves(found: dict[str, Json]) -> list[Json]:
    names = {hit["document"]["id"]: hit["document"]["name"] for data in found.values() for hit in data["results"]}
    first, *later = (rank_chunks(data) for data in found.values())
    last = {key: rank for rank_by_key in later for key, rank in rank_by_key.items()}
    return [
        {
            "search": MODES[mode],
            "rank": rank,
            "chunk": f"{key[0]}#{key[1]}",
            "name": f"{names[key[0]]}, chunk {key[1]}",
            "move": _move(first.get(key), last.get(key)),
        }
        for mode, data in found.items()
        for key, rank in rank_chunks(data).items()
    ]


def _move(before: int | None, after: int | None) -> str:
    if before is None or after is None:
        return "not in all"
    return "same" if before == after else "up" if after < before else "down"


def _parts(data: Json, mode: str, wanted: Wanted) -> list[dict[str, Any]]:
    """The weighted parts of each score: those of the two lists, the reranker's, and what recency adds."""
    semantic = {"semantic": 1.0, "keyword": 0.0}.get(mode, wanted.weight)
    rows: list[dict[str, Any]] = []
    for rank, hit in enumerate(data["results"], 1):
        explanation = hit["explanation"]
        recency = wanted.recency if explanation.get("recencyScore") is not None else 0.0
        reranked = explanation.get("rerankScore") is not None
        rerank = (1 - recency) * (explanation.get("rerankWeight", 1.0) if reranked else 0.0)
        lists = 1 - recency - rerank
        parts = {
            "Reranker": (rerank, "rerankScore"),
            "Semantic score": (lists * semantic, "semanticScore"),
            "Keyword score": (lists * (1 - semantic), "keywordScore"),
            "Recency": (recency, "recencyScore"),
        }
        rows += [
            {"rank": rank, "kind": kind, "part": weight * (explanation.get(name) or 0)}
            for kind, (weight, name) in parts.items()
        ]
    return rows


FOUND = 20
"""Documents that a piece of a name offers."""
WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)
KINDS = {
    "STATUS": "Not searchable",
    "FILTER": "Filter",
    "ACCESS": "Access",
    "THRESHOLD": "Minimum score",
    "RANK": "Rank",
}


def show_why(person: session.Person, own: session.Person, wanted: Wanted) -> None:
    """`who` sees what the search sees, `own` what the key sees, where the search is made on behalf of a user."""
    document = _pick(own, wanted)
    if document is None:
        return
    mode = wanted.modes[-1]
    if len(wanted.modes) > 1:
        choice: Json = {"default": mode, "required": True, "format_func": MODES.__getitem__, "key": "why_mode"}
        mode = st.segmented_control("Search mode", wanted.modes, **choice) or mode
    try:
        answer = own.api.post("/v1/search/why", search_request.build_why_request(wanted, mode, document))
    except ApiError as error:
        if error.code != "DOCUMENTS_NOT_FOUND":
            raise
        st.warning("There is no such document in this namespace. It may have been deleted.")
        return
    if wanted.viewer:
        _for_viewer(person, wanted, answer["document"])
        return
    _why_told(answer)
    for number, reason in enumerate(answer["reasons"]):
        with st.container(border=True):
            st.markdown(f"**{KINDS.get(reason['kind'], reason['kind'])}**  \n{escape_markdown(reason['detail'])}")
            _lift(answer, wanted, reason, f"lift-{number}")
    if not answer["shown"] and {reason["kind"] for reason in answer["reasons"]} <= {"RANK", "THRESHOLD"}:
        _weights(person, wanted, document)
    if own.may("documents:read"):
        widgets.link_page("documents", "Open the document", document=document)


def _pick(own: session.Person, wanted: Wanted) -> str | None:
    left_column, right_column = st.columns(2)
    hint: Json = {"placeholder": "A piece of its name, or its id", "max_chars": 100}
    piece = url_state.bind_field(left_column.text_input, "find", "Document", prefix="why", **hint)
    linked = session.read_parameter("document")
    if not piece:
        if linked is None:
            st.info(
                "Type a piece of a document's name: this page says whether the search shows it, and why not.",
                icon=":material/help:",
            )
        return linked
    names = _named(own, wanted.namespace, piece)
    if not names:
        session.set_parameters(document=None)
        text = f"No document of this namespace has “{escape_markdown(piece)}” in its name."
        st.info(text, icon=":material/search_off:")
        return None
    choice: Json = {"options": names, "default": next(iter(names)), "always": True}
    return str(url_state.bind_field(right_column.selectbox, "document", "Which one", prefix="picked", **choice))


def _named(own: session.Person, namespace: str, piece: str) -> dict[str, str]:
    if not own.may("documents:read"):
        return {piece: piece}
    config: Json = {"documentIds": [piece]} if piece.startswith("doc_") else {"text": piece}
    documents = own.api.list_documents(namespace, config, size=FOUND)["documents"]
    return {document["id"]: document["name"].strip() or document["id"] for document in documents}


def _for_viewer(person: session.Person, wanted: Wanted, document: Json) -> None:
    """Say whether the user who is seen as may see the document; ranks are explained to the application alone."""
    config, api = {"documentIds": [document["id"]]}, person.api
    name, viewer = escape_markdown(document["name"]), escape_markdown(wanted.viewer)
    if person.may("documents:read") and not api.list_documents(wanted.namespace, config, size=1)["documents"]:
        st.error(f"**Access:** {viewer} may not see “{name}”. Its access, or a group, must name them.")
    else:
        st.info(f"{viewer} may see “{name}”. Its rank is explained only while you are yourself.")
    st.caption("Under “See as another person” in the sidebar you become yourself again.")


def _why_told(found: Json) -> None:
    document = found["document"]
    st.header(escape_markdown(document_label(document["name"])))
    if found["shown"]:
        st.success(f"Shown at rank {found['rank']}.", icon=":material/check_circle:")
    else:
        st.error("Not shown.", icon=":material/visibility_off:")
    cells = {
        "Status": status_word(document["status"]),
        "Visible generation": document["visibleGeneration"],
        "Rank": found["rank"],
        "Score": _score(found["score"]),
        "Score of the last result": _score(found["lastShownScore"]),
    }
    for column, (name, value) in zip(st.columns(len(cells)), cells.items(), strict=True):
        column.metric(name, "-" if value is None else value)
    rows = [
        {"List": name, "Score": _score(found[f"{key}Score"]), "Rank": _rank(found[f"{key}Rank"])}
        for key, name in (("semantic", "Semantic"), ("keyword", "Keyword"))
    ]
    st.caption("Its best chunk in each list, among all chunks that match the filter:")
    widgets.show_table(rows)
    if found["matchedTerms"] or found["missingTerms"]:
        matched = " ".join(f":green-badge[{escape_markdown(word)}]" for word in found["matchedTerms"]) or "none"
        missing = " ".join(f":gray-badge[{escape_markdown(word)}]" for word in found["missingTerms"]) or "none"
        st.markdown(f"Words of the query it has: {matched} · lacks: {missing}")


def _lift(found: Json, wanted: Wanted, reason: Json, key: str) -> None:
    """Show the change that would bring the document into the results, as a button if this page can apply it."""
    kind, score, rank = reason["kind"], found["score"], found["rank"]
    if kind == "FILTER":
        click = partial(session.set_parameters, **address_without(wanted, reason["detail"]))
        st.button("Search without this part of the filter", key=key, on_click=click, icon=":material/filter_alt_off:")
    elif kind == "THRESHOLD" and score is not None:
        least = f"{math.floor(score * 20) / 20:g}"
        click = partial(session.set_parameters, least=least)
        st.button(f"Lower the minimum score to {least}", key=key, on_click=click)
    elif kind == "RANK" and rank is not None and rank <= MOST:
        st.button(f"Show {rank} results", key=key, on_click=partial(session.set_parameters, top=str(rank)))
    elif kind == "RANK" and rank is not None:
        st.caption(f"Rank {rank:,} lies beyond the {MOST} results that this page shows.")
    elif kind == "STATUS" and found["document"]["status"] == "FAILED":
        st.caption("Its page says what went wrong and how to try again.")
    if kind == "RANK" and found["missingTerms"]:
        words = ", ".join(f"“{escape_markdown(word)}”" for word in found["missingTerms"])
        st.caption(f"It holds none of the words {words}: a query with words that it holds raises its keyword score.")


def address_without(wanted: Wanted, detail: str) -> dict[str, str | None]:
    """The page's address without the part of the filter that a reason names: a metadata key, or the condition."""
    path = detail.removesuffix(" leaves it out.")
    if path.startswith("filter.metadata."):
        key = path.removeprefix("filter.metadata.")
        remaining = {name: value for name, value in wanted.metadata.items() if name != key}
        return {"filter": search_request.address_text(remaining)}
    if path.startswith("filter.where.all["):
        number = path.removeprefix("filter.where.all[").partition("]")[0]
        clauses = [value for at, value in enumerate(wanted.condition.get("all", [])) if str(at) != number]
        return {"where": search_request.address_text({"all": clauses} if clauses else {})}
    return {"where": None}


def _weights(person: session.Person, wanted: Wanted, document: str) -> None:
    if not st.button("Try other semantic weights", icon=":material/balance:", key="why_weights"):
        return
    body = search_request.build_why_request(wanted, "hybrid", document)
    configs = {f"{weight:g}": {"semanticWeight": weight, "keywordWeight": 1 - weight} for weight in WEIGHTS}
    questions = {
        weight: partial(person.api.post, "/v1/search/why", {**body, "hybridConfig": config})
        for weight, config in configs.items()
    }
    rows = [
        {
            "Semantic weight": weight,
            "Shown": "yes" if answer["shown"] else "no",
            "Rank": _rank(answer["rank"]),
            "Score": _score(answer["score"]),
        }
        for weight, answer in waiting.ask_in_parallel(questions).items()
        if answer is not None
    ]
    widgets.show_table(rows)


def _score(value: float | None) -> str | None:
    return None if value is None else f"{value:.4f}"


def _rank(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
