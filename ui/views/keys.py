"""Keys and limits: usage, API keys with rotation, and tenants."""

from __future__ import annotations

from functools import partial

import streamlit as st

from ui import session, sign_ins
from ui.client import Json
from ui.parts import api_schema, frame, widgets
from ui.parts.labels import time_ago
from ui.parts.widgets import escape_markdown

# Old key, new key and the new key's value, until the rotation ends.
ROTATION_KEY = "key_rotation"
# Fields that a new key takes from the old one.
COPIED_FIELDS = ("name", "scopes", "namespaceId", "tenantId", "principal", "principalRequired")


def _rotated_key_id() -> str | None:
    return st.session_state[ROTATION_KEY][0]["id"] if ROTATION_KEY in st.session_state else None


def _show_rotation() -> None:
    old, new, value = st.session_state[ROTATION_KEY]
    st.markdown(
        f"**1. The new key**, which ends in `{new['hint']}`, has the same name, scopes and bounds. Copy it now: it is"
        " never shown again."
    )
    st.code(value, language=None)
    st.markdown(
        f"**2. Change over** everything that uses the old key, which ends in `{old['hint']}` and still works. Then"
        " revoke that."
    )
    is_sure = st.checkbox("I copied the new key, and nothing uses the old one any more", key="key_rotation_sure")
    with st.container(horizontal=True):
        st.button(
            "Revoke the old key", type="primary", icon=":material/key_off:", disabled=not is_sure, on_click=_revoke_old
        )
        st.button("Keep both keys", on_click=_end_rotation)


def _create_successor(person: session.Person, old: Json) -> None:
    body = {name: old[name] for name in COPIED_FIELDS if old.get(name) is not None}
    with frame.shown_refusal(frame.keep_outcome):
        response = widgets.post_once(person, "/v1/keys", body, instead_of=old["id"])
        st.session_state[ROTATION_KEY] = (old, response["key"], response["apiKey"])


def _revoke_old() -> None:
    """Revoke the old key; a session of the old key continues with the new."""
    person = session.current_person()
    old, _, value = st.session_state[ROTATION_KEY]
    with frame.shown_refusal(frame.keep_outcome):
        person.api.delete(f"/v1/keys/{old['id']}")
        if session.own_key_ended(person):
            session.sign_in(value, person.api.tenant)
            sign_ins.replace_key(session.cookie_id(), value)
        _end_rotation()
        frame.keep_notice(f"Revoked: the key that ends in {old['hint']}.")


def _end_rotation() -> None:
    for name in (ROTATION_KEY, "key_rotation_sure"):
        st.session_state.pop(name, None)


PAGE_SIZE = 50
# Id and value of a created key, until the person has copied it.
CREATED_KEY = "key_made"


def main() -> None:
    person = session.current_person()
    st.title("Keys and limits")
    pages = {"API keys": _show_keys, "Limits": _show_limits, "Tenants": _show_tenants}
    widgets.show_tabs("keys_tabs", {name: partial(page, person) for name, page in pages.items()})


def _show_limits(person: session.Person) -> None:
    usage = person.api.get("/v1/usage")
    for name, title in (("requests", "Requests this minute"), ("namespaces", "Namespaces")):
        used, limit = usage[name]["used"], usage[name]["limit"]
        st.progress(min(1.0, used / limit) if limit else 1.0, text=f"{title}: {used:,} of {limit:,}")


def _show_create_form(person: session.Person) -> None:
    with st.container(border=True):
        st.markdown("**New API key**")
        namespace = frame.choose_optional(person, "key_namespace", "Any namespace")
        with st.form("new-key", border=False):
            name = st.text_input("Name", placeholder="Website")
            scopes = st.multiselect("Scopes", api_schema.key_scopes(), default=["search"])
            tenant = st.text_input("Only for the tenant", help="Empty: any tenant.")
            is_sent = st.form_submit_button("Create API key", type="primary", icon=":material/add:")
        if is_sent:
            if not (name and scopes):
                st.error("Type a name for the key, and choose at least one scope.", icon=":material/error:")
                return
            body: Json = {"name": name, "scopes": scopes}
            body |= {"namespaceId": namespace} if namespace else {}
            body |= {"tenantId": tenant} if tenant else {}
            with frame.shown_refusal():
                response = widgets.post_once(person, "/v1/keys", body)
                st.session_state[CREATED_KEY] = response["key"]["id"], response["apiKey"]


