"""Reasons for missing documents."""

from __future__ import annotations

import math
from functools import partial

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import search_request, url_state, widgets
from ui.parts.labels import document_label, status_word
from ui.parts.search_request import MAX_TOP_K, MODE_LABELS, SearchRequest
from ui.parts.widgets import escape_markdown

MAX_OFFERED_DOCUMENTS = 20
REASON_LABELS = {
    "STATUS": "Not searchable",
    "FILTER": "Filter",
    "ACCESS": "Access",
    "THRESHOLD": "Minimum score",
    "RANK": "Rank",
}


def show_missing_reasons(person: session.Person, key_person: session.Person, request: SearchRequest) -> None:
    """Explain why a document is missing; `person` sees as the viewed user, `key_person` as the key."""
    document = _choose_document(key_person, request)
    if document is None:
        return
    mode = request.modes[-1]
    if len(request.modes) > 1:
        choice: Json = {"default": mode, "required": True, "format_func": MODE_LABELS.__getitem__, "key": "why_mode"}
        mode = st.segmented_control("Search mode", request.modes, **choice) or mode
    try:
        answer = key_person.api.post("/v1/search/why", search_request.build_why_request(request, mode, document))
    except ApiError as error:
        if error.code != "DOCUMENTS_NOT_FOUND":
            raise
        st.warning("There is no such document in this namespace. It may have been deleted.")
        return
    if request.viewer:
        _explain_viewer(person, request, answer["document"])
        return
    _show_verdict(answer)
    for number, reason in enumerate(answer["reasons"]):
        with st.container(border=True):
            st.markdown(
                f"**{REASON_LABELS.get(reason['kind'], reason['kind'])}**  \n{escape_markdown(reason['detail'])}"
            )
            _offer_change(answer, request, reason, f"lift-{number}")
    if key_person.may("documents:read"):
        widgets.link_page("documents", "Open the document", document=document)


def _choose_document(key_person: session.Person, request: SearchRequest) -> str | None:
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
    names = _find_documents(key_person, request.namespace, piece)
    if not names:
        session.set_parameters(document=None)
        text = f"No document of this namespace has “{escape_markdown(piece)}” in its name."
        st.info(text, icon=":material/search_off:")
        return None
    choice: Json = {"options": names, "default": next(iter(names)), "writes_default": True}
    return str(url_state.bind_field(right_column.selectbox, "document", "Which one", prefix="picked", **choice))


def _find_documents(key_person: session.Person, namespace: str, piece: str) -> dict[str, str]:
    if not key_person.may("documents:read"):
        return {piece: piece}
    config: Json = {"documentIds": [piece]} if piece.startswith("doc_") else {"text": piece}
    documents = key_person.api.list_documents(namespace, config, size=MAX_OFFERED_DOCUMENTS)["documents"]
    return {document["id"]: document["name"].strip() or document["id"] for document in documents}


def _explain_viewer(person: session.Person, request: SearchRequest, document: Json) -> None:
    """Show the viewed user's access to the document."""
    # Ranks are explained to the application only.
    config, api = {"documentIds": [document["id"]]}, person.api
    name, viewer = escape_markdown(document["name"]), escape_markdown(request.viewer)
    if person.may("documents:read") and not api.list_documents(request.namespace, config, size=1)["documents"]:
        st.error(f"**Access:** {viewer} may not see “{name}”. Its access, or a group, must name them.")
    else:
        st.info(f"{viewer} may see “{name}”. Its rank is explained only while you are yourself.")
    st.caption("Under “See as another person” in the sidebar you become yourself again.")


def _show_verdict(verdict: Json) -> None:
    document = verdict["document"]
    st.header(escape_markdown(document_label(document["name"])))
    if verdict["shown"]:
        st.success(f"Shown at rank {verdict['rank']}.", icon=":material/check_circle:")
    else:
        st.error("Not shown.", icon=":material/visibility_off:")
    cells = {
        "Status": status_word(document["status"]),
        "Rank": verdict["rank"],
        "Score": _format_score(verdict["score"]),
        "Score of the last result": _format_score(verdict["lastShownScore"]),
    }
    for column, (name, value) in zip(st.columns(len(cells)), cells.items(), strict=True):
        column.metric(name, "-" if value is None else value)
    rows = [
        {"List": name, "Score": _format_score(verdict[f"{key}Score"]), "Rank": _format_rank(verdict[f"{key}Rank"])}
        for key, name in (("semantic", "Semantic"), ("keyword", "Keyword"))
    ]
    st.caption("Its best chunk in each list, among all chunks that match the filter:")
    widgets.show_table(rows)
    if verdict["matchedTerms"] or verdict["missingTerms"]:
        matched = " ".join(f":green-badge[{escape_markdown(word)}]" for word in verdict["matchedTerms"]) or "none"
        missing = " ".join(f":gray-badge[{escape_markdown(word)}]" for word in verdict["missingTerms"]) or "none"
        st.markdown(f"Words of the query it has: {matched} · lacks: {missing}")


def _offer_change(verdict: Json, request: SearchRequest, reason: Json, key: str) -> None:
    """Show the change that would add the document to the results."""
    kind, score, rank = reason["kind"], verdict["score"], verdict["rank"]
    if kind == "FILTER":
        click = partial(session.set_parameters, **address_without(request, reason["detail"]))
        st.button("Search without this part of the filter", key=key, on_click=click, icon=":material/filter_alt_off:")
    elif kind == "THRESHOLD" and score is not None:
        least = f"{math.floor(score * 20) / 20:g}"
        click = partial(session.set_parameters, least=least)
        st.button(f"Lower the minimum score to {least}", key=key, on_click=click)
    elif kind == "RANK" and rank is not None and rank <= MAX_TOP_K:
        st.button(f"Show {rank} results", key=key, on_click=partial(session.set_parameters, top=str(rank)))
    elif kind == "RANK" and rank is not None:
        st.caption(f"Rank {rank:,} lies beyond the {MAX_TOP_K} results that this page shows.")
    elif kind == "STATUS" and verdict["document"]["status"] == "FAILED":
        st.caption("Its page says what went wrong and how to try again.")
    if kind == "RANK" and verdict["missingTerms"]:
        words = ", ".join(f"“{escape_markdown(word)}”" for word in verdict["missingTerms"])
        st.caption(f"It holds none of the words {words}: a query with words that it holds raises its keyword score.")


def address_without(request: SearchRequest, detail: str) -> dict[str, str | None]:
    """Return address parameters without the filter part named by a reason."""
    path = detail.removesuffix(" leaves it out.")
    if path.startswith("filter.metadata."):
        key = path.removeprefix("filter.metadata.")
        remaining = {name: value for name, value in request.metadata.items() if name != key}
        return {"filter": search_request.address_text(remaining)}
    if path.startswith("filter.where.all["):
        number = path.removeprefix("filter.where.all[").partition("]")[0]
        clauses = [value for at, value in enumerate(request.condition.get("all", [])) if str(at) != number]
        return {"where": search_request.address_text({"all": clauses} if clauses else {})}
    return {"where": None}


def _format_score(value: float | None) -> str | None:
    return None if value is None else f"{value:.4f}"


def _format_rank(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
