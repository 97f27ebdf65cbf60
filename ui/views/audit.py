"""The audit log: who changed what and when, refused writes too."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import url_state, widgets
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


def main() -> None:
    person = session.current_person()
    st.title("Audit log")
    filters = _filters()
    data = person.api.get("/v1/audit", pageSize=PAGE, cursor=session.read_parameter("cursor"), **filters)
    rows = [_row(entry) for entry in data["entries"]]
    if not rows:
        advice = "Clear the filters to see more." if filters else "Every change made with a key is recorded here."
        widgets.show_empty("No entries.", advice)
        if filters:
            st.button("Clear filters", on_click=_clear, icon=":material/filter_alt_off:")
        return
    st.dataframe(
        rows,
        hide_index=True,
        width="stretch",
        column_config={"Time": st.column_config.DatetimeColumn("Time", format="D MMM YYYY, HH:mm:ss")},
    )
    st.download_button(
        "Download this page as CSV", csv_bytes(rows, list(rows[0])), "audit.csv", icon=":material/download:"
    )
    widgets.show_pager(data)


def _filters() -> dict[str, Any]:
    """Return the chosen filters as the API's parameters, and write them to the page's address."""
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
    chosen = {name: _text(st.session_state[f"audit_{name}"]) for name in FILTERS}
    if FIELDS.write(**chosen):
        session.set_parameters(cursor=None)
    return {FILTERS[name]: value for name, value in chosen.items() if value}


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


def _row(entry: Json) -> Json:
    refused = entry["status"] >= 400
    return {
        "Time": entry["at"]["isoString"],
        "Key": entry["keyName"] or entry["source"],
        "On behalf of": entry["principal"] or "",
        "Request": f"{entry['method']} {entry['route']}",
        "Object": entry["objectType"],
        "Object ID": entry["objectId"] or ", ".join(entry.get("objectIds", ())),
        "Before and after": json.dumps(entry["changes"], ensure_ascii=False) if "changes" in entry else "",
        "Outcome": f"Refused ({entry['status']})" if refused else "Done",
        "Request ID": entry["requestId"] or "",
    }


main()
