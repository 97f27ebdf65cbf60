"""Document filters, with equal rules in SQL and Python."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, LiteralString, Protocol, TypeGuard, cast

from retrieval import text_filter
from retrieval.conditions import rule
from retrieval.conditions import sql as statements
from retrieval.conditions.model import (
    INTEGER_RANGE_MESSAGE,
    AllOf,
    Condition,
    DescribedDocument,
    equal_values,
    exceeds_integer_range,
    is_storable,
    normalize_key,
)
from retrieval.conditions.parse import parse_condition
from retrieval.errors import ErrorCode, ServiceError
from retrieval.principals import Access
from retrieval.sources import DOCUMENT_TYPES, FETCHED_SOURCES, STORED_SOURCES
from retrieval.statuses import DocumentStatus

Scalar = str | int | float | bool | None

# Entries per list of ids, types, sources or statuses.
MAX_LIST_ENTRIES = 10_000
# Values of the metadata filter, all keys together.
MAX_METADATA_VALUES = 1_000

# Sources of web pages, which a filter may name as document types.
_WEB_SOURCE_TYPES = frozenset({"SITEMAP", "WEBSITE"})
DOCUMENT_TYPE_NAMES = _WEB_SOURCE_TYPES | {"TEXT", "FILE"} | frozenset(DOCUMENT_TYPES.values())
SOURCE_NAMES = STORED_SOURCES | FETCHED_SOURCES | {"FILE"}
# Stored name by accepted alias.
_SOURCE_ALIASES = {"FILE": "LOCAL_FILE"}
STATUS_NAMES = frozenset(map(str, DocumentStatus))
ACCESS_STATUSES = frozenset({"UNKNOWN"})


class Filterable(DescribedDocument, text_filter.SearchableDocument, Protocol):
    """Document fields for filters; those of `DescribedDocument` only for conditions."""

    @property
    def id(self) -> str: ...
    @property
    def external_id(self) -> str: ...
    @property
    def connection_id(self) -> str | None: ...
    @property
    def archive_id(self) -> str | None: ...
    @property
    def status(self) -> str: ...
    @property
    def awaiting_removal(self) -> bool: ...
    @property
    def access(self) -> Access | None: ...
    @property
    def access_reason(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class DocumentFilter:
    """Conjunction of fields, each a disjunction of values; an empty field matches all.

    A metadata value is a scalar or a list of alternatives; an empty list matches nothing. `awaiting_removal`: the
    removal waits for a confirmation; `also_metadata`: second metadata filter of a search; `words`: parts of name or
    external id; `sites`: hosts of web pages.
    """

    document_ids: tuple[str, ...] = ()
    external_ids: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    connection_ids: tuple[str, ...] = ()
    archive_ids: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    metadata: Mapping[str, Scalar | Sequence[Scalar]] = field(default_factory=lambda: MappingProxyType({}))
    awaiting_removal: bool | None = None
    also_metadata: Mapping[str, Scalar | Sequence[Scalar]] = field(default_factory=lambda: MappingProxyType({}))
    where: Condition | None = None
    words: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()
    access_statuses: tuple[str, ...] = ()

    def metadata_values(self) -> list[tuple[str, tuple[Scalar, ...]]]:
        """Return the accepted values by metadata key."""
        pairs = [*self.metadata.items(), *self.also_metadata.items()]
        lists = [(key, value if _is_list(value) else (value,)) for key, value in pairs]
        return [(key, tuple(cast("Sequence[Scalar]", values))) for key, values in lists]

    @property
    def empty_lists(self) -> list[str]:
        """Return the metadata keys without accepted values."""
        return [key for key, values in self.metadata_values() if not values]

    def is_selective(self) -> bool:
        """Return True for a selective filter; `awaiting_removal=False` matches nearly all documents."""
        is_set = any(getattr(self, name) for name in (*_FILTER_COLUMNS, *_SELECTIVE_FIELDS)) or bool(
            self.metadata_values()
        )
        return is_set or self.awaiting_removal is True or (self.where is not None and rule.is_restrictive(self.where))

    def can_exclude(self) -> bool:
        """Return True if the filter can exclude a document."""
        return self.is_selective() or self.awaiting_removal is not None or self.where is not None

    @property
    def reads_fields(self) -> bool:
        """Return True for filters on GIN-indexed fields: metadata, conditions, words, sites."""
        return bool(self.metadata_values() or self.where is not None or self.words or self.sites)

    def sql(self, alias: LiteralString) -> tuple[LiteralString, dict[str, Any]]:
        """Return the condition on the documents table `alias`, and its parameters `filter_…`."""
        clauses: list[LiteralString] = []
        params: dict[str, Any] = {}
        for name, column in _FILTER_COLUMNS.items():
            if values := getattr(self, name):
                clause: LiteralString = f"{alias}.{column} = any(%(filter_{name})s)"
                alternative = _ALTERNATIVE_CONDITIONS.get(name)
                clauses.append(f"({clause} or {alternative(alias)})" if alternative else clause)
                params[f"filter_{name}"] = list(values)
        if self.types:
            clauses.append(
                f"({alias}.document_type = any(%(filter_types)s)"
                f" or {alias}.document_type = 'URL' and {alias}.source = any(%(filter_web_sources)s))"
            )
            params["filter_types"] = sorted(set(self.types) - _WEB_SOURCE_TYPES)
            params["filter_web_sources"] = sorted(_WEB_SOURCE_TYPES.intersection(self.types))
        if self.awaiting_removal is not None:
            clauses.append(("" if self.awaiting_removal else "not ") + awaits_removal(alias))
        for number, (key, expected) in enumerate(self.metadata_values()):
            position = str(number)
            clauses.append(f"{alias}.metadata @> any(%(filter_metadata_{position})s::jsonb[])")
            params[f"filter_metadata_{position}"] = [
                json.dumps({key: shape}) for value in expected for shape in (value, [value])
            ]
        document_part, row_part = rule.split_rows(self.where)
        if document_part is not None:
            condition, values = statements.condition_sql(document_part, alias)
            clauses.append(condition)
            params |= values
        if row_part is not None:
            condition, values = statements.condition_sql(row_part, alias, "filter_row")
            clauses.append(statements.document_has_row(alias, condition))
            params |= values
        if self.words:
            clauses.append(text_filter.has_words(alias))
            params["filter_words"] = list(self.words)
        if self.sites:
            clauses.append(text_filter.has_site(alias))
            params["filter_sites"] = list(self.sites)
        if self.access_statuses:
            clauses.append(f"{alias}.access_reason is not null")
        if self.archive_ids:
            clauses.append(f"exists (select from documents holder where holder.id = {alias}.archive_id)")
        return " and ".join(clauses) or "true", params

    @property
    def reads_rows(self) -> bool:
        """Return True if the filter selects chunks by their rows."""
        return self.where is not None and rule.reads_rows(self.where)

    def row_sql(self, document: LiteralString) -> str:
        """Return the condition on one row of the document, with the parameters of `sql`."""
        row_part = rule.split_rows(self.where)[1]
        return "true" if row_part is None else statements.condition_sql(row_part, document, "filter_row")[0]

    def has_row_sql(self, chunk: LiteralString, document: LiteralString) -> str:
        """Return the condition that the chunk has a matching row."""
        return statements.has_row(chunk, self.row_sql(document)) if self.reads_rows else "true"

    def matches(self, document: Filterable) -> bool:
        """Apply the filter to a document in memory."""
        return (
            all(
                not (values := getattr(self, name)) or getattr(document, attribute) in values
                for name, attribute in _FILTER_ATTRIBUTES.items()
            )
            and (not self.types or _matches_type(document, self.types))
            and self.awaiting_removal in {None, document.awaiting_removal}
            and all(_matches_metadata(document.metadata, key, expected) for key, expected in self.metadata_values())
            and (self.where is None or rule.matches(self.where, document))
            and (not self.words or text_filter.has_all_words(document, self.words))
            and (not self.sites or text_filter.page_site(document) in self.sites)
            and (not self.access_statuses or document.access_reason is not None)
        )


def awaits_removal(document: LiteralString) -> LiteralString:
    """Return the condition that the document's removal is held for confirmation."""
    return f"""
    (exists (select from page_misses m where m.document_id = {document}.id and m.held)
     or (exists (select from departures g where g.document_id = {document}.id and g.held) and not exists (
        select from connection_documents h where h.document_id = {document}.id and not exists (
            select from departures g
            where g.document_id = h.document_id and g.connection_id = h.connection_id and g.held
        ))))
"""


