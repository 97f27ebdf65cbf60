"""Options and filters of a search, and the request as curl and Python."""

from __future__ import annotations

import json
import shlex
from functools import partial

import streamlit as st

from ui import session
from ui.client import Json
from ui.parts import document_filters, url_state
from ui.parts.search_request import CONTEXT_UNIT_LABELS, MAX_TOP_K, RERANK_LABELS

# Newest documents, for metadata keys.
SAMPLE_DOCUMENTS = 40
EXAMPLE_CONDITION = '{"field": "metadata.year", "op": "gte", "value": 2024}'


def show_filters(person: session.Person, namespace: str) -> tuple[Json, Json] | None:
    """Return metadata filter and condition; None if invalid."""
    used = bool(session.read_parameter("filter") or session.read_parameter("where"))
    box = st.expander("Filters", icon=":material/filter_alt:", expanded=used, key="lab_filters", on_change="rerun")
    with box:
        if box.open and person.may("documents:read"):
            sample = person.api.list_documents(namespace, {}, size=SAMPLE_DOCUMENTS, recent=True)["documents"]
            keys = document_filters.list_keys("filter", sample)
            document_filters.show_facets(person, namespace, {}, "filter", keys)
        metadata = document_filters.show_filter("filter")
        condition = document_filters.show_object("where", "Condition (JSON)", EXAMPLE_CONDITION)
    return None if metadata is None or condition is None else (metadata, condition)


# Names in the page's address; links of users have them.
OPTION_PARAMETERS = ("weight", "top", "least", "unit", "tokens", "per", "halflife", "recency", "rerank", "with")
MAX_OTHER_NAMESPACES = 9
_bind_field = partial(url_state.bind_field, prefix="options")


def show_options(person: session.Person, namespace: str) -> Json:
    spaces = session.list_namespaces(person)["namespaces"]
    names = {space["id"]: f"{space['name']}  ·  {space['id'][-6:]}" for space in spaces if space["id"] != namespace}
    has_reranker = _has_reranker(person, namespace)
    with st.expander(
        "Options", icon=":material/tune:", expanded=any(session.read_parameter(name) for name in OPTION_PARAMETERS)
    ):
        weight = _bind_field(
            st.slider, "weight", "Semantic weight of a hybrid search", 0.0, 1.0, default=0.5, step=0.05
        )
        first_column, second_column, third_column = st.columns(3)
        top_k = _bind_field(first_column.number_input, "top", "Top K", 1, MAX_TOP_K, default=10)
        about = "Expansion: what surrounds each result in its document, as `context` of the answer."
        context: Json = {"options": CONTEXT_UNIT_LABELS, "help": about}
        context_unit = _bind_field(first_column.selectbox, "unit", "Context of a result", **context)
        size: Json = {"default": 512, "disabled": not context_unit}
        context_tokens = _bind_field(first_column.number_input, "tokens", "Tokens of a context", 1, 8000, **size)
        about = "0: the age of documents does not count. Else the score's part for recency halves every so many days."
        label, max_days = "Recency: half-life in days", 100_000.0
        half_life = _bind_field(second_column.number_input, "halflife", label, 0.0, max_days, default=0.0, help=about)
        share: Json = {"default": 0.2, "step": 0.05, "disabled": not half_life}
        recency = _bind_field(second_column.slider, "recency", "Recency weight", 0.0, 1.0, **share)
        about = "At most; 0 for no limit. Others take the place of those that are left out."
        limit: Json = {"default": 0, "help": about}
        per_document = _bind_field(third_column.number_input, "per", "Results per document", 0, 100, **limit)
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
        min_score = _bind_field(st.slider, "least", "Minimum score", 0.0, 1.0, default=0.0, step=0.05)
    return {
        "weight": weight,
        "top_k": top_k,
        "context_unit": context_unit,
        "context_tokens": context_tokens,
        "half_life": half_life,
        "recency": recency,
        "per_document": per_document,
        "rerank": "" if rerank == "on" and has_reranker is False else rerank,
        "other_namespaces": tuple(other_namespaces),
        "min_score": min_score,
    }


def _has_reranker(person: session.Person, namespace: str) -> bool | None:
    """Check for a reranker; None if the key cannot read the configuration."""
    settings = session.find_namespace(person, namespace) or {}
    return settings.get("rerankConfig") is not None if "embeddingModelConfig" in settings else None


def as_curl(base: str, tenant: str, path: str, body: Json) -> str:
    headers = ['-H "Authorization: Bearer $API_KEY"', "-H 'Content-Type: application/json'"]
    if tenant:
        headers.append(f"-H {shlex.quote(f'X-Tenant-ID: {tenant}')}")
    lines = [f"curl -s {shlex.quote(base + path)}", *headers, f"-d {shlex.quote(json.dumps(body))}"]
    return " \\\n  ".join(lines)
