"""Documents that are gone at their content service and wait for a person's word: shown, and let go when it is given."""

from __future__ import annotations

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import frame
from ui.parts.text import plain
from ui.parts.words import ago, count

MOST = 100
"""Documents that are shown, and confirmed, at once."""


def show(who: session.Person, namespace: str, connection: str) -> None:
    """What of the connection waits, and the button; nothing where nothing waits or the key may not look."""
    if not who.may("documents:read"):
        return
    waiting = _waiting(who, namespace, connection)
    documents = waiting["documents"]
    if not documents:
        return
    total = sum(one["totalCount"] for one in waiting["statsByStatus"])
    with st.container(border=True):
        st.markdown(f":orange[:material/notification_important: **{count(total, 'removal')} to confirm**]")
        st.caption(
            "They are gone at the content service, too many at once to go by themselves. They stay searchable until"
            " they are confirmed here, or until they are there again."
        )
        rows = [{"Name": one["name"], "Updated": ago(one["updatedAt"])} for one in documents]
        st.dataframe(rows, hide_index=True, width="stretch", height=min(220, 36 * len(rows) + 38))
        if total > len(documents):
            st.caption(f"The newest {len(documents)} of {total:,}; the others come up once these are confirmed.")
        if who.may("documents:write"):
            _confirm(who, namespace, connection, [one["id"] for one in documents])


def _waiting(who: session.Person, namespace: str, connection: str) -> Json:
    return who.api.post(
        "/v1/documents",
        {
            "namespaceId": namespace,
            "filterConfig": {"documentConnectionIds": [connection], "awaitingRemoval": True},
            "pagination": {"pageSize": MOST},
            "includeConfig": {"documents": True, "statsByStatus": True},
        },
    )


def _confirm(who: session.Person, namespace: str, connection: str, documents: list[str]) -> None:
    """Those that were shown, and of them those that still wait."""
    with st.popover("Confirm removals", icon=":material/delete_sweep:"):
        st.write(f"{count(len(documents), 'document')} will be gone from search at once, and from every store soon.")
        if st.button("Remove for good", type="primary", key=f"confirm-{connection}"):
            body = {
                "namespaceId": namespace,
                "filterConfig": {"documentIds": documents, "awaitingRemoval": True},
                "confirmDeletions": True,
            }
            try:
                told = who.api.post("/v1/documents/resync", body)
            except ApiError as error:
                frame.show(error)
                return
            removed = sum(one["status"] == "REMOVED" for one in told["documents"])
            st.toast(plain(f"{count(removed, 'document')} removed."), icon=":material/check:")
            st.rerun(scope="app")
