"""One document: properties, chunks, pages to check and history."""

from __future__ import annotations

import html
import re
from functools import partial
from typing import Any

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import document_actions, failures, frame, hidden_passages, url_state, waiting, widgets
from ui.parts.labels import (
    count_documents,
    document_label,
    format_count,
    format_field,
    format_number,
    format_size,
    plain_error,
    source_title,
    time_ago,
)
from ui.parts.search_results import plain_text
from ui.parts.widgets import escape_markdown

HISTORY_PAGE = 20


def show_history(person: session.Person, namespace: str, document: Json) -> None:
    data = person.api.get(f"/v1/documents/{document['id']}/history", namespaceId=namespace, pageSize=HISTORY_PAGE)
    entries = data["history"]
    if not entries:
        widgets.show_empty("No job run holds this document any more.", "Its content stays as it is.")
        return
    run = widgets.clicked_row(
        [_history_row(entry) for entry in entries],
        f"history-{document['id']}",
        [entry["ingestJobRun"]["id"] for entry in entries],
        Status=widgets.status_column(),
        Chunks=st.column_config.TextColumn(alignment="right"),
    )
    note = f" The newest {len(entries)} are shown." if data["hasNextPage"] else ""
    st.caption("Search shows one version, whole. Click a row to open its run." + note)
    if run is not None and person.may("ingest:read"):
        widgets.open_page("runs", run=run)


def _history_row(entry: Json) -> Json:
    return {
        "Version": _version_label(entry),
        "Status": [entry["status"]],
        "When": time_ago(entry["createdAt"]),
        "By": source_title(entry["source"]),
        "Chunks": format_number(entry["chunks"]),
        "Size": format_size(entry["fileSize"]) if entry["fileSize"] is not None else "",
        "Error": plain_error(entry["error"]),
    }


def _version_label(entry: Json) -> str:
    if entry["active"]:
        return "in search now"
    if entry["unchanged"]:
        return "unchanged"
    return "replaced since" if entry["status"] == "SUCCESS" else ""


CHUNK_PAGE = 50
# Shown before and after a chunk.
CONTEXT_CHARACTERS = 1500
EXCERPT_CHARACTERS = 110
ZOOM_WIDTHS = {"Fit": "100%", "150 %": "150%", "200 %": "200%"}
CHUNK_STYLE = """<style>
.chunk-text {white-space: pre-wrap; overflow-wrap: anywhere; font-size: .92rem; line-height: 1.55}
.chunk-text mark {background: rgba(59,116,224,.22); color: inherit; padding: 1px 0}
.chunk-text .overlap {background: rgba(217,140,31,.38)}
.chunk-text .aside {opacity: .55}
.st-key-chunk_list label {padding: .15rem 0}
.st-key-chunk_page {overflow: auto}
.st-key-chunk_page [data-testid="stElementContainer"] {width: %s !important; max-width: none}
</style>"""


def show_chunks(person: session.Person, namespace: str, document: Json) -> None:
    linked = session.read_parameter("chunk") or ""
    index = min(int(linked), 2**31 - CHUNK_PAGE - 1) if linked.isdecimal() and len(linked) < 11 else 0
    start = index // CHUNK_PAGE * CHUNK_PAGE
    query = {"namespaceId": namespace, "firstIndex": max(0, start - 1), "pageSize": CHUNK_PAGE + 2}
    chunks = person.api.get(f"/v1/documents/{document['id']}/chunks", **query)["chunks"]
    by_index = {chunk["index"]: chunk for chunk in chunks}
    titles = {str(index): _chunk_title(by_index[index]) for index in by_index if start <= index < start + CHUNK_PAGE}
    if not titles:
        widgets.show_empty("No searchable chunks.", "A document has them once it is indexed and holds text.")
        return
    list_column, page_column = st.columns([2, 3])
    with list_column:
        label = f"Chunk ({document['documentProperties']['embeddingCount'] or len(titles):,} in all)"
        excerpts = [
            " ".join(plain_text(by_index[int(index)]["content"]).split())[:EXCERPT_CHARACTERS] + " …"
            for index in titles
        ]
        captions = [escape_markdown(excerpt) for excerpt in excerpts]
        choice: Json = {"default": next(iter(titles)), "options": titles, "writes_default": True, "captions": captions}
        prefix = f"chunk-{document['id']}-{start}"
        with st.container(height=330 if len(titles) > 4 else "content", border=False, key="chunk_list"):
            chosen = by_index[int(url_state.bind_field(st.radio, "chunk", label, prefix=prefix, **choice))]
        with st.container(horizontal=True):
            if start and st.button(f"Chunks before {start}", icon=":material/chevron_left:"):
                session.go_to(chunk=str(start - CHUNK_PAGE))
            end = start + CHUNK_PAGE
            if chunks[-1]["index"] >= end and st.button(f"Chunks from {end}", icon=":material/chevron_right:"):
                session.go_to(chunk=str(end))
    has_page = bool(chosen["page"]) and widgets.is_pdf(document)
    with list_column if has_page else page_column:
        _show_text(person, namespace, document, chosen, by_index)
    if has_page:
        with page_column:
            _show_page(person, namespace, document["id"], chosen, chunks)


