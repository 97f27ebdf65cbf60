"""Filter of the Documents page: name or URL, site, status, source, connection, date, access and metadata.

The page's address holds all of it, and one filterConfig serves the list, its counts and bulk actions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, timedelta
from functools import partial

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import api_schema, metadata_filter, url_state
from ui.parts.labels import STATUS, offered_sources, source_title

CONNECTIONS = 50
"""Newest connections that are offered."""
TYPES = ("TEXT", "FILE", "URL")
"""Beside those of content services."""
STATES = ("SUCCESS", "FAILED", "QUEUED", "PROCESSING", "CANCELLED", "QUEUED_FOR_RESYNC", "BACKLOG")
PRIMARY = ("q", "site", "status", "quality", "metadata")
SECONDARY = ("source", "type", "connection", "from", "to", "external", "archive", "removal", "access")
"""Places of the address for what the expander holds, without the metadata."""
_field = partial(url_state.bind_field, prefix="find")
TO_CHECK: Json = {"field": "document.textQuality", "op": "lt", "value": 0.8}
_ID = re.compile(r"doc_[0-9a-z]+")


def show_filters(person: session.Person, namespace: str, sites: Mapping[str, int]) -> Json | None:
    """Return the filterConfig of the form; None, with a message, if it cannot be used. `sites`: pages of each site."""
    linked = session.read_parameter("site")
    options = list(dict.fromkeys([*sites, *([linked] if linked else [])]))
    columns = iter(st.columns([5, 3, 4, 3] if options else [5, 4, 2], vertical_alignment="bottom"))
    hint: Json = {"type": "search", "icon": ":material/search:", "placeholder": "Piece of the name, URL or ID"}
    text = _field(next(columns).text_input, "q", "Find documents", max_chars=200, **hint)
    site = None
    if options:
        names = {host: f"{host} ({sites[host]:,})" if host in sites else host for host in options}
        choice: Json = {"default": None, "options": names, "format_func": names.__getitem__, "placeholder": "All sites"}
        site = _field(next(columns).selectbox, "site", "Site", **choice)
    words = {status: STATUS[status][0].capitalize() for status in STATES}
    choice = {"default": [], "options": STATES, "format_func": words.__getitem__, "placeholder": "All statuses"}
    states = _field(next(columns).multiselect, "status", "Status", **choice)
    about = "Documents with pages whose text may be wrong or missing."
    is_check = _field(next(columns).toggle, "quality", "Pages to check", default=False, word="check", help=about)
    opened = any(session.read_parameter(name) for name in SECONDARY)
    with st.expander("More filters", icon=":material/filter_alt:", expanded=opened):
        extra_filter = _more(person, namespace)
    if extra_filter is None:
        return None
    leaves = [*([TO_CHECK] if is_check else []), *extra_filter.pop("where")]
    config: Json = {
        "documentIds" if _ID.fullmatch(text) else "text": [text] if _ID.fullmatch(text) else text,
        "documentIngestionStatuses": states,
        "sites": [site] if site else [],
        "where": {"all": leaves} if leaves else None,
        **extra_filter,
    }
    return {name: value for name, value in config.items() if value}


def clear_filters() -> None:
    session.set_parameters(cursor=None, **dict.fromkeys((*PRIMARY, *SECONDARY)))


def _more(person: session.Person, namespace: str) -> Json | None:
    columns = st.columns(3)
    choice: Json = {"default": [], "options": offered_sources(), "format_func": source_title}
    sources = _field(columns[0].multiselect, "source", "Source", **choice)
    kinds = [*TYPES, *(f"{name}_DOCUMENT" for name in api_schema.known_services())]
    types = _field(columns[1].multiselect, "type", "Type", default=[], options=kinds, format_func=_kind)
    names = _connection_names(person, namespace)
    choice = {"default": None, "options": names, "format_func": names.__getitem__, "placeholder": "All connections"}
    connection = _field(columns[2].selectbox, "connection", "Connection", **choice)
    cells = st.columns(4)
    day: Json = {"default": None, "value": None, "format": "YYYY-MM-DD"}
    since = _field(cells[0].date_input, "from", "Added since", **day)
    until = _field(cells[1].date_input, "to", "Added until", **day)
    external = _field(cells[2].text_input, "external", "External IDs (comma-separated)")
    archive = _field(cells[3].text_input, "archive", "Parent archive (ID)")
    metadata = metadata_filter.show_filter("metadata")
    left_column, right_column = st.columns(2)
    waiting = _field(left_column.toggle, "removal", "Deleted at source (pending confirmation)", default=False)
    unknown = _field(right_column.toggle, "access", "Access unknown", default=False, word="unknown")
    if metadata is None:
        return None
    return {
        "documentIngestionSources": sources,
        "documentTypes": types,
        "documentConnectionIds": [connection] if connection else [],
        "documentExternalIds": [part.strip() for part in external.split(",") if part.strip()],
        "documentArchiveIds": [archive] if archive else [],
        "metadata": metadata,
        "awaitingRemoval": waiting,
        "accessStatuses": ["UNKNOWN"] if unknown else [],
        "where": _dates(since, until),
    }


def _connection_names(person: session.Person, namespace: str) -> dict[str, str]:
    """Return names of connections by id; without the right to list them, the id of the address alone."""
    linked = session.read_parameter("connection")
    names = {linked: linked} if linked else {}
    with suppress(ApiError):  # the other filters serve all the same
        if person.may("connections:read"):
            connections = person.api.get("/v1/connections", namespaceId=namespace, pageSize=CONNECTIONS)["connections"]
            names |= {connection["id"]: connection["name"] for connection in connections}
    return names


def _dates(since: date | None, until: date | None) -> list[Json]:
    """Days in UTC, both of them included; the field is when a document was first added."""
    leaves = []
    if since:
        leaves.append({"field": "document.createdAt", "op": "gte", "value": since.isoformat()})
    if until:
        day = (until + timedelta(days=1)).isoformat()
        leaves.append({"field": "document.createdAt", "op": "lt", "value": day})
    return leaves


def _kind(name: str) -> str:
    return {"TEXT": "Text", "FILE": "File", "URL": "Web page"}.get(name, source_title(name.removesuffix("_DOCUMENT")))
