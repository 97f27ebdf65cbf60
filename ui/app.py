"""The admin app, served by `streamlit run ui/server.py`: sign-in and navigation; pages do the rest."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from ui import session
from ui.parts import frame

st.set_page_config(page_title="Retrieval Service", page_icon=str(Path(__file__).with_name("icon.svg")), layout="wide")

PAGES = (
    ("overview", "Overview", "dashboard", None),
    ("namespaces", "Namespaces", "database", "namespaces:read"),
    ("runs", "Runs", "play_circle", "ingest:read"),
    ("documents", "Documents", "description", "documents:read"),
    ("search", "Search lab", "search", "search"),
    ("connections", "Connections", "cable", "connections:read"),
    ("keys", "Keys and limits", "key", "admin"),
)
"""File below views/, title, icon, and the right that a page needs."""


def main() -> None:
    signed_in = session.is_signed_in()
    pages = [
        st.Page(f"views/{name}.py", title=title, icon=f":material/{icon}:", url_path=name, default=name == "overview")
        for name, title, icon, scope in PAGES
        if not signed_in or scope is None or session.person().may(scope)
    ]
    page = st.navigation(pages, position="sidebar" if signed_in else "hidden")
    if not signed_in:
        frame.sign_in_form()
        return
    with frame.trouble():
        frame.sidebar(session.person())
        page.run()


main()
