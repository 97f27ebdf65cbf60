"""Document filters: one rule for search and documents, as SQL and as Python."""

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
from retrieval.sources import DOCUMENT_TYPES, FETCHED, STORED
from retrieval.statuses import DocumentStatus

Scalar = str | int | float | bool | None

ENTRIES = 10_000
"""Entries that one list of ids, types, sources or statuses may have."""
VALUES = 1_000
"""Values that the metadata part of a filter may have, all keys together."""

_CAME_BY = frozenset({"SITEMAP", "WEBSITE"})
"""As a type these mean web pages that came by that way; as a source they are what the table holds."""
TYPES = _CAME_BY | {"TEXT", "FILE"} | frozenset(DOCUMENT_TYPES.values())
SOURCES = STORED | FETCHED | {"FILE"}
_SOURCE_NAMES = {"FILE": "LOCAL_FILE"}
"""A client may name the source as it sent it; documents report and hold the other."""
STATUSES = frozenset(map(str, DocumentStatus))
ACCESS_STATUSES = frozenset({"UNKNOWN"})


class Filterable(DescribedDocument, text_filter.Named, Protocol):
    """Properties of a document that a filter can test; the fields of `Described` only where it has a condition."""

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
    """AND between the fields, OR within one; an empty field restricts nothing.

    A metadata value is a scalar or several of them (any of), and an empty list matches nothing; a list in the document
    matches if it contains one. `awaiting_removal`: removed at its content service, and held for confirmation.
    `also_metadata`: a second metadata filter, of a search that sends two. `where`: a condition. `words`: each is part
    of the name or the external id; `sites`: hosts of web pages; `access_statuses`: if any is named, documents with an
    unknown access list.
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

    def wanted(self) -> list[tuple[str, tuple[Scalar, ...]]]:
        """The metadata keys that restrict, each with the values of which one must be there."""
        pairs = [*self.metadata.items(), *self.also_metadata.items()]
        lists = [(key, value if _is_list(value) else (value,)) for key, value in pairs]
        return [(key, tuple(cast("Sequence[Scalar]", values))) for key, values in lists]

    @property
    def empty_lists(self) -> list[str]:
        """The metadata keys of which no value is allowed: with one of them nothing matches."""
        return [key for key, values in self.wanted() if not values]

    def restricts(self) -> bool:
        """Tell if it selects particular documents: a filter for no pending removal matches nearly all, and so does a
        condition that holds for a document without any field."""
        is_set = any(getattr(self, name) for name in (*_COLUMNS, *_OTHERS)) or bool(self.wanted())
        return is_set or self.awaiting_removal is True or (self.where is not None and rule.is_restrictive(self.where))

    def narrows(self) -> bool:
        """Tell if it can exclude a document."""
        return self.restricts() or self.awaiting_removal is not None or self.where is not None

    @property
    def reads_fields(self) -> bool:
        """Tell if it reads fields with GIN indexes: metadata, conditions, words and sites."""
        return bool(self.wanted() or self.where is not None or self.words or self.sites)

    def sql(self, alias: LiteralString) -> tuple[LiteralString, dict[str, Any]]:
        """A condition on the `documents` table under `alias`, and its parameters, named `filter_…`."""
        clauses: list[LiteralString] = []
        params: dict[str, Any] = {}
        for name, column in _COLUMNS.items():
            if values := getattr(self, name):
                clause: LiteralString = f"{alias}.{column} = any(%(filter_{name})s)"
                alternative = _MORE.get(name)
                clauses.append(f"({clause} or {alternative(alias)})" if alternative else clause)
                params[f"filter_{name}"] = list(values)
        if self.types:
            clauses.append(
                f"({alias}.document_type = any(%(filter_types)s)"
                f" or {alias}.document_type = 'URL' and {alias}.source = any(%(filter_ways)s))"
            )
            params["filter_types"] = sorted(set(self.types) - _CAME_BY)
            params["filter_ways"] = sorted(_CAME_BY.intersection(self.types))
        if self.awaiting_removal is not None:
            clauses.append(("" if self.awaiting_removal else "not ") + awaits_removal(alias))
        for number, (key, expected) in enumerate(self.wanted()):
            position = str(number)
            clauses.append(f"{alias}.metadata @> any(%(filter_metadata_{position})s::jsonb[])")
            params[f"filter_metadata_{position}"] = [
                json.dumps({key: shape}) for value in expected for shape in (value, [value])
            ]
        of_documents, of_rows = rule.split_rows(self.where)
        if of_documents is not None:
            condition, values = statements.condition_sql(of_documents, alias)
            clauses.append(condition)
            params |= values
        if of_rows is not None:
            condition, values = statements.condition_sql(of_rows, alias, "filter_row")
            clauses.append(statements.document_has_row(alias, condition))
            params |= values
        if self.words:
            clauses.append(text_filter.has_words(alias))
            params["filter_words"] = list(self.words)
        if self.sites:
            clauses.append(text_filter.of_site(alias))
            params["filter_sites"] = list(self.sites)
        if self.access_statuses:
            clauses.append(f"{alias}.access_reason is not null")
        if self.archive_ids:
            clauses.append(f"exists (select from documents holder where holder.id = {alias}.archive_id)")
        return " and ".join(clauses) or "true", params

    @property
    def reads_rows(self) -> bool:
        """Tell if it matches single chunks, by their rows and records, and not whole documents."""
        return self.where is not None and rule.reads_rows(self.where)

    def row_sql(self, document: LiteralString) -> str:
        """The condition on one row (`statements.ROW`) of the document under an alias, "true" without one.

        Parameters are those of `sql`.
        """
        of_rows = rule.split_rows(self.where)[1]
        return "true" if of_rows is None else statements.condition_sql(of_rows, document, "filter_row")[0]

    def rows_sql(self, chunk: LiteralString, document: LiteralString) -> str:
        """The condition on the chunk under an alias, that it holds a row that matches, "true" without one on rows."""
        return statements.has_row(chunk, self.row_sql(document)) if self.reads_rows else "true"

    def matches(self, document: Filterable) -> bool:
        """Apply the filter to a document in memory."""
        return (
            all(
                not (values := getattr(self, name)) or getattr(document, attribute) in values
                for name, attribute in _ATTRIBUTES.items()
            )
            and (not self.types or _fits_type(document, self.types))
            and self.awaiting_removal in {None, document.awaiting_removal}
            and all(_fits(document.metadata, key, expected) for key, expected in self.wanted())
            and (self.where is None or rule.matches(self.where, document))
            and (not self.words or text_filter.has_all_words(document, self.words))
            and (not self.sites or text_filter.page_site(document) in self.sites)
            and (not self.access_statuses or document.access_reason is not None)
        )


def awaits_removal(document: LiteralString) -> LiteralString:
    """Return the SQL condition that the document under this alias was removed at its site, or at its content service
    for all its connections, and awaits confirmation."""
    return f"""
    (exists (select from page_misses m where m.document_id = {document}.id and m.held)
     or (exists (select from departures g where g.document_id = {document}.id and g.held) and not exists (
        select from connection_documents h where h.document_id = {document}.id and not exists (
            select from departures g
            where g.document_id = h.document_id and g.connection_id = h.connection_id and g.held
        ))))
