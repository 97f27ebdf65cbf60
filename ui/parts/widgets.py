"""Small pieces of many pages: text from outside, badges, tables, tabs, pages of lists, buttons that send once."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts.labels import STATUS, describe_health, status_word

_MARKUP = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:&=^])")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def escape_markdown(text: str) -> str:
    """For a place that reads Markdown: every mark escaped, line breaks as spaces."""
    return _MARKUP.sub(r"\\\1", " ".join(str(text).split()))


def format_code(text: str) -> str:
    """For a place that reads Markdown: a name as it is, no address of it a link."""
    return "`" + " ".join(str(text).replace("`", "'").split()) + "`" if str(text).strip() else ""


def csv_bytes(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> bytes:
    """A CSV file that no spreadsheet runs: what would start a formula gets an apostrophe before it."""
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(columns), extrasaction="ignore")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _cell(row.get(name)) for name in columns})
    return out.getvalue().encode("utf-8-sig")


def _cell(value: Any) -> Any:
    text = "" if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return "'" + text if text.lstrip(" ").startswith(_FORMULA) and not isinstance(value, int | float) else text


def status_badge(status: str) -> None:
    label, color, icon = STATUS.get(status, (status, "gray", "help"))
    st.badge(label, icon=f":material/{icon}:", color=color)


def show_health(thing: Json) -> None:
    """Show the status of an ACTIVE thing by its outcomes, and any other status as it is."""
    status_badge(thing["health"]["state"] if thing["status"] == "ACTIVE" else thing["status"])


def explain_health(thing: Json) -> None:
    """Show the observed outcomes, and the reason of a failure or of the status."""
    health, reason = thing["health"], thing["statusReason"] or thing["health"]["reason"]
    st.caption(describe_health(health))
    if reason and health["state"] == "FAILING":
        st.error(escape_markdown(reason), icon=":material/error:")
    elif thing["statusReason"]:
        st.warning(escape_markdown(thing["statusReason"]), icon=":material/info:")


def status_column(label: str = "Status") -> Any:
    colors = [color for _, color, _ in STATUS.values()]
    return st.column_config.MultiselectColumn(
        label, options=list(STATUS), color=colors, format_func=status_word, width=180
    )


ICONS = {
    "add_content": "add_circle",
    "connections": "cable",
    "documents": "description",
    "runs": "play_circle",
    "search": "search",
}


def link_page(page: str, label: str, icon: str = "", **query: str) -> None:
    """Show a link to a page, in the same namespace unless the query names another."""
    icon = f":material/{icon or ICONS.get(page, 'arrow_forward')}:"
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
    st.dataframe(rows, hide_index=True, width="stretch", column_config=columns or None)


def drop_empty(rows: Sequence[Mapping[str, Any]], *names: str) -> list[dict[str, Any]]:
    """Return the rows without the columns that are empty in all of them. `names`: of these columns alone."""
    empty = {name for name in names or rows[0] if not any(row[name] for row in rows)}
    return [{name: value for name, value in row.items() if name not in empty} for row in rows]


def download_csv(label: str, rows: Sequence[Mapping[str, Any]], file: str, key: str | None = None) -> None:
    content = csv_bytes(rows, list(rows[0]))
    st.download_button(label, content, file, "text/csv", icon=":material/download:", key=key)


def show_empty(what: str, advice: str, *, go: tuple[str, str] | None = None) -> None:
    """Show the text of an empty page: there is nothing, and what to do about it. `go`: a page's name and the label of
    the button that leads there, in the same namespace."""
    st.info(f"**{what}**  \n{advice}", icon=":material/lightbulb:")
    if go and st.button(go[1], icon=":material/arrow_forward:", key=f"go-{go[0]}"):
        open_page(go[0])


def add_content(what: str) -> None:
    if session.current_person().may("ingest:write"):
        advice = "Files, texts, pages of the web and content services come in by one page."
        show_empty(what, advice, go=("add_content", "Add content"))
    else:
        show_empty(what, "This key may not add content.")


T = TypeVar("T")


def clicked_row(
    rows: Sequence[Any], key: str, those: Sequence[T], *, links: Collection[str] = (), **columns: Any
) -> T | None:
    """Show the rows. Return, once, the element of `those` whose row is clicked.

    The browser reports the index of the row in the table that was clicked. If rows were added since, as in a table that
    refreshes itself, that index is another row in the current table. A click replaces the table by one without a
    selection, so that returning before the opened page is complete does not open it again. `links`: columns of links,
    which lead elsewhere; `columns`: the `column_config` of a column.
    """
    clicks, drawn = f"{key}_clicks", f"{key}_drawn"
    number = st.session_state.get(clicks, 0)
    previous: Sequence[T] = st.session_state.get(drawn, those)
    table = st.dataframe(
        rows,
        hide_index=True,
        width="stretch",
        height="content",
        on_select="rerun",
        selection_mode="single-cell",
        key=f"{key}_{number}",
        column_config=columns or None,
    )
    st.session_state[drawn] = list(those)
    cells = table["selection"]["cells"]
    if not cells or cells[0][1] in links or not 0 <= cells[0][0] < len(previous):
        return None
    st.session_state[clicks] = number + 1
    return previous[cells[0][0]]


def show_tabs(key: str, pages: Mapping[str, Callable[[], None]]) -> None:
    """A tab a page, by name, the first one open unless the address names another; `key` is the tabs' own.

    The address is followed whenever it is another than these tabs have written: by a link, or by Back.
    """
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


PLACES = ("cursor", "keys", "tenants", "questions", "sent")
"""Where lists keep their place in the address."""


def show_pager(data: Json, *, name: str = "cursor", start: str = "First page", further: str = "Next page") -> None:
    """Show the position in a list, and the buttons that this part of it needs. `data`: a page of the API."""
    rows = next((value for value in data.values() if isinstance(value, list)), [])
    position = session.read_parameter(name + session.POSITION) or ""
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
            session.set_parameters(**{name: data["nextCursor"], name + session.POSITION: str(first + len(rows))})
            st.rerun()


def is_pdf(document: Json) -> bool:
    return bool(document["documentProperties"]["mimeType"] == "application/pdf")


def show_page_image(
    person: session.Person, namespace: str, document_id: str, page: int, chunk: int | None = None
) -> None:
    path = f"/v1/documents/{document_id}/pages/{page}"
    try:
        picture = person.api.picture(path, namespaceId=namespace, **({} if chunk is None else {"chunk": chunk}))
    except ApiError as error:
        st.caption(f"This page cannot be shown. {error.message}")
        return
    st.image(picture, caption=f"Page {page}", width="stretch")


ONCE_SECONDS = 3.0
"""Within so many seconds of the answer the same request is the same click."""
_SENT = "clicks"


def post_once(person: session.Person, path: str, body: Json, *, instead_of: str = "") -> Json:
    """Send one request with an Idempotency-Key, reused for the same request of this session until shortly after its
    answer.

    A second click ends the page run that waits for the first answer, and begins another. That run gets the first
    result, including a key's value, which is returned only once. Only the newest request is remembered; a repeat after
    another request is no second click. ApiError if it is refused.
    """
    about = json.dumps([path, body, instead_of, person.api.tenant, person.api.viewer], sort_keys=True)
    digest = hashlib.sha256(about.encode()).hexdigest()
    newest: tuple[str, str, float] | None = st.session_state.get(_SENT)
    is_second_click = newest is not None and newest[0] == digest and time.monotonic() <= newest[2]
    once = newest[1] if newest is not None and is_second_click else uuid.uuid4().hex
    st.session_state[_SENT] = (digest, once, float("inf"))
    try:
        return person.api.post(path, body, once=once)
    finally:
        st.session_state[_SENT] = (digest, once, time.monotonic() + ONCE_SECONDS)
