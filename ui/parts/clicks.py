"""Requests that make something: a button that is clicked twice, since nothing seems to happen, makes one."""

from __future__ import annotations

import hashlib
import json
import time
import uuid

import streamlit as st

from ui import session
from ui.client import Json

SECONDS = 3.0
"""Within so many seconds of the answer the same request is the same click."""
_SENT = "clicks"


def post(who: session.Person, path: str, body: Json, *, instead_of: str = "") -> Json:
    """One request with an Idempotency-Key, which the same one of this session has too until shortly after its answer.

    A second click ends the run of the page that waits for the answer of the first, and begins another: that gets what
    the first one made, a key's value too, which is told only once. Only the newest request is remembered: one that
    comes after another is no second click. ApiError says why not.
    """
    about = json.dumps([path, body, instead_of, who.api.tenant, who.api.viewer], sort_keys=True)
    digest = hashlib.sha256(about.encode()).hexdigest()
    newest: tuple[str, str, float] | None = st.session_state.get(_SENT)
    is_second_click = newest is not None and newest[0] == digest and time.monotonic() <= newest[2]
    once = newest[1] if newest is not None and is_second_click else uuid.uuid4().hex
    st.session_state[_SENT] = (digest, once, float("inf"))
    try:
        return who.api.post(path, body, once=once)
    finally:
        st.session_state[_SENT] = (digest, once, time.monotonic() + SECONDS)
