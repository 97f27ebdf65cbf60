"""Keys and limits: use of the organization's limits, its API keys with their rotation, and its tenants."""

from __future__ import annotations

from functools import partial

import streamlit as st

from ui import session, sign_ins
from ui.client import Json
from ui.parts import api_schema, frame, widgets
from ui.parts.labels import format_size, time_ago
from ui.parts.widgets import escape_markdown

_ROTATION = "key_rotation"
"""Of the session: the old key, the new one, and that one's value, which is shown until the rotation ends."""
SAME = ("name", "scopes", "namespaceId", "tenantId", "principal", "principalRequired")
"""What the new key has of the old one."""


def _rotated_key() -> str | None:
    return st.session_state[_ROTATION][0]["id"] if _ROTATION in st.session_state else None


def _second_step() -> None:
    old, new, value = st.session_state[_ROTATION]
    st.markdown(
        f"**1. The new key**, which ends in `{new['hint']}`, has the same name, scopes and bounds. Copy it now: it is"
        " never shown again."
    )
    st.code(value, language=None)
    st.markdown(
        f"**2. Change over** everything that uses the old key, which ends in `{old['hint']}` and still works. Then"
        " revoke that."
    )
    sure = st.checkbox("I copied the new key, and nothing uses the old one any more", key="key_rotation_sure")
    with st.container(horizontal=True):
        st.button(
            "Revoke the old key", type="primary", icon=":material/key_off:", disabled=not sure, on_click=_revoke_old
        )
        st.button("Keep both keys", on_click=_end_rotation)


def _create_successor(person: session.Person, old: Json) -> None:
    body = {name: old[name] for name in SAME if old.get(name) is not None}
    with frame.shown_refusal(frame.keep_outcome):
        response = widgets.post_once(person, "/v1/keys", body, instead_of=old["id"])
        st.session_state[_ROTATION] = (old, response["key"], response["apiKey"])


def _revoke_old() -> None:
    """Revoke the old key. A session that uses it continues with the new one."""
    person = session.current_person()
    old, _, value = st.session_state[_ROTATION]
    with frame.shown_refusal(frame.keep_outcome):
        person.api.delete(f"/v1/keys/{old['id']}")
        if session.own_key_ended(person):
            session.sign_in(value, person.api.tenant)
            sign_ins.replace_key(session.cookie_id(), value)
        _end_rotation()
        st.toast(f"Revoked: the key that ends in {old['hint']}.", icon=":material/check:")


def _end_rotation() -> None:
    for name in (_ROTATION, "key_rotation_sure"):
        st.session_state.pop(name, None)


PAGE = 50
_MADE = "key_made"
"""Of the session: the id and the value of a key that was created and has yet to be copied."""


def main() -> None:
    person = session.current_person()
    st.title("Keys and limits")
    pages = {"Limits": _limits, "API keys": _keys, "Tenants": _tenants}
    widgets.show_tabs("keys_tabs", {name: partial(page, person) for name, page in pages.items()})


def _limits(person: session.Person) -> None:
    usage = person.api.get("/v1/usage")
    _bar("Requests this minute", usage["requests"])
    _bar("Namespaces", usage["namespaces"])
    cells = st.columns(3)
    cells[0].metric("Documents", f"{usage['documents']:,}", border=True)
    cells[1].metric("Chunks", f"{usage['chunks']:,}", border=True)
    cells[2].metric("Storage used", format_size(usage["storageBytes"]), border=True)


def _bar(title: str, use: Json) -> None:
    share = use["used"] / use["limit"] if use["limit"] else 1.0
    st.progress(min(1.0, share), text=f"{title}: {use['used']:,} of {use['limit']:,}")


def _create(person: session.Person) -> None:
    with st.container(border=True):
        st.markdown("**New API key**")
        name = st.text_input("Name", placeholder="Website")
        scopes = st.multiselect("Scopes", api_schema.key_scopes(), default=["search"])
        left_column, right_column = st.columns(2, vertical_alignment="bottom")
        with left_column:
            namespace = frame.choose_optional(person, "key_namespace", "Any namespace")
        tenant = right_column.text_input("Only for the tenant", help="Empty: any tenant.")
        if st.button("Create API key", type="primary", icon=":material/add:"):
            if not (name and scopes):
                st.error("Type a name for the key, and choose at least one scope.", icon=":material/error:")
                return
            body: Json = {"name": name, "scopes": scopes}
            body |= {"namespaceId": namespace} if namespace else {}
            body |= {"tenantId": tenant} if tenant else {}
            with frame.shown_refusal():
                response = widgets.post_once(person, "/v1/keys", body)
                st.session_state[_MADE] = response["key"]["id"], response["apiKey"]