def _show_keys(person: session.Person) -> None:
    _show_create_form(person)
    data = person.api.get("/v1/keys", pageSize=PAGE_SIZE, cursor=session.read_parameter("keys"))
    keys = data["keys"]
    namespace_names = {space["id"]: space["name"] for space in session.list_namespaces(person, size=100)["namespaces"]}
    _show_created({key["id"] for key in keys if key["revokedAt"]})
    frame.show_outcome()
    # Without its row on this page, the rotation stands first.
    if _rotated_key_id() and _rotated_key_id() not in {key["id"] for key in keys}:
        with st.container(border=True):
            _show_rotation()
    for key in [key for key in keys if not key["revokedAt"]]:
        _show_key(person, key, namespace_names)
    revoked = [key for key in keys if key["revokedAt"]]
    if revoked:
        rows = [{"Name": key["name"], "Ends in": key["hint"], "Revoked": time_ago(key["revokedAt"])} for key in revoked]
        with st.expander(f"{len(revoked)} revoked"):
            widgets.show_table(rows)
    widgets.show_pager(data, name="keys")


def _show_created(revoked_ids: set[str]) -> None:
    """Show a created key's value until it is copied or revoked."""
    key_id, value = st.session_state.get(CREATED_KEY, ("", ""))
    if key_id in revoked_ids:
        st.session_state.pop(CREATED_KEY)
    elif value:
        st.success("Copy the key now: it is shown this once and never again.")
        st.code(value, language=None)
        st.button("I copied it", icon=":material/check:", on_click=st.session_state.pop, args=(CREATED_KEY, None))


def _show_key(person: session.Person, key: Json, namespace_names: dict[str, str]) -> None:
    is_own = key["id"] == person.key_id
    with st.container(border=True, key=f"key-{key['id']}"):
        left_column, middle_column, right_column = st.columns([4, 1, 1], vertical_alignment="center")
        limits = [str(namespace_names.get(key["namespaceId"], key["namespaceId"]))] if key["namespaceId"] else []
        limits += [f"tenant {key['tenantId']}"] if key["tenantId"] else []
        limits += [f"user {key['principal']}"] if key.get("principal") else []
        left_column.markdown(
            f"**{escape_markdown(key['name'])}** · ends in `{key['hint']}`"
            + (f" · only {escape_markdown(', '.join(limits))}" if limits else "")
            + (" · :blue-badge[you are signed in with it]" if is_own else "")
        )
        left_column.caption(f"{', '.join(key['scopes'])} · created {time_ago(key['createdAt'])}")
        middle_column.button(
            "Rotate",
            key=f"rotate-{key['id']}",
            width="stretch",
            disabled=ROTATION_KEY in st.session_state,
            help="Creates a key with the same name, scopes and bounds. The old one works until you revoke it.",
            on_click=_create_successor,
            args=(person, key),
        )
        if _rotated_key_id() == key["id"]:
            _show_rotation()
        with right_column.popover("Revoke", width="stretch"):
            st.write("It is refused from now on, for good.")
            if is_own:
                st.warning("You are signed in with this key: revoking it signs you out.")
            if st.button("Revoke for good", type="primary", key=f"revoke-{key['id']}"):
                with frame.shown_refusal():
                    person.api.delete(f"/v1/keys/{key['id']}")
                    st.rerun()


def _show_tenants(person: session.Person) -> None:
    with st.form("new-tenant", border=False):
        left_column, right_column = st.columns([3, 1], vertical_alignment="bottom")
        name = left_column.text_input("New tenant", help="Letters, digits, hyphens and underscores, at most 64.")
        if right_column.form_submit_button("Add tenant", width="stretch"):
            with frame.shown_refusal():
                person.api.post("/v1/tenants", {"id": name})
    data = person.api.get("/v1/tenants", pageSize=PAGE_SIZE, cursor=session.read_parameter("tenants"))
    tenants = data["tenants"]
    if not tenants:
        advice = "The first ingestion with an X-Tenant-ID header makes a tenant known, if the organization allows it."
        widgets.show_empty("No tenants.", advice)
        return
    widgets.show_table([{"Tenant": tenant["id"], "Added": time_ago(tenant["createdAt"])} for tenant in tenants])
    widgets.show_pager(data, name="tenants")
    removed = st.selectbox("Remove tenant", ["", *(tenant["id"] for tenant in tenants)])
    about = "Requests with it are refused; its data stays."
    if removed and st.button(f"Remove {escape_markdown(removed)}", help=about):
        with frame.shown_refusal():
            person.api.delete(f"/v1/tenants/{removed}")
            st.rerun()


main()
