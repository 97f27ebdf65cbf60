"""The page of a PDF that a chunk lies on, as the API draws it, with the chunk shaded."""

from __future__ import annotations

import streamlit as st

from ui import session
from ui.client import ApiError, Json


def show(who: session.Person, namespace: str, document: Json, chunk: Json) -> None:
    """The page, for a PDF; for others nothing."""
    if document["documentProperties"]["mimeType"] != "application/pdf":
        return
    path = f"/v1/documents/{document['id']}/pages/{chunk['page']}"
    try:
        picture = who.api.picture(path, namespaceId=namespace, chunk=chunk["index"])
    except ApiError as error:
        st.caption(f"This page cannot be shown. {error.message}")
        return
    st.image(picture, caption=f"Page {chunk['page']}", width="stretch")
