"""Webhooks: list, deliveries, settings and secret."""

from __future__ import annotations

from functools import partial

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import api_schema, frame, url_state, widgets
from ui.parts.labels import format_count, name_of, span_until, status_word, time_ago
from ui.parts.widgets import escape_markdown

PAGE_SIZE = 50
REFRESH_SECONDS = 5.0
DELIVERY_STATUSES = ("PENDING", "DELIVERED", "FAILED")
# PENDING has another label for connections.
STATUS_ALIASES = {"PENDING": "TO_SEND"}
ALL_EVENTS = "*"
ADDRESS_PARAMETERS = ("webhook", "deliveries", "sent")
SHOWN_ONCE_KEY = "webhook_shown"


def main() -> None:
    person = session.current_person()
    st.title("Webhooks")
    if opened := session.read_id("webhook"):
        widgets.link_back("All webhooks", *ADDRESS_PARAMETERS)
        _show_webhook(person, person.api.get(f"/v1/webhooks/{opened}")["webhook"])
        return
    if person.may("webhooks:write"):
        _show_create_form(person)
    data = person.api.get("/v1/webhooks", pageSize=PAGE_SIZE, cursor=session.read_parameter("cursor"))
    if not data["webhooks"]:
        widgets.show_empty(
            "No webhooks yet.", "Add one above: its URL is then sent the events that you choose, signed."
        )
        return
    for hook in data["webhooks"]:
        _show_card(hook)
    widgets.show_pager(data)


def _show_create_form(person: session.Person) -> None:
    with st.expander("Add webhook", icon=":material/add_circle:"), frame.shown_refusal():
        namespace = frame.choose_optional(person, "webhook_namespace", "All namespaces")
        with st.form("add-webhook", border=False):
            url = st.text_input("URL", placeholder="https://example.com/hooks/retrieval")
            options = [ALL_EVENTS, *api_schema.webhook_events()]
            events = st.multiselect("Events", options, default=[ALL_EVENTS], format_func=_event_label)
            about = st.text_input("Description", placeholder="Search index of the website")
            if not st.form_submit_button("Add webhook", type="primary", icon=":material/add:"):
                return
        body: Json = {"url": url.strip(), "events": [ALL_EVENTS] if ALL_EVENTS in events else events}
        body |= {name: value for name, value in (("namespaceId", namespace), ("description", about)) if value}
        created = widgets.post_once(person, "/v1/webhooks", body)
        st.session_state[SHOWN_ONCE_KEY] = (created["webhook"]["id"], created["secret"])
        session.go_to(webhook=created["webhook"]["id"])


def _event_label(name: str) -> str:
    return "All events" if name == ALL_EVENTS else name


def _show_card(hook: Json) -> None:
    with st.container(border=True):
        left_column, right_column = st.columns([4, 1], vertical_alignment="center")
        with left_column, st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"**{escape_markdown(hook['url'])}**", width="content")
            widgets.show_health(hook)
        with left_column:
            st.caption(f"{_describe_webhook(hook)} · created {time_ago(hook['createdAt'])}")
            widgets.explain_health(hook)
        if right_column.button("Open", key=f"open-{hook['id']}", width="stretch", help=f"Open {hook['url']}"):
            session.go_to(webhook=hook["id"])


def _describe_webhook(hook: Json) -> str:
    events = "all events" if ALL_EVENTS in hook["events"] else escape_markdown(", ".join(hook["events"]))
    parts = [escape_markdown(hook["description"])] if hook["description"] else []
    if ended := hook["deliveredLastDay"] + hook["failedLastDay"]:
        parts.append(f"{hook['deliveredLastDay'] / ended:.0%} of {format_count(ended, 'event')} delivered in 24 hours")
    names = session.namespace_names(session.current_person(), [hook["namespaceId"]]) if hook["namespaceId"] else {}
    space = escape_markdown(name_of(names, hook["namespaceId"]))
    parts += [events, f"namespace {space}" if space else "all namespaces"]
    return " · ".join([*parts, *([f"tenant {escape_markdown(hook['tenantId'])}"] if hook["tenantId"] else [])])


def _show_webhook(person: session.Person, hook: Json) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.header(escape_markdown(hook["url"]), width="content")
        widgets.show_health(hook)
    st.caption(f"{_describe_webhook(hook)} · created {time_ago(hook['createdAt'])}")
    widgets.explain_health(hook)
    created = st.session_state.pop(SHOWN_ONCE_KEY, None)
    if created and created[0] == hook["id"]:
        st.success("Copy the secret now: it is shown this once. Requests are signed with it (Standard Webhooks).")
        st.code(created[1], language=None)
    pages = {"Edit": _show_edit_form, "Rotate secret": _show_rotation, "Delete": _show_deletion}
    deliveries_tab, *tabs = st.tabs(["Deliveries", *pages])
    with deliveries_tab:
        frame.live_fragment(REFRESH_SECONDS)(partial(_show_deliveries, person, hook["id"]))()
    for tab, show in zip(tabs, pages.values(), strict=True):
        with tab, frame.shown_refusal():
            if person.may("webhooks:write"):
                show(person, hook)
            else:
                st.caption("This key may not change webhooks: it lacks webhooks:write, or is bound to a tenant.")


