"""Options and filters of a search, and the request as curl and Python."""

from __future__ import annotations

import json
import shlex
from functools import partial
from typing import Any

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import document_filters, url_state
from ui.parts.labels import format_value
from ui.parts.search_request import RERANK_LABELS, UNIT_LABELS

DOCUMENT_FIELDS = {
    "document.type": "Type",
    "document.source": "Source",
    "document.language": "Language",
    "document.mimeType": "Media type",
    "document.name": "Name",
    "document.path": "Path",
}
# Newest documents, for metadata keys.
SAMPLE_DOCUMENTS = 40
FIELD_KEY, VALUES_KEY = "facet_field", "facet_values"
EXAMPLE_CONDITION = '{"field": "metadata.year", "op": "gte", "value": 2024}'


def show_filters(person: session.Person, namespace: str) -> tuple[Json, Json] | None:
    """Return metadata filter and condition; None if invalid."""
    used = bool(session.read_parameter("filter") or session.read_parameter("where"))
    box = st.expander("Filters", icon=":material/filter_alt:", expanded=used, key="lab_filters", on_change="rerun")
    with box:
        if box.open and person.may("documents:read"):
            _show_facets(person, namespace)
        metadata = document_filters.show_filter("filter")
        condition = document_filters.show_object("where", "Condition (JSON)", EXAMPLE_CONDITION)
    return None if metadata is None or condition is None else (metadata, condition)


def join_condition(where: Json, field: str, values: list[Any]) -> Json:
    clause: Json = {"field": field, "op": "in", "value": values}
    if not where:
        return clause
    return {"all": [*where["all"], clause]} if set(where) == {"all"} else {"all": [where, clause]}


def _show_facets(person: session.Person, namespace: str) -> None:
    left_column, middle_column, right_column = st.columns([2, 3, 1], vertical_alignment="bottom")
    documents = person.api.list_documents(namespace, {}, size=SAMPLE_DOCUMENTS)["documents"]
    keys = sorted({key for document in documents for key in document["metadata"]})[:200]
    fields = {**{f"metadata.{key}": key for key in keys}, **DOCUMENT_FIELDS}
    field = left_column.selectbox(
        "Field",
        list(fields),
        index=None,
        format_func=lambda name: fields[name],
        placeholder="Choose a field",
        key=FIELD_KEY,
        help=f"Metadata keys of the newest {SAMPLE_DOCUMENTS} documents, and properties that every document has.",
    )
    counts = document_filters.count_facets(person, namespace, {}, [field]).get(field, []) if field else []
    labels = {json.dumps(entry["value"]): f"{format_value(entry['value'])} ({entry['count']:,})" for entry in counts}
    hint = "Choose values" if labels or not field else "No document has a value here"
    choice: Json = {"format_func": labels.__getitem__, "disabled": not labels, "placeholder": hint}
    values = middle_column.multiselect("Values", list(labels), key=f"{VALUES_KEY}_{field}", **choice)
    add = partial(_add_filter, field, values)
    right_column.button("Add filter", icon=":material/add:", disabled=not values, width="stretch", on_click=add)


def _add_filter(field: str | None, chosen: list[str]) -> None:
    field = field or ""
    values = [json.loads(text) for text in chosen]
    key, name = field.removeprefix("metadata."), "filter" if field.startswith("metadata.") else "where"
    if values and (current := document_filters.read_object(name)) is not None:
        added = {**current, key: values[0] if len(values) == 1 else values}
        document_filters.write_object(name, added if name == "filter" else join_condition(current, field, values))
    st.session_state[FIELD_KEY] = None


# In the page's address.
OPTION_PARAMETERS = ("least", "unit", "tokens", "per", "halflife", "recency", "rerank", "with")
MAX_OTHER_NAMESPACES = 9
_bind_field = partial(url_state.bind_field, prefix="options")


