"""Compile statements over the SQLModel tables once, for psycopg."""

from __future__ import annotations

import re
from functools import cached_property
from inspect import signature
from typing import Any

from psycopg import sql
from psycopg.abc import AdaptContext
from sqlalchemy import (
    BigInteger,
    DateTime,
    Double,
    Integer,
    Text,
    and_,
    any_,
    bindparam,
    func,
    or_,
    select,
    text,
    tuple_,
)
from sqlalchemy.dialects.postgresql import ARRAY, psycopg

from retrieval.database.schema.identity import Namespace, Partition

# A statement that SQLAlchemy compiles for each call takes six times as long as its text (ADR 52).
_POSTGRESQL_DIALECT = psycopg.dialect(paramstyle="pyformat")  # type: ignore[no-untyped-call]
# Any: mypy takes an attribute of a model for a value, not for a column.
_namespace: Any = Namespace
_partition: Any = Partition
_PLACEHOLDER_PATTERN = re.compile(r"%\((\w+)\)s")


class CompiledStatement(sql.Composable):
    """SQL of a statement, compiled at its first execution, with constants as literals and `bindparam`s as placeholders.

    CompileError for a `bindparam` named as a column with a constant in `values`. Lists: `is_any_of` and `in_list`.
    """

    # A millisecond each, for hundreds that most processes never execute.
    def __init__(self, statement: Any) -> None:
        self._statement = statement

    def __len__(self) -> int:
        return len(self._text)

    def as_bytes(self, context: AdaptContext | None = None) -> bytes:  # noqa: ARG002
        return self._text

    @cached_property
    def _text(self) -> bytes:
        compiled = self._statement.compile(dialect=_POSTGRESQL_DIALECT)

        def render(match: re.Match[str]) -> str:
            bind = compiled.binds[match[1]]
            literal: str = match[0] if bind.required else compiled.render_literal_value(bind.value, bind.type)
            return literal

        return _PLACEHOLDER_PATTERN.sub(render, str(compiled)).encode()


# Any: what executes statements takes text.
compile_statement: Any = CompiledStatement


def columns_of(table: Any, row_type: type, **computed: Any) -> tuple[Any, ...]:
    """Return the columns for a row class, with expressions for `computed` fields. AttributeError for a field without
    column."""
    return tuple(
        computed[name].label(name) if name in computed else getattr(table, name)
        for name in signature(row_type).parameters
    )


def parameters(*names: str) -> dict[str, Any]:
    """Return a parameter for each column of the same name, for `values`."""
    return {name: bindparam(name) for name in names}


def equals(column: Any, parameter: str = "") -> Any:
    """Return the condition of a column and a parameter, by default of the same name."""
    return column == bindparam(parameter or column.key)


def equals_if_given(column: Any, parameter: str = "") -> Any:
    """Return the condition of a column and a parameter; true if the parameter is null."""
    value = bindparam(parameter or column.key, type_=column.type)
    return or_(value.is_(None), column == value)


def is_any_of(column: Any, *values: Any) -> Any:
    """Return the condition of a column and constants."""
    # SQLAlchemy renders the list of `in_` when it executes a statement.
    return or_(*(column == value for value in values))


def in_list(column: Any, parameter: str) -> Any:
    """Return the condition of a column and a list in a parameter."""
    return column == any_(bindparam(parameter, type_=ARRAY(column.type)))


_in_live_namespace = and_(_partition.namespace_id == _namespace.id, _namespace.deleted_at.is_(None))


def _is_scope(compare_namespace: Any) -> Any:
    is_partition = and_(compare_namespace(_partition.namespace_id, "namespace"), equals(_partition.tenant))
    return and_(_in_live_namespace, is_partition, equals(_namespace.organization_id, "organization"))


# Partition of the scope of `partitions.scope_params`, read once by a statement.
SCOPE_ID = select(_partition.id).where(_is_scope(equals)).correlate(None).scalar_subquery()


def in_scope(partition_id: Any, *, any_namespace: bool = False) -> Any:
    """Return the condition of a partition in the scope of `partitions.scope_params`.

    `any_namespace`: a null namespace stands for all of the organization.
    """
    return and_(partition_id == _partition.id, _is_scope(equals_if_given if any_namespace else equals))


def in_live_namespace(partition_id: Any) -> Any:
    """Return the condition of a partition in a namespace that is not deleted."""
    return and_(partition_id == _partition.id, _in_live_namespace)


def after_seconds(parameter: str) -> Any:
    """Return the time after as many seconds as the parameter."""
    return func.now() + bindparam(parameter, type_=Double) * text("interval '1 second'")


def compile_page(statement: Any, table: Any, *, newest_first: bool = True) -> Any:
    """Return the SQL of a listing by age of `table`, with the parameters of `pagination.age_params`."""
    age = (table.created_at, table.id)
    after_id, after_time = (
        bindparam("after_id", type_=Text),
        bindparam("after_time", type_=DateTime(timezone=True)),
    )
    row, position = tuple_(*age), tuple_(after_time, after_id)
    following = or_(after_id.is_(None), row < position if newest_first else row > position)
    order = [column.desc() if newest_first else column.asc() for column in age]
    return compile_statement(statement.where(following).order_by(*order).limit(bindparam("limit", type_=Integer)))


def compile_numbered(statement: Any, number: Any, *, newest_first: bool = False) -> Any:
    """Return the SQL of a listing by number, with the parameters of `pagination.number_params`."""
    after = bindparam("after", type_=BigInteger)
    following = or_(after.is_(None), number < after if newest_first else number > after)
    order = number.desc() if newest_first else number.asc()
    return compile_statement(statement.where(following).order_by(order).limit(bindparam("limit", type_=Integer)))


def select_page(table: Any, row_type: type, *conditions: Any, newest_first: bool = False) -> Any:
    """Return the SQL of a listing of a table by age, with the parameters of `pagination.age_params`."""
    return compile_page(select(*columns_of(table, row_type)).where(*conditions), table, newest_first=newest_first)