def _chunk_title(chunk: Json) -> str:
    page = f" · page {chunk['page']}" if chunk["page"] else ""
    return f"{chunk['index']}{page} · {format_count(chunk['tokens'], 'token')}{' · hidden' if chunk['hidden'] else ''}"


def _show_text(person: session.Person, namespace: str, document: Json, chosen: Json, by_index: dict[int, Json]) -> None:
    """Show a chunk as rendered Markdown, or the source with the surrounding text."""
    with st.container(horizontal=True, vertical_alignment="center"):
        is_source = st.toggle("Source, with the text around it", key="chunk_source")
        if not chosen["hidden"]:
            with st.popover("Hide from search", icon=":material/visibility_off:"):
                hidden_passages.offer_hiding(person, namespace, document["id"], chosen["index"], "document")
    if chosen["hidden"]:
        st.warning("Hidden from search. Documents lists hidden passages.", icon=":material/visibility_off:")
    if not is_source:
        st.markdown(render_markdown(chosen["content"]))
        return
    content = person.api.download_file(document.get("parsedTextFileUrl"))
    text = content.decode("utf-8", "replace") if content is not None else None
    st.html(CHUNK_STYLE % "100%" + mark_chunk(text, chosen, by_index))
    st.caption(f"characters {chosen['start']:,} to {chosen['end']:,} · orange: shared with the chunk before or after")


def render_markdown(content: str) -> str:
    """Return a document's Markdown without links, pictures, HTML and Streamlit's own marks."""
    text = re.sub(r"!?\[([^\]\n]*)\]\([^)\n]*\)", r"\1", content).replace("<", "&lt;").replace("![", "!\\[")
    text = re.sub(r"^ {0,3}#{1,6} +(.+)$", r"**\1**  ", text, flags=re.MULTILINE)
    return re.sub(r"\\*([$]|:(?=[A-Za-z/\[])|(?<=\])[:(])", r"\\\1", text)  # "\\" before it would escape "\"


def _show_page(person: session.Person, namespace: str, document: str, chosen: Json, chunks: list[Json]) -> None:
    """Show the chunk's page, with the chunk shaded; other pages lead to their chunks."""
    pages = {chunk["page"]: chunk["index"] for chunk in reversed(chunks) if chunk["page"]}
    former = max((page for page in pages if page < chosen["page"]), default=None)
    following = min((page for page in pages if page > chosen["page"]), default=None)
    with st.container(horizontal=True, vertical_alignment="center"):
        for label, page, icon in (("Previous", former, "chevron_left"), ("Next", following, "chevron_right")):
            turn = partial(session.set_parameters, chunk=str(pages.get(page, 0)))
            options: Json = {"icon": f":material/{icon}:", "key": f"page-{label}", "disabled": page is None}
            st.button(f"{label} page", on_click=turn, **options)
        zoom = st.segmented_control(
            "Zoom", list(ZOOM_WIDTHS), default="Fit", required=True, label_visibility="collapsed"
        )
    st.html(CHUNK_STYLE % ZOOM_WIDTHS[zoom or "Fit"])
    with st.container(height="content" if zoom == "Fit" else 720, border=False, key="chunk_page"):
        widgets.show_page_image(person, namespace, document, chosen["page"], chosen["index"])


