"""What the Documents page looks for: by name or URL, site, status, source, connection, date, access and metadata.

All of it stands in the page's address, and is one filterConfig for the list, its counts and what is done to all of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, timedelta

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import api_schema, metadata_filter, url_state
from ui.parts.labels import STATUS, sources, title

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


def show(who: session.Person, namespace: str, sites: Mapping[str, int]) -> Json | None:
    """The filterConfig that the form asks for; None, and why, if it cannot be used. `sites`: pages of each site."""
    FIELDS.follow(_shown())
    before = _address()
    text, site, states, is_check = _first(sites)
    FIELDS.write(q=text, site=site, status=",".join(states), quality="check" if is_check else None)
    opened = any(before[name] for name in SECONDARY)
    with st.expander("More filters", icon=":material/filter_alt:", expanded=opened):
        more = _more(who, namespace)
    if _address() != before:
        session.remember(cursor=None)
    named: Json = {"documentIds": [text]} if _ID.fullmatch(text) else {"text": text}
    first = {**named, "documentIngestionStatuses": states, "sites": [site] if site else []}
    if more is None:
        return None
    leaves = [*([TO_CHECK] if is_check else []), *more.pop("where")]
    first["where"] = {"all": leaves} if leaves else None
    return {name: value for name, value in {**first, **more}.items() if value}


def clear() -> None:
    """Takes every filter out of the address; the fields follow it."""
    session.remember(cursor=None, **dict.fromkeys((*PRIMARY, *SECONDARY)))
    for key in [key for key in st.session_state if str(key).startswith("filter_metadata")]:
        del st.session_state[key]


def _address() -> dict[str, str | None]:
    return {name: session.parameter(name) for name in (*PRIMARY, *SECONDARY)}


def _shown() -> Json:
    """What the fields show of the address; metadata has a field of its own."""
    kinds = (*TYPES, *(f"{name}_DOCUMENT" for name in api_schema.known_services()))
    lists = {"status": STATES, "source": tuple(sources()), "type": kinds}
    return {
        **{name: _said(name) for name in ("q", "external", "archive")},
        **{name: [value for value in _said(name).split(",") if value in known] for name, known in lists.items()},
        **{name: session.parameter(name) for name in ("site", "connection")},
        **{name: _day(name) for name in ("from", "to")},
        **{
            name: _said(name) == word
            for name, word in (("removal", "yes"), ("access", "unknown"), ("quality", "check"))
        },
    }


def _first(sites: Mapping[str, int]) -> tuple[str, str | None, list[str], bool]:
    """What people look for most: a piece of the name, a site, a status, pages to check."""
    linked = session.parameter("site")
    known = [*sites, *([linked] if linked and linked not in sites else [])]
    columns = iter(st.columns([5, 3, 4, 3] if known else [5, 4, 2], vertical_alignment="bottom"))
    text = next(columns).text_input(
        "Find documents",
        max_chars=200,
        key="find_q",
        type="search",
        icon=":material/search:",
        placeholder="Piece of the name, URL or ID",
    )
    site = None
    if known:
        site = next(columns).selectbox(
            "Site",
            known,
            index=None,
            format_func=lambda one: f"{one} ({sites[one]:,})" if one in sites else one,
            placeholder="All sites",
            key="find_site",
        )
    states = next(columns).multiselect(
        "Status",
        STATES,
        format_func=lambda one: STATUS.get(one, (one,))[0].capitalize(),
        placeholder="All statuses",
        key="find_status",
    )
    is_check = next(columns).toggle(
        "Pages to check", key="find_quality", help="Documents with pages whose text may be wrong or missing."
    )
    return str(text or "").strip(), site, states, is_check


def _more(who: session.Person, namespace: str) -> Json | None:
    one, two, three = st.columns(3)
    taken = one.multiselect("Source", list(sources()), format_func=title, key="find_source")
    kinds = [*TYPES, *(f"{name}_DOCUMENT" for name in api_schema.known_services())]
    types = two.multiselect("Type", kinds, format_func=_kind, key="find_type")
    with three:
        connection = _connection(who, namespace)
    one, two, three, four = st.columns(4)
    since = one.date_input("Added since", value=None, key="find_from", format="YYYY-MM-DD")
    until = two.date_input("Added until", value=None, key="find_to", format="YYYY-MM-DD")
    external = three.text_input("External IDs (comma-separated)", key="find_external")
    archive = four.text_input("Parent archive (ID)", key="find_archive").strip()
    wanted = metadata_filter.show("metadata")
    left, right = st.columns(2)
    waiting = left.toggle("Deleted at source (pending confirmation)", key="find_removal")
    unknown = right.toggle("Access unknown", key="find_access")
    FIELDS.write(
        source=",".join(taken),
        type=",".join(types),
        connection=connection,
        external=external.strip(),
        archive=archive,
        removal="yes" if waiting else None,
        access="unknown" if unknown else None,
        **{"from": since.isoformat() if since else None, "to": until.isoformat() if until else None},
    )
    if wanted is None:
        return None
    return {
        "documentIngestionSources": taken,
        "documentTypes": types,
        "documentConnectionIds": [connection] if connection else [],
        "documentExternalIds": [part.strip() for part in external.split(",") if part.strip()],
        "documentArchiveIds": [archive] if archive else [],
        "metadata": wanted,
        "awaitingRemoval": True if waiting else None,
        "accessStatuses": ["UNKNOWN"] if unknown else [],
        "where": _dates(since, until),
    }


def _connection(who: session.Person, namespace: str) -> str | None:
    """A connection by its name, where the key may see them; else by its id."""
    linked = session.parameter("connection")
    names: dict[str, str] = {}
    if who.may("connections:read"):
        try:
            found = who.api.get("/v1/connections", namespaceId=namespace, pageSize=CONNECTIONS)["connections"]
            names = {one["id"]: one["name"] for one in found}
        except ApiError:  # the other filters serve all the same
            names = {}
    known = [*names, *([linked] if linked and linked not in names else [])]
    return st.selectbox(
        "Connection",
        known,
        index=None,
        format_func=lambda one: names.get(one, one),
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
    return {"TEXT": "Text", "FILE": "File", "URL": "Web page"}.get(name, title(name.removesuffix("_DOCUMENT")))


def _said(name: str) -> str:
    return session.parameter(name) or ""
