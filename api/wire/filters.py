"""Filters of documents in requests."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from retrieval import filters, text_filter
from retrieval.conditions.model import CONDITION_OPERATORS
from retrieval.errors import ErrorCode
from retrieval.filters import ACCESS_STATUSES, DOCUMENT_TYPE_NAMES, SOURCE_NAMES, STATUS_NAMES, DocumentFilter

INVALID_FILTER = ErrorCode.INVALID_FILTER_CONFIG
Ids = Annotated[list[str], Meta(max_length=filters.MAX_LIST_ENTRIES)]


def _enum_items(values: frozenset[str]) -> Meta:
    return Meta(
        max_length=filters.MAX_LIST_ENTRIES, extra_json_schema={"items": {"type": "string", "enum": sorted(values)}}
    )


Where = Annotated[
    dict[str, Any],
    Meta(
        description="A condition: `all`, `any`, `not`, or a `field` with `op` and `value`, or in short fields "
        "with their values. `row.<column>` reads the rows of tables and records.",
        examples=[
            {"field": "metadata.year", "op": "gte", "value": 2024},
            {"row.status": "open", "row.amount_eur": {"gte": 1000}},
        ],
        extra_json_schema={
            "properties": {
                "all": {"type": "array", "items": {"type": "object"}},
                "any": {"type": "array", "items": {"type": "object"}},
                "not": {"type": "object"},
                "field": {"type": "string"},
                "op": {"type": "string", "enum": list(CONDITION_OPERATORS)},
                "value": {},
            },
        },
    ),
]


class FilterConfig(Struct, rename="camel", omit_defaults=True):
    """AND between fields, OR within a field. An absent, null or empty field restricts nothing."""

    document_ids: Annotated[Ids | None, Meta(description="Any of these ids.")] = None
    document_external_ids: Annotated[Ids | None, Meta(description="Any of these external ids.")] = None
    document_types: Annotated[
        Annotated[list[str], _enum_items(DOCUMENT_TYPE_NAMES)] | None,
        Meta(description="Any of these types. SITEMAP and WEBSITE match pages from these sources."),
    ] = None
    document_connection_ids: Annotated[Ids | None, Meta(description="From any of these connections.")] = None
    document_archive_ids: Annotated[Ids | None, Meta(description="Contained in any of these archives or mails.")] = None
    document_ingestion_sources: Annotated[
        Annotated[list[str], _enum_items(SOURCE_NAMES)] | None, Meta(description="From any of these sources.")
    ] = None
    document_ingestion_statuses: Annotated[
        Annotated[list[str], _enum_items(STATUS_NAMES)] | None, Meta(description="With any of these statuses.")
    ] = None
    metadata: Annotated[
        Annotated[dict[str, Any], Meta(examples=[{"manual": ["A-7", "A-8"]}])] | None,
        Meta(description="Every key must match."),
    ] = None
    awaiting_removal: Annotated[bool | None, Meta(description="Whether the removal awaits confirmation.")] = None
    where: Where | None = None
    text: (
        Annotated[
            str,
            Meta(
                max_length=text_filter.MAX_SEARCH_CHARACTERS,
                description="Words that all occur in the name or the external id, ignoring case.",
                examples=["report 2025"],
            ),
        ]
        | None
    ) = None
    sites: (
        Annotated[
            list[str],
            Meta(
                max_length=filters.MAX_LIST_ENTRIES,
                description="Web pages of these hosts, each with its port if the URL has one.",
                examples=[["docs.example.com"]],
            ),
        ]
        | None
    ) = None
    access_statuses: Annotated[
        Annotated[list[str], _enum_items(ACCESS_STATUSES)] | None,
        Meta(description="UNKNOWN: documents whose permissions could not be read at the content service."),
    ] = None

    def to_values(self, code: ErrorCode = INVALID_FILTER, *, where: str = "filterConfig") -> DocumentFilter:
        return filters.parse_filter(msgspec.to_builtins(self), code, path=where)
