"""The audit log: who changed what and when, refused writes too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from functools import partial
from typing import Any

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import api_schema, url_state, waiting, widgets
from ui.parts.widgets import csv_bytes

PAGE = 100
KINDS = (
    "connection",
    "document",
    "evaluation",
    "group",
    "ingestJobRun",
    "key",
    "namespace",
    "organization",
    "tenant",
    "webhook",
)
ORDERS = {"newest": "Newest first", "oldest": "Oldest first"}
OUTCOMES = {"DONE": "Done", "REFUSED": "Refused"}
FILTERS = {
    "type": "objectType",
    "outcome": "outcome",
    "key_name": "keyName",
    "object": "object",
    "since": "from",
    "until": "to",
}
"""Names in the page's address, and the API's."""
DAYS = ("since", "until")
FIELDS = url_state.Fields("audit", tuple(FILTERS))
PAST = {"Cancel": "Cancelled", "Hide": "Hid", "Retry": "Retried", "Send": "Sent", "Set": "Set"}
"""Verbs of the API's summaries whose past tense does not end in -ed alone."""
NAMED = {"namespace": "/v1/namespaces", "key": "/v1/keys"}
"""Types of objects whose names are looked up, and the list of each."""
MOST_NAMES = 100
OPENS: dict[str, tuple[str, str | None, Json]] = {
    "namespace": ("namespaces", "namespace", {"open": "yes"}),
    "key": ("keys", None, {"tab": "API keys"}),
    "tenant": ("keys", None, {"tab": "Tenants"}),
    "webhook": ("webhooks", "webhook", {}),
}
"""By type of object: its page, the parameter of the address that names it, and others."""


def main() -> None:
    person = session.current_person()
    st.title("Audit log")
    filters, order = _filters()
    cursor = session.read_parameter("cursor")
    data = person.api.get("/v1/audit", pageSize=PAGE, cursor=cursor, sort=order, **filters)
    entries = data["entries"]
    if not entries:
        advice = "Clear the filters to see more." if filters else "Every change made with a key is recorded here."
        widgets.show_empty("No entries.", advice)
        if filters:
            st.button("Clear filters", on_click=_clear, icon=":material/filter_alt_off:")
        return
    names = _object_names(person, entries)
    with_changes = any("changes" in entry for entry in entries)
    rows = [_row(entry, names, with_changes=with_changes) for entry in entries]
    time_column = st.column_config.DatetimeColumn("Time", format="D MMM YYYY, HH:mm:ss")
    clicked = widgets.clicked_row(rows, "audit_rows", entries, Time=time_column)
    if clicked is not None:
        _open(clicked)
    st.download_button(
        "Download this page as CSV", csv_bytes(rows, list(rows[0])), "audit.csv", icon=":material/download:"
    )
    widgets.show_pager(data)


def _filters() -> tuple[dict[str, Any], str]:
    """Return the chosen filters as the API's parameters, and the order; write them to the page's address."""
    FIELDS.follow({name: _shown(name) for name in FILTERS})
    first_column, second_column, third_column, fourth_column = st.columns(4)
    first_column.selectbox("Object type", ["", *KINDS], format_func=lambda kind: kind or "Any", key="audit_type")
    second_column.selectbox(
        "Outcome", ["", *OUTCOMES], format_func=lambda word: OUTCOMES.get(word, "Any"), key="audit_outcome"
    )
    third_column.text_input("Key name", key="audit_key_name")
    fourth_column.text_input("Object ID", key="audit_object")
    first_column.date_input("From", value=None, format="YYYY-MM-DD", key="audit_since")
    second_column.date_input("To", value=None, format="YYYY-MM-DD", key="audit_until")
    with third_column:
        order = widgets.choose_order(ORDERS)
    chosen = {name: _text(st.session_state[f"audit_{name}"]) for name in FILTERS}
    if FIELDS.write(**chosen):
        session.set_parameters(cursor=None)
    return {FILTERS[name]: value for name, value in chosen.items() if value}, order


