"""Options and filters of a search, and the request as curl and as Python."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

import streamlit as st

from ui import session
from ui.client import ApiError, Json
from ui.parts import metadata_filter, url_state
from ui.parts.labels import format_value
from ui.parts.metadata_filter import JsonInput
from ui.parts.search_request import RERANK, UNITS, read_choices, read_number

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


def show_filters(person: session.Person, namespace: str) -> tuple[Json, Json] | None:
    """Return metadata filter and condition, empty if none is set; None, with a message, if they cannot be used."""
    metadata_filter.restore_filter("filter")
    CONDITION.restore()
    used = bool(session.read_parameter("filter") or session.read_parameter("where"))
    box = st.expander("Filters", icon=":material/filter_alt:", expanded=used, key="lab_filters", on_change="rerun")
    with box:
        if box.open and person.may("documents:read"):
            _facets(person, namespace)
        metadata = metadata_filter.show_filter("filter")
        condition = CONDITION.show()
    return None if metadata is None or condition is None else (metadata, condition)


def join_condition(where: Json, field: str, values: list[Any]) -> Json:
    """The condition with one more, which must hold as well."""
    clause: Json = {"field": field, "op": "in", "value": values}
    if not where:
        return clause
    return {"all": [*where["all"], clause]} if set(where) == {"all"} else {"all": [where, clause]}


def _facets(person: session.Person, namespace: str) -> None:
    """A field, and those of its values that are wanted."""
    left_column, middle_column, right_column = st.columns([2, 3, 1], vertical_alignment="bottom")
    fields = {**{f"metadata.{key}": key for key in _keys(person, namespace)}, **DOCUMENT}
    field = left_column.selectbox(
        "Field",
        list(fields),
        index=None,
        format_func=lambda name: fields[name],
        placeholder="Choose a field",
        key=_FIELD,
        help=f"Metadata keys of the newest {SAMPLE} documents, and properties that every document has.",
    )
    counts = _counts(person, namespace, field) if field else []
    labels = {json.dumps(entry["value"]): f"{format_value(entry['value'])} ({entry['count']:,})" for entry in counts}
    values = middle_column.multiselect(
        "Values",
        list(labels),
        format_func=labels.__getitem__,
        key=f"{_VALUES}_{field}",
        disabled=not labels,
        placeholder="Choose values" if labels or not field else "No document has a value here",
    )
    right_column.button(
        "Add filter", icon=":material/add:", disabled=not values, width="stretch", on_click=_add, args=(field, values)
    )


def _keys(person: session.Person, namespace: str) -> list[str]:
    body = {"namespaceId": namespace, "filterConfig": {}, "pagination": {"pageSize": SAMPLE}}
    documents = person.api.post("/v1/documents", body)["documents"]
    return sorted({key for document in documents for key in document["metadata"]})[:200]


def _counts(person: session.Person, namespace: str, field: str) -> list[Json]:
    body: Json = {
        "namespaceId": namespace,
        "filterConfig": {},
        "facets": [field],
        "includeConfig": {"documents": False},
    }
    try:
        counts: list[Json] = person.api.post("/v1/documents", body)["facets"][field]
    except ApiError as error:
        if error.status != 400:
            raise
        return []
    return counts


def _add(field: str, chosen: list[str]) -> None:
    values = [json.loads(text) for text in chosen]
    if field.startswith("metadata."):
        metadata_filter.add_key("filter", field.removeprefix("metadata."), values)
    elif (current := CONDITION.read()) is not None:
        CONDITION.write(join_condition(current, field, values))
    st.session_state[_FIELD] = None


NAMES = ("least", "unit", "tokens", "per", "halflife", "recency", "rerank", "with")
"""Where they stand in the page's address."""
FIELDS = url_state.Fields("options", NAMES)
OTHERS = 9


def show_options(person: session.Person, namespace: str) -> Json:
    """The fields of `Wanted` that they set; kept in the page's address."""
    spaces = session.list_namespaces(person)["namespaces"]
    names = {space["id"]: space["name"] for space in spaces if space["id"] != namespace}
    FIELDS.follow(_shown(names))
    with st.expander("Options", icon=":material/tune:", expanded=any(session.read_parameter(name) for name in NAMES)):
        first_column, second_column, third_column = st.columns(3)
        with first_column:
            context = _context()
        with second_column:
            context |= _recency()
        with third_column:
            context |= _reranking(person, namespace)
        context |= _reach(names)
        least = st.slider("Minimum score", 0.0, 1.0, step=0.05, key=FIELDS.key("least"))
    FIELDS.write(least=f"{least:g}" if least else None)
    return {**context, "least": least}