def mark_chunk(text: str | None, chunk: Json, others: dict[int, Json]) -> str:
    """Return the chunk with its context as HTML."""
    # All text is escaped: nothing of the document is markup.
    if text is None or text[chunk["start"] : chunk["end"]] != chunk["content"]:
        return f'<div class="chunk-text"><mark>{html.escape(chunk["content"])}</mark></div>'
    start, end = chunk["start"], chunk["end"]
    previous = others.get(chunk["index"] - 1)
    following = others.get(chunk["index"] + 1)
    head = min(max(start, previous["end"]), end) if previous else start
    tail = max(min(end, following["start"]), head) if following else end
    parts = (
        ("aside", text[max(0, start - CONTEXT_CHARACTERS) : start]),
        ("overlap", text[start:head]),
        ("", text[head:tail]),
        ("overlap", text[tail:end]),
        ("aside", text[end : end + CONTEXT_CHARACTERS]),
    )
    spans = [f'<span class="{name}">{html.escape(part)}</span>' for name, part in parts]
    return f'<div class="chunk-text">{spans[0]}<mark>{"".join(spans[1:4])}</mark>{spans[4]}</div>'


PAGES_TO_CHECK_TITLE = "Pages to check"


def summarize_pages_to_check(document: Json) -> str:
    """Return page numbers and reasons in one line, "" without pages to check."""
    pages = document["documentProperties"]["pagesToCheck"]
    numbers = ", ".join(str(page["page"]) for page in pages if page["page"])
    reasons = " ".join(dict.fromkeys(reason for page in pages for reason in page["reasons"]))
    return f"{numbers}: {reasons}" if numbers else reasons


def show_pages_to_check(person: session.Person, namespace: str, document: Json) -> None:
    pages = document["documentProperties"]["pagesToCheck"]
    page = st.selectbox("Page", pages, format_func=_page_title) if len(pages) > 1 else pages[0]
    left_column, right_column = st.columns([2, 3])
    with left_column:
        st.markdown(f"**{_page_title(page)}**")
        for reason in page["reasons"]:
            st.write(escape_markdown(reason))
        st.caption(
            "Its text is left out of the document: ingest the file again with text recognition."
            if page["unread"]
            else "Its text is indexed as it was read: compare it with the page."
        )
    if page["page"] and widgets.is_pdf(document):
        with right_column:
            widgets.show_page_image(person, namespace, document["id"], page["page"])


def _page_title(page: Json) -> str:
    name = f"Page {page['page']}" if page["page"] else "The whole text"
    return f"{name} · quality {page['quality']:.2f}{' · not read' if page['unread'] else ''}"


LINK_FIELDS = ("rawFileUrl", "parsedTextFileUrl")
STATUS_TEXTS = {
    "SUCCESS": "Indexed and searchable.",
    "QUEUED": "Queued: a worker takes it up when its turn comes.",
    "QUEUED_FOR_RESYNC": "Queued for resync; the indexed version stays searchable.",
    "PROCESSING": "A worker is fetching, parsing, embedding or indexing it.",
    "CANCELLED": "Its run was cancelled before it was done; a resync takes it up again.",
    "BACKLOG": "Listed and not ingested: a resync ingests it.",
}


def show_document(person: session.Person, namespace: str, document_id: str) -> None:
    widgets.link_back("All documents", "document", "chunk", "tab")
    frame.show_outcome()
    count, packed = partial(person.api.list_documents, namespace), {"documentArchiveIds": [document_id]}
    answers = waiting.ask_in_parallel(
        {
            "document": partial(count, {"documentIds": [document_id]}, size=1, include=LINK_FIELDS),
            "packed": partial(count, packed, include=["statsByStatus"]),
        }
    )
    documents = (answers["document"] or {})["documents"]
    if not documents:
        advice = "It was deleted, or it lies in another namespace or tenant, or the user you see as may not see it."
        widgets.show_empty("There is no such document here.", advice)
        for reason in document_actions.explain_access(namespace, [document_id]).values():
            st.info(escape_markdown(reason), icon=":material/lock:")
        return
    document = documents[0]
    _show_head(document)
    if cause := document["failureCause"]:
        config = {"documentIds": [document["id"]]}
        if result := failures.offer_retries(person, namespace, failures.Causes({cause: 1}, {}), document["id"], config):
            frame.keep_outcome(result)
            st.rerun()
    _show_links(person, document, count_documents(answers["packed"] or {}))
    pages = {
        "Chunks": show_chunks,
        **({PAGES_TO_CHECK_TITLE: show_pages_to_check} if document["documentProperties"]["pagesToCheck"] else {}),
        **({} if frame.viewer_name() else {"Versions": show_history}),
        "Access": document_actions.show_access,
        "Properties": _show_properties,
        "Edit": document_actions.show_actions,
    }
    tabs = {name: partial(show, person, namespace, document) for name, show in pages.items()}
    widgets.show_tabs("document_tabs", tabs)