AWAITS_REMOVAL: LiteralString = awaits_removal("d")


def root_id_sql(document: LiteralString) -> LiteralString:
    """Return SQL for the id of the outermost container of the document, or its own id."""
    return f"""
    (case when {document}.archive_id is null then {document}.id else (
        with recursive above as (
            select a.id, a.archive_id from documents a where a.id = {document}.archive_id
            union select a.id, a.archive_id from documents a join above on a.id = above.archive_id
        )
        select id from above where archive_id is null
    ) end)
"""


def _is_listed_by_connection(document: LiteralString) -> LiteralString:
    """Return the condition that a connection of the filter lists the document."""
    return f"""{root_id_sql(document)} in (
    select h.document_id from connection_documents h where h.connection_id = any(%(filter_connection_ids)s))"""


def _is_alias(document: LiteralString) -> LiteralString:
    """Return the condition that the filter has another address of the document's page."""
    return f"""{document}.id in (
    select a.document_id from document_aliases a where a.address = any(%(filter_external_ids)s))"""


_ALTERNATIVE_CONDITIONS: Mapping[str, Callable[[LiteralString], LiteralString]] = {
    "connection_ids": _is_listed_by_connection,
    "external_ids": _is_alias,
}
_FILTER_COLUMNS: dict[str, LiteralString] = {
    "document_ids": "id",
    "external_ids": "external_id",
    "connection_ids": "connection_id",
    "archive_ids": "archive_id",
    "sources": "source",
    "statuses": "status",
}
_FILTER_ATTRIBUTES: dict[str, str] = dict(_FILTER_COLUMNS)
# Further selective fields.
_SELECTIVE_FIELDS = ("types", "words", "sites", "access_statuses")


