"""Passages hidden from search: hide with a reason, list, show again."""

from __future__ import annotations

from functools import partial

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import frame
from ui.parts.labels import document_label
from ui.parts.widgets import escape_markdown

MAX_LISTED_DOCUMENTS = 50


def offer_hiding(person: session.Person, namespace: str, document: str, chunk: int, key_prefix: str) -> None:
    """Offer to hide a chunk or its document from all searches."""
    if not person.may("documents:write"):
        return
    key = f"hide-{key_prefix}-{document}-{chunk}"
    hint: Json = {"placeholder": "Prices of last year", "max_chars": 500}
    hide = partial(_hide_passage, person, namespace, document, chunk, key)
    with st.form(f"{key}-form", border=False):
        st.text_input("Hide from search for this reason, which others see", key=f"{key}-reason", **hint)
        st.checkbox("The whole document", key=f"{key}-whole")
        st.form_submit_button("Hide", key=key, icon=":material/visibility_off:", on_click=hide)


def _hide_passage(person: session.Person, namespace: str, document: str, chunk: int, key: str) -> None:
    reason = st.session_state[f"{key}-reason"].strip()
    if not reason:
        frame.keep_notice(ApiError(0, "NO_REASON", "Type a reason: others see it in the list of hidden passages."))
        return
    body: Json = {"namespaceId": namespace, "reason": reason}
    body |= {} if st.session_state[f"{key}-whole"] else {"chunkIndex": chunk}
    with frame.shown_refusal(frame.keep_notice):
        answer = person.api.call("POST", f"/v1/documents/{document}/hidden-passages", body=body)
        frame.keep_notice(f"{answer.message}. Documents lists hidden passages.")


def show_hidden(person: session.Person, namespace: str) -> None:
    icon = ":material/visibility_off:"
    with st.expander("Hidden from search", icon=icon, key="hidden_passages", on_change="rerun") as listing:
        if not listing.open:
            return
        data = person.api.get("/v1/hidden-passages", namespaceId=namespace, pageSize=MAX_LISTED_DOCUMENTS)
        if not data["hiddenPassages"]:
            st.caption("Nothing is hidden. Hide a passage from its hit in the search lab, or from its document.")
        for passage in data["hiddenPassages"]:
            text_column, button_column = st.columns([5, 1], vertical_alignment="center")
            with text_column:
                query_params = {"namespace": namespace, "document": passage["documentId"]}
                label = escape_markdown(document_label(passage["documentName"]))
                st.page_link("views/documents.py", label=label, query_params=query_params)
                text = "The whole document" if passage["excerpt"] is None else f"“{passage['excerpt']}”"
                st.caption(f"{escape_markdown(text)}  \n{escape_markdown(passage['reason'])}")
                if not passage["matched"]:
                    st.warning("The current version has no such text: nothing is hidden by this entry.")
            if person.may("documents:write"):
                restore = partial(_show_again, person, namespace, passage)
                button_column.button("Show again", key=f"show-{passage['id']}", on_click=restore)
        if data["hasNextPage"]:
            st.caption(f"Those of the newest {MAX_LISTED_DOCUMENTS} documents are listed.")


def _show_again(person: session.Person, namespace: str, passage: Json) -> None:
    path = f"/v1/documents/{passage['documentId']}/hidden-passages/{passage['id']}"
    with frame.shown_refusal(frame.keep_notice):
        person.api.call("DELETE", path, namespaceId=namespace)
