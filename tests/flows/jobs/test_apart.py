"""Namespaces are isolated from each other's locks, hung stores and long statements."""

import threading
import time

import psycopg
import pytest
from psycopg.types.json import Json

from retrieval.database.database import Database
from retrieval.database.statement_budget import ROLE_LIMITS
from retrieval.jobs.queries import batches
from retrieval.maintenance import garbage
from retrieval.maintenance.stores import Stores
from retrieval.ports import Scope
from tests.flows.jobs.test_batches import post


@pytest.fixture
def dispatcher(database_url):
    opened = Database(database_url, size=2, role="dispatcher")
    yield opened
    opened.close()


@pytest.fixture
def swept(database_url):
    opened = Database(database_url, size=garbage.SWEEP_THREADS + 1, role="sweep")
    yield opened
    opened.close()


@pytest.fixture
def locking_connection(database_url):
    """Transaction with locks until the end of the test."""
    with psycopg.connect(database_url) as connection:
        yield connection
        connection.rollback()


def partition_of(db, scope: Scope) -> int:
    values = {"namespace": scope.namespace, "tenant": scope.tenant}
    db.rows(
        "insert into partitions (namespace_id, tenant) values (%(namespace)s, %(tenant)s) on conflict do nothing",
        values,
    )
    return db.row("select id from partitions where namespace_id = %(namespace)s and tenant = %(tenant)s", values)["id"]


def waiting(db, partition):
    return db.row(
        "select count(*) as n from job_runs where partition_id = %(p)s and batch_id is null and finished_at is null",
        {"p": partition},
    )["n"]


@pytest.mark.parametrize("role", ROLE_LIMITS)
def test_every_role_has_limits_on_every_connection(role, database_url):
    db = Database(database_url, size=1, role=role)
    limits = db.row(
        "select current_setting('lock_timeout') as lock, current_setting('statement_timeout') as statement,"
        " current_setting('idle_in_transaction_session_timeout') as idle"
    )
    db.close()
    assert "0" not in limits.values()


@pytest.mark.parametrize("locked_table", ["partitions", "job_runs"])
def test_work_of_another_namespace_is_formed_while_rows_of_one_are_held(
    db, dispatcher, new_scope, locking_connection, locked_table
):
    first, second = new_scope(), new_scope()
    post(db, first, "a")
    post(db, second, "b")
    mine, theirs = partition_of(db, first), partition_of(db, second)
    column = "id" if locked_table == "partitions" else "partition_id"
    locking_connection.execute(f"select from {locked_table} where {column} = {mine} for update")
    began = time.monotonic()
    assert batches.form_batches(dispatcher, size=64, batches=8) == 1
    assert time.monotonic() - began < 5
    assert (waiting(db, mine), waiting(db, theirs)) == (1, 0)
    locking_connection.rollback()
    assert batches.form_batches(dispatcher, size=64, batches=8) == 1


class Place:
    """Vector and file store with scripted failures or hangs."""

    def __init__(self, act=lambda: None):
        self.act, self.deleted = act, []

    def delete(self, *keys):
        self.act()
        self.deleted.extend(keys)


def due(db, partition, key):
    db.rows(
        "insert into sweeps (partition_id, kind, file_key) values (%(p)s, 'file', %(k)s)", {"p": partition, "k": key}
    )


def pending_sweeps(db, partition):
    return db.row("select count(*) as n from sweeps where partition_id = %(p)s", {"p": partition})["n"]


def stores(places):
    return lambda namespace: Stores(places[namespace], places[namespace], lambda _: None)


@pytest.mark.parametrize("error", [RuntimeError("a bug"), psycopg.OperationalError("away")])
def test_a_sweep_that_fails_stops_no_other(db, swept, new_scope, error):
    first, second = new_scope(), new_scope()

    def fail():
        raise error

    places = {first.namespace: Place(fail), second.namespace: Place()}
    mine, theirs = partition_of(db, first), partition_of(db, second)
    for partition in (mine, theirs, mine, theirs):
        due(db, partition, "key")
    assert garbage.collect_garbage(swept, stores(places)) == 2
    assert (pending_sweeps(db, mine), pending_sweeps(db, theirs)) == (2, 0)


def lie_at(db, scope, config):
    db.rows("update namespaces set config = %(c)s where id = %(id)s", {"c": Json(config), "id": scope.namespace})


def in_bucket(endpoint):
    storage = {"type": "S3_COMPATIBLE", "endpoint": endpoint}
    return {"vectorStorageConfig": {"provider": "PGVECTOR"}, "fileStorageConfig": storage}


def swept_within(db, sweeper, partitions, seconds):
    """Partitions swept in time."""
    deadline = time.monotonic() + seconds
    while any(pending_sweeps(db, partition) for partition in partitions) and time.monotonic() < deadline:
        sweeper.begin()
        sweeper.wait(0.05)
    return [partition for partition in partitions if not pending_sweeps(db, partition)]


@pytest.mark.parametrize("hosts", ["one", "many"])
def test_a_vendor_that_hangs_over_many_namespaces_keeps_others_from_nothing(db, swept, new_scope, hosts):
    # The vendor's sweeps are all older.
    over, hung = threading.Event(), []
    hanging = [new_scope() for _ in range(100)]
    local, well = new_scope(), new_scope()

    def hang():
        hung.append(1)
        over.wait(60)

    places = {scope.namespace: Place(hang) for scope in hanging}
    places |= {local.namespace: Place(), well.namespace: Place()}
    lie_at(db, well, in_bucket("https://well.example"))
    for number, scope in enumerate(hanging):
        lie_at(db, scope, in_bucket("https://hangs.example" if hosts == "one" else f"https://hangs{number}.example"))
    sweeper = garbage.GarbageCollector(swept, stores(places))
    own_partitions = [partition_of(db, local), partition_of(db, well)]
    try:
        due(db, own_partitions[1], "key")
        assert swept_within(db, sweeper, own_partitions, 5) == own_partitions
        for scope in hanging:
            due(db, partition_of(db, scope), "key")
        db.rows("update sweeps set due_at = now() - interval '1 hour'")
        for _ in range(3):
            for partition in own_partitions:
                due(db, partition, "key")
            assert swept_within(db, sweeper, own_partitions, 5) == own_partitions
        assert len(hung) == (1 if hosts == "one" else 2)
    finally:
        sweeper.close()
        over.set()
