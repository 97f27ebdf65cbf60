"""Audit log: changes by person and time, including refused ones."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import api_schema, frame, url_state, waiting, widgets

ENTRY_PAGE_SIZE = 100
OBJECT_TYPES = (
    *("connection", "document", "evaluation", "group", "ingestJobRun"),
    *("key", "namespace", "organization", "tenant", "webhook"),
)
ORDER_LABELS = {"newest": "Newest first", "oldest": "Oldest first"}
OUTCOME_LABELS = {"DONE": "Done", "REFUSED": "Refused"}
# In the page's address.
FILTER_PARAMETERS = ("type", "outcome", "key_name", "object", "since", "until")
# Irregular past tenses of verbs in the API's summaries.
PAST_TENSES = {"Cancel": "Cancelled", "Hide": "Hid", "Retry": "Retried", "Send": "Sent", "Set": "Set"}
# Lists with names of objects, by type.
NAME_PATHS = {"namespace": "/v1/namespaces", "key": "/v1/keys", "webhook": "/v1/webhooks"}
MAX_READ_NAMES = 100
# Ids of the service, which only the file has; a tenant is named by its id.
ID_PATTERN = re.compile(r"[a-z]+_[0-9a-z]{30,}")
# Read one by one.
MAX_READ_CONNECTIONS = 20
# Only in the file.
ID_COLUMNS = ("Object ID", "Request ID")
# By object type: page, address parameter and further parameters.
OBJECT_PAGES: dict[str, tuple[str, str | None, Json]] = {
    "namespace": ("namespaces", "namespace", {"open": "yes"}),
    "key": ("keys", None, {"tab": "API keys"}),
    "tenant": ("keys", None, {"tab": "Tenants"}),
    "webhook": ("webhooks", "webhook", {}),
}


def main() -> None:
    person = session.current_person()
    st.title("Audit log")
    filters, order = _show_filters()
    cursor = session.read_parameter("cursor")
    data = person.api.get("/v1/audit", pageSize=ENTRY_PAGE_SIZE, cursor=cursor, sort=order, **filters)
    entries = data["entries"]
    if not entries:
        advice = "Clear the filters to see more." if filters else "Every change made with a key is recorded here."
        widgets.show_empty("No entries.", advice)
        if filters:
            clear = partial(session.set_parameters, cursor=None, **dict.fromkeys(FILTER_PARAMETERS))
            st.button("Clear filters", on_click=clear, icon=":material/filter_alt_off:")
        return
    names = _object_names(person, entries)
    rows = widgets.drop_empty([_entry_row(entry, names) for entry in entries], "Before and after")
    time_column = st.column_config.DatetimeColumn("Time", format="D MMM YYYY, HH:mm:ss")
    shown = [{name: value for name, value in row.items() if name not in ID_COLUMNS} for row in rows]
    what_column = st.column_config.TextColumn(width=360)
    clicked = widgets.clicked_row(shown, "audit_rows", entries, Time=time_column, What=what_column)
    if clicked is not None:
        _open_object(clicked)
    widgets.download_csv("Download this page as CSV", rows, "audit.csv")
    widgets.show_pager(data)


def _show_filters() -> tuple[dict[str, Any], str]:
    """Show filters and order, kept in the page's address; return the API's parameters."""
    field = partial(url_state.bind_field, prefix="audit")
    columns, dates = st.columns(4), st.columns(4)
    kinds, outcomes = {"": "Any"} | dict(zip(OBJECT_TYPES, OBJECT_TYPES, strict=True)), {"": "Any"} | OUTCOME_LABELS
    day: Json = {"default": None, "value": None, "format": "YYYY-MM-DD"}
    chosen = {
        "objectType": field(columns[0].selectbox, "type", "Object type", options=kinds),
        "outcome": field(columns[1].selectbox, "outcome", "Outcome", options=outcomes),
        "keyName": field(columns[2].text_input, "key_name", "Key name"),
        "object": field(columns[3].text_input, "object", "Object ID"),
        "from": field(dates[0].date_input, "since", "From", **day),
        "to": field(dates[1].date_input, "until", "To", **day),
    }
    with dates[2]:
        order = url_state.choose_order(ORDER_LABELS)
    return {name: str(value) for name, value in chosen.items() if value}, order


def _object_names(person: session.Person, entries: list[Json]) -> Mapping[str, str]:
    types = {entry["objectType"] for entry in entries if entry["objectId"]} & NAME_PATHS.keys()
    connections = {entry["objectId"] for entry in entries if entry["objectType"] == "connection" and entry["objectId"]}
    answers = waiting.ask_in_parallel(
        {
            **{kind: partial(person.api.recall, NAME_PATHS[kind], pageSize=MAX_READ_NAMES) for kind in types},
            **{key: partial(_read_connection, person, key) for key in sorted(connections)[:MAX_READ_CONNECTIONS]},
        }
    )
    return {
        item["id"]: item.get("name") or item["url"]
        for answer in answers.values()
        for items in (answer or {}).values()
        if isinstance(items, list)
        for item in items
    }


def _read_connection(person: session.Person, connection: str) -> Json:
    with suppress(ApiError):
        return {"connections": [person.api.recall(f"/v1/connections/{connection}")["connection"]]}
    return {}


def _describe_entry(entry: Json, names: Mapping[str, str]) -> str:
    """Describe an entry by the operation's summary and its objects."""
    operation = api_schema.find_operation(entry["method"], entry["route"])
    ids = [entry["objectId"]] if entry["objectId"] else entry.get("objectIds", [])
    readable = [name for name in (names.get(key, key) for key in ids) if not ID_PATTERN.fullmatch(name)]
    about = ", ".join(readable[:3]) + (f" and {len(readable) - 3:,} more" if len(readable) > 3 else "")
    about = about or (f"{len(ids):,} of them" if len(ids) > 1 else "")
    about = f": {about}" if about else ""
    summary = str((operation or {}).get("summary") or "").partition(":")[0]
    if not summary:
        return f"{'Ran' if entry['method'] == 'CLI' else entry['method']} {entry['route']}{about}"
    if entry["status"] >= 400:
        return f"Tried to {summary[0].lower()}{summary[1:]}{about}"
    verb, _, rest = summary.partition(" ")
    return f"{PAST_TENSES.get(verb) or verb.removesuffix('e') + 'ed'} {rest}{about}"