"""


AWAITS_REMOVAL: LiteralString = awaits_removal("d")


def root_of(document: LiteralString) -> LiteralString:
    """SQL: the id of what the document under this alias was packed into, and that is no part of another, or its own."""
    return f"""
    (case when {document}.archive_id is null then {document}.id else (
        with recursive above as (
            select a.id, a.archive_id from documents a where a.id = {document}.archive_id
            union select a.id, a.archive_id from documents a join above on a.id = above.archive_id
        )
        select id from above where archive_id is null
    ) end)
"""


def _is_held(document: LiteralString) -> LiteralString:
    """SQL: whether one of the connections of the filter has the document under this alias."""
    return f"""{root_of(document)} in (
    select h.document_id from connection_documents h where h.connection_id = any(%(filter_connection_ids)s))"""


def _is_alias(document: LiteralString) -> LiteralString:
    """SQL: whether the filter names the document under this alias by another address of its page."""
    return f"""{document}.id in (
    select a.document_id from document_aliases a where a.address = any(%(filter_external_ids)s))"""


_MORE: Mapping[str, Callable[[LiteralString], LiteralString]] = {
    "connection_ids": _is_held,
    "external_ids": _is_alias,
}
_COLUMNS: dict[str, LiteralString] = {
    "document_ids": "id",
    "external_ids": "external_id",
    "connection_ids": "connection_id",
    "archive_ids": "archive_id",
    "sources": "source",
    "statuses": "status",
}
_ATTRIBUTES: dict[str, str] = dict(_COLUMNS)
_OTHERS = ("types", "words", "sites", "access_statuses")
"""Further fields of which one alone restricts."""


def parse_filter(data: Mapping[str, Any], code: ErrorCode, *, where: str = "filterConfig") -> DocumentFilter:
    """A filter from decoded JSON; ServiceError `code` naming the field that is wrong. `where`: the object's path."""
    path = f"{where}." if where else ""

    def entries(key: str, allowed: frozenset[str] | None = None) -> tuple[str, ...]:
        return _strings(data.get(key), code, f"{path}{key}", allowed)

    return DocumentFilter(
        document_ids=entries("documentIds"),
        external_ids=entries("documentExternalIds"),
        types=entries("documentTypes", TYPES),
        connection_ids=entries("documentConnectionIds"),
        archive_ids=entries("documentArchiveIds"),
        sources=tuple(_SOURCE_NAMES.get(name, name) for name in entries("documentIngestionSources", SOURCES)),
        statuses=entries("documentIngestionStatuses", STATUSES),
        metadata=parse_metadata(data.get("metadata"), code, where=f"{path}metadata"),
        awaiting_removal=_flag(data.get("awaitingRemoval"), code, f"{path}awaitingRemoval"),
        where=condition_of(data.get("where"), code, where=f"{path}where"),
        words=text_filter.parse_words(data.get("text"), code, where=f"{path}text"),
        sites=tuple(site.lower() for site in entries("sites")),
        access_statuses=entries("accessStatuses", ACCESS_STATUSES),
    )


