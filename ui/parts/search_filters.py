"""The filter of the search lab: chosen from values that documents have, with their counts, or typed."""

from __future__ import annotations

import json
from typing import Any

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import metadata_filter
from ui.parts.metadata_filter import JsonInput

DOCUMENT = {
    "document.type": "Type",
    "document.source": "Source",
    "document.language": "Language",
    "document.mimeType": "Media type",
    "document.name": "Name",
    "document.path": "Path",
}
SAMPLE = 40
"""Newest documents whose metadata keys are offered."""
_FIELD, _VALUES = "facet_field", "facet_values"
CONDITION = JsonInput("where", "Condition (JSON)", '{"field": "metadata.year", "op": "gte", "value": 2024}')


def show(who: session.Person, namespace: str) -> tuple[Json, Json] | None:
    """Metadata filter and condition, empty where nothing is asked; None, and why, if they cannot be used."""
    metadata_filter.restore("filter")
    CONDITION.restore()
    used = bool(session.parameter("filter") or session.parameter("where"))
    box = st.expander("Filters", icon=":material/filter_alt:", expanded=used, key="lab_filters", on_change="rerun")
    with box:
        if box.open and who.may("documents:read"):
            _facets(who, namespace)
        metadata = metadata_filter.show("filter")
        where = CONDITION.show()
    return None if metadata is None or where is None else (metadata, where)


def joined(where: Json, field: str, values: list[Any]) -> Json:
    """The condition with one more, which must hold as well."""
    more: Json = {"field": field, "op": "in", "value": values}
    if not where:
        return more
    return {"all": [*where["all"], more]} if set(where) == {"all"} else {"all": [where, more]}


def _facets(who: session.Person, namespace: str) -> None:
    """A field, and those of its values that are wanted."""
    left, middle, right = st.columns([2, 3, 1], vertical_alignment="bottom")
    fields = {**{f"metadata.{key}": key for key in _keys(who, namespace)}, **DOCUMENT}
    field = left.selectbox(
        "Field",
        list(fields),
        index=None,
        format_func=lambda one: fields[one],
        placeholder="Choose a field",
        key=_FIELD,
        help=f"Metadata keys of the newest {SAMPLE} documents, and properties that every document has.",
    )
    counts = _counts(who, namespace, field) if field else []
    labels = {json.dumps(one["value"]): f"{one['value']} ({one['count']:,})" for one in counts}
    values = middle.multiselect(
        "Values",
        list(labels),
        format_func=labels.__getitem__,
        key=f"{_VALUES}_{field}",
        disabled=not labels,
        placeholder="Choose values" if labels or not field else "No document has a value here",
    )
    right.button(
        "Add filter", icon=":material/add:", disabled=not values, width="stretch", on_click=_add, args=(field, values)
    )


def _keys(who: session.Person, namespace: str) -> list[str]:
    asked = {"namespaceId": namespace, "filterConfig": {}, "pagination": {"pageSize": SAMPLE}}
    found = who.api.post("/v1/documents", asked)["documents"]
    return sorted({key for document in found for key in document["metadata"]})[:200]


def _counts(who: session.Person, namespace: str, field: str) -> list[Json]:
    asked: Json = {
        "namespaceId": namespace,
        "filterConfig": {},
        "facets": [field],
        "includeConfig": {"documents": False},
    }
    try:
        counts: list[Json] = who.api.post("/v1/documents", asked)["facets"][field]
    except ApiError as error:
        if error.status != 400:
            raise
        return []
    return counts


def _add(field: str, chosen: list[str]) -> None:
    values = [json.loads(one) for one in chosen]
    if field.startswith("metadata."):
        metadata_filter.add("filter", field.removeprefix("metadata."), values)
    elif (before := CONDITION.read()) is not None:
        CONDITION.write(joined(before, field, values))
    st.session_state[_FIELD] = None
