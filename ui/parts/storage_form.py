"""Form of a connection without an app, made from the API's description of addresses and credentials."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import api_schema, frame, widgets
from ui.parts.labels import INTERVALS, name_of
from ui.parts.widgets import escape_markdown

_ADDED = "storages_added"
"""Number of sources that were connected, so that each closes the form."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of `SourceAddress`, or of its credentials, which are entered hidden."""

    name: str
    help: str
    is_secret: bool
    is_multiline: bool

    @property
    def label(self) -> str:
        words = re.sub(r"(?=[A-Z])", " ", self.name).lower()
        return words[0].upper() + words[1:]


def show_storage_form(person: session.Person, namespace: str) -> None:
    """Show the form of a new connection without authorization; the fields are those of the source."""
    added = st.session_state.get(_ADDED, 0)
    title = "Connect a folder, bucket or service by its URL"
    with st.expander(title, icon=":material/database:", key=f"storage-form-{added}"):
        sources = api_schema.sources_without_app()
        source = st.selectbox("Source", list(sources), format_func=lambda name: sources[name]["title"])
        with st.form("storage", border=False):
            url = st.text_input("URL", placeholder=sources[source]["example"], key=f"storage-url-{source}")
            name = st.text_input("Name", placeholder="Handbooks", key="storage-name")
            values = {field: _ask(field, source) for field in list_fields(source)}
            interval = st.selectbox("Sync schedule", list(INTERVALS), format_func=name_of, key="storage-interval")
            if not st.form_submit_button("Connect source", type="primary", icon=":material/cable:"):
                return
        credentials = {field.name: value for field, value in values.items() if value and field.is_secret}
        config: Json = {field.name: value for field, value in values.items() if value and not field.is_secret}
        config |= {"url": f"file://{url}" if url.startswith("/") else url} | (
            {"credentials": credentials} if credentials else {}
        )
        connector = sources[source]["connector"]
        body: Json = {"namespaceId": namespace, "name": name or url, "connector": connector, "config": config}
        body |= {"syncIntervalMinutes": interval} if interval else {}
        with frame.shown_refusal():
            widgets.post_once(person, "/v1/connections", body)
            st.session_state[_ADDED] = added + 1
            for key in [key for key in st.session_state if str(key).startswith("storage-")]:
                del st.session_state[key]
            st.toast(f"Connected: {escape_markdown(body['name'])}. Ingest it from its card.", icon=":material/check:")
            st.rerun()


def list_fields(source: str) -> Iterator[Field]:
    schemas = api_schema.load_schemas()
    for component, is_secret in (("SourceCredentials", True), ("SourceAddress", False)):
        for name, schema in schemas[component]["properties"].items():
            merged = {key: value for part in [*schema.get("anyOf", ()), schema] for key, value in part.items()}
            if name != "url" and source in merged.get("x-sources", ()):
                yield Field(name, merged["description"], is_secret, bool(merged.get("x-multiline")))


def _ask(field: Field, source: str) -> str:
    key = f"storage-{source}-{field.name}"
    if field.is_multiline:
        return st.text_area(field.label, help=field.help, key=key)
    is_hidden = field.is_secret and field.name != "user"
    return st.text_input(field.label, help=field.help, key=key, type="password" if is_hidden else "default")
