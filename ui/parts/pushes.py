"""Push of a connection: address, observed events, secret shown once, on and off."""

from __future__ import annotations

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import api_schema, frame, widgets
from ui.parts.labels import format_count, time_ago
from ui.parts.widgets import escape_markdown

# Connection and secret of the last answer that turned push on.
SHOWN_ONCE_KEY = "push_secret"
# By origin of the secret: what a repetition does.
REPEAT_LABELS = {"GENERATED": "Make a new secret", "RECEIVED": "Read the secret"}
# Typed by a person, with its label.
TYPED_SECRETS = {"SENT": "Secret at the service", "APP": "Secret at the service (optional: that of the app)"}


def describe_push(push: Json | None) -> str:
    """Describe the last event of a push and the refused requests; "off" without push."""
    if push is None:
        return "off"
    return time_ago(push["lastHintAt"]) + (f", {push['refusals']:,} refused" if push["refusals"] else "")


def is_refused(push: Json) -> bool:
    """Check if the newest request was refused for its signature."""
    accepted = push["lastHintAt"] or push["confirmedAt"] or {"isoString": ""}
    return bool(push["lastRefusalAt"]) and push["lastRefusalAt"]["isoString"] > accepted["isoString"]


def show_push(person: session.Person, namespace: str, connection: Json, push: Json | None) -> None:
    """Show the push of a connection with its switch; nothing for a service without push."""
    origin = api_schema.push_origins().get(connection["connector"])
    if push is None and (origin is None or connection["status"] != "ACTIVE"):
        return
    st.header("Push")
    if push is None:
        st.caption("Off: changes are found by the sync schedule. With push, the service announces them within seconds.")
    else:
        _show_state(push)
    new_secret = st.session_state.pop(SHOWN_ONCE_KEY, None)
    if new_secret and new_secret[0] == connection["id"]:
        st.success("Copy the secret now: it is shown this once. Enter it at the service.", icon=":material/key:")
        st.code(new_secret[1], language=None)
    if person.may("connections:write"):
        with frame.shown_refusal():
            _show_switch(person, namespace, connection["id"], push, origin or "")


def _show_state(push: Json) -> None:
    confirmed = f" · confirmed {time_ago(push['confirmedAt'])}" if push["confirmedAt"] and not push["hints"] else ""
    text = f"Last event: {describe_push(push)}{confirmed} · {format_count(push['hints'], 'event')} in all"
    if is_refused(push):
        st.error(f"{text}. The newest request had a wrong signature: compare the secret.", icon=":material/error:")
    else:
        st.caption(text)
    st.markdown("Address to enter at the service")
    st.code(push["url"], language=None, wrap_lines=True)
    st.caption(f"{escape_markdown(push['setup'])} [Documentation]({push['setupUrl']})")


def _show_switch(person: session.Person, namespace: str, key: str, push: Json | None, origin: str) -> None:
    path, body = f"/v1/connections/{key}/push", {"namespaceId": namespace}
    with st.form("push", border=False):
        if origin in TYPED_SECRETS:
            options: Json = {"type": "password", "autocomplete": "off", "help": api_schema.push_secret()["description"]}
            secret = st.text_input(TYPED_SECRETS[origin], **options)
            body |= {"secret": secret} if secret else {}
        with st.container(horizontal=True):
            label = "Turn push on" if push is None else REPEAT_LABELS.get(origin, "Save the secret")
            is_on = st.form_submit_button(label, type="primary" if push is None else "secondary")
            is_off = push is not None and st.form_submit_button("Turn push off", icon=":material/notifications_off:")
    if is_on:
        answer = widgets.post_once(person, path, body)
        if answer["secret"]:
            st.session_state[SHOWN_ONCE_KEY] = key, answer["secret"]
        st.rerun()
    if is_off:
        person.api.call("DELETE", path, namespaceId=namespace)
        frame.keep_notice("Push is off. Delete the address at the service, too.")
        st.rerun()
