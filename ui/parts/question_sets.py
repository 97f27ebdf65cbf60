"""Question sets: listed, made of files or lines, renamed, deleted; their questions shown and changed."""

from __future__ import annotations

from typing import Any

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import frame, question_files, search_request, widgets
from ui.parts.labels import ago, count, number
from ui.parts.question_files import EXAMPLE, Unreadable
from ui.parts.widgets import plain

SETS = 50
PAGE = 20
"""Questions of a page."""
PART = 500
"""Questions of one request: their judgements stay far below what a body may hold."""
_SAID = "question_sets_said"


def listing(who: session.Person, namespace: str) -> None:
    """All sets of the namespace, newest first, and how to make one."""
    may = who.may("documents:write")
    if may and st.button("New question set", type="primary", icon=":material/add:"):
        session.remember(new="yes")
        st.rerun()
    if may and session.parameter("new"):
        _new(who, namespace)
        return
    data = who.api.get("/v1/evaluations", namespaceId=namespace, pageSize=SETS, cursor=session.parameter("cursor"))
    if not data["evaluations"]:
        widgets.show_empty(
            "No question set yet.",
            "A question set holds questions with the documents that answer them. Upload one, or mark hits as right in"
            " the search lab; then compare search settings over all of its questions.",
        )
        st.page_link(
            "views/search.py",
            label="Open the search lab",
            icon=":material/search:",
            query_params={"namespace": namespace},
        )
        return
    rows = [
        {"Name": one["name"], "Questions": number(one["questionCount"]), "Created": ago(one["createdAt"])}
        for one in data["evaluations"]
    ]
    chosen = widgets.clicked_row(rows, "question_sets", [one["id"] for one in data["evaluations"]])
    st.caption("Click a row to open it.")
    widgets.show_pager(data)
    if chosen is not None:
        session.remember(evaluation=chosen, cursor=None)
        st.rerun()


def _new(who: session.Person, namespace: str) -> None:
    with st.form("new-question-set"):
        name = st.text_input("Name", placeholder="Support questions", max_chars=200)
        questions = _given()
        create = st.form_submit_button("Create question set", type="primary")
    if st.button("Cancel"):
        session.remember(new=None)
        st.rerun()
    if not create:
        return
    if not name.strip():
        st.error("Give the question set a name.")
    elif (found := _read(*questions)) is not None:
        made = _send(who, namespace, name.strip(), found)
        if made is not None:
            session.remember(new=None, evaluation=made["id"])
            st.rerun()


def _given() -> tuple[Any, str]:
    files = st.file_uploader(
        "Files",
        type=["jsonl", "json", "tsv", "txt", "qrels"],
        accept_multiple_files=True,
        help="JSON lines of questions; or queries.jsonl and qrels.tsv, as BEIR has them. Documents by external id.",
    )
    lines = st.text_area("Or questions, a JSON object on each line", placeholder=EXAMPLE, height=120)
    return files, lines


def _read(files: Any, lines: str) -> list[Json] | None:
    """The questions of files and lines; None, and why, where there are none."""
    try:
        found, left = question_files.read({file.name: file.getvalue() for file in files or ()})
        found += question_files.typed(lines)
    except Unreadable as error:
        st.error(plain(str(error)))
        return None
    if not found:
        more = f" {count(left, 'question')} had no judged document: is the file of judgements missing?" if left else ""
        st.error(f"No question with a judged document.{more}")
        return None
    if left:
        st.session_state[f"{_SAID}_left"] = f"{count(left, 'question')} without a judged document left out."
    return found


def _send(who: session.Person, namespace: str, name: str, questions: list[Json]) -> Json | None:
    """A set made in parts, and what the API says it holds; one that cannot be made whole is removed again."""
    where = {"namespaceId": namespace}
    bar = st.progress(0.0, f"Sending {count(len(questions), 'question')} …")
    made: Json | None = None
    try:
        first = {**where, "name": name, "questions": questions[:PART]}
        made = widgets.post_once(who, "/v1/evaluations", first)["evaluation"]
        made = add(who, namespace, str(made["id"]), questions[PART:], bar) or made
    except ApiError as error:
        bar.empty()
        frame.show(error)
        if made is not None:
            who.api.call("DELETE", f"/v1/evaluations/{made['id']}", namespaceId=namespace)
            st.warning("Nothing was kept of the question set.")
        return None
    st.session_state[_SAID] = f"Created with {count(made['questionCount'], 'question')}."
    return made


def add(who: session.Person, namespace: str, evaluation: str, questions: list[Json], bar: Any) -> Json | None:
    """Add questions in parts; what the API says at the end, None where there were none."""
    found = None
    for start in range(0, len(questions), PART):
        bar.progress(start / len(questions), f"{start:,} of {len(questions):,} sent …")
        body = {"namespaceId": namespace, "add": questions[start : start + PART]}
        found = who.api.patch(f"/v1/evaluations/{evaluation}", body)["evaluation"]
    bar.empty()
    return found


def told() -> None:
    """What the last change came to."""
    for name in (_SAID, f"{_SAID}_left"):
        if said := st.session_state.pop(name, None):
            st.success(said, icon=":material/check:")


