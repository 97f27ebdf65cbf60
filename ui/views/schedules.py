"""Schedules: which connections are synced by themselves, and when next."""

from __future__ import annotations

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import frame, widgets
from ui.parts.labels import name_of, parse_time, source_title, span_until
from ui.parts.widgets import escape_markdown

PAGE = 50


def main() -> None:
    person = session.current_person()
    namespace = frame.show_head(person, "Schedules")
    data = person.api.get(
        "/v1/connections", namespaceId=namespace, pageSize=PAGE, cursor=session.read_parameter("cursor")
    )
    scheduled = sorted(
        (connection for connection in data["connections"] if connection["syncIntervalMinutes"]),
        key=lambda one: one.get("nextSyncAt", {}).get("isoString", "~"),
    )
    without = sum(
        1
        for connection in data["connections"]
        if not connection["syncIntervalMinutes"] and connection["status"] == "ACTIVE"
    )
    if not scheduled:
        widgets.show_empty(
            "No connection of this namespace is synced by itself.",
            "Choose a sync schedule at a connection: it is then synced at that interval.",
        )
        _to_connections(namespace)
        widgets.show_pager(data)
        return
    st.dataframe(
        [_row(connection) for connection in scheduled],
        hide_index=True,
        width="stretch",
        column_config={"Next run": st.column_config.DatetimeColumn("Next run", format="D MMM YYYY, HH:mm")},
    )
    for connection in scheduled:
        if connection["statusReason"]:
            st.warning(
                f"{escape_markdown(connection['name'])}: {escape_markdown(connection['statusReason'])}",
                icon=":material/info:",
            )
    if without:
        verb = "is" if without == 1 else "are"
        st.caption(f"{without:,} more on this page {verb} synced only when asked for.")
    _to_connections(namespace)
    widgets.show_pager(data)


def _row(connection: Json) -> Json:
    due = connection.get("nextSyncAt")
    return {
        "Connection": connection["name"],
        "Service": source_title(connection["connector"]),
        "Sync schedule": name_of(connection["syncIntervalMinutes"]),
        "Next run": parse_time(due),
        "Due": f"in {span_until(due)}" if due else f"never while {connection['status'].lower()}",
    }


def _to_connections(namespace: str) -> None:
    query_params = {"namespace": namespace}
    st.page_link("views/connections.py", label="Change a schedule", icon=":material/cable:", query_params=query_params)


main()