def _keys(person: session.Person) -> None:
    _create(person)
    data = person.api.get("/v1/keys", pageSize=PAGE, cursor=session.read_parameter("keys"))
    keys = data["keys"]
    spaces = {space["id"]: space["name"] for space in session.list_namespaces(person, size=100)["namespaces"]}
    _made({key["id"] for key in keys if key["revokedAt"]})
    frame.show_outcome()
    if _rotated_key() and _rotated_key() not in {key["id"] for key in keys}:
        with st.container(border=True):
            _second_step()
    for key in [key for key in keys if not key["revokedAt"]]:
        _key(person, key, spaces)
    revoked = [key for key in keys if key["revokedAt"]]
    if revoked:
        with st.expander(f"{len(revoked)} revoked"):
            rows = [(key["name"], key["hint"], time_ago(key["revokedAt"])) for key in revoked]
            widgets.show_table([dict(zip(("Name", "Ends in", "Revoked"), row, strict=True)) for row in rows])
    widgets.show_pager(data, name="keys")


def _made(revoked_ids: set[str]) -> None:
    """The value of the key that was created, until it was copied or revoked: whatever else is clicked meanwhile."""
    key_id, value = st.session_state.get(_MADE, ("", ""))
    if key_id in revoked_ids:
        st.session_state.pop(_MADE)
    elif value:
        st.success("Copy the key now: it is shown this once and never again.")
        st.code(value, language=None)
        st.button("I copied it", icon=":material/check:", on_click=st.session_state.pop, args=(_MADE, None))


def _key(person: session.Person, key: Json, spaces: dict[str, str]) -> None:
    is_own = key["id"] == person.key_id
    with st.container(border=True, key=f"key-{key['id']}"):
        left_column, middle_column, right_column = st.columns([4, 1, 1], vertical_alignment="center")
        bound = [str(spaces.get(key["namespaceId"], key["namespaceId"]))] if key["namespaceId"] else []
        bound += [f"tenant {key['tenantId']}"] if key["tenantId"] else []
        bound += [f"user {key['principal']}"] if key.get("principal") else []
        left_column.markdown(
            f"**{escape_markdown(key['name'])}** · ends in `{key['hint']}`"
            + (f" · only {escape_markdown(', '.join(bound))}" if bound else "")
            + (" · :blue-badge[you are signed in with it]" if is_own else "")
        )
        left_column.caption(f"{', '.join(key['scopes'])} · created {time_ago(key['createdAt'])}")
        middle_column.button(
            "Rotate",
            key=f"rotate-{key['id']}",
            width="stretch",
            disabled=_ROTATION in st.session_state,
            help="Creates a key with the same name, scopes and bounds. The old one works until you revoke it.",
            on_click=_create_successor,
            args=(person, key),
        )
        if _rotated_key() == key["id"]:
            _second_step()
        with right_column.popover("Revoke", width="stretch"):
            st.write("It is refused from now on, for good.")
            if is_own:
                st.warning("You are signed in with this key: revoking it signs you out.")
            if st.button("Revoke for good", type="primary", key=f"revoke-{key['id']}"):
                with frame.shown_refusal():
                    person.api.delete(f"/v1/keys/{key['id']}")
                    st.rerun()


def _tenants(person: session.Person) -> None:
    with st.form("new-tenant", border=False):
        left_column, right_column = st.columns([3, 1], vertical_alignment="bottom")
        name = left_column.text_input("New tenant", help="Letters, digits, hyphens and underscores, at most 64.")
        if right_column.form_submit_button("Add tenant", width="stretch"):
            with frame.shown_refusal():
                person.api.post("/v1/tenants", {"id": name})
    data = person.api.get("/v1/tenants", pageSize=PAGE, cursor=session.read_parameter("tenants"))
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
