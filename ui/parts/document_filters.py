"""Filter of the Documents page: name or URL, site, status, source, connection, date, access and metadata.

The page's address holds all of it, and one filterConfig serves the list, its counts and bulk actions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, timedelta

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
PRIMARY = ("q", "site", "status", "quality")
SECONDARY = ("source", "type", "connection", "from", "to", "external", "metadata", "archive", "removal", "access")
"""Places of the address for what the expander holds."""
FIELDS = url_state.Fields("find", tuple(name for name in (*PRIMARY, *SECONDARY) if name != "metadata"))
TO_CHECK: Json = {"field": "document.textQuality", "op": "lt", "value": 0.8}
_ID = re.compile(r"doc_[0-9a-z]+")


def show_filters(person: session.Person, namespace: str, sites: Mapping[str, int]) -> Json | None:
    """Return the filterConfig of the form; None, with a message, if it cannot be used. `sites`: pages of each site."""
    FIELDS.follow(_shown())
    address = _address()
    text, site, states, is_check = _first(sites)
    FIELDS.write(q=text, site=site, status=",".join(states), quality="check" if is_check else None)
    opened = any(address[name] for name in SECONDARY if name != "metadata")
    with st.expander("More filters", icon=":material/filter_alt:", expanded=opened):
        extra_filter = _more(person, namespace)
    if _address() != address:
        session.set_parameters(cursor=None)
    name_filter: Json = {"documentIds": [text]} if _ID.fullmatch(text) else {"text": text}
    first = {**name_filter, "documentIngestionStatuses": states, "sites": [site] if site else []}
    if extra_filter is None:
        return None
    leaves = [*([TO_CHECK] if is_check else []), *extra_filter.pop("where")]
    first["where"] = {"all": leaves} if leaves else None
    return {name: value for name, value in {**first, **extra_filter}.items() if value}


def clear_filters() -> None:
    """Takes every filter out of the address; the fields follow it."""
    session.set_parameters(cursor=None, **dict.fromkeys((*PRIMARY, *SECONDARY)))
    for key in [key for key in st.session_state if str(key).startswith("filter_metadata")]:
        del st.session_state[key]


def _address() -> dict[str, str | None]:
    return {name: session.read_parameter(name) for name in (*PRIMARY, *SECONDARY)}


def _shown() -> Json:
    """Return the field values from the address; metadata has a field of its own."""
    kinds = (*TYPES, *(f"{name}_DOCUMENT" for name in api_schema.known_services()))
    lists = {"status": STATES, "source": tuple(offered_sources()), "type": kinds}
    return {
        **{name: _said(name) for name in ("q", "external", "archive")},
        **{name: [value for value in _said(name).split(",") if value in allowed] for name, allowed in lists.items()},
        **{name: session.read_parameter(name) for name in ("site", "connection")},
        **{name: _day(name) for name in ("from", "to")},
        **{
            name: _said(name) == word
            for name, word in (("removal", "yes"), ("access", "unknown"), ("quality", "check"))
        },
    }


def _first(sites: Mapping[str, int]) -> tuple[str, str | None, list[str], bool]:
    """Show the common filters: a piece of the name, a site, a status, pages to check."""
    linked = session.read_parameter("site")
    options = [*sites, *([linked] if linked and linked not in sites else [])]
    columns = iter(st.columns([5, 3, 4, 3] if options else [5, 4, 2], vertical_alignment="bottom"))
    text = next(columns).text_input(
        "Find documents",
        max_chars=200,
        key="find_q",
        type="search",
        icon=":material/search:",
        placeholder="Piece of the name, URL or ID",
    )
    site = None
    if options:
        site = next(columns).selectbox(
            "Site",
            options,
            index=None,
            format_func=lambda host: f"{host} ({sites[host]:,})" if host in sites else host,
            placeholder="All sites",
            key="find_site",
        )
    states = next(columns).multiselect(
        "Status",
        STATES,
        format_func=lambda status: STATUS.get(status, (status,))[0].capitalize(),
        placeholder="All statuses",
        key="find_status",
    )
    is_check = next(columns).toggle(
        "Pages to check", key="find_quality", help="Documents with pages whose text may be wrong or missing."
    )
    return str(text or "").strip(), site, states, is_check


def _more(person: session.Person, namespace: str) -> Json | None:
    first_column, second_column, third_column = st.columns(3)
    selected = first_column.multiselect("Source", list(offered_sources()), format_func=source_title, key="find_source")
    kinds = [*TYPES, *(f"{name}_DOCUMENT" for name in api_schema.known_services())]
    types = second_column.multiselect("Type", kinds, format_func=_kind, key="find_type")
    with third_column:
        connection = _connection(person, namespace)
    first_column, second_column, third_column, four = st.columns(4)
    since = first_column.date_input("Added since", value=None, key="find_from", format="YYYY-MM-DD")
    until = second_column.date_input("Added until", value=None, key="find_to", format="YYYY-MM-DD")
    external = third_column.text_input("External IDs (comma-separated)", key="find_external")
    archive = four.text_input("Parent archive (ID)", key="find_archive").strip()
    metadata = metadata_filter.show_filter("metadata")
    left_column, right_column = st.columns(2)
    waiting = left_column.toggle("Deleted at source (pending confirmation)", key="find_removal")
    unknown = right_column.toggle("Access unknown", key="find_access")
    FIELDS.write(
        source=",".join(selected),
        type=",".join(types),
        connection=connection,
        external=external.strip(),
        archive=archive,
        removal="yes" if waiting else None,
        access="unknown" if unknown else None,
        **{"from": since.isoformat() if since else None, "to": until.isoformat() if until else None},
    )
    if metadata is None:
        return None
    return {
        "documentIngestionSources": selected,
        "documentTypes": types,
        "documentConnectionIds": [connection] if connection else [],
        "documentExternalIds": [part.strip() for part in external.split(",") if part.strip()],
        "documentArchiveIds": [archive] if archive else [],
        "metadata": metadata,
        "awaitingRemoval": True if waiting else None,
        "accessStatuses": ["UNKNOWN"] if unknown else [],
        "where": _dates(since, until),
    }


def _connection(person: session.Person, namespace: str) -> str | None:
    """A connection by its name, where the key may see them; else by its id."""
    linked = session.read_parameter("connection")
    names: dict[str, str] = {}
    if person.may("connections:read"):
        try:
            connections = person.api.get("/v1/connections", namespaceId=namespace, pageSize=CONNECTIONS)["connections"]
            names = {connection["id"]: connection["name"] for connection in connections}
        except ApiError:  # the other filters serve all the same
            names = {}
    options = [*names, *([linked] if linked and linked not in names else [])]
    return st.selectbox(
        "Connection",
        options,
        index=None,
        format_func=lambda connection: names.get(connection, connection),
        placeholder="All connections",
        key="find_connection",
    )


def _dates(since: date | None, until: date | None) -> list[Json]:
    """Days in UTC, both of them included; the field is when a document was first added."""
    leaves = []
    if since:
        leaves.append({"field": "document.createdAt", "op": "gte", "value": since.isoformat()})
    if until:
        day = (until + timedelta(days=1)).isoformat()
        leaves.append({"field": "document.createdAt", "op": "lt", "value": day})
    return leaves


def _day(name: str) -> date | None:
    try:
        return date.fromisoformat(_said(name))
    except ValueError:
        return None


def _kind(name: str) -> str:
    return {"TEXT": "Text", "FILE": "File", "URL": "Web page"}.get(name, source_title(name.removesuffix("_DOCUMENT")))


def _said(name: str) -> str:
    return session.read_parameter(name) or ""