def _clear() -> None:
    session.set_parameters(cursor=None, **dict.fromkeys(FILTERS))


def _shown(name: str) -> Any:
    """Return the value of a field from the address."""
    value = session.read_parameter(name) or ""
    if name in DAYS:
        return _day(value)
    options = {"type": KINDS, "outcome": tuple(OUTCOMES)}.get(name)
    return value if options is None or value in options else ""


def _day(given: str) -> date | None:
    try:
        return date.fromisoformat(given)
    except ValueError:
        return None


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, date) else str(value or "").strip()


def _object_names(person: session.Person, entries: list[Json]) -> Mapping[str, str]:
    """Return the names of objects by id, as far as they are there still."""
    types = {entry["objectType"] for entry in entries if entry["objectId"]} & NAMED.keys()
    lists = waiting.ask_in_parallel({kind: partial(person.api.get, NAMED[kind], pageSize=MOST_NAMES) for kind in types})
    return {
        item["id"]: item["name"]
        for answer in lists.values()
        for items in (answer or {}).values()
        if isinstance(items, list)
        for item in items
    }


def _sentence(entry: Json, names: Mapping[str, str]) -> str:
    """Return what was done, in the words of the API's summary of the operation, and to which object."""
    operation = api_schema.find_operation(entry["method"], entry["route"])
    ids = [entry["objectId"]] if entry["objectId"] else entry.get("objectIds", [])
    about = ", ".join(names.get(object_id, object_id) for object_id in ids[:3])
    about = f": {about}" + (f" and {len(ids) - 3:,} more" if len(ids) > 3 else "") if ids else ""
    summary = str((operation or {}).get("summary") or "").partition(":")[0]
    if not summary:
        return (
            f"Ran {entry['route']}{about}" if entry["method"] == "CLI" else f"{entry['method']} {entry['route']}{about}"
        )
    if entry["status"] >= 400:
        return f"Tried to {summary[0].lower()}{summary[1:]}{about}"
    verb, _, rest = summary.partition(" ")
    return f"{PAST.get(verb) or verb.removesuffix('e') + 'ed'} {rest}{about}"


def _open(entry: Json) -> None:
    """Open the page of the object, where it has one without its namespace."""
    page, parameter, query = OPENS.get(entry["objectType"], (None, None, {}))
    if page is None or (entry["method"] == "DELETE" and parameter):
        st.toast("This object has no page of its own, or is gone.", icon=":material/info:")
        return
    object_query = {parameter: entry["objectId"]} if parameter and entry["objectId"] else {}
    st.switch_page(f"views/{page}.py", query_params=query | object_query if object_query or not parameter else None)


def _change(change: Json) -> str:
    """Return one object's change as text: each field that differs, before and after."""
    before, after = (
        change[side] if isinstance(change[side], dict) else {"": change[side]} for side in ("before", "after")
    )
    parts = [
        f"{name or 'value'}: {_value(before.get(name))} → {_value(after.get(name))}"
        for name in dict.fromkeys([*before, *after])
        if before.get(name) != after.get(name)
    ]
    return "; ".join(parts)


def _value(value: Any) -> str:
    return "nothing" if value in (None, [], {}, "") else value if isinstance(value, str) else json.dumps(value)


def _row(entry: Json, names: Mapping[str, str], *, with_changes: bool) -> Json:
    refused = entry["status"] >= 400
    return {
        "Time": entry["at"]["isoString"],
        "Who": (entry["keyName"] or entry["principal"] or entry["source"])
        + (f" for {entry['principal']}" if entry["keyName"] and entry["principal"] else ""),
        "What": _sentence(entry, names),
        "Outcome": f"Refused ({entry['status']})" if refused else "Done",
        **({"Before and after": "\n".join(map(_change, entry.get("changes", ())))} if with_changes else {}),
        "Object ID": entry["objectId"] or ", ".join(entry.get("objectIds", ())),
        "Request ID": entry["requestId"] or "",
    }


main()
