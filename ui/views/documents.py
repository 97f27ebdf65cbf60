"""Documents page: search, filters and a paged list; a row opens the document."""

from __future__ import annotations

from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from ui import exports, session
from ui.client import Json
from ui.parts import (
    bulk_actions,
    document_actions,
    document_detail,
    document_filters,
    document_kinds,
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
    plain_error,
    source_title,
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
    unknown: Json = {"accessStatuses": ["UNKNOWN"]}
    answers = waiting.ask_in_parallel(
        {
            "totals": partial(document_filters.count_all, person, namespace),
            "failed": partial(failures.list_failed, person, namespace) if person.may("documents:write") else None,
            "connections": partial(document_filters.list_connections, person, namespace),
            "unknown": partial(person.api.list_documents, namespace, unknown, include=["statsByStatus"], recent=True),
        }
    )
    text = document_filters.show_search(person, namespace)
    side, content = st.columns([2, 9], gap="small")
    with side, st.container(key=f"drawer_{'open' if st.session_state[document_filters.DRAWER_KEY] else 'closed'}"):
        config = document_filters.show_filters(person, namespace, answers["totals"] or {}, text)
        facets = st.container()
    if config is not None:
        with content:
            _show_documents(person, namespace, config, answers, facets)


def _show_documents(
    person: session.Person, namespace: str, config: Json, answers: dict[str, Json | None], facets: DeltaGenerator
) -> None:
    causes = failures.find_causes(answers["failed"] if config.keys() <= {"documentIngestionStatuses"} else None)
    if result := failures.offer_retries(person, namespace, causes, "documents"):
        frame.keep_outcome(result)
        st.rerun()
    config = _filter_by_cause(config)
    cursor = session.read_parameter("cursor")
    data = person.api.list_documents(
        namespace, config, size=DOCUMENT_PAGE_SIZE, cursor=cursor, include=["statsByStatus"]
    )
    _show_attention(config, count_documents(answers["unknown"] or {}))
    if not data["documents"]:
        _show_empty_list(person, namespace, config, data)
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(document_counts(data), width="stretch")
        if config:
            clear = document_filters.clear_filters
            st.button("Clear filters", icon=":material/filter_alt_off:", type="tertiary", on_click=clear)
    actions = st.container()
    keys = document_filters.list_keys("metadata", data["documents"])
    selected = _show_table(person, namespace, config, data)
    with facets:
        document_filters.show_facets(person, namespace, config, "metadata", keys)
    hidden_passages.show_hidden(person, namespace)
    with actions:
        bulk_actions.show_bulk_actions(person, namespace, config, data, selected)


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
    leaves = [failures.cause_condition(cause), *([config["where"]] if "where" in config else [])]
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


def _show_table(person: session.Person, namespace: str, config: Json, data: Json) -> list[Json]:
    """Show the documents; return the selected ones."""
    documents = data["documents"]
    is_check = session.read_parameter("quality") == "check"
    reasons = document_actions.explain_access(namespace, [document["id"] for document in documents])
    rows = [_document_row(document, reasons.get(document["id"], ""), is_check=is_check) for document in documents]
    rows = widgets.drop_empty(
        rows, "Why", document_detail.PAGES_TO_CHECK_TITLE, "Error", "Hidden", "Quality", "Changed at source"
    )
    chosen = widgets.clicked_row(
        rows,
        "documents_table",
        documents,
        selects=person.may("documents:write"),
        Status=widgets.status_column(width=110),
        Kind=st.column_config.ImageColumn(width=56),
        Name=st.column_config.TextColumn(width=230),
        Quality=st.column_config.TextColumn(alignment="right", help="Of the text that was read, 100 % at best."),
        Chunks=st.column_config.TextColumn(alignment="right"),
        Error=st.column_config.TextColumn(width=240),
        Why=st.column_config.TextColumn(width="large"),
        **{document_detail.PAGES_TO_CHECK_TITLE: st.column_config.TextColumn(width="large")},
    )
    if chosen is not None:
        session.go_to(document=chosen["id"], tab=document_detail.PAGES_TO_CHECK_TITLE if is_check else None)
    with st.container(horizontal=True):
        widgets.show_pager({**data, "totalCount": count_documents(data)})
        link = f"{exports.EXPORT_PATH[1:]}?of={session.offer_export(person, namespace, config)}"
        st.link_button(f"All {count_documents(data):,} as CSV", link, icon=":material/download:")
    return widgets.selected_rows("documents_table", documents)


def _document_row(document: Json, why: str, *, is_check: bool) -> Json:
    properties = document["documentProperties"]
    quality, count = properties["textQuality"], len(properties["pagesToCheck"])
    return {
        "Status": [document["ingestionStatus"]],
        "Kind": document_kinds.icon_of(properties["mimeType"], document["name"]),
        "Name": document["name"] if document["name"].strip() else document["externalId"],
        "Why": why,
        "Error": plain_error(document["ingestionError"]),
        document_detail.PAGES_TO_CHECK_TITLE: document_detail.summarize_pages_to_check(document) if is_check else "",
        "Quality": "" if quality is None else f"{quality:.0%}" + (f" · {count} to check" if count else ""),
        "Changed at source": time_ago(properties["modifiedAt"]) if properties["modifiedAt"] else "",
        "Updated": time_ago(document["updatedAt"]),
        "Source": source_title(document["ingestionSource"]),
        "Chunks": format_number(properties["embeddingCount"]),
        "Size": format_size(properties["fileSize"]) if properties["fileSize"] is not None else "",
        "Hidden": HIDDEN_LABELS[document.get("hidden")],
    }


main()
