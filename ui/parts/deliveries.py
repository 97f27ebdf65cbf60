"""What a webhook was sent: live, by status, and the button that sends an event again."""

from __future__ import annotations

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import frame, pager, status, tables
from ui.parts.labels import ago, span_until

PAGE = 50
LIVE_SECONDS = 5.0
STATES = ("PENDING", "DELIVERED", "FAILED")


def show(who: session.Person, hook: Json) -> None:
    """The deliveries of one webhook, newest first."""

    @frame.live(LIVE_SECONDS)
    def live() -> None:
        _show(who, hook["id"])

    live()


def _show(who: session.Person, hook: str) -> None:
    given = session.parameter("deliveries")
    st.session_state.setdefault("deliveries_status", given if given in STATES else "")
    left, right = st.columns([2, 1], vertical_alignment="bottom")
    wanted = left.selectbox(
        "Status", ["", *STATES], format_func=lambda one: one.capitalize() or "Any", key="deliveries_status"
    )
    session.remember(deliveries=wanted or None)
    if who.may("webhooks:write") and right.button("Send a test", icon=":material/send:", width="stretch"):
        _post(who, f"/v1/webhooks/{hook}/test", "A test event is being sent.")
    data = who.api.get(
        f"/v1/webhooks/{hook}/deliveries", pageSize=PAGE, cursor=session.parameter("cursor"), status=wanted
    )
    sent = data["deliveries"]
    if not sent:
        status.empty("No deliveries.", "Send a test, or wait for an event: add content, for example.")
        return
    rows = [_row(one) for one in sent]
    row = tables.selected(rows, f"deliveries_{hook}", Status=status.column())
    picked = None if row is None else sent[row]
    if not who.may("webhooks:write"):
        return
    label = f"Send {picked['type']} again" if picked else "Send again"
    if st.button(label, icon=":material/replay:", disabled=picked is None, help="Click a delivery above.") and picked:
        _post(who, f"/v1/webhooks/{hook}/deliveries/{picked['id']}/redeliver", "The event is being sent again.")
    pager.show(data)


def _post(who: session.Person, path: str, done: str) -> None:
    try:
        who.api.post(path, {})
    except ApiError as error:
        frame.show(error)
    else:
        st.toast(done, icon=":material/send:")


def _row(one: Json) -> Json:
    due = one["nextAttemptAt"]
    return {
        "Status": [one["status"]],
        "Event": one["type"],
        "Created": ago(one["createdAt"]),
        "Attempts": one["attempts"],
        "HTTP status": one["responseStatus"],
        "Next attempt": f"in {span_until(due)}" if due else "",
        "Reason": one["reason"] or "",
        "ID": one["id"],
    }
