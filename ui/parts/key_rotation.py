"""Rotating an API key: a new one that may do the same, and the end of the old one once its users have changed over."""

from __future__ import annotations

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import frame, widgets

_ROTATION = "key_rotation"
"""Of the session: the old key, the new one, and that one's value, which is shown until the rotation ends."""
_TROUBLE = "key_rotation_trouble"
SAME = ("name", "scopes", "namespaceId", "tenantId", "principal", "principalRequired")
"""What the new key has of the old one."""


def button(who: session.Person, key: Json) -> None:
    """The first step, for one key; one rotation at a time."""
    st.button(
        "Rotate",
        key=f"rotate-{key['id']}",
        width="stretch",
        disabled=_ROTATION in st.session_state,
        help="Creates a key with the same name, scopes and bounds. The old one works until you revoke it.",
        on_click=_create,
        args=(who, key),
    )


def show(keys: list[Json]) -> None:
    """Why a step was refused, and the second step where the list of keys does not hold the old one."""
    if isinstance(trouble := st.session_state.pop(_TROUBLE, None), ApiError):
        frame.show(trouble)
    if _ROTATION in st.session_state and st.session_state[_ROTATION][0]["id"] not in {key["id"] for key in keys}:
        with st.container(border=True):
            _second_step()


def of(key: Json) -> None:
    """The second step, in the card of the key that is rotated: the new key, and the end of the old one."""
    if _ROTATION in st.session_state and st.session_state[_ROTATION][0]["id"] == key["id"]:
        _second_step()


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
        st.button("Revoke the old key", type="primary", icon=":material/key_off:", disabled=not sure, on_click=_revoke)
        st.button("Keep both keys", on_click=_end)


def _create(who: session.Person, old: Json) -> None:
    body = {name: old[name] for name in SAME if old.get(name) is not None}
    try:
        made = widgets.post_once(who, "/v1/keys", body, instead_of=old["id"])
    except ApiError as error:
        st.session_state[_TROUBLE] = error
        return
    st.session_state[_ROTATION] = (old, made["key"], made["apiKey"])


def _revoke() -> None:
    """The old key's end. Who is signed in with it goes on with the new one."""
    who = session.person()
    old, _, value = st.session_state[_ROTATION]
    try:
        who.api.delete(f"/v1/keys/{old['id']}")
        if session.own_key_ended(who):
            session.sign_in(value, who.api.tenant)
    except ApiError as error:
        st.session_state[_TROUBLE] = error
        return
    _end()
    st.toast(f"Revoked: the key that ends in {old['hint']}.", icon=":material/check:")


def _end() -> None:
    for name in (_ROTATION, "key_rotation_sure"):
        st.session_state.pop(name, None)