def parse_filter(data: Mapping[str, Any], code: ErrorCode, *, path: str = "filterConfig") -> DocumentFilter:
    """Parse a filter from decoded JSON. Raises ServiceError `code` with the path of the error below `path`."""
    path = f"{path}." if path else ""

    def entries(key: str, allowed: frozenset[str] | None = None) -> tuple[str, ...]:
        return _parse_strings(data.get(key), code, f"{path}{key}", allowed)

    return DocumentFilter(
        document_ids=entries("documentIds"),
        external_ids=entries("documentExternalIds"),
        types=entries("documentTypes", DOCUMENT_TYPE_NAMES),
        connection_ids=entries("documentConnectionIds"),
        archive_ids=entries("documentArchiveIds"),
        sources=tuple(_SOURCE_ALIASES.get(name, name) for name in entries("documentIngestionSources", SOURCE_NAMES)),
        statuses=entries("documentIngestionStatuses", STATUS_NAMES),
        metadata=parse_metadata(data.get("metadata"), code, path=f"{path}metadata"),
        awaiting_removal=_parse_flag(data.get("awaitingRemoval"), code, f"{path}awaitingRemoval"),
        where=parse_optional_condition(data.get("where"), code, path=f"{path}where"),
        words=text_filter.parse_words(data.get("text"), code, path=f"{path}text"),
        sites=tuple(site.lower() for site in entries("sites")),
        access_statuses=entries("accessStatuses", ACCESS_STATUSES),
    )


def parse_search(data: Mapping[str, Any], code: ErrorCode, *, path: str = "filter") -> DocumentFilter | None:
    """Parse the `filter` of a search: conjunction of `documents`, `metadata` and `where`; None if empty."""
    sections = {name: data.get(name) for name in ("documents", "metadata", "where")}
    if not (sections["documents"] or sections["metadata"] or sections["where"] is not None):
        return None
    documents = parse_filter(sections["documents"] or {}, code, path=f"{path}.documents")
    condition = parse_optional_condition(sections["where"], code, path=f"{path}.where")
    both = [part for part in (documents.where, condition) if part is not None]
    return replace(
        documents,
        also_metadata=parse_metadata(sections["metadata"], code, path=f"{path}.metadata"),
        where=AllOf(tuple(both)) if len(both) > 1 else both[0] if both else None,
    )


