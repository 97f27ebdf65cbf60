"""Question sets: created, read from files, edited, and shared with the search lab."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import frame, search_request, widgets
from ui.parts.labels import format_count, format_number, time_ago
from ui.parts.widgets import escape_markdown

GRADE_RANGE = range(1, 5)
EXAMPLE_LINES = """{"query": "How do I open the cover?", "relevant": [{"externalId": "manual-a7", "grade": 2}]}
{"query": "Which oil does it need?", "relevant": [{"externalId": "manual-a7"}, {"externalId": "parts-list"}]}"""

Grades = dict[str, dict[str, int]]


class UnreadableFileError(ValueError):
    """File and line of invalid input, with the expected form."""


def read_questions(files: Mapping[str, bytes]) -> tuple[list[Json], int]:
    """Return questions for the API, and the number without judgement."""
    # `.tsv`, `.txt` and `.qrels` hold judgements, other files questions.
    grades: Grades = {}
    questions = {}
    for name, content in files.items():
        try:
            lines = content.decode("utf-8-sig").splitlines()
        except UnicodeDecodeError as error:
            raise UnreadableFileError(f"{name} is not text in UTF-8.") from error
        if name.lower().endswith((".tsv", ".txt", ".qrels")):
            _read_judgements(name, lines, grades)
        else:
            questions[name] = lines
    parsed = [
        question for name, lines in questions.items() for question in _parse_lines(f"{name}, line", lines, grades)
    ]
    with_relevant = [question for question in parsed if question["relevant"] is not None]
    return with_relevant, len(parsed) - len(with_relevant)


def parse_typed(text: str) -> list[Json]:
    parsed = _parse_lines("Line", text.splitlines(), {})
    return [{**question, "relevant": question["relevant"] or []} for question in parsed]


def _parse_lines(location: str, lines: list[str], grades: Grades) -> Iterator[Json]:
    """Yield questions; `relevant` is None without judgement, empty if nothing answers."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        row = search_request.parse_object(line)
        if row is None:
            raise UnreadableFileError(
                f"{location} {number} is not a JSON object, such as {EXAMPLE_LINES.splitlines()[0]}"
            )
        query = row.get("query", row.get("text"))
        if not isinstance(query, str) or not query.strip():
            raise UnreadableFileError(
                f'{location} {number}: a question needs its text under "query" (or "text", as BEIR has it).'
            )
        relevant = row.get("relevant", grades.get(str(row.get("_id"))))
        if isinstance(relevant, dict):
            relevant = [
                {"externalId": document, "grade": min(grade, GRADE_RANGE[-1])}
                for document, grade in relevant.items()
                if isinstance(grade, int) and grade >= GRADE_RANGE[0]
            ]
        if relevant is not None and not isinstance(relevant, list):
            raise UnreadableFileError(
                f'{location} {number}: "relevant" is a list of documents, or grades by external id.'
            )
        narrow = {"filter": row["filter"]} if isinstance(row.get("filter"), dict) else {}
        yield {"query": query, "relevant": relevant if relevant or row.get("relevant") in ([], {}) else None, **narrow}


def _read_judgements(name: str, lines: list[str], grades: Grades) -> None:
    """Add grades from three columns (tabs) or four (trec_eval); a title line is skipped."""
    for number, line in enumerate(filter(None, lines), 1):
        parts = line.split("\t") if "\t" in line else line.split()
        grade = parts[-1].strip().lstrip("-") if parts else ""
        if number == 1 and not grade.isdecimal():
            continue
        if len(parts) not in {3, 4} or not grade.isdecimal():
            raise UnreadableFileError(
                f"{name}, line {number}: not the ids of query and document and a grade between tabs."
            )
        grades.setdefault(parts[0], {})[parts[-2]] = int(parts[-1])


# Questions in the form of a new set.
LINES_KEY = "question_set_lines"
MAX_LISTED_SETS = 50
QUESTION_PAGE_SIZE = 20
MAX_READ_NAMES = 100
# With their judgements far below the API's body limit.
QUESTIONS_PER_REQUEST = 500