def show_options(person: session.Person, namespace: str) -> Json:
    spaces = session.list_namespaces(person)["namespaces"]
    names = {space["id"]: f"{space['name']}  ·  {space['id'][-6:]}" for space in spaces if space["id"] != namespace}
    has_reranker = _has_reranker(person, namespace)
    with st.expander(
        "Options", icon=":material/tune:", expanded=any(session.read_parameter(name) for name in OPTION_PARAMETERS)
    ):
        first_column, second_column, third_column = st.columns(3)
        about = "Expansion: what surrounds each result in its document, as `context` of the answer."
        unit = _bind_field(first_column.selectbox, "unit", "Context of a result", options=UNIT_LABELS, help=about)
        size: Json = {"default": 512, "disabled": not unit}
        tokens = _bind_field(first_column.number_input, "tokens", "Tokens of a context", 1, 8000, **size)
        about = "0: the age of documents does not count. Else the score's part for recency halves every so many days."
        label, days = "Recency: half-life in days", 100_000.0
        half_life = _bind_field(second_column.number_input, "halflife", label, 0.0, days, default=0.0, help=about)
        share: Json = {"default": 0.2, "step": 0.05, "disabled": not half_life}
        recency = _bind_field(second_column.slider, "recency", "Recency weight", 0.0, 1.0, **share)
        about = "At most; 0 for no limit. Others take the place of those that are left out."
        per = _bind_field(third_column.number_input, "per", "Results per document", 0, 100, default=0, help=about)
        about = "The service's own model compares the words of the best 20 results in their contexts."
        if has_reranker is False:
            about += " This namespace has no reranker of its own; give it one under Namespaces."
        rerank = _bind_field(third_column.selectbox, "rerank", "Reranking", options=RERANK_LABELS, help=about)
        other_namespaces = _bind_field(
            st.multiselect,
            "with",
            "Search in other namespaces, too",
            default=[],
            options=names,
            max_selections=MAX_OTHER_NAMESPACES,
            disabled=not names,
            help="They need the same embedding model. Results are merged by score.",
        )
        least = _bind_field(st.slider, "least", "Minimum score", 0.0, 1.0, default=0.0, step=0.05)
    return {
        "unit": unit,
        "tokens": tokens,
        "half_life": half_life,
        "recency": recency,
        "per_document": per,
        "rerank": "" if rerank == "on" and has_reranker is False else rerank,
        "other_namespaces": tuple(other_namespaces),
        "least": least,
    }


def _has_reranker(person: session.Person, namespace: str) -> bool | None:
    """Check for a reranker; None if the key cannot read the configuration."""
    if not person.may("namespaces:read"):
        return None
    settings: dict[str, Any] = person.api.get(f"/v1/namespaces/{namespace}")["namespace"]
    return settings.get("rerankConfig") is not None if "embeddingModelConfig" in settings else None


def show_snippets(person: session.Person, path: str, body: Json) -> None:
    curl, python = st.tabs(["curl", "Python"])
    curl.code(as_curl(person.api.base, person.api.tenant, path, body), language="bash")
    python.code(as_python(person.api.base, person.api.tenant, path, body), language="python")


def as_curl(base: str, tenant: str, path: str, body: Json) -> str:
    headers = ['-H "Authorization: Bearer $API_KEY"', "-H 'Content-Type: application/json'"]
    if tenant:
        headers.append(f"-H {shlex.quote(f'X-Tenant-ID: {tenant}')}")
    lines = [f"curl -s {shlex.quote(base + path)}", *headers, f"-d {shlex.quote(json.dumps(body))}"]
    return " \\\n  ".join(lines)


def as_python(base: str, tenant: str, path: str, body: Json) -> str:
    tenant_line = f', "X-Tenant-ID": {tenant!r}' if tenant else ""
    return (
        "import os\n\nimport httpx\n\n"
        f"answer = httpx.post(\n    {base + path!r},\n"
        f'    headers={{"Authorization": f"Bearer {{os.environ[\'API_KEY\']}}"{tenant_line}}},\n'
        f"    json={body!r},\n)\n"
        'answer.raise_for_status()\nfor result in answer.json()["data"]["results"]:\n'
        '    print(round(result["score"], 3), result["content"][:80])\n'
    )
