"""Documents deleted at their content service: listed, and removed once confirmed."""

from __future__ import annotations

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import frame, widgets
from ui.parts.labels import count_documents, format_count, time_ago
from ui.parts.widgets import escape_markdown

# Also confirmed at once.
MAX_SHOWN_REMOVALS = 100
# To find their connections.
MAX_READ_REMOVALS = 30


def connections_with_removals(person: session.Person, namespace: str) -> frozenset[str] | None:
    """Return connections with pending removals; None if too many wait."""
    if not person.may("documents:read"):
        return frozenset()
    waiting = _list_waiting(person, namespace, [], MAX_READ_REMOVALS)
    if count_documents(waiting) > MAX_READ_REMOVALS:
        return None
    return frozenset(
        name
        for document in waiting["documents"]
        for name in {*document["connectionIds"], *([document["connection"]["id"]] if document["connection"] else [])}
    )


def show_link(person: session.Person, namespace: str, connection: str) -> None:
    """Show the number of a connection's pending removals with a link."""
    if not person.may("documents:read") or not person.may("connections:read"):
        return
    if count := count_documents(_list_waiting(person, namespace, [connection], 0)):
        label = f"{format_count(count, 'removal')} to confirm: look at them"
        widgets.link_page("connections", label, "notification_important", removals=connection)


def show_removals(person: session.Person, namespace: str, connection: str, name: str) -> None:
    """Show a connection's pending removals with a button to confirm."""
    if not person.may("documents:read"):
        return
    waiting = _list_waiting(person, namespace, [connection], MAX_SHOWN_REMOVALS)
    documents, count = waiting["documents"], count_documents(waiting)
    if not documents:
        return
    with st.container(border=True):
        st.markdown(
            f":orange[:material/notification_important: **{format_count(count, 'removal')} to confirm**]"
            f" · {escape_markdown(name)}"
        )
        st.caption(
            "They are gone at the content service, too many at once to go by themselves. They stay searchable until"
            " they are confirmed here, or until they are there again."
        )
        rows = [{"Name": document["name"], "Updated": time_ago(document["updatedAt"])} for document in documents]
        widgets.show_table(rows)
        if count > len(documents):
            st.caption(f"The newest {len(documents)} of {count:,}; the others come up once these are confirmed.")
        if person.may("documents:write"):
            _offer_confirmation(person, namespace, connection, [document["id"] for document in documents])


def _list_waiting(person: session.Person, namespace: str, connections: list[str], limit: int) -> Json:
    config = {"documentConnectionIds": connections, "awaitingRemoval": True}
    return person.api.list_documents(namespace, config, size=limit, include=["statsByStatus"])


def _offer_confirmation(person: session.Person, namespace: str, connection: str, documents: list[str]) -> None:
    # Confirms shown documents only, and of these only pending ones.
    with st.popover("Confirm removals", icon=":material/delete_sweep:"):
        st.write(
            f"{format_count(len(documents), 'document')} will be gone from search at once, and from every store soon."
        )
        if st.button("Remove for good", type="primary", key=f"confirm-{connection}"):
            body = {
                "namespaceId": namespace,
                "filterConfig": {"documentIds": documents, "awaitingRemoval": True},
                "confirmDeletions": True,
            }
            with frame.shown_refusal():
                response = person.api.post("/v1/documents/resync", body)
                removed = sum(document["status"] == "REMOVED" for document in response["documents"])
                frame.keep_notice(escape_markdown(f"{format_count(removed, 'document')} removed."))
                st.rerun(scope="app")
