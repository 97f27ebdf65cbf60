"""Evaluations: question sets, comparisons, and gates for new embedding models."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import api_schema, comparisons, frame, question_sets, widgets
from ui.parts.comparisons import METRIC_LABELS
from ui.parts.labels import ACTIVE_STATUSES, format_count, time_ago
from ui.parts.widgets import escape_markdown

MAX_READ_RUNS = 30
MAX_SHOWN_SEARCHES = 20
MAX_LOSS_HELP = "Of the metric, which lies between 0 and 1."


def _list_reembedding_runs(person: session.Person, namespace: str) -> list[Json]:
    if not person.may("ingest:read"):
        return []
    # The runs belong to the namespace, not to a tenant.
    api = replace(person.api, tenant="")
    query: dict[str, Any] = {"namespaceId": namespace, "source": "REEMBED", "pageSize": MAX_READ_RUNS}
    return list(api.get("/v1/ingest-job-runs", **query)["ingestJobRuns"])


def _list_judged_runs(runs: list[Json], evaluation_id: str) -> list[Json]:
    """Return the runs that a gate has judged by a question set."""
    return [run for run in runs if any(f"of {evaluation_id};" in notice["reason"] for notice in run["notices"])]


def show_gates(runs: list[Json]) -> None:
    for run in runs:
        with st.container(border=True):
            with st.container(horizontal=True, vertical_alignment="center"):
                widgets.status_badge(run["outcome"] or run["status"])
                st.caption(f"{escape_markdown(run['name'])} · {time_ago(run['createdAt'])}")
            for notice in run["notices"]:
                text = escape_markdown(notice["reason"])
                if run["outcome"] == "FAILED":
                    st.error(text, icon=":material/block:")
                else:
                    st.success(text, icon=":material/verified:")
            widgets.link_page("runs", "Open the run", run=run["id"])


def show_gates_tab(person: session.Person, namespace: str, evaluation: Json) -> None:
    runs = _list_reembedding_runs(person, namespace)
    active_runs = [run for run in runs if run["status"] in ACTIVE_STATUSES]
    for run in active_runs:
        _show_running(run)
    if judged_runs := _list_judged_runs(runs, evaluation["id"]):
        show_gates(judged_runs)
    else:
        widgets.show_empty(
            "No gate has asked these questions yet.",
            "A change of the embedding model can be made to pass them first: it is swapped in only if it answers well.",
        )
    if not person.may("namespaces:write"):
        st.caption("This key may not change the embedding model: it lacks the scope namespaces:write, or is bound.")
    elif not active_runs:
        _show_gate_form(person, namespace, evaluation)


def _show_running(run: Json) -> None:
    with st.container(border=True):
        st.markdown("**The namespace is being embedded again.** Searches are answered from the old vectors until then.")
        widgets.link_page("runs", "Open or cancel the run", run=run["id"])


def _show_gate_form(person: session.Person, namespace: str, evaluation: Json) -> None:
    """Show the form to embed with another model, used once its results pass the gate."""
    space = replace(person.api, tenant="").get(f"/v1/namespaces/{namespace}")["namespace"]
    current = space["embeddingModelConfig"]
    st.subheader("Try another embedding model behind this gate")
    st.caption(
        f"Now: {current['provider']} {current['model']}. All documents are embedded again next to the old vectors; the"
        " new ones are asked these questions, and take over only if they pass."
    )
    models = api_schema.embedding_models()
    left_column, right_column = st.columns(2)
    provider = left_column.selectbox("Provider", sorted(models, key=lambda name: name != "LOCAL"), key="gate_provider")
    other_models = [name for name in models[provider] if (provider, name) != (current["provider"], current["model"])]
    model = right_column.selectbox("Model", other_models, key=f"gate_model_{provider}")
    with st.form("gate", border=False):
        key = ""
        if provider != "LOCAL":
            key = st.text_input("API key", type="password", key="gate_key", autocomplete="off")
        metric_column, loss_column = st.columns(2)
        metric = metric_column.selectbox(
            "Metric", list(METRIC_LABELS), format_func=METRIC_LABELS.__getitem__, key="gate_metric"
        )
        options: Json = {"format": "%.3f", "key": "gate_value", "help": MAX_LOSS_HELP}
        max_loss = loss_column.number_input("Passes if worse than now by at most", 0.0, 1.0, 0.01, 0.01, **options)
        label = "Embed again behind the gate"
        is_sent = st.form_submit_button(label, type="primary", icon=":material/verified:", disabled=not model)
    if is_sent:
        gate = {"evaluationId": evaluation["id"], "metric": metric, "notWorseThan": max_loss}
        config = {"provider": provider, "model": model, **({"apiKey": key} if key else {})}
        _start_gate(person, namespace, {"embeddingModelConfig": config, "reembed": True, "gate": gate})


def _start_gate(person: session.Person, namespace: str, body: Json) -> None:
    with frame.shown_refusal(), st.spinner("Trying the model …"):
        response = person.api.patch(f"/v1/namespaces/{namespace}", body)
        frame.keep_outcome(
            "Begun: the new vectors are made now and judged when they are complete."
            if response.get("ingestJobRunId")
            else "Saved. Nothing had to be embedded again, so that the gate had nothing to judge."
        )
        st.rerun()


def show_weak_searches(person: session.Person, namespace: str) -> None:
    st.header("Searches without good results")
    data = person.api.get("/v1/weak-searches", namespaceId=namespace)
    searches, days = data["weakSearches"], data["retentionDays"]
    if not days:
        st.caption("Not recorded: the operator has set `RETRIEVAL_WEAK_SEARCH_DAYS`, the days to keep, to 0.")
        return
    if not searches:
        st.caption(f"None in the last {format_count(days, 'day')}. Searches in the search lab are not counted.")
        return
    sets = person.api.get("/v1/evaluations", namespaceId=namespace, pageSize=question_sets.MAX_LISTED_SETS)
    names = {item["id"]: item["name"] for item in sets["evaluations"]}
    target = st.selectbox("Question set to add to", list(names), format_func=names.__getitem__) if names else None
    for number, search in enumerate(searches[:MAX_SHOWN_SEARCHES]):
        text_column, lab_column, button_column = st.columns([6, 2, 1], vertical_alignment="center")
        times = f"{format_count(search['count'], 'time')}, {time_ago(search['lastAt'])}"
        answered = f"probability of an answer {search['probability']:.0%}"
        text_column.markdown(f"**{escape_markdown(search['query'])}** :gray[{times} · {answered}]")
        with lab_column:
            widgets.link_page("search", "Open in the search lab", q=search["query"])
        if target:
            change = {"add": [{"query": search["query"], "relevant": []}]}
            message = "Added without right documents."
            add = partial(question_sets.change_set, person, namespace, target, change, message)
            button_column.button("Add", key=f"add-{number}", icon=":material/playlist_add:", on_click=add)
    shown_part = f"The {MAX_SHOWN_SEARCHES} most frequent. " if len(searches) > MAX_SHOWN_SEARCHES else ""
    st.caption(f"{shown_part}Deleted {format_count(days, 'day')} after the last search.")
    if st.button("New question set of these", icon=":material/playlist_add:"):
        lines = [json.dumps({"query": search["query"], "relevant": []}, ensure_ascii=False) for search in searches]
        st.session_state[question_sets.LINES_KEY] = "\n".join(lines)
        session.go_to(new="yes")


def main() -> None:
    person = session.current_person()
    namespace = frame.show_head(person, "Evaluations")
    frame.show_outcome()
    evaluation = session.read_id("evaluation")
    if evaluation is None:
        question_sets.show_sets(person, namespace)
        if person.may("documents:write"):
            show_weak_searches(person, namespace)
        return
    widgets.link_back("All question sets", "evaluation", "run", "tab", "questions")
    try:
        opened = person.api.get(f"/v1/evaluations/{evaluation}", namespaceId=namespace)["evaluation"]
    except ApiError as error:
        if error.status != 404:
            raise
        st.warning("This question set does not exist here any more. Choose another one.")
    else:
        show_set(person, namespace, opened)


def show_set(person: session.Person, namespace: str, evaluation: Json) -> None:
    st.header(escape_markdown(evaluation["name"]))
    count_text, created = format_count(evaluation["questionCount"], "question"), time_ago(evaluation["createdAt"])
    st.caption(f"{count_text} · created {created}")
    if missing := evaluation.get("unresolved"):
        sample = ", ".join(escape_markdown(document) for document in missing[:5]) + (" …" if len(missing) > 5 else "")
        count_text = "100 or more documents" if len(missing) >= 100 else format_count(len(missing), "document")
        verbs = ("is", "counts") if len(missing) == 1 else ("are", "count")
        st.warning(
            f"{count_text} of the answers {verbs[0]} not in this namespace and {verbs[1]} as not found: {sample}"
        )
    pages = {
        "Compare": comparisons.start_comparison,
        "Results": comparisons.show_results,
        "Questions": question_sets.show_questions,
        "Gate": show_gates_tab,
    }
    if person.may("documents:write"):
        pages["Edit"] = question_sets.show_editor
    tabs = {name: partial(show, person, namespace, evaluation) for name, show in pages.items()}
    widgets.show_tabs("evaluation_tabs", tabs)


main()
