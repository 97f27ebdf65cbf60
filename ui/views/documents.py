"""Documents: found by the contract's filters, paged by the server; one of them with its chunks in their place."""

from __future__ import annotations

import json
from collections.abc import Container
from functools import partial
from typing import Any

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import chunk_viewer, frame, history, metadata_filter, pager, services, status, tabs
from ui.parts.labels import ago, count, counted, number, size, sources, title
from ui.parts.text import csv_bytes, plain

PAGE = 50
TYPES = ("TEXT", "FILE", "URL")
"""Beside those of content services."""
STATES = ("QUEUED", "PROCESSING", "SUCCESS", "FAILED", "CANCELLED", "QUEUED_FOR_RESYNC", "BACKLOG")
FILTERS = ("status", "source", "type", "external", "metadata", "archive", "removal")
LINKS = {"rawFileUrl": True, "parsedTextFileUrl": True}


def main() -> None:
    who = session.person()
    namespace = frame.head(who, "Documents")
    document = session.parameter("document")
    if document:
        one(who, namespace, document)
    else:
        listing(who, namespace)


def listing(who: session.Person, namespace: str) -> None:
    """One page of the documents that the filters leave."""
    config = _filters()
    if config is None:
        return
    data = who.api.post(
        "/v1/documents",
        {
            "namespaceId": namespace,
            "filterConfig": config,
            "pagination": {"pageSize": PAGE, "cursor": session.parameter("cursor")},
            "includeConfig": {"documents": True, "statsByStatus": True},
        },
    )
    total = sum(entry["totalCount"] for entry in data["statsByStatus"])
    if not data["documents"]:
        if any(config.values()):
            status.empty("No document matches.", "Take a filter away, or look into another namespace.")
        elif session.parameter("cursor"):
            status.empty("Nothing on this page.", "Documents have gone since: go back to the first page.")
            pager.show(data)
        else:
            status.empty("No documents yet.", "Start an ingestion on the Runs page: a text, a file, a website.")
        return
    st.caption(counted(data))
    _table(data)
    if any(config.values()):
        _actions(who, namespace, config, f"the {count(total, 'document')} that match", "all")


def _filters() -> Json | None:
    """The filterConfig that the form asks for; kept in the page's address."""
    before = dict(st.query_params)
    with st.expander(
        "Filters", icon=":material/filter_alt:", expanded=any(st.query_params.get(name) for name in FILTERS)
    ):
        one, two, three = st.columns(3)
        states = one.multiselect("Status", STATES, default=_listed("status", STATES))
        known = sources()
        taken = two.multiselect("Source", known, default=_listed("source", known), format_func=title)
        kinds = (*TYPES, *(f"{name}_DOCUMENT" for name in services.known()))
        types = three.multiselect("Type", kinds, default=_listed("type", kinds))
        left, right = st.columns(2)
        external = left.text_input("External ids (commas between)", value=session.parameter("external") or "")
        archive = right.text_input("Packed into the document (id)", value=session.parameter("archive") or "")
        wanted = metadata_filter.show("metadata")
        waiting = st.toggle("Gone at the source, removal to confirm", value=session.parameter("removal") == "yes")
    chosen = {"status": states, "source": taken, "type": types}
    session.remember(
        **{name: ",".join(values) for name, values in chosen.items()},
        external=external,
        archive=archive.strip(),
        removal="yes" if waiting else None,
    )
    if dict(st.query_params) != before and "cursor" in st.query_params:
        session.remember(cursor=None)
    if wanted is None:
        return None
    return {
        "documentIngestionStatuses": states,
        "documentIngestionSources": taken,
        "documentTypes": types,
        "documentExternalIds": [part.strip() for part in external.split(",") if part.strip()],
        "documentArchiveIds": [archive.strip()] if archive.strip() else [],
        "metadata": wanted,
        "awaitingRemoval": True if waiting else None,
    }


def _listed(name: str, known: Container[str]) -> list[str]:
    return [value for value in (session.parameter(name) or "").split(",") if value in known]


def _table(data: Json) -> None:
    documents = data["documents"]
    rows = [_row(document) for document in documents]
    seen = st.dataframe(
        rows,
        hide_index=True,
        width="stretch",
        on_select="rerun",
        selection_mode="single-row",
        key="documents_table",
        column_config={
            "Status": status.column(),
            "Name": st.column_config.TextColumn(width=280),
            "Chunks": st.column_config.TextColumn(alignment="right"),
            "Error": st.column_config.TextColumn(width="medium"),
        },
    )
    if chosen := seen["selection"]["rows"]:
        session.remember(document=documents[chosen[0]]["id"])
        st.rerun()
    with st.container(horizontal=True):
        pager.show(data)
        file = csv_bytes(rows, list(rows[0]))
        st.download_button("Page as CSV", file, "documents.csv", "text/csv", icon=":material/download:")


def _row(document: Json) -> Json:
    properties = document["documentProperties"]
    return {
        "Status": [document["ingestionStatus"]],
        "Name": document["name"],
        "Source": title(document["ingestionSource"]),
        "Chunks": number(properties["embeddingCount"]),
        "Size": size(properties["fileSize"]) if properties["fileSize"] is not None else "",
        "Updated": ago(document["updatedAt"]),
        "Error": document["ingestionError"] or "",
    }


