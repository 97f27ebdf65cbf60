"""Widgets: escaping, badges, tables, tabs, paging, and buttons that send once."""

from __future__ import annotations

import hashlib
import json
import re
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.exports import csv_bytes
from ui.parts import url_state
from ui.parts.labels import STATUS_LABELS, describe_health, status_word

MARKUP_PATTERN = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:&=^])")


def escape_markdown(text: str) -> str:
    """Escape text for Markdown, in one line."""
    return MARKUP_PATTERN.sub(r"\\\1", " ".join(str(text).split()))


def format_code(text: str) -> str:
    """Format text as Markdown code, without links."""
    return "`" + " ".join(str(text).replace("`", "'").split()) + "`" if str(text).strip() else ""


def status_badge(status: str) -> None:
    label, color, icon = STATUS_LABELS.get(status, (status, "gray", "help"))
    st.badge(label, icon=f":material/{icon}:", color=color)


def show_health(resource: Json) -> None:
    """Show an ACTIVE resource's health once observed, or its status."""
    state = resource["health"]["state"]
    status_badge(state if resource["status"] == "ACTIVE" and state != "UNKNOWN" else resource["status"])


def explain_health(resource: Json) -> None:
    """Show observed outcomes with the reason of a failure or status."""
    health, reason = resource["health"], resource["statusReason"] or resource["health"]["reason"]
    st.caption(describe_health(health))
    if reason and health["state"] == "FAILING":
        st.error(escape_markdown(reason), icon=":material/error:")
    elif resource["statusReason"]:
        st.warning(escape_markdown(resource["statusReason"]), icon=":material/info:")


def status_column(label: str = "Status", width: int = 180) -> Any:
    colors = [color for _, color, _ in STATUS_LABELS.values()]
    return st.column_config.MultiselectColumn(
        label, options=list(STATUS_LABELS), color=colors, format_func=status_word, width=width
    )


PAGE_ICONS = {
    "add_content": "add_circle",
    "connections": "cable",
    "documents": "description",
    "runs": "play_circle",
    "search": "search",
}


def link_page(page: str, label: str, icon: str = "", **query: str) -> None:
    """Show a link to a page, by default in the same namespace."""
    icon = f":material/{icon or PAGE_ICONS.get(page, 'arrow_forward')}:"
    if st.session_state.get(url_state.PAGE_KEY) == page:
        # Streamlit's link to the open page leaves the browser's address, which the next click reads, as it was.
        show = partial(st.query_params.from_dict, _in_namespace(query))
        st.button(label, icon=icon, type="tertiary", key=f"link-{label}-{json.dumps(query)}", on_click=show)
        return
    st.page_link(f"views/{page}.py", label=label, icon=icon, query_params=_in_namespace(query))


def open_page(page: str, **query: str) -> None:
    st.switch_page(f"views/{page}.py", query_params=_in_namespace(query))


def _in_namespace(query: dict[str, str]) -> dict[str, str]:
    namespace = session.read_parameter("namespace")
    return {"namespace": namespace, **query} if namespace else query


def link_back(label: str, *names: str) -> None:
    leave = partial(session.set_parameters, **dict.fromkeys(names))
    st.button(label, icon=":material/arrow_back:", on_click=leave)


def show_table(rows: Sequence[Any], **columns: Any) -> None:
    st.dataframe(rows, hide_index=True, width="stretch", height="content", column_config=columns or None)


def drop_empty(rows: Sequence[Mapping[str, Any]], *names: str) -> list[dict[str, Any]]:
    """Remove columns that are empty in all rows; `names` limits the columns."""
    empty = {name for name in names or rows[0] if not any(row[name] for row in rows)}
    return [{name: value for name, value in row.items() if name not in empty} for row in rows]


def download_csv(label: str, rows: Sequence[Mapping[str, Any]], file: str, key: str | None = None) -> None:
    content = csv_bytes(rows, list(rows[0]))
    st.download_button(label, content, file, "text/csv", icon=":material/download:", key=key)


def show_empty(title: str, advice: str, *, go: tuple[str, str] | None = None, **query: str) -> None:
    """Show the text of an empty page with advice; `go` is a page, opened with `query`, and its button label."""
    st.info(f"**{title}**  \n{advice}", icon=":material/lightbulb:")
    if go and st.button(go[1], icon=":material/arrow_forward:", key=f"go-{go[0]}"):
        open_page(go[0], **query)


def add_content(title: str) -> None:
    if session.current_person().may("ingest:write"):
        advice = "Files, texts, pages of the web and content services come in by one page."
        show_empty(title, advice, go=("add_content", "Add content"))
    else:
        show_empty(title, "This key may not add content.")


ElementT = TypeVar("ElementT")


