"""Sources of a namespace with their outcomes: connections, websites and uploads."""

from __future__ import annotations

from functools import partial
from urllib.parse import urlsplit

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import api_schema, frame, pushes, waiting, widgets
from ui.parts.labels import due_in, source_title, status_word, time_ago, time_since

MAX_READ_SOURCES = 50
UPLOAD_SOURCES = ("LOCAL_FILE", "TEXT")
STATE_ORDER = ("FAILED", "FAILING", "COMPLETED_WITH_FAILURES", "PENDING", "HEALTHY")
HIDDEN_FIELDS = frozenset({"state", "reason", "filter", "page", "query"})


def main() -> None:
    person = session.current_person()
    namespace = frame.show_head(person, "Sources")
    get, scope = person.api.get, {"namespaceId": namespace, "pageSize": MAX_READ_SOURCES}
    statistics = partial(person.api.list_documents, namespace, {}, include=["statsBySource", "statsBySite"])
    answers = waiting.ask_in_parallel(
        {
            "connections": partial(get, "/v1/connections", **scope) if person.may("connections:read") else None,
            "schedules": partial(get, "/v1/schedules", **scope),
            "stats": statistics if person.may("documents:read") else None,
        }
    )
    connections = (answers["connections"] or {"connections": []})["connections"]
    schedules = (answers["schedules"] or {"schedules": []})["schedules"]
    stats = answers["stats"] or {"statsBySource": [], "statsBySite": []}
    rows = [_connection_row(connection, schedules) for connection in connections]
    rows += [_schedule_row(schedule) for schedule in schedules if not schedule["connectionId"]]
    scheduled = {site for row in rows for site in row["filter"].get("sites", ())}
    sites = [entry["site"] for entry in stats["statsBySite"] if entry["site"] not in scheduled]
    rows += [_row(site, "Website", {"sites": [site]}, "documents", site=site) for site in sites]
    sources = {entry["source"] for entry in stats["statsBySource"]}.intersection(UPLOAD_SOURCES)
    rows += [
        _row(source_title(source), "Upload", {"documentIngestionSources": [source]}, "documents", source=source)
        for source in sorted(sources)
    ]
    if not rows:
        widgets.add_content("No sources yet.")
        return
    if person.may("documents:read"):
        _count_documents(person, namespace, rows)
    _read_pushes(person, namespace, connections, rows)
    rows.sort(key=lambda row: STATE_ORDER.index(row["state"]) if row["state"] in STATE_ORDER else len(STATE_ORDER))
    _show_rows(rows)


def _row(name: str, kind: str, documents: Json, page: str, health: Json | None = None, **query: str) -> Json:
    """Return a row; `documents`: filter of the documents, `page` and `query`: target of a click."""
    return {
        "Name": name,
        "Kind": kind,
        "state": _choose_state(health) if health else "",
        "Last outcome": _describe_outcome(health) if health else "",
        "Next run": "",
        "Last push": "",
        "Documents": None,
        "Failed": None,
        "reason": (health or {}).get("reason") or "",
        "filter": documents,
        "page": page,
        "query": query,
    }


def _choose_state(health: Json) -> str:
    """Return the state of the outcomes; a last run with failed documents is not healthy to people."""
    outcome, state = str(health["lastOutcome"]), str(health["state"])
    return outcome if (state, outcome) == ("HEALTHY", "COMPLETED_WITH_FAILURES") else state


def _describe_outcome(health: Json) -> str:
    """Describe the last outcome with its time, and of a failure since when."""
    if health["failuresSince"]:
        return f"Failing for {time_since(health['failuresSince'])}"
    outcome, success = health["lastOutcome"], health["lastSuccessAt"]
    word = "With failures" if outcome == "COMPLETED_WITH_FAILURES" else status_word(outcome or "")
    return f"{word}, {time_ago(success)}" if outcome and success else ""


def _connection_row(connection: Json, schedules: list[Json]) -> Json:
    key, kind = connection["id"], source_title(connection["connector"])
    documents = {"documentConnectionIds": [key]}
    row = _row(connection["name"], kind, documents, "connections", connection["health"], connection=key)
    due = [due_in(schedule) for schedule in schedules if schedule["connectionId"] == key]
    state = row["state"] if connection["status"] == "ACTIVE" else connection["status"]
    return row | {"Next run": ", ".join(due), "state": state}


def _schedule_row(schedule: Json) -> Json:
    title, source = str(schedule["about"] or source_title(schedule["source"])), schedule["source"]
    documents = {"sites": [urlsplit(title).netloc], "documentIngestionSources": [source]}
    row = _row(title, source_title(source), documents, "schedules", schedule["health"])
    return row | {"Next run": due_in(schedule)}


def _count_documents(person: session.Person, namespace: str, rows: list[Json]) -> None:
    count = partial(person.api.list_documents, namespace, include=["statsByStatus"])
    answers = waiting.ask_in_parallel({str(at): partial(count, row["filter"]) for at, row in enumerate(rows)})
    for row, answer in zip(rows, answers.values(), strict=True):
        by_status = {entry["status"]: entry["totalCount"] for entry in (answer or {})["statsByStatus"]}
        row |= {"Documents": sum(by_status.values()), "Failed": by_status.get("FAILED", 0)}


def _read_pushes(person: session.Person, namespace: str, connections: list[Json], rows: list[Json]) -> None:
    with_push = {item["id"] for item in connections if item["connector"] in api_schema.push_origins()}
    read = partial(person.api.get, namespaceId=namespace)
    answers = waiting.ask_in_parallel({key: partial(read, f"/v1/connections/{key}") for key in with_push})
    for row in rows:
        if answer := answers.get(row["query"].get("connection", "")):
            row["Last push"] = pushes.describe_push(answer.get("push"))


def _show_rows(rows: list[Json]) -> None:
    shown = [
        {
            "State": [row["state"]] if row["state"] in STATE_ORDER else [],
            **{key: value for key, value in row.items() if key not in HIDDEN_FIELDS},
        }
        for row in rows
    ]
    chosen = widgets.clicked_row(
        widgets.drop_empty(shown, "State", "Next run", "Last outcome", "Last push", "Failed"),
        "sources_table",
        rows,
        State=widgets.status_column("State", width=190),
        Name=st.column_config.TextColumn(width=190),
        Documents=st.column_config.NumberColumn(format="localized"),
    )
    st.caption("A click opens the connection, the schedule or the documents.")
    for row in rows:
        if row["reason"] and row["state"] in {"FAILED", "FAILING"}:
            st.error(f"**{widgets.escape_markdown(row['Name'])}**: {widgets.escape_markdown(row['reason'])}")
    if chosen is not None:
        widgets.open_page(chosen["page"], **chosen["query"])


main()
