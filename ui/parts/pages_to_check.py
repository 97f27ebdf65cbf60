"""Pages of a document whose text may be wrong or missing: each with the reasons, beside its picture."""

from __future__ import annotations

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import widgets
from ui.parts.widgets import plain

TITLE = "Pages to check"


def summary(document: Json) -> str:
    """Return the numbers of the pages and their reasons in one line; empty where no page needs a look."""
    pages = document["documentProperties"]["pagesToCheck"]
    numbers = ", ".join(str(page["page"]) for page in pages if page["page"])
    reasons = " ".join(dict.fromkeys(reason for page in pages for reason in page["reasons"]))
    return f"{numbers}: {reasons}" if numbers else reasons


def show(who: session.Person, namespace: str, document: Json) -> None:
    """Choose a page; see what is wrong with it and how it looks."""
    pages = document["documentProperties"]["pagesToCheck"]
    page = st.selectbox("Page", pages, format_func=_title) if len(pages) > 1 else pages[0]
    left, right = st.columns([2, 3])
    with left:
        st.markdown(f"**{_title(page)}**")
        for reason in page["reasons"]:
            st.write(plain(reason))
        st.caption(
            "Its text is left out of the document: ingest the file again with text recognition."
            if page["unread"]
            else "Its text is indexed as it was read: compare it with the page."
        )
    if page["page"]:
        with right:
            widgets.show_page_image(who, namespace, document, page["page"])


def _title(page: Json) -> str:
    name = f"Page {page['page']}" if page["page"] else "The whole text"
    return f"{name} · quality {page['quality']:.2f}{' · not read' if page['unread'] else ''}"
