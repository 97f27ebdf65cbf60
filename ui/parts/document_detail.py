"""One document with all that is known of it: status and reason in words, links, chunks, versions, access."""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import urlsplit

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import chunk_viewer, document_access, document_actions, history, pages_to_check, see_as, widgets
from ui.parts.labels import ago, called, count
from ui.parts.widgets import plain

LINKS = {"rawFileUrl": True, "parsedTextFileUrl": True}
WORDS = {
    "SUCCESS": "Indexed and searchable.",
    "QUEUED": "Queued: a worker takes it up when its turn comes.",
    "QUEUED_FOR_RESYNC": "Queued for resync; the version that is indexed stays searchable meanwhile.",
    "PROCESSING": "A worker is fetching, parsing, embedding or indexing it.",
    "FAILED": "Failed.",
    "CANCELLED": "Its run was cancelled before it was done; a resync takes it up again.",
    "BACKLOG": "Listed and not ingested: a resync ingests it.",
}


def show(who: session.Person, namespace: str, document_id: str) -> None:
    if st.button("All documents", icon=":material/arrow_back:"):
        session.remember(document=None, chunk=None, tab=None)
        st.rerun()
    document_actions.told()
    data = who.api.post(
        "/v1/documents",
        {"namespaceId": namespace, "filterConfig": {"documentIds": [document_id]}, "includeConfig": LINKS},
    )
    if not data["documents"]:
        widgets.show_empty(
            "There is no such document here.",
            "It was deleted, or it lies in another namespace or tenant, or the user you see as may not see it.",
        )
        for reason in document_access.explain(namespace, [document_id]).values():
            st.info(plain(reason), icon=":material/lock:")
        return
    document = data["documents"][0]
    _head(document)
    _links(who, namespace, document)
    versions = {} if see_as.name() else {"Versions": partial(history.show, who, namespace, document)}
    to_check = document["documentProperties"]["pagesToCheck"]
    pages = {
        "Chunks": partial(chunk_viewer.show, who, namespace, document),
        **({pages_to_check.TITLE: partial(pages_to_check.show, who, namespace, document)} if to_check else {}),
        **versions,
        "Access": partial(document_access.show, who, namespace, document),
        "Properties": partial(_properties, document),
        "Edit": partial(document_actions.one, who, namespace, document),
    }
    widgets.show_tabs("document_tabs", pages)


def _head(document: Json) -> None:
    st.header(plain(called(document["name"])))
    widgets.status_badge(document["ingestionStatus"])
    if document["ingestionError"]:
        st.error(plain(document["ingestionError"]), icon=":material/error:")
    chunks = document["documentProperties"]["embeddingCount"]
    indexed = f" {count(chunks, 'chunk')}." if chunks is not None and document["ingestionStatus"] == "SUCCESS" else ""
    synced = f" Last synced {ago(document['lastSyncedAt'])}." if document["lastSyncedAt"] else ""
    st.caption(f"{WORDS.get(document['ingestionStatus'], '')}{indexed}{synced}")
    if "access" in document or "accessStatus" in document:
        st.caption(f"Access: {document_access.summary(document)}")


def _links(who: session.Person, namespace: str, document: Json) -> None:
    """To the source, the files, the search lab, the run, and what it packs or is packed in."""
    with st.container(horizontal=True, vertical_alignment="center"):
        if source := source_of(document):
            st.link_button("Open source", source, icon=":material/open_in_new:")
        if document.get("rawFileUrl"):
            st.link_button("Raw file", document["rawFileUrl"], icon=":material/download:")
        if document.get("parsedTextFileUrl"):
            st.link_button("Parsed text", document["parsedTextFileUrl"], icon=":material/description:")
        with st.popover("Share", icon=":material/link:"):
            st.write("Whoever may sign in here and see this namespace opens the same document by this link.")
            st.code(_address(namespace, document), language=None, wrap_lines=True)
    _ways(who, namespace, document)


def _ways(who: session.Person, namespace: str, document: Json) -> None:
    links: list[tuple[str, str, str, dict[str, str]]] = []
    if who.may("search"):
        links.append(
            ("search", "Why is this not found?", "troubleshoot", {"document": document["id"], "tab": "Why not found?"})
        )
    if who.may("ingest:read"):
        links.append(("runs", "Its last run", "play_circle", {"run": document["ingestJobRun"]["id"]}))
    if document["archive"]:
        links.append(("documents", "Parent archive", "unarchive", {"document": document["archive"]["id"]}))
    if packed := _packed(who, namespace, document):
        links.append(
            ("documents", f"{count(packed, 'document')} in this archive", "folder_zip", {"archive": document["id"]})
        )
    with st.container(horizontal=True):
        for page, label, icon, place in links:
            query = {"namespace": namespace, **place}
            st.page_link(f"views/{page}.py", label=label, icon=f":material/{icon}:", query_params=query)


def _packed(who: session.Person, namespace: str, document: Json) -> int:
    """How many documents it packs."""
    members = who.api.post(
        "/v1/documents",
        {
            "namespaceId": namespace,
            "filterConfig": {"documentArchiveIds": [document["id"]]},
            "includeConfig": {"documents": False, "statsByStatus": True},
            "pagination": {"pageSize": 1},
        },
    )
    return sum(one["totalCount"] for one in members["statsByStatus"])


def source_of(document: Json) -> str | None:
    """Where the document can be looked at, at its source; None where nothing tells it."""
    for address in (document["documentProperties"]["url"], document["externalId"]):
        if isinstance(address, str) and _scheme(address) in {"http", "https"}:
            return address
    return None


def _scheme(address: str) -> str:
    """The scheme of what may be no URL at all; then empty."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return ""
    return parts.scheme if parts.netloc else ""


def _address(namespace: str, document: Json) -> str:
    """The page's address without what only this person has open."""
    here = (st.context.url or "/documents").partition("?")[0]
    return f"{here}?namespace={namespace}&document={document['id']}"


def _properties(document: Json) -> None:
    facts: dict[str, Any] = {
        "ID": document["id"],
        "External ID": document["externalId"],
        "Type": document["documentType"],
        "Source": document["ingestionSource"],
        "Tenant": document["tenantId"],
        "Job run": document["ingestJobRun"]["id"],
        "Connection": (document["connection"] or {}).get("id"),
        "Parent archive": (document["archive"] or {}).get("id"),
        **{name: _shown(value) for name, value in document["documentProperties"].items() if name != "pagesToCheck"},
        **{f"Embedding {name}": value for name, value in document["embeddingConfig"].items()},
        "Created": document["createdAt"]["isoString"],
        "Updated": document["updatedAt"]["isoString"],
        "Last synced": (document["lastSyncedAt"] or {}).get("isoString"),
    }
    rows = [{"Property": name, "Value": str(value)} for name, value in facts.items() if value is not None]
    st.dataframe(rows, hide_index=True, width="stretch")
    st.markdown("**Metadata**")
    st.json(document["metadata"])


def _shown(value: object) -> object:
    return value["isoString"] if isinstance(value, dict) and "isoString" in value else value
