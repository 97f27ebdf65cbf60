"""Add content: from every source in one place, previewed before it is started, followed until it is searchable."""

from __future__ import annotations

from typing import Any

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import added, additions, frame, ingest_forms, url_state, widgets
from ui.parts.api_schema import known_services
from ui.parts.ingest_forms import Options, Unfit
from ui.parts.labels import offered_sources, source_title
from ui.parts.widgets import escape_markdown


def main() -> None:
    person = session.current_person()
    namespace = frame.show_head(person, "Add content")
    if not person.may("ingest:write"):
        st.info("This key may not add content (scope ingest:write).", icon=":material/lock:")
        return
    if additions.goes_on(namespace):
        with st.container(horizontal=True):
            st.button("Add more", icon=":material/add:", on_click=additions.forget_addition)
            widgets.link_page("runs", "All runs")
        added.show_added(person, namespace)
        return
    kind = _choose_source()
    if kind in known_services():
        _from_connection(person, namespace, kind)
    else:
        _from_fields(person, namespace, kind)
    added.show_previews(person, namespace, kind)


def _choose_source() -> str:
    names = sorted(offered_sources(), key=lambda name: name != "LOCAL_FILE")
    words = {name: "Files" if name == "LOCAL_FILE" else source_title(name) for name in names}
    linked = session.read_parameter("source")
    choice: Json = {"default": names[0], "options": names, "format_func": words.__getitem__, "required": True}
    chosen = url_state.bind_field(
        st.pills, "source", "Source", prefix="add", clears="connection", always=True, **choice
    )
    if linked not in (chosen, None):
        added.forget_previews()
    return str(chosen)


def _from_fields(person: session.Person, namespace: str, kind: str) -> None:
    if kind == "LOCAL_FILE":
        st.toggle("Choose a whole folder", key=ingest_forms.WHOLE)
    with st.form("add", border=False):
        typed = ingest_forms.show_fields(kind)
        chosen = ingest_forms.show_options()
        start, preview = _buttons()
    if start or preview:
        _act(person, namespace, kind, typed, chosen, dry=preview)


def _from_connection(person: session.Person, namespace: str, kind: str) -> None:
    typed = ingest_forms.choose_connection(person, namespace, kind)
    if typed is None:
        return
    with st.form("add", border=False):
        chosen = ingest_forms.show_options()
        start, preview = _buttons()
    if not (start or preview):
        return
    if typed.pop("unchosen", False):
        st.error("Choose at least one folder or file, or take everything.", icon=":material/error:")
        return
    _act(person, namespace, kind, typed, chosen, dry=preview)


def _buttons() -> tuple[bool, bool]:
    with st.container(horizontal=True):
        start = st.form_submit_button("Start", type="primary", icon=":material/play_arrow:")
        preview = st.form_submit_button(
            "Preview", icon=":material/visibility:", help="What would be created, updated, removed, and its cost."
        )
    return start, preview


def _act(
    person: session.Person, namespace: str, kind: str, typed: dict[str, Any], chosen: Options, *, dry: bool
) -> None:
    try:
        items = ingest_forms.make_items(namespace, kind, typed, chosen)
    except Unfit as error:
        st.error(escape_markdown(str(error)), icon=":material/error:")
        return
    if dry:
        added.ask_preview(person, namespace, kind, items)
        return
    added.forget_previews()
    additions.start_addition(namespace, items)
    ingest_forms.clear_fields()
    st.rerun()


main()