def parse_search(data: Mapping[str, Any], code: ErrorCode, *, where: str = "filter") -> DocumentFilter | None:
    """The `filter` of a search: `documents`, `metadata` and `where`, which must all hold; None for one without any."""
    sections = {name: data.get(name) for name in ("documents", "metadata", "where")}
    if not (sections["documents"] or sections["metadata"] or sections["where"] is not None):
        return None
    documents = parse_filter(sections["documents"] or {}, code, where=f"{where}.documents")
    condition = condition_of(sections["where"], code, where=f"{where}.where")
    both = [part for part in (documents.where, condition) if part is not None]
    return replace(
        documents,
        also_metadata=parse_metadata(sections["metadata"], code, where=f"{where}.metadata"),
        where=AllOf(tuple(both)) if len(both) > 1 else both[0] if both else None,
    )


def parse_metadata(data: object, code: ErrorCode, *, where: str) -> Mapping[str, Scalar | tuple[Scalar, ...]]:
    """The metadata part alone, as search takes it."""
    if data is None:
        return {}
    if not isinstance(data, Mapping):
        raise ServiceError(code, "The metadata filter must be an object.", field=where)
    parsed = {_key(key, code, where): _wanted(value, code, f"{where}.{key}") for key, value in data.items()}
    if len(parsed) < len(data):
        message = "Two keys of the metadata filter are the same in the composed form of Unicode (NFC); send one."
        raise ServiceError(code, message, field=where, reason="equal_keys")
    if sum(len(value) if isinstance(value, tuple) else 1 for value in parsed.values()) > VALUES:
        raise ServiceError(code, f"A metadata filter may name at most {VALUES} values.", field=where)
    return parsed


def condition_of(data: object, code: ErrorCode, *, where: str) -> Condition | None:
    """A condition as it was sent; null is none."""
    return None if data is None else parse_condition(data, code, path=where)


def _strings(value: object, code: ErrorCode, where: str, allowed: frozenset[str] | None) -> tuple[str, ...]:
    if value is None:
        return ()
    if not _is_list(value) or not all(isinstance(entry, str) and is_storable(entry) for entry in value):
        raise ServiceError(code, "This must be an array of strings.", field=where)
    if len(value) > ENTRIES:
        raise ServiceError(code, f"This array may have at most {ENTRIES} entries.", field=where)
    entries = tuple(dict.fromkeys(cast("Sequence[str]", value)))
    if allowed is not None and not allowed.issuperset(entries):
        raise ServiceError(code, f"Each entry must be one of {', '.join(sorted(allowed))}.", field=where)
    return entries


def _flag(value: object, code: ErrorCode, where: str) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise ServiceError(code, "This must be true or false.", field=where)


def _key(key: object, code: ErrorCode, where: str) -> str:
    if not isinstance(key, str) or not is_storable(key):
        raise ServiceError(code, "A metadata key must be a string without NUL characters.", field=where)
    if key.startswith("$"):
        message = (
            f"A metadata key must not start with `$`: there are no operators. A condition finds it: metadata.{key}"
        )
        raise ServiceError(code, message, field=where)
    return normalize_key(key)


def _wanted(value: object, code: ErrorCode, where: str) -> Scalar | tuple[Scalar, ...]:
    if exceeds_integer_range(value):
        raise ServiceError(code, INTEGER_RANGE_MESSAGE, field=where, reason="out_of_bounds")
    if _is_scalar(value):
        return value
    if _is_list(value) and all(_is_scalar(entry) for entry in value):
        return tuple(cast("Sequence[Scalar]", value))
    raise ServiceError(
        code, "A metadata filter value must be a string, number, boolean or null, or an array of these.", field=where
    )


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, list | tuple)


def _is_scalar(value: object) -> TypeGuard[Scalar]:
    if isinstance(value, str):
        return is_storable(value)
    if isinstance(value, float):
        return value - value == 0  # neither infinite nor NaN
    return value is None or isinstance(value, bool | int)


def _fits_type(document: Filterable, types: tuple[str, ...]) -> bool:
    if document.document_type in types and document.document_type not in _CAME_BY:
        return True
    return document.document_type == "URL" and document.source in _CAME_BY.intersection(types)


def _fits(metadata: Mapping[str, Any], key: str, wanted: Sequence[Scalar]) -> bool:
    if key not in metadata:
        return False
    value = metadata[key]
    candidates = value if isinstance(value, list) else [value]
    return any(equal_values(candidate, expected_value) for candidate in candidates for expected_value in wanted)
