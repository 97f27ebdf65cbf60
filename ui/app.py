"""Entry point of the admin app: sign-in and navigation."""

from __future__ import annotations

from pathlib import Path

import streamlit as st
from streamlit.navigation.page import Page

from ui import accessibility, session
from ui.parts import frame, problems, url_state

st.set_page_config(page_title="Retrieval Service", page_icon=str(Path(__file__).with_name("icon.svg")), layout="wide")

# By section: file below views/, title, icon and required right.
NAVIGATION_PAGES = {
    "Content": (
        ("overview", "Overview", "dashboard", None),
        ("add_content", "Add content", "add_circle", "ingest:write"),
        ("documents", "Documents", "description", "documents:read"),
        ("runs", "Runs", "play_circle", "ingest:read"),
    ),
    "Search": (("search", "Search lab", "search", "search"), ("evaluations", "Evaluations", "balance", "search")),
    "Sources": (
        ("sources", "Sources", "hub", "ingest:read"),
        ("namespaces", "Namespaces", "database", "namespaces:read"),
        ("connections", "Connections", "cable", "connections:read"),
    ),
    "Operations": (
        ("queue", "Queue and workers", "monitor_heart", "admin"),
        ("schedules", "Schedules", "event_repeat", "ingest:read"),
        ("webhooks", "Webhooks", "webhook", "webhooks:read"),
        ("usage", "Usage", "bar_chart", "admin"),
        ("audit", "Audit log", "receipt_long", "admin"),
    ),
    "Settings": (("keys", "Keys and limits", "key", "admin"),),
}


# Pages with data beyond one user.
ADMIN_PAGES = frozenset({"evaluations"})
# Pages of the role viewer.
VIEWER_PAGES = frozenset({"overview", "documents", "search"})


def _make_page(name: str, title: str, icon: str) -> Page:
    is_first = name == "overview"
    return st.Page(
        f"views/{name}.py", title=title, icon=f":material/{icon}:", url_path="" if is_first else name, default=is_first
    )


def _redirect_overview() -> None:
    # The path of the default page is `/`, not `/overview`.
    st.switch_page("views/overview.py", query_params=st.query_params.to_dict())


def _is_for(person: session.Person, name: str, scope: str | None) -> bool:
    is_offered = name in VIEWER_PAGES if person.role == "viewer" else person.sees_all or name not in ADMIN_PAGES
    return is_offered and (scope is None or person.may(scope))


def main() -> None:
    refusal = session.restore_sign_in()
    signed_in = session.is_signed_in()
    sections = {
        section: [
            _make_page(name, title, icon)
            for name, title, icon, scope in pages
            if not signed_in or _is_for(session.current_person(), name, scope)
        ]
        for section, pages in NAVIGATION_PAGES.items()
    }
    offered = {section: pages for section, pages in sections.items() if pages}
    offered["Content"].append(st.Page(_redirect_overview, url_path="overview", visibility="hidden"))
    page = st.navigation(offered, position="sidebar" if signed_in else "hidden", expanded=True)
    st.html(Path(__file__).with_name("app.css"))
    st.html(accessibility.SCRIPT_ELEMENT, unsafe_allow_javascript=True)
    if not signed_in:
        frame.offer_sign_in(refusal)
        return
    url_state.open_page(page.url_path)
    with frame.error_boundary():
        frame.ask_early(session.current_person())
        frame.show_sidebar(session.current_person())
        problems.show_strip(session.current_person(), page.url_path)
        frame.show_choice(session.current_person(), page.url_path)
        frame.show_notice()
        page.run()


main()