def show_sets(person: session.Person, namespace: str) -> None:
    may = person.may("documents:write")
    if may and st.button("New question set", type="primary", icon=":material/add:"):
        session.go_to(new="yes")
    if may and session.read_parameter("new"):
        _show_new_form(person, namespace)
        return
    cursor = session.read_parameter("cursor")
    data = person.api.get("/v1/evaluations", namespaceId=namespace, pageSize=MAX_LISTED_SETS, cursor=cursor)
    if not data["evaluations"]:
        advice = (
            "A question set holds questions with the documents that answer them. Upload one, or mark hits as right in"
            " the search lab; then compare search settings over all of its questions."
        )
        widgets.show_empty("No question set yet.", advice)
        widgets.link_page("search", "Open the search lab")
        return
    rows = [
        {
            "Name": evaluation["name"],
            "Questions": format_number(evaluation["questionCount"]),
            "Created": time_ago(evaluation["createdAt"]),
        }
        for evaluation in data["evaluations"]
    ]
    chosen = widgets.clicked_row(rows, "question_sets", [evaluation["id"] for evaluation in data["evaluations"]])
    widgets.show_pager(data)
    if chosen is not None:
        session.go_to(evaluation=chosen, cursor=None)


def _show_new_form(person: session.Person, namespace: str) -> None:
    with st.form("new-question-set"):
        name = st.text_input("Name", placeholder="Support questions", max_chars=200)
        questions = _ask_questions()
        create = st.form_submit_button("Create question set", type="primary")
    if st.button("Cancel"):
        session.go_to(new=None)
    if not create:
        return
    if not name.strip():
        st.error("Give the question set a name.")
    elif parsed := _read_input(*questions):
        _send_set(person, namespace, name.strip(), *parsed)


def _ask_questions() -> tuple[Any, str]:
    files = st.file_uploader(
        "Files",
        type=["jsonl", "json", "tsv", "txt", "qrels"],
        accept_multiple_files=True,
        help="JSON lines of questions; or queries.jsonl and qrels.tsv, as BEIR has them. Documents by external id.",
    )
    lines = st.text_area(
        "Or questions, a JSON object on each line", placeholder=EXAMPLE_LINES, height=120, key=LINES_KEY
    )
    return files, lines


def _read_input(files: Any, lines: str) -> tuple[list[Json], str] | None:
    """Return questions of files and lines with a note; None after an error message."""
    try:
        parsed, dropped_count = read_questions({file.name: file.getvalue() for file in files or ()})
        parsed += parse_typed(lines)
    except UnreadableFileError as error:
        st.error(escape_markdown(str(error)))
        return None
    dropped = format_count(dropped_count, "question")
    if not parsed:
        note = f" {dropped} had no judged document: is the file of judgements missing?" if dropped_count else ""
        st.error(f"No question with a judged document.{note}")
        return None
    return parsed, f"  \n{dropped} without a judged document left out." if dropped_count else ""


def _send_set(person: session.Person, namespace: str, name: str, questions: list[Json], note: str) -> None:
    """Create a set in several requests and open it; an incomplete set is deleted."""
    scope = {"namespaceId": namespace}
    bar = st.progress(0.0, f"Sending {format_count(len(questions), 'question')} …")
    evaluation: Json | None = None
    try:
        first = {**scope, "name": name, "questions": questions[:QUESTIONS_PER_REQUEST]}
        evaluation = widgets.post_once(person, "/v1/evaluations", first)["evaluation"]
        evaluation = (
            add_questions(person, namespace, str(evaluation["id"]), questions[QUESTIONS_PER_REQUEST:], bar)
            or evaluation
        )
    except ApiError as error:
        bar.empty()
        frame.show_error(error)
        if evaluation is not None:
            person.api.call("DELETE", f"/v1/evaluations/{evaluation['id']}", namespaceId=namespace)
            st.warning("Nothing was kept of the question set.")
        return
    frame.keep_outcome(f"Created with {format_count(evaluation['questionCount'], 'question')}.{note}")
    session.go_to(new=None, evaluation=evaluation["id"])


def add_questions(
    person: session.Person, namespace: str, evaluation: str, questions: list[Json], bar: Any
) -> Json | None:
    """Add questions in several requests; return the updated set, None without questions."""
    updated = None
    for start in range(0, len(questions), QUESTIONS_PER_REQUEST):
        bar.progress(start / len(questions), f"{start:,} of {len(questions):,} sent …")
        body = {"namespaceId": namespace, "add": questions[start : start + QUESTIONS_PER_REQUEST]}
        updated = person.api.patch(f"/v1/evaluations/{evaluation}", body)["evaluation"]
    bar.empty()
    return updated


