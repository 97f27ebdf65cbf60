"""The way to a content service's own page, where a person allows the access; it goes once the connection has moved."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import frame

LIVE_SECONDS = 3.0
GOOD_SECONDS = 600.0
"""How long the API keeps an authorization waiting."""
_ASKED = "authorization"


@dataclass(frozen=True, slots=True)
class PendingAuthorization:
    """An authorization that was begun: of which connection, as it stood then, and when."""

    url: str
    connection: str
    state: Json
    at: float


def begin_authorization(person: session.Person, request: Callable[[], Json], *, rerun: bool = False) -> None:
    """Begin one by the request, which answers the connection and the address; show why if it is refused."""
    with frame.shown_refusal():
        response = request()
        connection, url = response["connection"]["id"], response["authorizationUrl"]
        st.session_state[_ASKED] = PendingAuthorization(url, connection, _state(person, connection), time.monotonic())
        if rerun:
            st.rerun()


def show_link(person: session.Person) -> None:
    """Shown while it is waited for; the page is drawn anew once the connection has another state."""
    if _ASKED not in st.session_state:
        return

    @frame.live_fragment(LIVE_SECONDS)
    def waiting() -> None:
        pending = st.session_state.get(_ASKED)
        if not isinstance(pending, PendingAuthorization):
            return
        if time.monotonic() - pending.at > GOOD_SECONDS or _state(person, pending.connection) != pending.state:
            del st.session_state[_ASKED]
            st.rerun(scope="app")
        left_column, right_column = st.columns([3, 1], vertical_alignment="center")
        left_column.info(
            "Allow the access at the service: the card below follows by itself. The link lasts ten minutes."
        )
        right_column.link_button(
            "Open the service", pending.url, type="primary", icon=":material/open_in_new:", width="stretch"
        )

    waiting()


def _state(person: session.Person, connection: str) -> Json:
    details = person.api.get(f"/v1/connections/{connection}")["connection"]
    return {name: details[name] for name in ("status", "statusReason", "config")}
