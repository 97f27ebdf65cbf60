"""The schema of 0.1.0 is brought up to date while processes of 0.1.0 go on: none of their transactions fails."""

import threading
import time

import psycopg
from alembic import command

from retrieval.database import database
from tests.migrations.test_migrations import alembic

HELD = 0.07
"""Seconds that a transaction of the service holds its first rows before it asks for the next."""
LONGEST = 3.0
"""Seconds that a transaction of the service may take meanwhile, HELD included."""
OLD = "0012"
"""The schema of 0.1.0."""
ORDERS = (
    # As 0.1.0 locks them: a claim, a dispatch, the end of a batch, an acceptance, an activation, a deletion.
    ("update batches set fence = fence + 1", "update job_runs set updated_at = now()"),
    ("select from job_runs for update", "update batches set dispatched_at = now()"),
    ("update job_runs set updated_at = now()", "update run_documents set name = name"),
    ("update run_documents set name = name", "update batches set lease_until = now()"),
    ("select from partitions for update", "update documents set updated_at = now()"),
    ("update documents set updated_at = now()", "select from organizations for update"),
    ("select from tenants for share", "select from partitions for share"),
    ("select from namespaces for update", "update documents set updated_at = now()"),
    ("update sweeps set tries = tries", "select from organizations for share"),
)
ROWS = """
    insert into organizations (id, name) values ('org', 'x');
    insert into tenants (organization_id, id) values ('org', 't');
    insert into namespaces (id, organization_id, name, config, secrets) values ('ns', 'org', 'x', '{}', '');
    insert into partitions (id, namespace_id) overriding system value values (1, 'ns');
"""


def go_on(url, order, ended, told):
    """One after the other, as a process does, each in a transaction of its own."""
    try:
        with psycopg.connect(url) as connection:
            while not ended.is_set():
                began = time.monotonic()
                for statement in order:
                    connection.execute(statement)
                    time.sleep(HELD)
                connection.commit()
                told.append((time.monotonic() - began, None))
    except psycopg.Error as error:
        told.append((0.0, f"{order}: {type(error).__name__}"))


def test_no_transaction_of_the_release_before_fails_or_waits_long(fresh_database):
    url = fresh_database("beside")
    command.downgrade(alembic(url), OLD)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(ROWS)
    ended, told = threading.Event(), []
    threads = [threading.Thread(target=go_on, args=(url, order, ended, told)) for order in ORDERS]
    for thread in threads:
        thread.start()
    try:
        time.sleep(2 * HELD)
        database.migrate(url)
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert [why for _, why in told if why] == []
    assert max(took for took, _ in told) < LONGEST
    assert database.pending(url) == []