def show_questions(person: session.Person, namespace: str, evaluation: Json) -> None:
    path = f"/v1/evaluations/{evaluation['id']}"
    cursor = session.read_parameter("questions")
    data = person.api.get(f"{path}/questions", namespaceId=namespace, pageSize=QUESTION_PAGE_SIZE, cursor=cursor)
    names = _read_names(person, namespace, data["questions"])
    rows = [
        {
            "Question": entry["query"],
            "Right documents": ", ".join(_format_judged(judged, names) for judged in entry["relevant"]),
            "Filter": "yes" if entry.get("filter") else "",
        }
        for entry in data["questions"]
    ]
    st.caption(format_count(evaluation["questionCount"], "question"))
    table = st.dataframe(
        rows,
        hide_index=True,
        width="stretch",
        on_select="rerun",
        selection_mode="single-row",
        key="questions_table",
        column_config={"Question": st.column_config.TextColumn(width="large")},
    )
    widgets.show_pager(data, name="questions")
    chosen = [data["questions"][row] for row in table["selection"]["rows"] if row < len(data["questions"])]
    for question in chosen:
        _show_chosen(person, namespace, evaluation, question)
    if person.may("documents:write"):
        _show_add_form(person, namespace, evaluation)


def _read_names(person: session.Person, namespace: str, questions: list[Json]) -> dict[str, str]:
    """Return the names of judged documents by document id."""
    judged = {entry["documentId"] for question in questions for entry in question["relevant"] if "documentId" in entry}
    ids = sorted(judged)[:MAX_READ_NAMES]
    if not ids or not person.may("documents:read"):
        return {}
    documents = person.api.list_documents(namespace, {"documentIds": ids}, size=len(ids))["documents"]
    return {document["id"]: document["name"] for document in documents}


def _format_judged(judged: Json, names: Mapping[str, str]) -> str:
    name = str(judged.get("externalId") or names.get(judged["documentId"], judged["documentId"]))
    grade = judged.get("grade", 1)
    return f"{name} (grade {grade})" if grade != 1 else name


def _show_chosen(person: session.Person, namespace: str, evaluation: Json, question: Json) -> None:
    with st.container(border=True):
        st.markdown(f"**{escape_markdown(question['query'])}**")
        with st.container(horizontal=True):
            link_lab(evaluation["id"], question)
            if person.may("documents:write"):
                change = {"remove": [question["query"]]}
                remove = partial(change_set, person, namespace, evaluation["id"], change, "Removed.")
                st.button("Remove the question", icon=":material/delete:", on_click=remove)


def link_lab(evaluation: str, question: Json) -> None:
    """Show a link to the question in the search lab."""
    question_filter = question.get("filter") or {}
    texts = {"filter": question_filter.get("metadata"), "where": question_filter.get("where")}
    query = {name: search_request.address_text(value) or "" for name, value in texts.items() if value}
    widgets.link_page("search", "Open in the search lab", set=evaluation, q=question["query"], **query)


def _show_add_form(person: session.Person, namespace: str, evaluation: Json) -> None:
    with st.expander("Add questions", icon=":material/add:"), st.form("add-questions", clear_on_submit=True):
        uploads = _ask_questions()
        if not st.form_submit_button("Add"):
            return
        if not (parsed := _read_input(*uploads)):
            return
        questions, note = parsed
        with frame.shown_refusal():
            updated = add_questions(person, namespace, evaluation["id"], questions, st.progress(0.0))
            if updated is not None:
                frame.keep_outcome(f"Added: {format_count(updated['questionCount'], 'question')} now.{note}")
            st.rerun()


def show_editor(person: session.Person, namespace: str, evaluation: Json) -> None:
    name = st.text_input("Name", value=evaluation["name"], max_chars=200, key="set_name").strip()
    rename = partial(change_set, person, namespace, evaluation["id"], {"name": name}, "Renamed.")
    st.button("Save name", disabled=name in ("", evaluation["name"]), on_click=rename)
    st.divider()
    count = format_count(evaluation["questionCount"], "question")
    sure = st.checkbox(f"Delete {count} and all runs of this question set")
    if st.button("Delete question set", icon=":material/delete:", disabled=not sure):
        person.api.call("DELETE", f"/v1/evaluations/{evaluation['id']}", namespaceId=namespace)
        frame.keep_outcome(f"“{escape_markdown(evaluation['name'])}” is deleted.")
        session.go_to(evaluation=None, run=None, tab=None)


def change_set(person: session.Person, namespace: str, evaluation: str, change: Json, outcome: str) -> None:
    with frame.shown_refusal(frame.keep_outcome):
        updated = person.api.patch(f"/v1/evaluations/{evaluation}", {"namespaceId": namespace, **change})["evaluation"]
        count = format_count(updated["questionCount"], "question")
        frame.keep_outcome(f"{outcome} “{escape_markdown(updated['name'])}”: {count}.")
