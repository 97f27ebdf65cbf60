"""Compile statements over the SQLModel tables once, for psycopg."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any, LiteralString

from sqlalchemy import DateTime, Integer, Text, bindparam, or_, select, tuple_
from sqlalchemy.dialects.postgresql import psycopg

if TYPE_CHECKING:
    from sqlmodel import SQLModel

# A statement that SQLAlchemy compiles for each call takes six times as long as its text (ADR 52).
_POSTGRESQL_DIALECT = psycopg.dialect(paramstyle="pyformat")  # type: ignore[no-untyped-call]
_PLACEHOLDER_PATTERN = re.compile(r"%\((\w+)\)s")


def compile_statement(statement: Any) -> LiteralString:
    """Return the SQL of a statement, with constants as literals and `bindparam`s as placeholders."""
    compiled = statement.compile(dialect=_POSTGRESQL_DIALECT)

    def render(match: re.Match[str]) -> str:
        bind = compiled.binds[match[1]]
        literal: str = match[0] if bind.required else compiled.render_literal_value(bind.value, bind.type)
        return literal

    return _PLACEHOLDER_PATTERN.sub(render, str(compiled))


def columns_of(table: type[SQLModel], row_type: type) -> tuple[Any, ...]:
    """Return the columns for a row class. AttributeError for a field without column."""
    return tuple(getattr(table, field.name) for field in fields(row_type))


def equals(column: Any, parameter: str = "") -> Any:
    """Return the condition of a column and a parameter, by default of the same name."""
    return column == bindparam(parameter or column.key)


def select_page(table: Any, row_type: type, *conditions: Any, newest_first: bool = False) -> LiteralString:
    """Return the SQL of a listing by age, with the parameters of `pagination.age_params`."""
    age = (table.created_at, table.id)
    after_id, after_time = bindparam("after_id", type_=Text), bindparam("after_time", type_=DateTime(timezone=True))
    row, position = tuple_(*age), tuple_(after_time, after_id)
    following = or_(after_id.is_(None), row < position if newest_first else row > position)
    order = [column.desc() if newest_first else column.asc() for column in age]
    page = select(*columns_of(table, row_type)).where(*conditions, following).order_by(*order)
    return compile_statement(page.limit(bindparam("limit", type_=Integer)))