def one(who: session.Person, namespace: str, document_id: str) -> None:
    """A document with all that is known of it."""
    if st.button("All documents", icon=":material/arrow_back:"):
        session.remember(document=None, chunk=None)
        st.session_state.pop("documents_table", None)
        st.rerun()
    data = who.api.post(
        "/v1/documents",
        {"namespaceId": namespace, "filterConfig": {"documentIds": [document_id]}, "includeConfig": LINKS},
    )
    if not data["documents"]:
        status.empty("There is no such document here.", "It was deleted, or it lies in another namespace or tenant.")
        return
    document = data["documents"][0]
    _head(document)
    _packed(who, namespace, document)
    pages = {
        "Chunks": partial(chunk_viewer.show, who, namespace, document),
        "Versions": partial(history.show, who, namespace, document),
        "Properties": partial(_properties, document),
        "Change": partial(_change, who, namespace, document),
    }
    tabs.show("document_tabs", pages)


def _head(document: Json) -> None:
    st.subheader(plain(document["name"]) or "without a name")
    left, raw, parsed = st.columns([2, 1, 1], vertical_alignment="center")
    with left:
        status.badge(document["ingestionStatus"])
    if document.get("rawFileUrl"):
        raw.link_button("Raw file", document["rawFileUrl"], icon=":material/download:", width="stretch")
    if document.get("parsedTextFileUrl"):
        parsed.link_button("Parsed text", document["parsedTextFileUrl"], icon=":material/download:", width="stretch")
    if document["ingestionError"]:
        st.error(plain(document["ingestionError"]), icon=":material/error:")


def _packed(who: session.Person, namespace: str, document: Json) -> None:
    """The way to the archive or mail that it was packed into, and to what was packed into it."""
    links: list[tuple[str, str, dict[str, str]]] = []
    if document["archive"]:
        links.append(
            ("Packed into another document: open that one", "unarchive", {"document": document["archive"]["id"]})
        )
    members = who.api.post(
        "/v1/documents",
        {
            "namespaceId": namespace,
            "filterConfig": {"documentArchiveIds": [document["id"]]},
            "includeConfig": {"documents": False, "statsByStatus": True},
            "pagination": {"pageSize": 1},
        },
    )
    if packed := sum(entry["totalCount"] for entry in members["statsByStatus"]):
        links.append((f"{count(packed, 'document')} packed into this one", "folder_zip", {"archive": document["id"]}))
    for label, icon, place in links:
        query = {"namespace": namespace, **place}
        st.page_link("views/documents.py", label=label, icon=f":material/{icon}:", query_params=query)


def _properties(document: Json) -> None:
    facts: dict[str, Any] = {
        "id": document["id"],
        "external id": document["externalId"],
        "type": document["documentType"],
        "source": document["ingestionSource"],
        "tenant": document["tenantId"],
        "job run": document["ingestJobRun"]["id"],
        "connection": (document["connection"] or {}).get("id"),
        "packed into": (document["archive"] or {}).get("id"),
        **document["documentProperties"],
        **{f"embedding {name}": value for name, value in document["embeddingConfig"].items()},
        "created": document["createdAt"]["isoString"],
        "updated": document["updatedAt"]["isoString"],
        "last synced": (document["lastSyncedAt"] or {}).get("isoString"),
    }
    rows = [{"Property": name, "Value": str(value)} for name, value in facts.items() if value is not None]
    st.dataframe(rows, hide_index=True, width="stretch")
    st.markdown("**Metadata**")
    st.json(document["metadata"])


def _change(who: session.Person, namespace: str, document: Json) -> None:
    _metadata(who, namespace, document)
    _actions(who, namespace, {"documentIds": [document["id"]]}, "this document", document["id"])


def _metadata(who: session.Person, namespace: str, document: Json) -> None:
    if not who.may("documents:write"):
        st.caption("This key may not change documents (scope documents:write).")
        return
    with st.form("metadata"):
        typed = st.text_area("Metadata to set (JSON object; keys that are not named stay)", value="{}", height=120)
        if st.form_submit_button("Set metadata", icon=":material/save:"):
            try:
                body = {
                    "namespaceId": namespace,
                    "filterConfig": {"documentIds": [document["id"]]},
                    "data": {"metadata": json.loads(typed)},
                }
                who.api.patch("/v1/documents", body)
            except ValueError:
                st.error('That is not JSON. It is an object, such as {"team": "docs"}.')
            except ApiError as error:
                frame.show(error)
            else:
                st.toast("Metadata set. Nothing was embedded again.", icon=":material/check:")
                st.rerun()


def _actions(who: session.Person, namespace: str, filter_config: Json, what: str, key: str) -> None:
    """Resync and delete, for one document or for all that match; deleting asks first."""
    if not who.may("documents:write"):
        return
    resync, delete = st.columns(2)
    body = {"namespaceId": namespace, "filterConfig": filter_config}
    if resync.button(f"Resync {what}", icon=":material/sync:", width="stretch", key=f"resync-{key}"):
        try:
            queued = who.api.post("/v1/documents/resync", body)
        except ApiError as error:
            frame.show(error)
        else:
            st.toast(f"{queued['itemsQueued']} queued, {queued['itemsSkipped']} not eligible.")
    with delete.popover(f"Delete {what}", icon=":material/delete:", width="stretch"):
        st.write("They are gone from search at once, and from every store soon after.")
        if st.button("Delete for good", type="primary", key=f"delete-{key}"):
            try:
                answer = who.api.delete("/v1/documents", body)
            except ApiError as error:
                frame.show(error)
            else:
                session.remember(document=None, chunk=None)
                st.toast(answer.message, icon=":material/check:")
                st.rerun()


main()
