"""What is done to documents, one or all that match: shown before it happens, and told as the API answers it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import frame, widgets
from ui.parts.labels import called, count, word
from ui.parts.widgets import plain

NAMES = 8
"""Documents that a preview names."""
DELETED = "Gone from search at once, and from every store soon after, together with the files inside archives."
_TOLD = "documents_told"


def told() -> None:
    """What the last action came to, once, on the page that follows it."""
    said = st.session_state.pop(_TOLD, None)
    if said:
        kind, text = said
        (st.success if kind == "done" else st.warning)(text, icon=":material/check:" if kind == "done" else None)


def bulk(who: session.Person, namespace: str, config: Json, data: Json, what: str) -> None:
    """Of all documents that the filter leaves: resync, retry of what failed, deletion; each says first what it touches.

    data: the page that is shown, with `statsByStatus` of all that match. what: the filter in words.
    """
    if not who.may("documents:write"):
        return
    counts = {one["status"]: one["totalCount"] for one in data["statsByStatus"]}
    total = sum(counts.values())
    names = [document["name"] for document in data["documents"]]
    first = not session.parameter("cursor")
    with st.container(border=True):
        st.markdown(f"**Bulk actions** on {count(total, 'document')} · {plain(what)}")
        with st.container(horizontal=True):
            if failed := counts.get("FAILED", 0):
                with st.popover(f"Retry {failed:,} failed", icon=":material/replay:"):
                    st.write(f"{count(failed, 'failed document')} will be fetched, parsed and indexed again.")
                    only = {**config, "documentIngestionStatuses": ["FAILED"]}
                    if st.button("Retry", type="primary", key="retry-all"):
                        _resync(who, namespace, only)
            with st.popover(f"Resync {count(total, 'document')}", icon=":material/sync:"):
                _preview(total, names if first else [], counts)
                st.caption("Content that did not change is not embedded again.")
                if st.button("Resync", type="primary", key="resync-all"):
                    _resync(who, namespace, config)
            with st.popover(f"Delete {count(total, 'document')}", icon=":material/delete:"):
                _preview(total, names if first else [], counts)
                st.caption(DELETED)
                if st.button("Delete for good", type="primary", key="delete-all"):
                    _delete(who, namespace, config, total)


def one(who: session.Person, namespace: str, document: Json) -> None:
    """Metadata, resync and deletion of one document."""
    if not who.may("documents:write"):
        st.caption("This key may not change documents (scope documents:write).")
        return
    _metadata(who, namespace, document)
    config = {"documentIds": [document["id"]]}
    resync, delete = st.columns(2)
    if resync.button("Resync this document", icon=":material/sync:", width="stretch", key=f"resync-{document['id']}"):
        _resync(who, namespace, config)
    with delete.popover("Delete this document", icon=":material/delete:", width="stretch"):
        st.caption(DELETED)
        if st.button("Delete for good", type="primary", key=f"delete-{document['id']}"):
            _delete(who, namespace, config, 1)


def _preview(total: int, names: Sequence[str], counts: Mapping[str, int]) -> None:
    """How many documents it is about, in which states, and the newest by name."""
    states = ", ".join(f"{many:,} {word(status).lower()}" for status, many in counts.items())
    st.markdown(f"**{count(total, 'document')}** ({states})")
    listed = "\n".join(f"- {plain(called(name))}" for name in names[:NAMES])
    more = f"\n- and {total - min(len(names), NAMES):,} more" if listed and total > min(len(names), NAMES) else ""
    if listed:
        st.markdown(listed + more)


def _delete(who: session.Person, namespace: str, config: Json, expected: int) -> None:
    try:
        answer = who.api.delete("/v1/documents", {"namespaceId": namespace, "filterConfig": config})
    except ApiError as error:
        _refused(error, "Some may be deleted by now: look at the list again.")
        return
    session.remember(document=None, chunk=None, cursor=None)
    shown = f" {count(expected, 'document')} matched when the page was shown." if expected > 1 else ""
    st.session_state[_TOLD] = ("done", plain(f"{answer.message}.{shown}"))
    st.rerun()


def _resync(who: session.Person, namespace: str, config: Json) -> None:
    try:
        made = widgets.post_once(who, "/v1/documents/resync", {"namespaceId": namespace, "filterConfig": config})
    except ApiError as error:
        _refused(error, "Some may be queued by now: look at the list again.")
        return
    text = f"{count(made['itemsQueued'], 'document')} queued for resync."
    kind = "done"
    if made["itemsSkipped"]:
        kind = "partly"
        reasons = {one["error"]: None for one in made["documents"] if one["error"]}
        text += f" {count(made['itemsSkipped'], 'document')} left out: {' '.join(list(reasons)[:3])}"
    st.session_state[_TOLD] = (kind, plain(text))
    st.rerun()


def _refused(error: ApiError, late: str) -> None:
    frame.show(error)
    if error.code == "TIMEOUT":
        st.caption(late)


def _metadata(who: session.Person, namespace: str, document: Json) -> None:
    with st.form("metadata"):
        typed = st.text_area("Metadata to set (JSON object; keys that are not named stay)", value="{}", height=120)
        if st.form_submit_button("Set metadata", icon=":material/save:"):
            try:
                body = {
                    "namespaceId": namespace,
                    "filterConfig": {"documentIds": [document["id"]]},
                    "data": {"metadata": json.loads(typed)},
                }
                changed = who.api.patch("/v1/documents", body)
            except ValueError:
                st.error('That is not JSON. It is an object, such as {"team": "docs"}.')
            except ApiError as error:
                frame.show(error)
            else:
                done = changed["itemsUpdated"]
                st.session_state[_TOLD] = (
                    "done",
                    "Metadata set. Nothing was embedded again." if done else "There was nothing to change.",
                )
                st.rerun()