def _open_object(entry: Json) -> None:
    """Open the object's page, if any."""
    page, parameter, query = OBJECT_PAGES.get(entry["objectType"], (None, None, {}))
    if page is None or (entry["method"] == "DELETE" and parameter):
        frame.keep_notice("This object has no page of its own, or is gone.")
        st.rerun()
    object_query = {parameter: entry["objectId"]} if parameter and entry["objectId"] else {}
    st.switch_page(f"views/{page}.py", query_params=query | object_query if object_query or not parameter else None)


def _describe_change(change: Json) -> str:
    """Describe one object's changed fields, before and after."""
    sides = (change["before"], change["after"])
    old, new = (side if isinstance(side, dict) else {"": side} for side in sides)
    parts = [
        f"{name or 'value'}: {_format_value(old.get(name))} → {_format_value(new.get(name))}"
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]
    return "; ".join(parts)


def _format_value(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        value = ", ".join(value)
    return "nothing" if value in (None, {}, "") else value if isinstance(value, str) else json.dumps(value)


def _entry_row(entry: Json, names: Mapping[str, str]) -> Json:
    refused = entry["status"] >= 400
    return {
        "Time": entry["at"]["isoString"],
        "Who": (entry["keyName"] or entry["principal"] or entry["source"])
        + (f" for {entry['principal']}" if entry["keyName"] and entry["principal"] else ""),
        "What": _describe_entry(entry, names),
        "Outcome": f"Refused ({entry['status']})" if refused else "Done",
        "Before and after": "\n".join(map(_describe_change, entry.get("changes", ()))),
        "Object ID": entry["objectId"] or ", ".join(entry.get("objectIds", ())),
        "Request ID": entry["requestId"] or "",
    }


main()