def clicked_row(
    rows: Sequence[Any],
    key: str,
    elements: Sequence[ElementT],
    *,
    links: Collection[str] = (),
    selects: bool = False,
    **columns: Any,
) -> ElementT | None:
    """Show the rows, with check boxes if `selects`; return the element of a clicked row once."""
    # The browser reports a row index in the clicked table. Rows added since would shift it: elements of the drawn table
    # count. After a click, a new table without selection keeps the page from opening twice.
    # `links`: columns that lead elsewhere; `columns`: their `column_config`.
    clicks, drawn = f"{key}_clicks", f"{key}_drawn"
    previous: Sequence[ElementT] = st.session_state.get(drawn, elements)
    if selects and _list_ids(previous) != _list_ids(elements):
        # Check boxes belong to rows: those of another list would select other documents.
        st.session_state[clicks] = st.session_state.get(clicks, 0) + 1
    number = st.session_state.get(clicks, 0)
    table = st.dataframe(
        rows,
        hide_index=True,
        width="stretch",
        height="content",
        on_select="rerun",
        selection_mode=["multi-row", "single-cell"] if selects else "single-cell",
        key=f"{key}_{number}",
        column_config=columns or None,
    )
    st.session_state[drawn] = list(elements)
    cells = table["selection"]["cells"]
    if not cells or cells[0][1] in links or not 0 <= cells[0][0] < len(previous):
        return None
    st.session_state[clicks] = number + 1
    return previous[cells[0][0]]


def _list_ids(elements: Sequence[Any]) -> list[str]:
    return [element["id"] for element in elements]


def selected_rows(key: str, elements: Sequence[ElementT]) -> list[ElementT]:
    """Return the elements whose check boxes are set in the table of `clicked_row`."""
    table = st.session_state.get(f"{key}_{st.session_state.get(f'{key}_clicks', 0)}")
    rows = table["selection"]["rows"] if table else []
    return [elements[row] for row in rows if row < len(elements)]


def show_tabs(key: str, pages: Mapping[str, Callable[[], None]]) -> None:
    """Show a tab per page; the address selects the open tab."""
    # The address wins if another link or Back changed it.
    names = list(pages)
    linked, written = session.read_parameter("tab"), f"{key}_written"
    if key not in st.session_state or linked != st.session_state.get(written):
        st.session_state[key] = linked if linked in pages else names[0]
    tabs = st.tabs(names, key=key, on_change="rerun")
    for name, tab in zip(names, tabs, strict=True):
        if tab.open:
            st.session_state[written] = None if name == names[0] else name
            session.set_parameters(tab=st.session_state[written])
            with tab:
                pages[name]()


# List positions in the page's address.
CURSOR_PARAMETERS = ("cursor", "keys", "tenants", "questions", "sent")


def show_pager(data: Json, *, name: str = "cursor", start: str = "First page", further: str = "Next page") -> None:
    """Show the position in a list with buttons; `data` is the API's page."""
    rows = next((value for value in data.values() if isinstance(value, list)), [])
    position = session.read_parameter(name + session.POSITION_SUFFIX) or ""
    first = int(position) if position.isdecimal() and session.read_parameter(name) else 0
    total = data.get("totalCount")
    with st.container(horizontal=True, vertical_alignment="center"):
        if rows and (first or data["hasNextPage"] or total is not None):
            of_total = "" if total is None else f" of {total:,}"
            st.caption(f"{first + 1:,} to {first + len(rows):,}{of_total}", width="content")
        if session.read_parameter(name) and st.button(start, icon=":material/first_page:", key=f"start-{name}"):
            session.set_parameters(**{name: None})
            st.rerun()
        if data["hasNextPage"] and st.button(further, icon=":material/chevron_right:", key=f"further-{name}"):
            session.set_parameters(**{name: data["nextCursor"], name + session.POSITION_SUFFIX: str(first + len(rows))})
            st.rerun()


def is_pdf(document: Json) -> bool:
    return bool(document["documentProperties"]["mimeType"] == "application/pdf")


def show_page_image(
    person: session.Person, namespace: str, document_id: str, page: int, chunk: int | None = None
) -> None:
    path = f"/v1/documents/{document_id}/pages/{page}"
    try:
        picture = person.api.fetch_picture(path, namespaceId=namespace, **({} if chunk is None else {"chunk": chunk}))
    except ApiError as error:
        st.caption(f"This page cannot be shown. {error.message}")
        return
    st.image(picture, caption=f"Page {page}", width="stretch", alt=f"Picture of page {page}")


# The same request within this time after the answer is the same click.
SECOND_CLICK_SECONDS = 3.0
LAST_REQUEST_KEY = "clicks"


def post_once(person: session.Person, path: str, body: Json, *, instead_of: str = "") -> Json:
    """Send one request with an Idempotency-Key, reused for a second click; ApiError if refused."""
    # A second click ends the waiting page run and starts another, which needs the first answer: a key's value is
    # returned only once. A repeat after another request is no second click.
    about = json.dumps([path, body, instead_of, person.api.tenant, person.api.viewer], sort_keys=True)
    digest = hashlib.sha256(about.encode()).hexdigest()
    newest: tuple[str, str, float] | None = st.session_state.get(LAST_REQUEST_KEY)
    is_second_click = newest is not None and newest[0] == digest and time.monotonic() <= newest[2]
    once = newest[1] if newest is not None and is_second_click else uuid.uuid4().hex
    st.session_state[LAST_REQUEST_KEY] = (digest, once, float("inf"))
    try:
        return person.api.post(path, body, once=once)
    finally:
        st.session_state[LAST_REQUEST_KEY] = (digest, once, time.monotonic() + SECOND_CLICK_SECONDS)
