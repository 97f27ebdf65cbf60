"""Namespaces: list, details, and forms to create, change and delete."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from functools import partial

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import api_schema, document_actions, frame, namespace_form, url_state, waiting, widgets
from ui.parts.labels import format_field, format_size, time_ago
from ui.parts.widgets import escape_markdown

NAMESPACE_PAGE_SIZE = 50
SPARKLINE_DAYS, SPARKLINE_TITLE = 30, "Tokens, 30 days"
LINKED_PAGES = (
    ("runs", "Runs", "ingest:read"),
    ("documents", "Documents", "documents:read"),
    ("search", "Search lab", "search"),
)
ORDER_LABELS = {"documents": "Most documents", "searches": "Most searches", "name": "Name", "newest": "Newest"}
# Documents that can be indexed again; backlog documents were not chosen.
ENDED_STATUSES = ["SUCCESS", "FAILED", "CANCELLED"]


def main() -> None:
    person = session.current_person()
    st.title("Namespaces")
    if session.read_parameter("new") == "yes" and person.may("namespaces:write"):
        widgets.link_back("All namespaces", "new", "open")
        st.header("New namespace")
        created = namespace_form.show_form(person, None)
        if created is not None:
            session.go_to(new=None, open="yes", namespace=created["id"])
        return
    linked = session.read_parameter("namespace") if session.read_parameter("open") == "yes" else None
    if (space := session.find_namespace(person, linked)) is not None:
        _show_namespace(person, space)
        return
    if linked:
        frame.warn_unknown_namespace()
    _show_list(person)


def _show_list(person: session.Person) -> None:
    if person.may("namespaces:write") and st.button("New namespace", type="primary", icon=":material/add:"):
        session.go_to(new="yes")
    left_column, right_column = st.columns([3, 1], vertical_alignment="bottom")
    hint: Json = {"type": "search", "icon": ":material/search:", "placeholder": "Part of the name"}
    field = left_column.text_input
    name = url_state.bind_field(field, "name", "Find namespaces", prefix="namespaces", max_chars=200, **hint)
    with right_column:
        order = url_state.choose_order(ORDER_LABELS)
    query: Json = {"name": name, "sort": order, "counts": True, "cursor": session.read_parameter("cursor")}
    answers = waiting.ask_in_parallel(
        {
            "spaces": partial(person.api.get, "/v1/namespaces", pageSize=NAMESPACE_PAGE_SIZE, **query),
            "usage": partial(_read_usage, person) if person.may("admin") else None,
        }
    )
    data, tokens = answers["spaces"] or {}, _count_tokens(answers["usage"] or {"daily": []})
    spaces = data["namespaces"]
    if not spaces and name:
        widgets.show_empty("No namespace has this in its name.", "Try a shorter part of the name.")
        return
    if not spaces:
        advice = "Create one: it keeps its content apart, with a storage, an index and a model."
        widgets.show_empty("No namespace yet.", advice)
        return
    rows = [
        {"Name": space["name"], **_usage_cells(space), SPARKLINE_TITLE: tokens.get(space["id"]), **_model_cells(space)}
        for space in spaces
    ]
    rows = widgets.drop_empty(rows, SPARKLINE_TITLE)
    bars: Json = {SPARKLINE_TITLE: st.column_config.BarChartColumn(y_min=0)} if SPARKLINE_TITLE in rows[0] else {}
    bars |= {"Name": st.column_config.TextColumn(width=260)}
    chosen = widgets.clicked_row(rows, "namespaces_table", [space["id"] for space in spaces], **bars)
    if chosen is not None:
        session.go_to(namespace=chosen, open="yes")
    widgets.show_pager(data)


def _read_usage(person: session.Person) -> Json:
    today = datetime.now(UTC).date()
    days: Json = {"from": str(today - timedelta(days=SPARKLINE_DAYS - 1)), "to": str(today)}
    return person.api.recall("/v1/usage", daily=True, **days)


def _count_tokens(usage: Json) -> dict[str, list[int]]:
    """Return the tokens of each day by namespace, without namespaces of a single day."""
    counts: dict[str, list[int]] = {}
    for entry in usage["daily"]:
        day = (date.fromisoformat(entry["day"]) - date.fromisoformat(usage["from"])).days
        counts.setdefault(entry["namespaceId"], [0] * SPARKLINE_DAYS)[day] += entry["tokens"]
    return {space: days for space, days in counts.items() if sum(map(bool, days)) > 1}


def _usage_cells(space: Json) -> Json:
    """Return the numbers of a row; {} without a view of all documents."""
    if "documentCount" not in space:
        return {}
    return {
        "Documents": space["documentCount"],
        "Failed": space["failedCount"],
        "Chunks": space["chunkCount"],
        "Storage": format_size(space["storedBytes"]),
        "Last change": time_ago(space["lastDocumentChange"]),
        "Searches, 30 days": space["searchCount"],
    }


def _model_cells(space: Json) -> Json:
    """Return model and age of a row; {} for a bound key."""
    if "createdAt" not in space:
        return {}
    return {
        "Model": f"{space['embeddingModelConfig']['provider']} {space['embeddingModelConfig']['model']}",
        "Created": time_ago(space["createdAt"]),
    }


def _show_namespace(person: session.Person, space: Json) -> None:
    session.remember_namespace(person, space["id"])
    widgets.link_back("All namespaces", "new", "open")
    frame.show_outcome()
    st.header(escape_markdown(space["name"]))
    verbs = {"createdAt": "Created", "updatedAt": "changed"}
    times = [f"{verb} {time_ago(space[name])}" for name, verb in verbs.items() if name in space]
    st.caption(" · ".join(times))
    configuration, edit_tab, delete_tab = st.tabs(["Configuration", "Edit", "Delete"])
    with configuration:
        _show_configuration(person, space)
    with edit_tab:
        if not person.may("namespaces:write"):
            st.caption("This key may not change namespaces: it lacks the scope namespaces:write, or is bound.")
        elif namespace_form.show_form(person, space) is not None:
            frame.keep_notice("Saved.")
            st.rerun()
    with delete_tab:
        _show_deletion(person, space)


def _show_configuration(person: session.Person, space: Json) -> None:
    with st.container(horizontal=True):
        for page, label, scope in LINKED_PAGES:
            if person.may(scope):
                widgets.link_page(page, label, namespace=space["id"])
        document_actions.show_index_again(person, space["id"], {"documentIngestionStatuses": ENDED_STATUSES})
    apps = {service.app: service.title for service in api_schema.known_services().values()}
    rows = [
        {
            "Component": title,
            "Provider": str(config.get("type") or config.get("provider") or "OAuth app"),
            "Settings": _format_settings(config),
        }
        for area, title in (namespace_form.AREA_LABELS | apps).items()
        if (config := space.get(area))
    ]
    if not rows:
        st.caption("A key that is bound to a namespace or a tenant is not shown the configuration.")
        return
    if language := space.get("keywordLanguage"):
        rows.append({"Component": "Keyword search", "Provider": "PostgreSQL", "Settings": f"Language {language}"})
    widgets.show_table([*rows, {"Component": "ID for the API", "Provider": "", "Settings": space["id"]}])


def _format_settings(config: Json) -> str:
    flat = {**config, **(config.get("credentials") or {})}
    hidden = ("type", "provider", "credentials")
    return ", ".join(f"{format_field(name)} {value}" for name, value in flat.items() if name not in hidden)


def _show_deletion(person: session.Person, space: Json) -> None:
    if not person.may("namespaces:write"):
        st.caption("This key may not delete namespaces: it lacks the scope namespaces:write, or is bound.")
        return
    st.write("All its documents, vectors, files and connections go with it, for good. Running jobs are cancelled.")
    label = f"Type the name of the namespace to delete it: {escape_markdown(space['name'])}"
    is_sure = st.text_input(label, key="delete_name") == space["name"]
    if st.button("Delete for good", type="primary", disabled=not is_sure, icon=":material/delete:", key="delete_ns"):
        with frame.shown_refusal():
            person.api.delete(f"/v1/namespaces/{space['id']}")
            frame.keep_notice("Deleted.")
            session.go_to(namespace=None, open=None)


main()
