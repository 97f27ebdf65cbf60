"""What a webhook was sent: live, by status, and the button that sends an event again."""

from __future__ import annotations

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import frame, url_state, widgets
from ui.parts.labels import ago, span_until, word

PAGE = 50
LIVE_SECONDS = 5.0
STATES = ("PENDING", "DELIVERED", "FAILED")
WORDS = {"PENDING": "TO_SEND"}
"""What a status means here: of a connection PENDING means another thing."""
FIELDS = url_state.Fields("webhook", ("deliveries",))
_PICKED = "delivery_picked"
"""Of the session: the delivery that was clicked."""


def show(who: session.Person, hook: Json) -> None:
    """The deliveries of one webhook, newest first."""

    @frame.live(LIVE_SECONDS)
    def live() -> None:
        _show(who, hook["id"])

    live()


def _show(who: session.Person, hook: str) -> None:
    FIELDS.follow({"deliveries": url_state.one_of("deliveries", ("", *STATES))})
    left, right = st.columns([2, 1], vertical_alignment="bottom")
    wanted = left.selectbox("Status", ["", *STATES], format_func=_said, key=FIELDS.key("deliveries"))
    if FIELDS.write(deliveries=wanted):
        session.remember(sent=None)
    if who.may("webhooks:write") and right.button("Send a test", icon=":material/send:", width="stretch"):
        _post(who, f"/v1/webhooks/{hook}/test", "A test event is being sent.")
    data = who.api.get(
        f"/v1/webhooks/{hook}/deliveries", pageSize=PAGE, cursor=session.parameter("sent"), status=wanted
    )
    sent = data["deliveries"]
    if not sent:
        widgets.show_empty("No deliveries.", "Send a test, or wait for an event: add content, for example.")
        return
    pressed = widgets.clicked_row(
        [_row(one) for one in sent], f"deliveries_{hook}", sent, Status=widgets.status_column()
    )
    if pressed is not None:
        st.session_state[_PICKED] = pressed["id"]
    if who.may("webhooks:write"):
        _again(who, hook, next((one for one in sent if one["id"] == st.session_state.get(_PICKED)), None))
    widgets.show_pager(data, name="sent")


def _again(who: session.Person, hook: str, picked: Json | None) -> None:
    """The button for the delivery that was clicked, whatever has come above it since."""
    label = f"Send {picked['type']} again" if picked else "Send again"
    if st.button(label, icon=":material/replay:", disabled=picked is None, help="Click a delivery above.") and picked:
        _post(who, f"/v1/webhooks/{hook}/deliveries/{picked['id']}/redeliver", "The event is being sent again.")
    if picked:
        st.caption(f"The one with the ID `{picked['id']}`, created {ago(picked['createdAt'])}.")


def _post(who: session.Person, path: str, done: str) -> None:
    try:
        who.api.post(path, {})
    except ApiError as error:
        frame.show(error)
    else:
        st.toast(done, icon=":material/send:")


def _said(state: str) -> str:
    return word(WORDS.get(state, state)) if state else "Any"


def _row(one: Json) -> Json:
    due = one["nextAttemptAt"]
    return {
        "Status": [WORDS.get(one["status"], one["status"])],
        "Event": one["type"],
        "Created": ago(one["createdAt"]),
        "Attempts": one["attempts"],
        "HTTP status": one["responseStatus"],
        "Next attempt": f"in {span_until(due)}" if due else "",
        "Reason": one["reason"] or "",
        "ID": one["id"],
    }