def _shown(others: Mapping[str, str]) -> Json:
    """Return the field values from the address. `others`: the names of the other namespaces, by id."""
    return {
        "least": float(read_number("least", 0.0, 0, 1)),
        "unit": url_state.one_of("unit", tuple(UNITS)),
        "tokens": int(read_number("tokens", 512, 1, 8000)),
        "per": int(read_number("per", 0, 0, 100)),
        "halflife": float(read_number("halflife", 0.0, 0, 100_000)),
        "recency": float(read_number("recency", 0.2, 0, 1)),
        "rerank": url_state.one_of("rerank", tuple(RERANK)),
        "with": read_choices("with", others)[:OTHERS],
    }


def _context() -> Json:
    unit = st.selectbox(
        "Context of a result",
        list(UNITS),
        format_func=UNITS.__getitem__,
        key=FIELDS.key("unit"),
        help="Expansion: what surrounds each result in its document, as `context` of the answer.",
    )
    tokens = st.number_input("Tokens of a context", 1, 8000, key=FIELDS.key("tokens"), disabled=not unit)
    FIELDS.write(unit=unit, tokens=str(tokens) if unit and tokens != 512 else None)
    return {"unit": unit, "tokens": int(tokens)}


def _recency() -> Json:
    half = st.number_input(
        "Recency: half-life in days",
        0.0,
        100_000.0,
        key=FIELDS.key("halflife"),
        help="0: the age of documents does not count. Else the score's part for recency halves every so many days.",
    )
    weight = st.slider("Recency weight", 0.0, 1.0, step=0.05, key=FIELDS.key("recency"), disabled=not half)
    FIELDS.write(halflife=f"{half:g}" if half else None, recency=f"{weight:g}" if half and weight != 0.2 else None)
    return {"half_life": float(half), "recency": float(weight)}


def _reranking(person: session.Person, namespace: str) -> Json:
    per = st.number_input(
        "Results per document",
        0,
        100,
        key=FIELDS.key("per"),
        help="At most; 0 for no limit. Others take the place of those that are left out.",
    )
    has = _has_reranker(person, namespace)
    choice = st.selectbox(
        "Reranking",
        list(RERANK),
        format_func=RERANK.__getitem__,
        key=FIELDS.key("rerank"),
        help="The service's own model compares the words of the best 20 results in their contexts."
        + (" This namespace has no reranker of its own; give it one under Namespaces." if has is False else ""),
    )
    choice = "" if choice == "on" and has is False else choice
    FIELDS.write(per=str(per) if per else None, rerank=choice)
    return {"per_document": int(per), "rerank": choice}


def _has_reranker(person: session.Person, namespace: str) -> bool | None:
    """None where the key is not shown the namespace's configuration."""
    if not person.may("namespaces:read"):
        return None
    settings: dict[str, Any] = person.api.get(f"/v1/namespaces/{namespace}")["namespace"]
    return settings.get("rerankConfig") is not None if "embeddingModelConfig" in settings else None


def _reach(names: Mapping[str, str]) -> Json:
    other_namespaces = st.multiselect(
        "Search in other namespaces, too",
        list(names),
        key=FIELDS.key("with"),
        format_func=lambda space: f"{names[space]}  ·  {space[-6:]}",
        max_selections=OTHERS,
        disabled=not names,
        help="They need the same embedding model. Results are merged by score.",
    )
    FIELDS.write(**{"with": ",".join(other_namespaces)})
    return {"others": tuple(other_namespaces)}


def show_snippets(person: session.Person, path: str, body: Json) -> None:
    """The request in two languages."""
    curl, python = st.tabs(["curl", "Python"])
    curl.code(as_curl(person.api.base, person.api.tenant, path, body), language="bash")
    python.code(as_python(person.api.base, person.api.tenant, path, body), language="python")


def as_curl(base: str, tenant: str, path: str, body: Json) -> str:
    """For a POSIX shell, whatever the body holds."""
    headers = ['-H "Authorization: Bearer $API_KEY"', "-H 'Content-Type: application/json'"]
    if tenant:
        headers.append(f"-H {shlex.quote(f'X-Tenant-ID: {tenant}')}")
    lines = [f"curl -s {shlex.quote(base + path)}", *headers, f"-d {shlex.quote(json.dumps(body))}"]
    return " \\\n  ".join(lines)


def as_python(base: str, tenant: str, path: str, body: Json) -> str:
    """With httpx, and nothing else."""
    tenant_line = f', "X-Tenant-ID": {tenant!r}' if tenant else ""
    return (
        "import os\n\nimport httpx\n\n"
        f"answer = httpx.post(\n    {base + path!r},\n"
        f'    headers={{"Authorization": f"Bearer {{os.environ[\'API_KEY\']}}"{tenant_line}}},\n'
        f"    json={body!r},\n)\n"
        'answer.raise_for_status()\nfor result in answer.json()["data"]["results"]:\n'
        '    print(round(result["score"], 3), result["content"][:80])\n'
    )
