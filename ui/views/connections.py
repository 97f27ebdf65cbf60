"""Connections to content services: a card each, with what can be done about its state."""

from __future__ import annotations

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import api_schema, authorization, frame, removals, widgets
from ui.parts.intervals import INTERVALS, name_of
from ui.parts.labels import ago, count, title
from ui.parts.widgets import plain

PAGE = 20
FATES = {"KEEP": "Keep them searchable, without a connection", "DELETE": "Remove them from search and from every store"}
"""What becomes of a revoked connection's documents."""
REVOKING = "revoking"
"""Of the session: the connection whose revocation is being asked about."""


def main() -> None:
    who = session.person()
    namespace = frame.head(who, "Connections")
    if who.may("connections:write"):
        _connect(who, namespace)
    data = who.api.get("/v1/connections", namespaceId=namespace, pageSize=PAGE, cursor=session.parameter("cursor"))
    connections = data["connections"]
    if not connections:
        widgets.show_empty(
            "No connections yet.", "Connect a content service above; a person allows the access in the browser."
        )
    waiting = removals.connections(who, namespace) if connections else frozenset()
    opened = session.parameter("removals") or (next(iter(waiting)) if waiting and len(waiting) == 1 else "")
    if opened:
        removals.show(who, namespace, opened, next((one["name"] for one in connections if one["id"] == opened), opened))
    for connection in connections:
        _card(who, namespace, connection)
        if connection["id"] != opened and (waiting is None or connection["id"] in waiting):
            removals.lead(who, namespace, connection["id"])
    widgets.show_pager(data)


def _connect(who: session.Person, namespace: str) -> None:
    with st.expander("Connect a content service", icon=":material/add_circle:"):
        spaces = {space["id"]: space for space in session.namespaces(who)}
        space = spaces.get(namespace, {})
        # A bound key is not shown the apps: then each may be tried.
        ready = [name for name, service in api_schema.known_services().items() if space.get(service.app, True)]
        if not ready:
            st.info("This namespace has no OAuth app yet: add the Client ID and Client secret of one.")
            place = {"namespace": namespace, "open": "yes"}
            st.page_link("views/namespaces.py", label="Add an OAuth app", icon=":material/key:", query_params=place)
            return
        with st.form("connect", border=False):
            connector = st.selectbox("Service", ready, format_func=title)
            name = st.text_input("Name", placeholder="Team drive")
            every = st.selectbox("Sync schedule", list(INTERVALS), format_func=name_of)
            if st.form_submit_button("Connect", type="primary", icon=":material/cable:"):
                body: Json = {"namespaceId": namespace, "name": name or title(connector), "connector": connector}
                body |= {"syncIntervalMinutes": every} if every else {}
                authorization.ask(who, lambda: widgets.post_once(who, "/v1/connections", body))
    authorization.link(who)


def _card(who: session.Person, namespace: str, connection: Json) -> None:
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"**{plain(connection['name'])}** · {title(connection['connector'])}", width="content")
            widgets.status_badge(connection["status"])
        st.caption(f"`{connection['id']}` · changed {ago(connection['updatedAt'])}")
        if connection["statusReason"]:
            st.warning(plain(connection["statusReason"]), icon=":material/info:")
        _actions(who, namespace, connection)


def _schedule(who: session.Person, namespace: str, connection: Json) -> None:
    """How often it is ingested again, and the choice of another interval, which is kept at once."""
    now, key = connection["syncIntervalMinutes"], connection["id"]
    if not who.may("connections:write") or connection["status"] == "REVOKED":
        st.caption(f"Sync schedule: {name_of(now)}")
        return
    known = list(INTERVALS) if now in INTERVALS else [now, *INTERVALS]
    wanted = st.selectbox(
        "Sync schedule", known, index=known.index(now), format_func=name_of, key=f"interval-{key}-{now}"
    )
    if wanted == now:
        return
    try:
        who.api.patch(f"/v1/connections/{key}", {"namespaceId": namespace, "syncIntervalMinutes": wanted})
    except ApiError as error:
        frame.show(error)
    else:
        st.rerun()


def _actions(who: session.Person, namespace: str, connection: Json) -> None:
    every, ingest, again, revoke = st.columns([2, 1, 1, 1], vertical_alignment="bottom")
    with every:
        _schedule(who, namespace, connection)
    key, state = connection["id"], connection["status"]
    body = {"namespaceId": namespace}
    if (
        state == "ACTIVE"
        and who.may("ingest:write")
        and ingest.button("Ingest now", key=f"ingest-{key}", width="stretch")
    ):
        _ingest(who, namespace, connection)
    service = api_schema.known_services().get(connection["connector"])
    if state == "ACTIVE" and who.may("ingest:write") and service and service.choice:
        _choice(key, service.choice)
    if not who.may("connections:write") or state == "REVOKED":
        return
    wanted = again.button("Reconnect", key=f"again-{key}", width="stretch")
    if wanted and authorization.ask(who, lambda: who.api.patch(f"/v1/connections/{key}", body)):
        st.rerun()
    if revoke.button("Revoke", key=f"revoking-{key}", width="stretch"):
        st.session_state[REVOKING] = key
    if st.session_state.get(REVOKING) == key:
        _revoke(who, namespace, connection)


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


def _revoke(who: session.Person, namespace: str, connection: Json) -> None:
    """What becomes of the connection's documents, asked with their numbers."""
    key = connection["id"]
    with st.container(border=True):
        try:
            held = who.api.get(f"/v1/connections/{key}", namespaceId=namespace)["documents"]
        except ApiError as error:
            frame.show(error)
            return
        st.write("The tokens are wiped and the service is told. This is final.")
        fate = "KEEP"
        if own := held["own"]:
            label = f"{count(own, 'document')} that no other connection has"
            fate = st.radio(label, list(FATES), format_func=FATES.__getitem__, key=f"fate-{key}")
        if shared := held["shared"]:
            st.caption(f"{count(shared, 'document')} that other connections have too will stay with them.")
        with st.container(horizontal=True):
            if st.button("Revoke for good", type="primary", key=f"revoke-{key}"):
                try:
                    who.api.post(f"/v1/connections/{key}/revoke", {"namespaceId": namespace, "documents": fate})
                except ApiError as error:
                    frame.show(error)
                    return
                del st.session_state[REVOKING]
                st.rerun()
            if st.button("Do not revoke", key=f"keep-{key}"):
                del st.session_state[REVOKING]
                st.rerun()


def _ingest(who: session.Person, namespace: str, connection: Json) -> None:
    """Again, with the choice of the newest ingestion: all of an account is taken only where that was asked for."""
    connector, key = connection["connector"], connection["id"]
    try:
        chosen = who.api.get(f"/v1/connections/{key}", namespaceId=namespace).get("chosen") or {}
        config: Json = {"connectionId": key, **{name: said for name, said in chosen.items() if said}}
        if include := _chosen(key):
            config["include"] = include
        request = {"source": connector, "config": config}
        data = widgets.post_once(
            who,
            f"/v1/ingest/{api_schema.known_services()[connector].path}",
            {"namespaceId": namespace, "ingestConfig": request},
        )
    except ApiError as error:
        frame.show(error)
    else:
        place = {"namespace": namespace, "run": data["ingestJobRunId"]}
        st.switch_page("views/runs.py", query_params=place)


main()
