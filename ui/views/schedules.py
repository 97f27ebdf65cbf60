"""Schedules: sources, next run and last result."""

from __future__ import annotations

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import frame, widgets
from ui.parts.labels import (
    INTERVAL_LABELS,
    describe_health,
    due_in,
    interval_label,
    parse_time,
    source_title,
    timing_of,
)
from ui.parts.widgets import escape_markdown

SCHEDULE_PAGE_SIZE = 50
# Sources whose job runs a schedule can repeat; connections have an interval instead.
WEB_SOURCES = ("WEBSITE", "SITEMAP", "URLS_LIST")


def main() -> None:
    person = session.current_person()
    namespace = frame.show_head(person, "Schedules")
    if person.may("ingest:write"):
        _show_add_form(person, namespace)
    data = person.api.get(
        "/v1/schedules", namespaceId=namespace, pageSize=SCHEDULE_PAGE_SIZE, cursor=session.read_parameter("cursor")
    )
    schedules = data["schedules"]
    if not schedules:
        widgets.show_empty(
            "Nothing is scheduled in this namespace.",
            "Folders and content services: choose a sync schedule at their connection. Websites: add the website once,"
            " then repeat it here.",
        )
        widgets.link_page("connections", "Connections")
        widgets.show_pager(data)
        return
    for schedule in sorted(schedules, key=lambda schedule: (schedule["nextRunAt"] or {"isoString": "~"})["isoString"]):
        with st.container(border=True):
            _show_schedule(person, namespace, schedule)
    widgets.show_pager(data)


def _show_add_form(person: session.Person, namespace: str) -> None:
    newest_runs = person.api.get("/v1/ingest-job-runs", namespaceId=namespace, pageSize=SCHEDULE_PAGE_SIZE)[
        "ingestJobRuns"
    ]
    runs = {run["id"]: run for run in newest_runs if run["source"] in WEB_SOURCES and not run.get("dryRun")}
    if not runs:
        return
    with st.expander("Repeat an ingestion", icon=":material/add_circle:"), st.form("schedule", border=False):
        run_id = st.selectbox(
            "Ingestion", list(runs), format_func=lambda key: f"{source_title(runs[key]['source'])} {runs[key]['name']}"
        )
        interval = st.selectbox(
            "Every", [minutes for minutes in INTERVAL_LABELS if minutes], index=3, format_func=interval_label
        )
        cron = st.text_input("Or by a cron expression", placeholder="0 6 * * MON-FRI")
        zone = st.text_input("Time zone of the cron expression", value="UTC")
        if st.form_submit_button("Add schedule", type="primary", icon=":material/schedule:"):
            timing: Json = {"cron": cron, "timeZone": zone} if cron else {"intervalMinutes": interval}
            with frame.shown_refusal():
                body = {"namespaceId": namespace, "ingestJobRunId": run_id, **timing}
                widgets.post_once(person, "/v1/schedules", body)
                st.rerun()


def _show_schedule(person: session.Person, namespace: str, schedule: Json) -> None:
    newest, health = schedule["lastRun"], schedule["health"]
    title = schedule["about"] or source_title(schedule["source"])
    text_column, pause_column, delete_column = st.columns([6, 1, 1], vertical_alignment="center")
    with text_column:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"**{escape_markdown(title)}** · {source_title(schedule['source'])}", width="content")
            if newest:
                widgets.status_badge(newest["outcome"] or newest["status"])
        moment = parse_time(schedule["nextRunAt"])
        due = due_in(schedule) + (f" ({moment:%d %b, %H:%M} UTC)" if moment else "")
        st.caption(f"{escape_markdown(timing_of(schedule))} · next run {due}{'' if newest else ' · no run by it yet'}")
    if reason := schedule["statusReason"] or health["reason"]:
        if health["state"] == "FAILING":
            st.error(f"{escape_markdown(reason)}  \n{describe_health(health)}", icon=":material/error:")
        else:
            st.warning(escape_markdown(reason), icon=":material/info:")
    if not person.may("ingest:write"):
        return
    key, path = schedule["id"], f"/v1/schedules/{schedule['id']}"
    with frame.shown_refusal():
        label = "Continue" if schedule["paused"] else "Pause"
        if pause_column.button(label, key=f"pause-{key}", width="stretch"):
            person.api.patch(path, {"namespaceId": namespace, "paused": not schedule["paused"]})
            st.rerun()
        if delete_column.button("Delete", key=f"delete-{key}", width="stretch"):
            person.api.call("DELETE", path, namespaceId=namespace)
            st.rerun()


main()
