"""Runs the history on the database whose URL the caller gives in `config.attributes["url"]`."""

import time

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
        while not connection.execute(text("select pg_try_advisory_lock(:lock)"), {"lock": LOCK}).scalar_one():
            connection.commit()  # who waits within a statement is waited for by an index that is built concurrently
            time.sleep(0.2)
        connection.execute(text("set lock_timeout = 0"))
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
