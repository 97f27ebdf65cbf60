"""Connections to content services, a card each with actions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import api_schema, frame, pushes, removals, url_state, widgets
from ui.parts.labels import INTERVAL_LABELS, due_in, format_count, format_field, interval_label, source_title, timing_of
from ui.parts.widgets import escape_markdown

CONNECTION_PAGE_SIZE = 20
# Newest first.
MAX_READ_SCHEDULES = 100
# Documents of a revoked connection.
DOCUMENT_FATES = {
    "KEEP": "Keep them searchable, without a connection",
    "DELETE": "Remove them from search and from every store",
}
# Number of connected sources; a new number closes the form.
ADDED_KEY = "storages_added"
# Connection with an open revocation dialog.
REVOKING_KEY = "revoking"


def main() -> None:
    person = session.current_person()
    namespace = frame.show_head(person, "Connections")
    if opened := session.read_id("connection"):
        _show_one(person, namespace, opened)
        return
    if person.may("connections:write"):
        _show_connect_form(person, namespace)
        show_source_form(person, namespace)
        _show_link(person)
    cursor = session.read_parameter("cursor")
    data = person.api.get("/v1/connections", namespaceId=namespace, pageSize=CONNECTION_PAGE_SIZE, cursor=cursor)
    connections = data["connections"]
    if not connections:
        advice = "Connect a content service above; a person allows the access in the browser."
        widgets.show_empty("No connections yet.", advice)
    waiting = removals.connections_with_removals(person, namespace) if connections else frozenset()
    opened = session.read_parameter("removals") or (next(iter(waiting)) if waiting and len(waiting) == 1 else "")
    if opened:
        names = {connection["id"]: connection["name"] for connection in connections}
        removals.show_removals(person, namespace, opened, names.get(opened, opened))
    schedules = _list_schedules(person, namespace) if connections else []
    for connection in connections:
        _show_card(person, namespace, connection, schedules)
        if connection["id"] != opened and (waiting is None or connection["id"] in waiting):
            removals.show_link(person, namespace, connection["id"])
    widgets.show_pager(data)


def _show_connect_form(person: session.Person, namespace: str) -> None:
    space = session.find_namespace(person, namespace) or {}
    services = api_schema.known_services()
    # A bound key is not shown the apps: then each may be tried.
    ready = {name: service.title for name, service in services.items() if space.get(service.app, True)}
    if not ready:
        titles = ", ".join(service.title for service in services.values())
        widgets.link_page("namespaces", f"Add an OAuth app to connect {titles}", "key", open="yes")
        return
    choice: Json = {"default": None, "options": ready, "wrap": True}
    connector = url_state.bind_field(st.pills, "connect", "Connect a content service", prefix="connections", **choice)
    if connector is None:
        return
    with st.form("connect"):
        name = st.text_input("Name", placeholder=ready[connector])
        interval = st.selectbox("Sync schedule", list(INTERVAL_LABELS), format_func=interval_label)
        if st.form_submit_button("Connect", type="primary", icon=":material/cable:"):
            body: Json = {"namespaceId": namespace, "name": name or ready[connector], "connector": connector}
            body |= {"syncIntervalMinutes": interval} if interval else {}
            _begin_authorization(person, lambda: widgets.post_once(person, "/v1/connections", body))


def _show_one(person: session.Person, namespace: str, key: str) -> None:
    """Show a connection with documents, push and ID."""
    widgets.link_back("All connections", "connection")
    details = person.api.get(f"/v1/connections/{key}", namespaceId=namespace)
    connection, documents = details["connection"], details["documents"]
    if person.may("connections:write"):
        _show_link(person)
    _show_card(person, namespace, connection, _list_schedules(person, namespace))
    if person.may("documents:read"):
        text = format_count(documents["own"] + documents["shared"], "document")
        widgets.link_page("documents", text, connection=key)
    pushes.show_push(person, namespace, connection, details.get("push"))
    st.caption("ID of the connection")
    st.code(connection["id"], language=None, wrap_lines=True)


def _list_schedules(person: session.Person, namespace: str) -> list[Json]:
    if not person.may("ingest:read"):
        return []
    query: Json = {"namespaceId": namespace, "pageSize": MAX_READ_SCHEDULES}
    return list(person.api.get("/v1/schedules", **query)["schedules"])


def _show_card(person: session.Person, namespace: str, connection: Json, schedules: list[Json]) -> None:
    title, own_schedules = (
        source_title(connection["connector"]),
        [s for s in schedules if s["connectionId"] == connection["id"]],
    )
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"**{escape_markdown(connection['name'])}** · {title}", width="content")
            widgets.show_health(connection)
            if not session.read_parameter("connection"):
                label = "Push and details" if connection["connector"] in api_schema.push_origins() else "Details"
                widgets.link_page("connections", label, connection=connection["id"])
        for schedule in own_schedules:
            if schedule["cron"] or schedule["paused"]:
                st.caption(f"Scheduled: {escape_markdown(timing_of(schedule))} · next run {due_in(schedule)}")
        widgets.explain_health(connection)
        by_cron = any(schedule["cron"] for schedule in own_schedules)
        _show_actions(person, namespace, connection, "By the schedule above" if by_cron else interval_label(None))


def _show_interval(person: session.Person, namespace: str, connection: Json, no_interval: str) -> None:
    """Show the sync interval; a changed choice is saved at once."""
    current, key = connection["syncIntervalMinutes"], connection["id"]
    if not person.may("connections:write") or connection["status"] == "REVOKED":
        st.caption(f"Sync schedule: {interval_label(current) if current else no_interval}")
        return
    options = list(INTERVAL_LABELS) if current in INTERVAL_LABELS else [current, *INTERVAL_LABELS]
    selected = st.selectbox(
        "Sync schedule",
        options,
        index=options.index(current),
        format_func=lambda minutes: interval_label(minutes) if minutes else no_interval,
        key=f"interval-{key}-{current}",
    )
    if selected != current:
        person.api.patch(f"/v1/connections/{key}", {"namespaceId": namespace, "syncIntervalMinutes": selected})
        st.rerun()


def _show_actions(person: session.Person, namespace: str, connection: Json, no_interval: str) -> None:
    interval_column, ingest_column, reconnect_column, revoke_column = st.columns(
        [2, 1, 1, 1], vertical_alignment="bottom"
    )
    with interval_column, frame.shown_refusal():
        _show_interval(person, namespace, connection, no_interval)
    key, state = connection["id"], connection["status"]
    may_ingest = state == "ACTIVE" and person.may("ingest:write")
    if may_ingest and ingest_column.button("Ingest now", key=f"ingest-{key}", width="stretch"):
        _start_ingestion(person, namespace, connection)
    if not person.may("connections:write") or state == "REVOKED":
        return
    is_authorized = connection["config"]["authType"] == "OAUTH2"
    if is_authorized and reconnect_column.button("Reconnect", key=f"again-{key}", width="stretch"):
        _begin_authorization(
            person, lambda: person.api.patch(f"/v1/connections/{key}", {"namespaceId": namespace}), rerun=True
        )
    if revoke_column.button("Revoke", key=f"revoking-{key}", width="stretch"):
        st.session_state[REVOKING_KEY] = key
    if st.session_state.get(REVOKING_KEY) == key:
        with st.container(border=True), frame.shown_refusal():
            _show_revocation(person, namespace, connection)


def _show_revocation(person: session.Person, namespace: str, connection: Json) -> None:
    key, fate = connection["id"], "KEEP"
    documents = person.api.get(f"/v1/connections/{key}", namespaceId=namespace)["documents"]
    st.write("The tokens are deleted and revoked at the service. This cannot be undone.")
    if own_count := documents["own"]:
        label = f"{format_count(own_count, 'document')} that no other connection has"
        fate = st.radio(label, list(DOCUMENT_FATES), format_func=DOCUMENT_FATES.__getitem__, key=f"fate-{key}")
    if shared := documents["shared"]:
        st.caption(f"{format_count(shared, 'document')} that other connections have too will stay with them.")
    with st.container(horizontal=True):
        revoke = st.button("Revoke for good", type="primary", key=f"revoke-{key}")
        if st.button("Do not revoke", key=f"keep-{key}") or revoke:
            if revoke:
                person.api.post(f"/v1/connections/{key}/revoke", {"namespaceId": namespace, "documents": fate})
            del st.session_state[REVOKING_KEY]
            st.rerun()


def _start_ingestion(person: session.Person, namespace: str, connection: Json) -> None:
    """Ingest with the selection of the newest ingestion."""
    # A whole account is ingested on request only.
    connector, key = connection["connector"], connection["id"]
    with frame.shown_refusal():
        chosen = person.api.get(f"/v1/connections/{key}", namespaceId=namespace).get("chosen") or {}
        config: Json = {"connectionId": key, **{name: entries for name, entries in chosen.items() if entries}}
        body = {"namespaceId": namespace, "ingestConfig": {"source": connector, "config": config}}
        service = api_schema.known_services().get(connector)
        data = widgets.post_once(person, f"/v1/ingest/{service.path if service else 'source'}", body)
        widgets.open_page("runs", run=data["ingestJobRunId"])


REFRESH_SECONDS = 3.0
# The API keeps an authorization this long.
AUTHORIZATION_SECONDS = 600.0
# Started authorization, with the connection's state and the time.
PENDING_KEY = "authorization"


def _begin_authorization(person: session.Person, request: Callable[[], Json], *, rerun: bool = False) -> None:
    with frame.shown_refusal():
        _keep_authorization(person, request())
        if rerun:
            st.rerun()


def _keep_authorization(person: session.Person, response: Json) -> None:
    """Keep the link of a started authorization for `_show_link`."""
    connection = response["connection"]["id"]
    pending = {"url": response["authorizationUrl"], "connection": connection, "begun": time.monotonic()}
    st.session_state[PENDING_KEY] = pending | {"state": _read_state(person, connection)}


def _show_link(person: session.Person) -> None:
    """Show the authorization link until the connection's state changes."""
    if PENDING_KEY not in st.session_state:
        return

    @frame.live_fragment(REFRESH_SECONDS)
    def show_pending() -> None:
        pending = st.session_state.get(PENDING_KEY)
        if pending is None:
            return
        is_over = time.monotonic() - pending["begun"] > AUTHORIZATION_SECONDS
        if is_over or _read_state(person, pending["connection"]) != pending["state"]:
            del st.session_state[PENDING_KEY]
            st.rerun(scope="app")
        left_column, right_column = st.columns([3, 1], vertical_alignment="center")
        left_column.info(
            "Allow the access at the service: the card below follows by itself. The link lasts ten minutes."
        )
        right_column.link_button(
            "Open the service", pending["url"], type="primary", icon=":material/open_in_new:", width="stretch"
        )

    show_pending()


