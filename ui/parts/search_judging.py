"""Hits judged with one click: right or wrong for the question, kept in a question set, as the API confirms it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import frame
from ui.parts.labels import count
from ui.parts.search_request import Wanted
from ui.parts.widgets import plain

SETS = 20
"""Newest question sets that are offered."""
_NEW = "new:"
"""Before the name of a set, in the page's address, that the first judgement makes."""
_TOLD, _ROUND = "judged", "judging_round"


@dataclass(frozen=True, slots=True)
class Set:
    """A question set, and what it holds of the question; `id` is None for one that the first judgement makes."""

    id: str | None
    name: str
    relevant: list[Json] = field(default_factory=list)


def choose(who: session.Person, wanted: Wanted) -> Set | None:
    """The set that judgements go to, and what the last one came to; None without one, or without the right."""
    if not (who.may("documents:write") and who.sees_all):
        return None
    known = {one["id"]: one["name"] for one in _sets(who, wanted.namespace)}
    linked = session.parameter("set") or ""
    options = [*known, *([linked.removeprefix(_NEW)] if linked.startswith(_NEW) else [])]
    at = linked.removeprefix(_NEW)
    left, right = st.columns([2, 3], vertical_alignment="bottom")
    chosen = left.selectbox(
        "Question set",
        options,
        index=options.index(at) if at in options else None,
        format_func=lambda one: f"{known[one]}  ·  {one[-6:]}" if one in known else one,
        placeholder="Choose one, or type a new name",
        accept_new_options=True,
        help="Keeps hits that you mark as right as answers to this question. Evaluations compares settings by them.",
    )
    session.remember(set=chosen if chosen in known or not chosen else _NEW + chosen)
    if told := st.session_state.pop(_TOLD, None):
        right.success(told, icon=":material/check:")
    elif isinstance(refused := st.session_state.pop(f"{_TOLD}_refused", None), ApiError):
        frame.show(refused)
    if not chosen:
        right.caption("With a question set, each hit can be marked as right or wrong.")
        return None
    if chosen not in known:
        right.caption(f"“{plain(chosen)}” is created with the first hit that you mark as right.")
        return Set(None, chosen)
    found = _questions(who, wanted, chosen)
    relevant = found[0]["relevant"] if found else []
    if not told:
        right.caption(f"{count(len(relevant), 'document')} marked as right for this question.")
    return Set(chosen, known[chosen], relevant)


def mark(who: session.Person, wanted: Wanted, chosen: Set | None, hit: Json, mode: str) -> None:
    """The two thumbs of a hit of the page's own namespace."""
    if chosen is None or hit.get("namespaceId", wanted.namespace) != wanted.namespace:
        return
    rounds = st.session_state.get(_ROUND, 0)
    key = f"mark-{chosen.id}-{wanted.query}-{rounds}-{mode}-{hit['document']['id']}-{hit['chunk']['index']}"
    st.feedback(
        "thumbs",
        key=key,
        default=1 if is_right(chosen.relevant, hit) else None,
        on_change=_judge,
        args=(who, wanted, chosen, hit, key),
    )


def is_right(relevant: list[Json], hit: Json) -> bool:
    """Whether the hit's document is among the judged ones."""
    document = hit["document"]
    return any(
        one.get("documentId") == document["id"] or one.get("externalId") == document["externalId"] for one in relevant
    )


def _judge(who: session.Person, wanted: Wanted, chosen: Set, hit: Json, key: str) -> None:
    """Send the judgement, read the question back, and say what is there now."""
    right = st.session_state.get(key) == 1
    st.session_state[_ROUND] = st.session_state.get(_ROUND, 0) + 1
    try:
        st.session_state[_TOLD] = _confirmed(who, wanted, chosen, hit, right=right)
    except ApiError as error:
        st.session_state[f"{_TOLD}_refused"] = error


def _confirmed(who: session.Person, wanted: Wanted, chosen: Set, hit: Json, *, right: bool) -> str:
    name = plain(hit["document"]["name"])
    if not right and (chosen.id is None or not is_right(chosen.relevant, hit)):
        return f"“{name}” was not marked as right: a question set keeps right documents, and all others count as wrong."
    made = _send(who, wanted, chosen, hit, right=right)
    session.remember(set=made)
    found = _questions(who, wanted, made)
    relevant = found[0]["relevant"] if found else []
    if is_right(relevant, hit) is not right:
        return f"The API took the judgement, but does not show it: look at the question in “{plain(chosen.name)}”."
    verb = "is now marked as right" if right else "is not marked as right any more"
    return f"“{name}” {verb} in “{plain(chosen.name)}”: {count(len(relevant), 'right document')} for this question."


def _send(who: session.Person, wanted: Wanted, chosen: Set, hit: Json, *, right: bool) -> str:
    external: Json = {"externalId": hit["document"]["externalId"]}
    narrow: Json = {"filter": wanted.filter} if wanted.filter else {}
    where = {"namespaceId": wanted.namespace}
    if chosen.id is None:
        question = {"query": wanted.query, "relevant": [external], **narrow}
        made = who.api.post("/v1/evaluations", {**where, "name": chosen.name, "questions": [question]})
        return str(made["evaluation"]["id"])
    verdict = {"query": wanted.query, **external, "grade": int(right), **narrow}
    who.api.patch(f"/v1/evaluations/{chosen.id}", {**where, "judge": [verdict]})
    return chosen.id


def _sets(who: session.Person, namespace: str) -> list[Any]:
    found: list[Any] = who.api.get("/v1/evaluations", namespaceId=namespace, pageSize=SETS)["evaluations"]
    return found


def _questions(who: session.Person, wanted: Wanted, evaluation: str) -> list[Json]:
    path = f"/v1/evaluations/{evaluation}/questions"
    found: list[Json] = who.api.get(path, namespaceId=wanted.namespace, query=wanted.query, pageSize=1)["questions"]
    return found
