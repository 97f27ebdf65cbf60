"""Connections to content services: a card each, with what can be done about its state."""

from __future__ import annotations

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import api_schema, authorization, frame, removals, storage_form, widgets
from ui.parts.labels import INTERVALS, due_in, format_count, name_of, source_title, span_until, time_ago, timing_of
from ui.parts.widgets import escape_markdown

PAGE = 20
SCHEDULES = 100
"""Newest schedules of the namespace, of which those of connections are shown."""
FATES = {"KEEP": "Keep them searchable, without a connection", "DELETE": "Remove them from search and from every store"}
"""What becomes of a revoked connection's documents."""
REVOKING = "revoking"
"""Of the session: the connection whose revocation is being asked about."""


def main() -> None:
    person = session.current_person()
    namespace = frame.show_head(person, "Connections")
    if person.may("connections:write"):
        _connect(person, namespace)
        storage_form.show_storage_form(person, namespace)
    data = person.api.get(
        "/v1/connections", namespaceId=namespace, pageSize=PAGE, cursor=session.read_parameter("cursor")
    )
    connections = data["connections"]
    if not connections:
        widgets.show_empty(
            "No connections yet.", "Connect a content service above; a person allows the access in the browser."
        )
    waiting = removals.connections_with_removals(person, namespace) if connections else frozenset()
    opened = session.read_parameter("removals") or (next(iter(waiting)) if waiting and len(waiting) == 1 else "")
    if opened:
        removals.show_removals(
            person, namespace, opened, next((entry["name"] for entry in connections if entry["id"] == opened), opened)
        )
    schedules: list[Json] = []
    if connections and person.may("ingest:read"):
        schedules = person.api.get("/v1/schedules", namespaceId=namespace, pageSize=SCHEDULES)["schedules"]
    for connection in connections:
        _card(
            person,
            namespace,
            connection,
            [schedule for schedule in schedules if schedule["connectionId"] == connection["id"]],
        )
        if connection["id"] != opened and (waiting is None or connection["id"] in waiting):
            removals.show_link(person, namespace, connection["id"])
    widgets.show_pager(data)


def _connect(person: session.Person, namespace: str) -> None:
    with st.expander("Connect a content service", icon=":material/add_circle:"):
        space = session.find_namespace(person, namespace) or {}
        # A bound key is not shown the apps: then each may be tried.
        ready = [name for name, service in api_schema.known_services().items() if space.get(service.app, True)]
        if not ready:
            st.info("This namespace has no OAuth app yet: add the Client ID and Client secret of one.")
            query_params = {"namespace": namespace, "open": "yes"}
            st.page_link(
                "views/namespaces.py", label="Add an OAuth app", icon=":material/key:", query_params=query_params
            )
            return
        with st.form("connect", border=False):
            connector = st.selectbox("Service", ready, format_func=source_title)
            name = st.text_input("Name", placeholder="Team drive")
            interval = st.selectbox("Sync schedule", list(INTERVALS), format_func=name_of)
            if st.form_submit_button("Connect", type="primary", icon=":material/cable:"):
                body: Json = {"namespaceId": namespace, "name": name or source_title(connector), "connector": connector}
                body |= {"syncIntervalMinutes": interval} if interval else {}
                authorization.begin_authorization(person, lambda: widgets.post_once(person, "/v1/connections", body))
    authorization.show_link(person)


def _card(person: session.Person, namespace: str, connection: Json, schedules: list[Json]) -> None:
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(
                f"**{escape_markdown(connection['name'])}** · {source_title(connection['connector'])}", width="content"
            )
            widgets.status_badge(connection["status"])
        st.caption(f"`{connection['id']}` · changed {time_ago(connection['updatedAt'])}")
        if due := connection.get("nextSyncAt"):
            st.caption(f"Next run in {span_until(due)}")
        for schedule in schedules:
            due_text = (
                due_in(schedule) if connection["status"] == "ACTIVE" else f"never while {connection['status'].lower()}"
            )
            st.caption(f"Also scheduled: {escape_markdown(timing_of(schedule))} · next run {due_text}")
        if connection["statusReason"]:
            st.warning(escape_markdown(connection["statusReason"]), icon=":material/info:")
        _actions(person, namespace, connection, "By the schedule above" if schedules else name_of(None))


