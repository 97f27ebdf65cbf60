"""Nothing that one namespace does stops another: locks, stores that hang, statements that never end."""

import threading
import time

import psycopg
import pytest
from psycopg.types.json import Json

from retrieval.database.database import Database
from retrieval.database.statement_budget import ROLE_LIMITS
from retrieval.ingestion import poison_detection
from retrieval.jobs import runs
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
def held(database_url):
    """A transaction of somebody else's that holds what it is told to, until the test ends."""
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
    shown = db.row(
        "select current_setting('lock_timeout') as lock, current_setting('statement_timeout') as statement,"
        " current_setting('idle_in_transaction_session_timeout') as idle"
    )
    db.close()
    assert "0" not in shown.values()


def test_a_process_that_was_stopped_in_a_transaction_is_ended(database_url, monkeypatch):
    monkeypatch.setitem(ROLE_LIMITS, "api", type(ROLE_LIMITS["api"])(lock=1, statement=1, idle=0.2))
    db = Database(database_url, size=1, role="api")

    def stop_for_a_while():
        with db.transaction() as connection:
            connection.execute("select 1")
            time.sleep(0.6)
            connection.execute("select 1")

    with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
        stop_for_a_while()
    assert db.row("select 1 as one") == {"one": 1}
    db.close()


@pytest.mark.parametrize("what", ["partitions", "job_runs"])
def test_work_of_another_namespace_is_formed_while_rows_of_one_are_held(db, dispatcher, new_scope, held, what):
    one, other = new_scope(), new_scope()
    post(db, one, "a")
    post(db, other, "b")
    mine, theirs = partition_of(db, one), partition_of(db, other)
    column = "id" if what == "partitions" else "partition_id"
    held.execute(f"select from {what} where {column} = {mine} for update")
    began = time.monotonic()
    assert batches.form_batches(dispatcher, size=64, batches=8) == 1
    assert time.monotonic() - began < 5
    assert (waiting(db, mine), waiting(db, theirs)) == (1, 0)
    held.rollback()
    assert batches.form_batches(dispatcher, size=64, batches=8) == 1


def test_a_batch_that_is_written_under_is_not_waited_for(db, dispatcher, new_scope, held):
    post(db, new_scope(), "a")
    batches.form_batches(db, size=64, batches=8)
    (batch,) = batches.undispatched_batches(db)
    batches.record_flow_run(db, batch, "run")
    (found,) = batches.open_batches(db)
    held.execute("select from batches where id = %s for share", [batch.id])
    began = time.monotonic()
    assert not poison_detection.restart_batch(dispatcher, found)
    assert not batches.end_batch(dispatcher, found, status="FAILED", error="gone")
    assert time.monotonic() - began < 0.9, "a dispatcher waits for rows for a second, and then gives up"
    (still,) = batches.open_batches(db)
    assert still.attempt == 1
    held.rollback()
    assert poison_detection.restart_batch(dispatcher, found)
    assert batches.open_batches(db) == []


class Place:
    """A vector store and file store that do, or refuse, or hang."""

    def __init__(self, act=lambda: None):
        self.act, self.deleted = act, []

    def delete(self, *keys):
        self.act()
        self.deleted.extend(keys)


def due(db, partition, key):
    db.rows(
        "insert into sweeps (partition_id, kind, file_key) values (%(p)s, 'file', %(k)s)", {"p": partition, "k": key}
    )


def left(db, partition):
    return db.row("select count(*) as n from sweeps where partition_id = %(p)s", {"p": partition})["n"]


def stores(places):
    return lambda namespace: Stores(places[namespace], places[namespace], lambda _: None)


@pytest.mark.parametrize("error", [RuntimeError("a bug"), KeyError("x"), psycopg.OperationalError("away")])
def test_a_sweep_that_fails_stops_no_other(db, swept, new_scope, error):
    one, other = new_scope(), new_scope()

    def fail():
        raise error

    places = {one.namespace: Place(fail), other.namespace: Place()}
    mine, theirs = partition_of(db, one), partition_of(db, other)
    for partition in (mine, theirs, mine, theirs):
        due(db, partition, "key")
    assert garbage.collect_garbage(swept, stores(places)) == 2
    assert (left(db, mine), left(db, theirs)) == (2, 0)


