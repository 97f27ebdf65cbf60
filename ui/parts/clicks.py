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
    the first one made, a key's value too, which is told only once. ApiError says why not.
    """
    now = time.monotonic()
    before: dict[str, tuple[str, float]] = st.session_state.get(_SENT, {})
    kept = st.session_state[_SENT] = {name: one for name, one in before.items() if now <= one[1]}
    about = json.dumps([path, body, instead_of, who.api.tenant, who.api.viewer], sort_keys=True)
    what = hashlib.sha256(about.encode()).hexdigest()
    once, _ = kept.get(what, (uuid.uuid4().hex, now))
    kept[what] = (once, float("inf"))
    try:
        return who.api.post(path, body, once=once)
    finally:
        kept[what] = (once, time.monotonic() + SECONDS)