def _show_head(document: Json) -> None:
    st.header(escape_markdown(document_label(document["name"])))
    chunks = document["documentProperties"]["embeddingCount"]
    is_indexed = chunks is not None and document["ingestionStatus"] == "SUCCESS"
    facts = [STATUS_TEXTS.get(document["ingestionStatus"], "")]
    facts += [f"{format_count(chunks, 'chunk')}."] if is_indexed else []
    facts += [f"Last synced {time_ago(document['lastSyncedAt'])}."] if document["lastSyncedAt"] else []
    if "access" in document or "accessStatus" in document:
        facts.append(document_actions.summarize_access(document))
    with st.container(horizontal=True, vertical_alignment="center"):
        widgets.status_badge(document["ingestionStatus"])
        st.caption(" ".join(facts), width="content")
    if document["ingestionError"]:
        st.error(escape_markdown(plain_error(document["ingestionError"])), icon=":material/error:")


def _show_links(person: session.Person, document: Json, packed_count: int) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        if source := find_source_url(document):
            st.link_button("Open source", source, icon=":material/open_in_new:")
        if document.get("rawFileUrl"):
            st.link_button("Raw file", document["rawFileUrl"], icon=":material/download:")
        if document.get("parsedTextFileUrl"):
            st.link_button("Parsed text", document["parsedTextFileUrl"], icon=":material/description:")
        if person.may("search"):
            query = {"document": document["id"], "tab": "Why not found?"}
            widgets.link_page("search", "Why is this not found?", "troubleshoot", **query)
        if person.may("ingest:read"):
            widgets.link_page("runs", "Its last run", run=document["ingestJobRun"]["id"])
        if document["archive"]:
            widgets.link_page("documents", "Parent archive", "unarchive", document=document["archive"]["id"])
        if packed_count:
            label = f"{format_count(packed_count, 'document')} in this archive"
            widgets.link_page("documents", label, "folder_zip", archive=document["id"])


def find_source_url(document: Json) -> str | None:
    """Return the link to the document's source; None without any."""
    addresses = (document["documentProperties"]["url"], document["externalId"])
    return next((address for address in addresses if address and re.match(r"https?://[^/]", address)), None)


def _show_properties(_person: session.Person, _namespace: str, document: Json) -> None:
    properties = document["documentProperties"] | {"fileSize": format_size(document["documentProperties"]["fileSize"])}
    facts: dict[str, Any] = {
        "ID": document["id"],
        "External ID": document["externalId"],
        "Type": document["documentType"],
        "Source": source_title(document["ingestionSource"]),
        "Tenant": document["tenantId"],
        "Job run": document["ingestJobRun"]["id"],
        "Connection": (document["connection"] or {}).get("id"),
        "Parent archive": (document["archive"] or {}).get("id"),
        **{format_field(name): value for name, value in properties.items() if name != "pagesToCheck"},
        **{f"Embedding {name}": value for name, value in document["embeddingConfig"].items()},
        "Created": document["createdAt"],
        "Updated": document["updatedAt"],
        "Last synced": document["lastSyncedAt"],
    }
    texts = {name: value.get("isoString", value) if isinstance(value, dict) else value for name, value in facts.items()}
    widgets.show_table([{"Property": name, "Value": str(text)} for name, text in texts.items() if text is not None])
    st.markdown("**Metadata**")
    st.json(document["metadata"])
