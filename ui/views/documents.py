"""Documents page: search, filters and a paged list; a row opens the document."""

from __future__ import annotations

from functools import partial

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import (
    document_actions,
    document_detail,
    document_filters,
    failures,
    frame,
    hidden_passages,
    url_state,
    waiting,
    widgets,
)
from ui.parts.labels import (
    count_documents,
    document_counts,
    document_label,
    format_count,
    format_number,
    format_size,
    source_title,
    status_word,
    time_ago,
)
from ui.parts.widgets import escape_markdown

DOCUMENT_PAGE_SIZE = 50
# Hidden parts of a document.
HIDDEN_LABELS = {"DOCUMENT": "All of it", "PASSAGES": "Passages", None: ""}


def main() -> None:
    person = frame.current_person()
    namespace = frame.show_head(person, "Documents")
    document = session.read_parameter("document")
    if document:
        url_state.forget_fields("find", "filter_metadata")
        document_detail.show_document(person, namespace, document)
    else:
        show_listing(person, namespace)


def show_listing(person: session.Person, namespace: str) -> None:
    frame.show_outcome()
    count = partial(person.api.list_documents, namespace)
    overview_data = waiting.ask_in_parallel(
        {
            "sites": partial(count, {"documentTypes": ["URL"]}, include=["statsBySite"]),
            "failures": partial(failures.count_causes, person, namespace) if person.may("documents:write") else None,
            "unknown": partial(count, {"accessStatuses": ["UNKNOWN"]}, include=["statsByStatus"]),
        }
    )
    sites = {entry["site"]: entry["totalCount"] for entry in (overview_data["sites"] or {})["statsBySite"]}
    config = document_filters.show_filters(person, namespace, sites)
    if config is None:
        return
    counts = overview_data["failures"] if config.keys() <= {"documentIngestionStatuses"} else None
    if result := failures.offer_retries(person, namespace, counts or {}, "documents"):
        frame.keep_outcome(result)
        st.rerun()
    config = _filter_by_cause(config)
    cursor = session.read_parameter("cursor")
    data = person.api.list_documents(
        namespace, config, size=DOCUMENT_PAGE_SIZE, cursor=cursor, include=["statsByStatus"]
    )
    _show_attention(config, count_documents(overview_data["unknown"] or {}))
    if not data["documents"]:
        _show_empty_list(person, namespace, config, data)
        return
    st.caption(document_counts(data))
    keys = document_filters.list_keys("metadata", data["documents"])
    table_column, facet_column = st.columns([4, 1]) if keys else (st.container(), None)
    with table_column:
        _show_table(namespace, data)
    if facet_column:
        with facet_column:
            document_filters.show_facets(person, namespace, config, "metadata", keys)
    hidden_passages.show_hidden(person, namespace)
    if config:
        document_actions.show_bulk_actions(person, namespace, config, data, _describe_filter(config))


def _show_attention(config: Json, unknown: int) -> None:
    if unknown and "accessStatuses" not in config:
        label = f"Needs attention: access of {format_count(unknown, 'document')} is unknown, so no user sees them"
        widgets.link_page("documents", label, "lock_person", access="unknown")


def _filter_by_cause(config: Json) -> Json:
    """Narrow the filter to the failure cause of the address."""
    cause = session.read_parameter("cause")
    if cause not in failures.CAUSE_REMEDIES:
        return config
    if st.button(f"Only {failures.CAUSE_REMEDIES[cause].plural}", icon=":material/close:", key="cause"):
        session.go_to(cause=None, cursor=None)
    leaves = [failures.where_cause(cause), *([config["where"]] if "where" in config else [])]
    return {**config, "where": {"all": leaves}}


def _show_empty_list(person: session.Person, namespace: str, config: Json, data: Json) -> None:
    if config:
        widgets.show_empty("No document matches.", "Clear the filters, or look into another namespace.")
        st.button("Clear filters", icon=":material/filter_alt_off:", on_click=document_filters.clear_filters)
        if frame.viewer_name():
            _explain_unseen(namespace, config)
    elif session.read_parameter("cursor"):
        widgets.show_empty("Nothing on this page.", "Documents have gone since: go back to the first page.")
        widgets.show_pager(data)
    elif frame.viewer_name():
        widgets.show_empty("No document is to be seen.", "The user you see as may see none in this namespace.")
    else:
        widgets.show_empty("No documents yet.", "Add content: a text, files, a website, a connection.")
        if person.may("ingest:write"):
            widgets.link_page("add_content", "Add content")


def _explain_unseen(namespace: str, config: Json) -> None:
    documents = session.current_person().api.list_documents(namespace, config, size=5)["documents"]
    reasons = document_actions.explain_access(namespace, [document["id"] for document in documents])
    for document in documents:
        name = escape_markdown(document_label(document["name"]))
        st.info(f"**{name}**  \n{escape_markdown(reasons[document['id']])}", icon=":material/lock:")


def _describe_filter(config: Json) -> str:
    """Describe the filter in a few words."""
    parts = []
    if text := config.get("text"):
        parts.append(f"name or URL with “{text}”")
    if sites := config.get("sites"):
        parts.append(f"site {sites[0]}")
    if states := config.get("documentIngestionStatuses"):
        parts.append("status " + ", ".join(status_word(status).lower() for status in states))
    for key, value in config.get("metadata", {}).items():
        parts.append(f"{key} {', '.join(map(str, value)) if isinstance(value, list) else value}")
    other_count = len(config.keys() - {"text", "sites", "documentIngestionStatuses", "metadata"})
    if other_count:
        parts.append(format_count(other_count, "more filter" if parts else "filter"))
    return "; ".join(parts)


def _show_table(namespace: str, data: Json) -> None:
    documents = data["documents"]
    is_check = session.read_parameter("quality") == "check"
    reasons = document_actions.explain_access(namespace, [document["id"] for document in documents])
    rows = [_document_row(document, reasons.get(document["id"], ""), is_check=is_check) for document in documents]
    rows = widgets.drop_empty(rows, "Why", document_detail.PAGES_TO_CHECK_TITLE, "Error", "Hidden")
    chosen = widgets.clicked_row(
        rows,
        "documents_table",
        [document["id"] for document in documents],
        Status=widgets.status_column(),
        Name=st.column_config.TextColumn(width=280),
        Chunks=st.column_config.TextColumn(alignment="right"),
        Error=st.column_config.TextColumn(width="medium"),
        Why=st.column_config.TextColumn(width="large"),
        **{document_detail.PAGES_TO_CHECK_TITLE: st.column_config.TextColumn(width="large")},
    )
    if chosen is not None:
        session.go_to(document=chosen, tab=document_detail.PAGES_TO_CHECK_TITLE if is_check else None)
    with st.container(horizontal=True):
        widgets.show_pager({**data, "totalCount": count_documents(data)})
        widgets.download_csv("Page as CSV", rows, "documents.csv")


def _document_row(document: Json, why: str, *, is_check: bool) -> Json:
    properties = document["documentProperties"]
    return {
        "Status": [document["ingestionStatus"]],
        "Name": document["name"] if document["name"].strip() else document["externalId"],
        "Why": why,
        document_detail.PAGES_TO_CHECK_TITLE: document_detail.summarize_pages_to_check(document) if is_check else "",
        "Source": source_title(document["ingestionSource"]),
        "Chunks": format_number(properties["embeddingCount"]),
        "Size": format_size(properties["fileSize"]) if properties["fileSize"] is not None else "",
        "Updated": time_ago(document["updatedAt"]),
        "Error": document["ingestionError"] or "",
        "Hidden": HIDDEN_LABELS[document.get("hidden")],
    }


main()