def _read_state(person: session.Person, connection: str) -> Json:
    details = person.api.get(f"/v1/connections/{connection}")["connection"]
    return {name: details[name] for name in ("status", "statusReason", "config")}


@dataclass(frozen=True, slots=True)
class Field:
    """Field of `SourceAddress` or its credentials."""

    name: str
    help: str
    is_secret: bool
    is_multiline: bool
    is_flag: bool


def show_source_form(person: session.Person, namespace: str) -> None:
    """Show the form of a new connection without authorization, with the source's fields."""
    added = st.session_state.get(ADDED_KEY, 0)
    title = "Connect a folder, bucket or service by its URL"
    with st.expander(title, icon=":material/database:", key=f"storage-form-{added}"):
        sources = api_schema.sources_without_app()
        titles = {name: about["title"] for name, about in sources.items()}
        source = st.pills("Source", list(titles), format_func=titles.__getitem__, wrap=True, key="storage-source")
        if source is None:
            return
        with st.form("storage", border=False):
            url = st.text_input("URL", placeholder=sources[source]["example"], key=f"storage-url-{source}")
            name = st.text_input("Name", placeholder="Handbooks", key="storage-name")
            values = {field: _show_field(field, source) for field in list_fields(source)}
            interval = st.selectbox(
                "Sync schedule", list(INTERVAL_LABELS), format_func=interval_label, key="storage-interval"
            )
            if not st.form_submit_button("Connect source", type="primary", icon=":material/cable:"):
                return
        credentials = {field.name: value for field, value in values.items() if value and field.is_secret}
        config: Json = {field.name: value for field, value in values.items() if value and not field.is_secret}
        config |= {"url": f"file://{url}" if url.startswith("/") else url} | (
            {"credentials": credentials} if credentials else {}
        )
        connector = sources[source]["connector"]
        body: Json = {"namespaceId": namespace, "name": name or url, "connector": connector, "config": config}
        body |= {"syncIntervalMinutes": interval} if interval else {}
        with frame.shown_refusal():
            created = widgets.post_once(person, "/v1/connections", body)
            st.session_state[ADDED_KEY] = added + 1
            for key in [key for key in st.session_state if str(key).startswith("storage-")]:
                del st.session_state[key]
            if created["authorizationUrl"]:
                _keep_authorization(person, created)
            else:
                name = escape_markdown(body["name"])
                frame.keep_notice(f"Connected: {name}. Ingest it from its card.")
            st.rerun()


def list_fields(source: str) -> Iterator[Field]:
    """Yield the fields that the API's schema marks for the source, secrets first."""
    schemas = api_schema.load_schemas()
    for component, is_secret in (("SourceCredentials", True), ("SourceAddress", False)):
        for name, schema in schemas[component]["properties"].items():
            merged = {key: value for part in [*schema.get("anyOf", ()), schema] for key, value in part.items()}
            if name != "url" and source in merged.get("x-sources", ()):
                is_multiline, is_flag = bool(merged.get("x-multiline")), bool(merged.get("x-flag"))
                yield Field(name, merged["description"], is_secret, is_multiline, is_flag)


def _show_field(field: Field, source: str) -> str | bool:
    label, key = format_field(field.name), f"storage-{source}-{field.name}"
    if field.is_flag:
        return st.checkbox(label, help=field.help, key=key)
    if field.is_multiline:
        return st.text_area(label, help=field.help, key=key)
    is_hidden = field.is_secret and field.name not in {"user", "clientId"}
    return st.text_input(label, help=field.help, key=key, type="password" if is_hidden else "default")


main()
