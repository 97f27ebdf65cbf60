"""Sources of a namespace with their outcomes: connections, websites and uploads."""

from __future__ import annotations

from functools import partial
from urllib.parse import urlsplit

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import frame, waiting, widgets
from ui.parts.labels import due_in, source_title, status_word, time_ago, timing_of

MAX_READ_SOURCES = 50
UPLOAD_SOURCES = ("LOCAL_FILE", "TEXT")
STATE_ORDER = ("FAILED", "FAILING", "PENDING", "HEALTHY", "UNKNOWN")


def main() -> None:
    person = session.current_person()
    namespace = frame.show_head(person, "Sources")
    get, scope = person.api.get, {"namespaceId": namespace, "pageSize": MAX_READ_SOURCES}
    connects, reads = person.may("connections:read"), person.may("documents:read")
    statistics = ["statsBySource", "statsBySite"]
    list_documents, failed = partial(person.api.list_documents, namespace), {"documentIngestionStatuses": ["FAILED"]}
    answers = waiting.ask_in_parallel(
        {
            "connections": partial(get, "/v1/connections", **scope) if connects else None,
            "schedules": partial(get, "/v1/schedules", **scope),
            "stats": partial(list_documents, {}, include=statistics) if reads else None,
            "failed": partial(list_documents, failed, include=statistics) if reads else None,
        }
    )
    counts = _Counts(answers["stats"], answers["failed"])
    connections = (answers["connections"] or {"connections": []})["connections"]
    schedules = (answers["schedules"] or {"schedules": []})["schedules"]
    if reads:
        _count_connections(person, namespace, connections, counts)
    rows = [_connection_row(connection, schedules, counts) for connection in connections]
    rows += _list_sites(schedules, counts)
    rows += [
        {**_row(source_title(source), "Upload", "", counts, source), "source": source}
        for source in UPLOAD_SOURCES
        if source in counts.all
    ]
    if not rows:
        widgets.add_content("No sources yet.")
        return
    rows.sort(key=lambda row: STATE_ORDER.index(row["state"]) if row["state"] in STATE_ORDER else len(STATE_ORDER))
    _show_rows(rows)


class _Counts:
    """Documents and failed documents by source, site and connection id."""

    def __init__(self, every: Json | None, failed: Json | None) -> None:
        self.all, self.failed = _read_counts(every), _read_counts(failed)
        self.sites = [entry["site"] for entry in (every or {"statsBySite": []})["statsBySite"]]


def _read_counts(stats: Json | None) -> dict[str, int]:
    by_source, by_site = (stats or {}).get("statsBySource", []), (stats or {}).get("statsBySite", [])
    return {entry.get("site") or entry["source"]: entry["totalCount"] for entry in [*by_source, *by_site]}


def _count_connections(person: session.Person, namespace: str, connections: list[Json], counts: _Counts) -> None:
    def count(connection: str) -> Json:
        config = {"documentConnectionIds": [connection]}
        return person.api.list_documents(namespace, config, include=["statsByStatus"])

    answers = waiting.ask_in_parallel({item["id"]: partial(count, item["id"]) for item in connections})
    for name, answer in answers.items():
        by_status = {entry["status"]: entry["totalCount"] for entry in (answer or {})["statsByStatus"]}
        counts.all[name], counts.failed[name] = sum(by_status.values()), by_status.get("FAILED", 0)


def _row(name: str, kind: str, state: str, counts: _Counts, key: str, health: Json | None = None) -> Json:
    outcome = (health or {}).get("lastOutcome")
    since = (health or {}).get("failuresSince")
    return {
        "Name": name,
        "Kind": kind,
        "state": state,
        "Last outcome": status_word(outcome) if outcome else "",
        "Last success": time_ago(health["lastSuccessAt"]) if health and health["lastSuccessAt"] else "",
        "Failing for": time_ago(since).removesuffix(" ago") if since else "",
        "Next run": "",
        "Documents": counts.all.get(key),
        "Failed": counts.failed.get(key, 0),
        "reason": (health or {}).get("reason") or "",
        "source": "",
        "page": "",
    }


def _connection_row(connection: Json, schedules: list[Json], counts: _Counts) -> Json:
    health, kind = connection["health"], source_title(connection["connector"])
    state = health["state"] if connection["status"] == "ACTIVE" else connection["status"]
    row = _row(connection["name"], kind, state, counts, connection["id"], health)
    due = [due_in(schedule) for schedule in schedules if schedule["connectionId"] == connection["id"]]
    return row | {"Next run": ", ".join(due), "page": "connections", "connection": connection["id"]}


def _list_sites(schedules: list[Json], counts: _Counts) -> list[Json]:
    """Return rows of websites: those with a schedule, then the other sites with documents."""
    rows, scheduled = [], set()
    for schedule in schedules:
        if schedule["connectionId"]:
            continue
        title = str(schedule["about"] or source_title(schedule["source"]))
        site = urlsplit(title).netloc
        scheduled.add(site)
        state = "" if schedule["paused"] else schedule["health"]["state"]
        row = _row(title, source_title(schedule["source"]), state, counts, site, schedule["health"])
        rows.append(row | {"Next run": f"{due_in(schedule)} ({timing_of(schedule).lower()})", "page": "schedules"})
    others = [site for site in counts.sites if site not in scheduled]
    return rows + [{**_row(site, "Website", "", counts, site), "site": site} for site in others]


def _show_rows(rows: list[Json]) -> None:
    hidden = {"state", "reason", "source", "site", "page", "connection"}
    shown = [
        {"State": [row["state"]] if row["state"] else [], **{key: row[key] for key in row if key not in hidden}}
        for row in rows
    ]
    chosen = widgets.clicked_row(
        widgets.drop_empty(shown, "State", "Failing for", "Next run", "Last outcome", "Last success", "Failed"),
        "sources_table",
        rows,
        State=widgets.status_column("State", width=90),
        Name=st.column_config.TextColumn(width=190),
        Documents=st.column_config.NumberColumn(format="localized"),
    )
    st.caption("A click opens the connection, the schedule or the documents.")
    for row in rows:
        if row["reason"] and row["state"] in {"FAILED", "FAILING"}:
            st.error(f"**{widgets.escape_markdown(row['Name'])}**: {widgets.escape_markdown(row['reason'])}")
    if chosen is not None and chosen["page"]:
        widgets.open_page(chosen["page"])
    elif chosen is not None:
        widgets.open_page(
            "documents", **({"site": chosen["site"]} if "site" in chosen else {"source": chosen["source"]})
        )


main()