def parse_metadata(data: object, code: ErrorCode, *, path: str) -> Mapping[str, Scalar | tuple[Scalar, ...]]:
    """Parse a metadata filter. Raises ServiceError `code`."""
    if data is None:
        return {}
    if not isinstance(data, Mapping):
        raise ServiceError(code, "The metadata filter must be an object.", field=path)
    parsed = {_parse_key(key, code, path): _parse_value(value, code, f"{path}.{key}") for key, value in data.items()}
    if len(parsed) < len(data):
        message = "Two keys of the metadata filter are the same in the composed form of Unicode (NFC); send one."
        raise ServiceError(code, message, field=path, reason="equal_keys")
    if sum(len(value) if isinstance(value, tuple) else 1 for value in parsed.values()) > MAX_METADATA_VALUES:
        raise ServiceError(code, f"A metadata filter may name at most {MAX_METADATA_VALUES} values.", field=path)
    return parsed


def parse_optional_condition(data: object, code: ErrorCode, *, path: str) -> Condition | None:
    """Parse a condition, or return None for null."""
    return None if data is None else parse_condition(data, code, path=path)


def _parse_strings(value: object, code: ErrorCode, path: str, allowed: frozenset[str] | None) -> tuple[str, ...]:
    if value is None:
        return ()
    if not _is_list(value) or not all(isinstance(entry, str) and is_storable(entry) for entry in value):
        raise ServiceError(code, "This must be an array of strings.", field=path)
    if len(value) > MAX_LIST_ENTRIES:
        raise ServiceError(code, f"This array may have at most {MAX_LIST_ENTRIES} entries.", field=path)
    entries = tuple(dict.fromkeys(cast("Sequence[str]", value)))
    if allowed is not None and not allowed.issuperset(entries):
        raise ServiceError(code, f"Each entry must be one of {', '.join(sorted(allowed))}.", field=path)
    return entries


def _parse_flag(value: object, code: ErrorCode, path: str) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise ServiceError(code, "This must be true or false.", field=path)


def _parse_key(key: object, code: ErrorCode, path: str) -> str:
    if not isinstance(key, str) or not is_storable(key):
        raise ServiceError(code, "A metadata key must be a string without NUL characters.", field=path)
    if key.startswith("$"):
        message = (
            f"A metadata key must not start with `$`: there are no operators. A condition finds it: metadata.{key}"
        )
        raise ServiceError(code, message, field=path)
    return normalize_key(key)


def _parse_value(value: object, code: ErrorCode, path: str) -> Scalar | tuple[Scalar, ...]:
    if exceeds_integer_range(value):
        raise ServiceError(code, INTEGER_RANGE_MESSAGE, field=path, reason="out_of_bounds")
    if _is_scalar(value):
        return value
    if _is_list(value) and all(_is_scalar(entry) for entry in value):
        return tuple(cast("Sequence[Scalar]", value))
    raise ServiceError(
        code, "A metadata filter value must be a string, number, boolean or null, or an array of these.", field=path
    )


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, list | tuple)


def _is_scalar(value: object) -> TypeGuard[Scalar]:
    if isinstance(value, str):
        return is_storable(value)
    if isinstance(value, float):
        return value - value == 0  # neither infinite nor NaN
    return value is None or isinstance(value, bool | int)


def _matches_type(document: Filterable, types: tuple[str, ...]) -> bool:
    if document.document_type in types and document.document_type not in _WEB_SOURCE_TYPES:
        return True
    return document.document_type == "URL" and document.source in _WEB_SOURCE_TYPES.intersection(types)


def _matches_metadata(metadata: Mapping[str, Any], key: str, expected_values: Sequence[Scalar]) -> bool:
    if key not in metadata:
        return False
    value = metadata[key]
    candidates = value if isinstance(value, list) else [value]
    return any(
        equal_values(candidate, expected_value) for candidate in candidates for expected_value in expected_values
    )
