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
    next_run = st.column_config.DatetimeColumn("Next run", format="D MMM YYYY, HH:mm")
    rows = sorted(map(_schedule_row, schedules), key=lambda row: str(row["Next run"] or "~"))
    widgets.show_table(rows, **{"Next run": next_run, "Health": widgets.status_column("Health")})
    for schedule in schedules:
        health, reason = schedule["health"], schedule["statusReason"] or schedule["health"]["reason"]
        message = f"{escape_markdown(_schedule_title(schedule))}: {escape_markdown(reason or '')}"
        if health["state"] == "FAILING":
            st.error(f"{message}  \n{describe_health(health)}", icon=":material/error:")
        elif reason:
            st.warning(message, icon=":material/info:")
    if person.may("ingest:write"):
        for schedule in schedules:
            _show_actions(person, namespace, schedule)
    widgets.link_page("connections", "Connections")
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


def _show_actions(person: session.Person, namespace: str, schedule: Json) -> None:
    key, path = schedule["id"], f"/v1/schedules/{schedule['id']}"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(escape_markdown(_schedule_title(schedule)), width="content")
        change = "Continue" if schedule["paused"] else "Pause"
        with frame.shown_refusal():
            if st.button(change, key=f"pause-{key}"):
                person.api.patch(path, {"namespaceId": namespace, "paused": not schedule["paused"]})
                st.rerun()
            if st.button("Delete", key=f"delete-{key}"):
                person.api.call("DELETE", path, namespaceId=namespace)
                st.rerun()


def _schedule_title(schedule: Json) -> str:
    return str(schedule["about"] or source_title(schedule["source"]))


def _schedule_row(schedule: Json) -> Json:
    newest = schedule["lastRun"]
    return {
        "Name": _schedule_title(schedule),
        "Health": [schedule["health"]["state"]],
        "Source": source_title(schedule["source"]),
        "Sync schedule": timing_of(schedule),
        "Next run": parse_time(schedule["nextRunAt"]),
        "Due": due_in(schedule),
        "Last run": (newest["outcome"] or newest["status"]).capitalize().replace("_", " ") if newest else "none yet",
    }


main()
