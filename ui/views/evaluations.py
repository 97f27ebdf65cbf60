"""Gates: new embeddings that a question set judges before anybody is shown them; begun, cancelled, and what they
decided.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import api_schema, comparisons, frame, question_sets, widgets
from ui.parts.comparisons import METRICS
from ui.parts.labels import MOVING, ago, count
from ui.parts.widgets import plain

RUNS = 30
"""Newest job runs that are looked through."""
RULES = {"notWorseThan": "worse than now by at most", "minimum": "at least"}
BOUND = "Of the metric, which lies between 0 and 1."
_SAID = "gate_said"


def decided(who: session.Person, namespace: str, evaluation: str | None = None) -> list[Json]:
    """Job runs that embedded a namespace again and say what their gate found; of one question set, if it is named."""
    return _told(_runs(who, namespace), evaluation)


def _runs(who: session.Person, namespace: str) -> list[Json]:
    if not who.may("ingest:read"):
        return []
    api = replace(who.api, tenant="")  # they belong to the namespace, not to a tenant of it
    asked: dict[str, Any] = {"namespaceId": namespace, "source": "REEMBED", "pageSize": RUNS}
    runs = api.get("/v1/ingest-job-runs", **asked)["ingestJobRuns"]
    return [run for run in runs if run["source"] == "REEMBED"]


def _told(runs: list[Json], evaluation: str | None) -> list[Json]:
    return [run for run in runs if any(_tells(one, evaluation) for one in run["notices"])]


def show_gates(namespace: str, runs: list[Json]) -> None:
    """Each with its figures and a link to its run."""
    for run in runs:
        with st.container(border=True):
            with st.container(horizontal=True, vertical_alignment="center"):
                widgets.status_badge(run["outcome"] or run["status"])
                st.caption(f"{plain(run['name'])} · {ago(run['createdAt'])}")
            for notice in run["notices"]:
                told = plain(notice["reason"])
                if run["outcome"] == "FAILED":
                    st.error(told, icon=":material/block:")
                else:
                    st.success(told, icon=":material/verified:")
            place = {"namespace": namespace, "run": run["id"]}
            st.page_link("views/runs.py", label="Open the run", icon=":material/play_circle:", query_params=place)


def gates_tab(who: session.Person, namespace: str, evaluation: Json) -> None:
    """What this question set decided and what it is deciding, and the form that has it judge another model."""
    said = st.session_state.pop(_SAID, None)
    if isinstance(said, ApiError):
        frame.show(said)
    elif said:
        st.success(said, icon=":material/check:")
    runs = _runs(who, namespace)
    moving = [run for run in runs if run["status"] in MOVING]
    for run in moving:
        _under_way(who, namespace, run)
    if judged := _told(runs, evaluation["id"]):
        show_gates(namespace, judged)
    else:
        widgets.show_empty(
            "No gate has asked these questions yet.",
            "A change of the embedding model can be made to pass them first: it is swapped in only if it answers well.",
        )
    if not who.may("namespaces:write"):
        st.caption("This key may not change the embedding model: it lacks the scope namespaces:write, or is bound.")
    elif not moving:
        _form(who, namespace, evaluation)


def _under_way(who: session.Person, namespace: str, run: Json) -> None:
    with st.container(border=True):
        st.markdown("**The namespace is being embedded again.** Searches are answered from the old vectors until then.")
        with st.container(horizontal=True):
            place = {"namespace": namespace, "run": run["id"]}
            st.page_link("views/runs.py", label="Open the run", icon=":material/play_circle:", query_params=place)
            if who.may("ingest:write"):
                st.button(
                    "Cancel it and its gate",
                    icon=":material/cancel:",
                    on_click=_cancel,
                    args=(who, namespace, run["id"]),
                )


def _form(who: session.Person, namespace: str, evaluation: Json) -> None:
    """Another model behind a gate. Nothing is changed before the new vectors have passed."""
    space = replace(who.api, tenant="").get(f"/v1/namespaces/{namespace}")["namespace"]
    now = space["embeddingModelConfig"]
    st.subheader("Try another embedding model behind this gate")
    st.caption(
        f"Now: {now['provider']} {now['model']}. All documents are embedded again beside the old vectors; the new ones"
        " are asked these questions, and take over only if they pass."
    )
    models = api_schema.models()
    left, right = st.columns(2)
    provider = left.selectbox("Provider", sorted(models, key=lambda name: name != "LOCAL"), key="gate_provider")
    others = [name for name in models[provider] if (provider, name) != (now["provider"], now["model"])]
    model = right.selectbox("Model", others, key=f"gate_model_{provider}")
    with st.form("gate", border=False):
        key = ""
        if provider != "LOCAL":
            key = st.text_input("API key", type="password", key="gate_key", autocomplete="off")
        one, two, three = st.columns(3)
        metric = one.selectbox("Metric", list(METRICS), format_func=METRICS.__getitem__, key="gate_metric")
        rule = two.selectbox("Passes if it is", list(RULES), format_func=RULES.__getitem__, key="gate_rule")
        bound = three.number_input("Value", 0.0, 1.0, 0.01, 0.01, format="%.3f", key="gate_value", help=BOUND)
        pressed = st.form_submit_button(
            "Embed again behind the gate", type="primary", icon=":material/verified:", disabled=not model
        )
    if pressed:
        gate = {"evaluationId": evaluation["id"], "metric": metric, rule: bound}
        config = {"provider": provider, "model": model, **({"apiKey": key} if key else {})}
        _begin(who, namespace, {"embeddingModelConfig": config, "reembed": True, "gate": gate})


def _begin(who: session.Person, namespace: str, body: Json) -> None:
    try:
        with st.spinner("Trying the model …"):
            begun = who.api.patch(f"/v1/namespaces/{namespace}", body)
    except ApiError as error:
        frame.show(error)
        return
    if begun.get("ingestJobRunId"):
        st.session_state[_SAID] = "Begun: the new vectors are made now and judged when they are complete."
    else:
        st.session_state[_SAID] = "Saved. Nothing had to be embedded again, so that the gate had nothing to judge."
    st.rerun()


def _cancel(who: session.Person, namespace: str, run: str) -> None:
    api = replace(who.api, tenant="")
    try:
        api.post(f"/v1/ingest-job-runs/{run}/cancel", {"namespaceId": namespace})
    except ApiError as error:
        st.session_state[_SAID] = error
        return
    st.session_state[_SAID] = "Cancelled: the old vectors stay, and the gate is gone with the run."


def _tells(notice: Json, evaluation: str | None) -> bool:
    reason = str(notice["reason"])
    judged = "could not be judged" in reason
    return f"of {evaluation};" in reason if evaluation else "of eval_" in reason or judged


def main() -> None:
    who = session.person()
    namespace = frame.head(who, "Evaluations")
    question_sets.told()
    question_sets.refused()
    evaluation = session.named("evaluation")
    if evaluation is None:
        question_sets.listing(who, namespace)
        if runs := decided(who, namespace):
            st.header("Gates of new embeddings")
            show_gates(namespace, runs)
        return
    if st.button("All question sets", icon=":material/arrow_back:"):
        session.remember(evaluation=None, run=None, tab=None, questions=None)
        st.rerun()
    found = _opened(who, namespace, evaluation)
    if found is not None:
        one(who, namespace, found)


def one(who: session.Person, namespace: str, evaluation: Json) -> None:
    """A question set with everything that was measured by it."""
    st.header(plain(evaluation["name"]))
    many, made = count(evaluation["questionCount"], "question"), ago(evaluation["createdAt"])
    st.caption(f"{many} · created {made} · `{evaluation['id']}`")
    if missing := evaluation.get("unresolved"):
        shown = ", ".join(plain(one) for one in missing[:5]) + (" …" if len(missing) > 5 else "")
        many = "100 or more documents" if len(missing) >= 100 else count(len(missing), "document")
        verbs = ("is", "counts") if len(missing) == 1 else ("are", "count")
        st.warning(f"{many} of the answers {verbs[0]} not in this namespace and {verbs[1]} as not found: {shown}")
    pages = {
        "Compare": partial(comparisons.start, who, namespace, evaluation),
        "Results": partial(comparisons.results, who, namespace, evaluation),
        "History": partial(comparisons.history, who, namespace, evaluation),
        "Questions": partial(question_sets.questions, who, namespace, evaluation),
        "Gate": partial(gates_tab, who, namespace, evaluation),
    }
    if who.may("documents:write"):
        pages["Edit"] = partial(question_sets.edit, who, namespace, evaluation)
    widgets.show_tabs("evaluation_tabs", pages)


def _opened(who: session.Person, namespace: str, evaluation: str) -> Json | None:
    try:
        found: Json = who.api.get(f"/v1/evaluations/{evaluation}", namespaceId=namespace)["evaluation"]
    except ApiError as error:
        if error.status != 404:
            raise
        st.warning("This question set does not exist here any more. Choose another one.")
        return None
    return found


main()
