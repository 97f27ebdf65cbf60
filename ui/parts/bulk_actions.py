"""Actions on many documents: selected ones, or all of the filter."""

from __future__ import annotations

from functools import partial

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import document_actions, document_filters, failures, frame
from ui.parts.labels import count_documents, document_label, format_count
from ui.parts.widgets import escape_markdown

# Above, the number of documents is typed before a deletion.
MAX_UNCONFIRMED = 100
# Hidden one by one.
MAX_HIDDEN = 100
SELECTED, MATCHING = "selected", "matching"
RETRY_HELP = "Those that a retry can help: others need another address, file, password or OCR."


def show_bulk_actions(person: session.Person, namespace: str, config: Json, data: Json, selected: list[Json]) -> None:
    """Show the actions with their scope; nothing without a filter or a selection."""
    if not person.may("documents:write") or not (config or selected):
        return
    total, number = count_documents(data), len(selected)
    with st.container(border=True):
        labels = {SELECTED: f"{number:,} selected"} if selected else {}
        labels |= {MATCHING: f"All {total:,} that match"} if config else {}
        with st.container(horizontal=True, vertical_alignment="center"):
            chosen = st.segmented_control(
                "Scope",
                list(labels),
                default=next(iter(labels)),
                format_func=labels.__getitem__,
                required=True,
                label_visibility="collapsed",
            )
            st.caption("" if chosen == MATCHING else _list_names(selected), width="stretch")
        documents = selected if chosen == SELECTED else data["documents"]
        if chosen == SELECTED:
            config, total = {"documentIds": [document["id"] for document in selected]}, number
        can_retry = any(document["failureCause"] in failures.RETRIED_CAUSES for document in documents)
        with st.container(horizontal=True):
            with st.popover("Metadata", icon=":material/label:"):
                keys = document_filters.list_keys("metadata", data["documents"])
                document_actions.show_metadata_form(person, namespace, config, keys)
            with st.popover("Access", icon=":material/lock_person:"):
                document_actions.show_access_form(person, namespace, config, {})
            with st.popover("Hide", icon=":material/visibility_off:"):
                _show_hide_form(person, namespace, config, total)
            if can_retry and st.button("Retry failed ones", icon=":material/replay:", key="retry-all", help=RETRY_HELP):
                document_actions.start_resync(person, namespace, failures.narrow_to_retries(config))
            document_actions.show_index_again(person, namespace, config)
            label = f"Delete {format_count(total, 'document')}"
            with st.container(key="danger", width="content"), st.popover(label, icon=":material/delete:"):
                document_actions.show_scope(selected or data["documents"], total)
                is_sure = total <= MAX_UNCONFIRMED or _is_number_typed(total)
                document_actions.offer_deletion(person, namespace, config, total, "delete-all", is_sure=is_sure)


def _list_names(documents: list[Json]) -> str:
    names = [escape_markdown(document_label(document["name"])) for document in documents[:3]]
    return ", ".join(names) + (f" and {len(documents) - 3:,} more" if len(documents) > 3 else "")


def _is_number_typed(total: int) -> bool:
    typed = st.text_input(f"Type {total} to delete {format_count(total, 'document')}", key="delete-number")
    return (typed or "").strip().replace(",", "") == str(total)


def _show_hide_form(person: session.Person, namespace: str, config: Json, total: int) -> None:
    if total > MAX_HIDDEN:
        st.caption(f"At most {MAX_HIDDEN} documents are hidden at once: narrow the filter, or select some.")
        return
    reason = st.text_input("Reason, which others see", max_chars=500, key="bulk-hide-reason").strip()
    hide = partial(_hide, person, namespace, config, reason)
    st.button(f"Hide {format_count(total, 'document')}", key="hide-all", disabled=not reason, on_click=hide)


def _hide(person: session.Person, namespace: str, config: Json, reason: str) -> None:
    with frame.shown_refusal(frame.keep_outcome):
        documents = person.api.list_documents(namespace, config, size=MAX_HIDDEN)["documents"]
        for document in documents:
            body = {"namespaceId": namespace, "reason": reason}
            person.api.post(f"/v1/documents/{document['id']}/hidden-passages", body)
        frame.keep_outcome(f"{format_count(len(documents), 'document')} hidden from search.")