def _schedule(person: session.Person, namespace: str, connection: Json, none: str) -> None:
    """Show the sync interval, and a choice of another, which is saved at once. `none`: the words for no interval."""
    current, key = connection["syncIntervalMinutes"], connection["id"]
    if not person.may("connections:write") or connection["status"] == "REVOKED":
        st.caption(f"Sync schedule: {name_of(current) if current else none}")
        return
    options = list(INTERVALS) if current in INTERVALS else [current, *INTERVALS]
    selected = st.selectbox(
        "Sync schedule",
        options,
        index=options.index(current),
        format_func=lambda minutes: name_of(minutes) if minutes else none,
        key=f"interval-{key}-{current}",
    )
    if selected == current:
        return
    try:
        person.api.patch(f"/v1/connections/{key}", {"namespaceId": namespace, "syncIntervalMinutes": selected})
    except ApiError as error:
        frame.show_error(error)
    else:
        st.rerun()


def _actions(person: session.Person, namespace: str, connection: Json, none: str) -> None:
    schedule_column, ingest_column, reconnect_column, revoke_column = st.columns(
        [2, 1, 1, 1], vertical_alignment="bottom"
    )
    with schedule_column:
        _schedule(person, namespace, connection, none)
    key, state = connection["id"], connection["status"]
    body = {"namespaceId": namespace}
    if (
        state == "ACTIVE"
        and person.may("ingest:write")
        and ingest_column.button("Ingest now", key=f"ingest-{key}", width="stretch")
    ):
        _ingest(person, namespace, connection)
    service = api_schema.known_services().get(connection["connector"])
    if state == "ACTIVE" and person.may("ingest:write") and service and service.choice:
        _choice(key, service.choice)
    if not person.may("connections:write") or state == "REVOKED":
        return
    is_authorized = connection["config"]["authType"] == "OAUTH2"
    reconnect = is_authorized and reconnect_column.button("Reconnect", key=f"again-{key}", width="stretch")
    if reconnect and authorization.begin_authorization(
        person, lambda: person.api.patch(f"/v1/connections/{key}", body)
    ):
        st.rerun()
    if revoke_column.button("Revoke", key=f"revoking-{key}", width="stretch"):
        st.session_state[REVOKING] = key
    if st.session_state.get(REVOKING) == key:
        _revoke(person, namespace, connection)


def _choice(connection_id: str, choice: api_schema.Choice) -> None:
    """Which parts of the account "Ingest now" takes, and every scheduled run after it."""
    with st.expander(choice.about.partition(",")[0], icon=":material/checklist:"):
        st.text_area(
            "One address a line",
            key=f"include-{connection_id}",
            placeholder="\n".join(choice.examples),
            help=f"{choice.path} Empty: what was chosen the last time.",
        )


def _chosen(connection_id: str) -> list[Json]:
    lines = str(st.session_state.get(f"include-{connection_id}") or "").splitlines()
    return [{"path": line.strip()} for line in lines if line.strip()]


def _revoke(person: session.Person, namespace: str, connection: Json) -> None:
    """Ask how to treat the connection's documents, with their numbers."""
    key = connection["id"]
    with st.container(border=True):
        try:
            documents = person.api.get(f"/v1/connections/{key}", namespaceId=namespace)["documents"]
        except ApiError as error:
            frame.show_error(error)
            return
        st.write("The tokens are wiped and the service is told. This is final.")
        fate = "KEEP"
        if own_count := documents["own"]:
            label = f"{format_count(own_count, 'document')} that no other connection has"
            fate = st.radio(label, list(FATES), format_func=FATES.__getitem__, key=f"fate-{key}")
        if shared := documents["shared"]:
            st.caption(f"{format_count(shared, 'document')} that other connections have too will stay with them.")
        with st.container(horizontal=True):
            if st.button("Revoke for good", type="primary", key=f"revoke-{key}"):
                try:
                    person.api.post(f"/v1/connections/{key}/revoke", {"namespaceId": namespace, "documents": fate})
                except ApiError as error:
                    frame.show_error(error)
                    return
                del st.session_state[REVOKING]
                st.rerun()
            if st.button("Do not revoke", key=f"keep-{key}"):
                del st.session_state[REVOKING]
                st.rerun()


def _ingest(person: session.Person, namespace: str, connection: Json) -> None:
    """Ingest again with the selection of the newest ingestion; an account is ingested whole only on request."""
    connector, key = connection["connector"], connection["id"]
    try:
        chosen = person.api.get(f"/v1/connections/{key}", namespaceId=namespace).get("chosen") or {}
        config: Json = {"connectionId": key, **{name: entries for name, entries in chosen.items() if entries}}
        if include := _chosen(key):
            config["include"] = include
        request = {"source": connector, "config": config}
        service = api_schema.known_services().get(connector)
        data = widgets.post_once(
            person,
            f"/v1/ingest/{service.path if service else 'source'}",
            {"namespaceId": namespace, "ingestConfig": request},
        )
    except ApiError as error:
        frame.show_error(error)
    else:
        query_params = {"namespace": namespace, "run": data["ingestJobRunId"]}
        st.switch_page("views/runs.py", query_params=query_params)


main()