def test_stores_that_hang_do_not_hold_up_the_sweeps_of_others(db, swept, new_scope):
    """Not even several of them, which hung before."""
    over = threading.Event()
    hanging = [new_scope() for _ in range(garbage.SWEEP_THREADS + 2)]
    other = new_scope()
    places = {scope.namespace: Place(lambda: over.wait(30)) for scope in hanging} | {other.namespace: Place()}
    for scope in hanging:
        for _ in range(50):
            due(db, partition_of(db, scope), "key")
    db.rows("update sweeps set tries = 1")
    theirs = partition_of(db, other)
    due(db, theirs, "key")
    sweeper = garbage.GarbageCollector(swept, stores(places))
    try:
        deadline = time.monotonic() + 10
        while left(db, theirs) and time.monotonic() < deadline:
            sweeper.begin()
            sweeper.wait(0.1)
        assert left(db, theirs) == 0
    finally:
        sweeper.close()
        over.set()


def lie_at(db, scope, config):
    db.rows("update namespaces set config = %(c)s where id = %(id)s", {"c": Json(config), "id": scope.namespace})


def in_bucket(endpoint):
    storage = {"type": "S3_COMPATIBLE", "endpoint": endpoint}
    return {"vectorStorageConfig": {"provider": "PGVECTOR"}, "fileStorageConfig": storage}


def swept_within(db, sweeper, partitions, seconds):
    """Those of the partitions that have nothing left to sweep by then."""
    deadline = time.monotonic() + seconds
    while any(left(db, one) for one in partitions) and time.monotonic() < deadline:
        sweeper.begin()
        sweeper.wait(0.05)
    return [one for one in partitions if not left(db, one)]


@pytest.mark.parametrize("hosts", ["one", "many"])
def test_a_vendor_that_hangs_over_many_namespaces_keeps_others_from_nothing(db, swept, new_scope, hosts):
    """Neither those whose things lie here nor those at a host that answers, though all of the vendor's are older."""
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
    ours = [partition_of(db, local), partition_of(db, well)]
    try:
        due(db, ours[1], "key")
        assert swept_within(db, sweeper, ours, 5) == ours
        for scope in hanging:
            due(db, partition_of(db, scope), "key")
        db.rows("update sweeps set due_at = now() - interval '1 hour'")
        for _ in range(3):
            for partition in ours:
                due(db, partition, "key")
            assert swept_within(db, sweeper, ours, 5) == ours
        assert len(hung) == (1 if hosts == "one" else 2)
    finally:
        sweeper.close()
        over.set()


def test_a_scope_with_very_many_sweeps_is_not_before_the_others(db, swept, new_scope):
    one, other = partition_of(db, new_scope()), partition_of(db, new_scope())
    db.rows(
        "insert into sweeps (partition_id, kind, file_key, due_at)"
        " select %(p)s, 'file', 'key' || n, now() - interval '1 hour' from generate_series(1, 20000) n",
        {"p": one},
    )
    due(db, other, "key")
    place = Place()
    sweeper = garbage.GarbageCollector(swept, lambda _: Stores(place, place, lambda _: None))
    try:
        deadline = time.monotonic() + 5
        while left(db, other) and time.monotonic() < deadline:
            sweeper.begin()
            sweeper.wait(0.1)
        assert left(db, other) == 0
        assert left(db, one) > 10_000
    finally:
        sweeper.close()


@pytest.mark.parametrize("lock", ["pg_advisory_lock({partition})", "pg_advisory_lock(1262837581, {partition})"])
def test_a_sweep_that_waits_for_a_lock_of_its_namespace_stops_no_other(db, database_url, new_scope, held, lock):
    one, other = new_scope(), new_scope()
    partitions = partition_of(db, one), partition_of(db, other)
    for number, partition in enumerate(partitions):
        db.rows(
            'insert into chunks (partition_id, document_id, generation, index, start, "end", tokens, content,'
            " embedding_key) values (%(p)s, %(d)s, 1, 0, 0, 1, 1, 'word', '')",
            {"p": partition, "d": f"doc_{runs.ids.new_id('x')}{number}"},
        )
        db.rows(
            "insert into sweeps (partition_id, kind, document_id, generation)"
            " select partition_id, 'generation', document_id, 1 from chunks where partition_id = %(p)s",
            {"p": partition},
        )
    held.execute("select " + lock.format(partition=partitions[0]))
    swept = Database(database_url, size=garbage.SWEEP_THREADS + 1, role="sweep")

    class Empty(Place):
        def ids(self, *_):
            return []

    place = Empty()
    sweeper = garbage.GarbageCollector(swept, lambda _: Stores(place, place, lambda _: None))
    try:
        sweeper.begin()
        deadline = time.monotonic() + 3
        while left(db, partitions[1]) and time.monotonic() < deadline:
            sweeper.wait(0.1)
        assert (left(db, partitions[0]), left(db, partitions[1])) == (1, 0)
    finally:
        held.execute("select pg_advisory_unlock_all()")
        sweeper.wait()
        sweeper.close()
        swept.close()
