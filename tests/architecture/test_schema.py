"""Migrations produce exactly the schema of the table definitions."""

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine
from sqlmodel import SQLModel

import retrieval.database.schema  # noqa: F401  (fills SQLModel.metadata)


@pytest.fixture
def tables(fresh_database):
    # A separate database: the shared database has extra vector indexes for large scopes.
    url = fresh_database("as_migrated")
    engine = create_engine("postgresql+psycopg" + url[url.index(":") :])
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def test_migrations_and_tables_agree(tables):
    context = MigrationContext.configure(tables, opts={"compare_type": True})
    differences = compare_metadata(context, SQLModel.metadata)
    assert not differences, "Add a migration to migrations/versions for these differences."