def _show_deliveries(person: session.Person, hook: str) -> None:
    left_column, right_column = st.columns([2, 1], vertical_alignment="bottom")
    labels = {"": "Any"} | {state: status_word(STATUS_ALIASES.get(state, state)) for state in DELIVERY_STATUSES}
    choice: Json = {"options": labels, "prefix": "webhook", "reset_parameter": "sent"}
    status = url_state.bind_field(left_column.selectbox, "deliveries", "Status", **choice)
    if person.may("webhooks:write") and right_column.button("Send a test", icon=":material/send:", width="stretch"):
        _post_action(person, f"/v1/webhooks/{hook}/test", "A test event is being sent.")
    path, cursor = f"/v1/webhooks/{hook}/deliveries", session.read_parameter("sent")
    data = person.api.get(path, pageSize=PAGE_SIZE, cursor=cursor, status=status)
    deliveries = data["deliveries"]
    if not deliveries:
        widgets.show_empty("No deliveries.", "Send a test, or wait for an event: add content, for example.")
        return
    rows = [_delivery_row(delivery) for delivery in deliveries]
    widgets.show_table(rows, Status=widgets.status_column(width=110))
    if person.may("webhooks:write"):
        _offer_failed(person, path)
    widgets.show_pager(data, name="sent")


def _offer_failed(person: session.Person, path: str) -> None:
    """Offer to send all failed deliveries again, at most a page at once."""
    failed = person.api.get(path, pageSize=PAGE_SIZE, status="FAILED")["deliveries"]
    label = f"Send {format_count(len(failed), 'failed event')} again"
    if failed and st.button(label, icon=":material/replay:", key="send_failed", type="primary"):
        with frame.shown_refusal():
            for delivery in failed:
                person.api.post(f"{path}/{delivery['id']}/redeliver", {})
            frame.keep_notice(f"{format_count(len(failed), 'event')} are being sent again.")
            st.rerun()


def _post_action(person: session.Person, path: str, done: str) -> None:
    with frame.shown_refusal():
        person.api.post(path, {})
        frame.keep_notice(done)
        st.rerun()


def _delivery_row(delivery: Json) -> Json:
    due = delivery["nextAttemptAt"]
    return {
        "Status": [STATUS_ALIASES.get(delivery["status"], delivery["status"])],
        "Event": delivery["type"],
        "Created": time_ago(delivery["createdAt"]),
        "Attempts": delivery["attempts"],
        "HTTP status": str(delivery["responseStatus"] or ""),
        "Next attempt": f"in {span_until(due)}" if due else "",
        "Reason": delivery["reason"] or "",
    }


def _show_edit_form(person: session.Person, hook: Json) -> None:
    with st.form("edit-webhook", border=False):
        url = st.text_input("URL", value=hook["url"])
        options = list(dict.fromkeys([ALL_EVENTS, *api_schema.webhook_events(), *hook["events"]]))
        events = st.multiselect("Events", options, default=hook["events"], format_func=_event_label)
        about = st.text_input("Description", value=hook["description"] or "")
        active = st.toggle("Active", value=hook["status"] == "ACTIVE")
        if not st.form_submit_button("Save", type="primary", icon=":material/save:"):
            return
        changes = {
            "url": url.strip(),
            "events": [ALL_EVENTS] if ALL_EVENTS in events else events,
            "description": about or None,
            "status": "ACTIVE" if active else "DISABLED",
        }
        body = {name: value for name, value in changes.items() if value != hook[name]}
        if not body:
            st.info("Nothing to save: no field was changed.", icon=":material/info:")
            return
        person.api.patch(f"/v1/webhooks/{hook['id']}", body)
    frame.keep_notice("Saved.")
    st.rerun()


def _show_rotation(person: session.Person, hook: Json) -> None:
    st.write("A new secret is made. During the overlap requests carry signatures of both, so no event is missed.")
    with st.form("rotate-webhook", border=False):
        hours = st.number_input("Overlap (hours)", min_value=0.0, max_value=720.0, value=24.0, step=1.0, format="%.0f")
        if st.form_submit_button("Rotate secret", type="primary", icon=":material/sync_lock:"):
            response = widgets.post_once(person, f"/v1/webhooks/{hook['id']}/rotate", {"overlapHours": hours})
            st.session_state[SHOWN_ONCE_KEY] = (hook["id"], response["secret"])
            st.rerun()


def _show_deletion(person: session.Person, hook: Json) -> None:
    st.write("Nothing is sent to it any more, not even what waits. This is final.")
    if st.button("Delete webhook", type="primary", icon=":material/delete:"):
        person.api.delete(f"/v1/webhooks/{hook['id']}")
        frame.keep_notice("Deleted.")
        session.go_to(**dict.fromkeys(ADDRESS_PARAMETERS))


main()
