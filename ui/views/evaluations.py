"""Evaluations: judged questions, and search settings compared over all of them."""

from __future__ import annotations

from functools import partial

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import comparisons, frame, gates, question_sets, widgets
from ui.parts.labels import ago, count
from ui.parts.widgets import plain


def main() -> None:
    who = session.person()
    namespace = frame.head(who, "Evaluations")
    question_sets.told()
    question_sets.refused()
    evaluation = session.named("evaluation")
    if evaluation is None:
        question_sets.listing(who, namespace)
        if runs := gates.decided(who, namespace):
            st.header("Gates of new embeddings")
            gates.show(namespace, runs)
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
        "Gate": partial(gates.tab, who, namespace, evaluation),
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