def questions(who: session.Person, namespace: str, evaluation: Json) -> None:
    """A page of the questions; one of them to be opened or removed; more to be added."""
    path = f"/v1/evaluations/{evaluation['id']}"
    data = who.api.get(f"{path}/questions", namespaceId=namespace, pageSize=PAGE, cursor=session.parameter("questions"))
    rows = [
        {
            "Question": one["query"],
            "Right documents": ", ".join(_named(judged) for judged in one["relevant"]),
            "Filter": "yes" if one.get("filter") else "",
        }
        for one in data["questions"]
    ]
    st.caption(count(evaluation["questionCount"], "question"))
    seen = st.dataframe(
        rows,
        hide_index=True,
        width="stretch",
        on_select="rerun",
        selection_mode="single-row",
        key="questions_table",
        column_config={"Question": st.column_config.TextColumn(width="large")},
    )
    widgets.show_pager(data, name="questions", start="First", further="More")
    chosen = [data["questions"][row] for row in seen["selection"]["rows"] if row < len(data["questions"])]
    for question in chosen:
        _chosen(who, namespace, evaluation, question)
    if who.may("documents:write"):
        _more(who, namespace, evaluation)


def _named(judged: Json) -> str:
    name = str(judged.get("externalId") or judged.get("documentId"))
    grade = judged.get("grade", 1)
    return f"{name} (grade {grade})" if grade != 1 else name


def _chosen(who: session.Person, namespace: str, evaluation: Json, question: Json) -> None:
    with st.container(border=True):
        st.markdown(f"**{plain(question['query'])}**")
        with st.container(horizontal=True):
            in_lab(namespace, evaluation["id"], question)
            if who.may("documents:write"):
                st.button(
                    "Remove the question",
                    icon=":material/delete:",
                    on_click=_change,
                    args=(who, namespace, evaluation["id"], {"remove": [question["query"]]}, "Removed."),
                )
        if who.may("documents:write"):
            _grades(who, namespace, evaluation["id"], question)


def _grades(who: session.Person, namespace: str, evaluation: str, question: Json) -> None:
    """One document more, or another grade."""
    one, two, three = st.columns([3, 1, 1], vertical_alignment="bottom")
    document = one.text_input("External id of a document", key="judge_external")
    grade = two.selectbox("Grade", [1, 2, 3, 4, 0], format_func=lambda one: str(one) if one else "not right")
    verdict = {"query": question["query"], "externalId": document.strip(), "grade": grade}
    three.button(
        "Judge",
        disabled=not document.strip(),
        width="stretch",
        on_click=_change,
        args=(who, namespace, evaluation, {"judge": [verdict]}, "Judged."),
    )


def in_lab(namespace: str, evaluation: str, question: Json) -> None:
    """A link that asks the question in the search lab, where hits are judged."""
    narrow = question.get("filter") or {}
    asked = {"namespace": namespace, "set": evaluation, "q": question["query"]}
    asked |= {
        name: search_request.text(narrow[key]) or ""
        for name, key in (("filter", "metadata"), ("where", "where"))
        if narrow.get(key)
    }
    st.page_link("views/search.py", label="Open in the search lab", icon=":material/search:", query_params=asked)


def _more(who: session.Person, namespace: str, evaluation: Json) -> None:
    with st.expander("Add questions", icon=":material/add:"), st.form("add-questions", clear_on_submit=True):
        given = _given()
        if not st.form_submit_button("Add"):
            return
        found = _read(*given)
        if found is None:
            return
        try:
            kept = add(who, namespace, evaluation["id"], found, st.progress(0.0))
        except ApiError as error:
            frame.show(error)
            return
    if kept is not None:
        st.session_state[_SAID] = f"Added: {count(kept['questionCount'], 'question')} now."
    st.rerun()


def edit(who: session.Person, namespace: str, evaluation: Json) -> None:
    """Another name; the end of it."""
    name = st.text_input("Name", value=evaluation["name"], max_chars=200, key="set_name")
    st.button(
        "Save name",
        disabled=not name.strip() or name.strip() == evaluation["name"],
        on_click=_change,
        args=(who, namespace, evaluation["id"], {"name": name.strip()}, "Renamed."),
    )
    st.divider()
    sure = st.checkbox(f"Delete {count(evaluation['questionCount'], 'question')} and all runs of this question set")
    if st.button("Delete question set", icon=":material/delete:", disabled=not sure):
        who.api.call("DELETE", f"/v1/evaluations/{evaluation['id']}", namespaceId=namespace)
        session.remember(evaluation=None, run=None, tab=None)
        st.session_state[_SAID] = f"“{plain(evaluation['name'])}” is deleted."
        st.rerun()


def _change(who: session.Person, namespace: str, evaluation: str, change: Json, said: str) -> None:
    """A change of a set, told as the API answers it."""
    try:
        kept = who.api.patch(f"/v1/evaluations/{evaluation}", {"namespaceId": namespace, **change})["evaluation"]
    except ApiError as error:
        refuse(error)
        return
    st.session_state[_SAID] = f"{said} “{plain(kept['name'])}”: {count(kept['questionCount'], 'question')}."


def refuse(error: ApiError) -> None:
    """Have the page show why a change was not made."""
    st.session_state[f"{_SAID}_refused"] = error


def refused() -> None:
    """Why the last change was not made."""
    if isinstance(error := st.session_state.pop(f"{_SAID}_refused", None), ApiError):
        frame.show(error)
