"""The migrations lead to exactly the schema that the tables define."""

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine
from sqlmodel import SQLModel

import retrieval.database.schema  # noqa: F401  (fills SQLModel.metadata)


def test_migrations_and_tables_agree(database_url):
    engine = create_engine("postgresql+psycopg" + database_url[database_url.index(":") :])
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, SQLModel.metadata) == []
    engine.dispose()
