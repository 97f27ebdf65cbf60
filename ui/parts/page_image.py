"""A page of a PDF as the API draws it, with a chunk shaded."""

from __future__ import annotations

import streamlit as st

from ui import session
from ui.client import ApiError, Json


def show(who: session.Person, namespace: str, document: Json, page: int, chunk: int | None = None) -> None:
    """Show the page of a PDF; nothing for other files. `chunk`: the index of the chunk to shade."""
    if document["documentProperties"]["mimeType"] != "application/pdf":
        return
    path = f"/v1/documents/{document['id']}/pages/{page}"
    try:
        picture = who.api.picture(path, namespaceId=namespace, **({} if chunk is None else {"chunk": chunk}))
    except ApiError as error:
        st.caption(f"This page cannot be shown. {error.message}")
        return
    st.image(picture, caption=f"Page {page}", width="stretch")
