"""Runs the history on the database whose URL the caller gives in `config.attributes["url"]`."""

from alembic import context
from sqlalchemy import NullPool, create_engine, text
from sqlmodel import SQLModel

import retrieval.database.schema  # noqa: F401  (fills SQLModel.metadata)

LOCK = 0x72657472
"""Advisory lock: of several processes that start at once, one migrates and the others wait."""


def migrate() -> None:
    url = context.config.attributes["url"]
    engine = create_engine("postgresql+psycopg" + url[url.index(":") :], poolclass=NullPool)
    with engine.connect() as connection:
        connection.execute(text("select pg_advisory_lock(:lock)"), {"lock": LOCK})
        connection.commit()
        context.configure(
            connection=connection,
            target_metadata=SQLModel.metadata,
            compare_server_default=False,
            transaction_per_migration=True,
        )  # no lock of one is held while the next ones run
        with context.begin_transaction():
            context.run_migrations()
        connection.commit()


migrate()
