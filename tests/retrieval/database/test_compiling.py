"""Statements over SQLModel tables, compiled once and executed by psycopg."""

from dataclasses import dataclass

import pytest
from sqlalchemy import bindparam, update
from sqlalchemy.exc import CompileError
from sqlmodel import select

from retrieval.accounts.queries import organizations
from retrieval.database.compiling import columns_of, compile_statement, equals, equals_if_given, parameters
from retrieval.database.schema import identity


def test_a_constant_with_quotes_and_a_percent_sign_is_no_parameter(db):
    statement = compile_statement(select(identity.Tenant.id).where(identity.Tenant.id == "it's 100 %"))
    assert db.fetch(str, statement, {}) == []
    assert "it''s 100 %%" in statement


def test_a_condition_takes_its_parameter_by_the_name_of_the_column():
    statement = compile_statement(select(identity.Tenant.id).where(equals(identity.Tenant.organization_id)))
    assert "%(organization_id)s" in statement


def test_a_field_without_a_column_fails_when_the_statement_is_made():
    @dataclass
    class Row:
        identifier: str

    with pytest.raises(AttributeError, match="identifier"):
        columns_of(identity.Tenant, Row)


def test_a_value_that_a_request_gives_stays_a_parameter():
    statement = compile_statement(select(identity.Tenant.id).where(identity.Tenant.id == bindparam("tenant")))
    assert "%(tenant)s" in statement


def test_a_value_without_a_column_fails_when_the_statement_is_made():
    with pytest.raises(CompileError, match="identifier"):
        compile_statement(update(identity.Tenant).values(**parameters("identifier")))


def test_a_filter_that_is_not_given_matches_every_row(db):
    statement = compile_statement(select(identity.Organization.id).where(equals_if_given(identity.Organization.name)))
    organization = organizations.create_organization(db, "Harbour")
    assert db.fetch(str, statement, {"name": None}) == [organization.id]
    assert db.fetch(str, statement, {"name": "another name"}) == []
