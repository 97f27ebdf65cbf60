"""PostgreSQL's clock goes back by hours: what waited for a moment of before does not wait until it comes again."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from retrieval import ids, readiness
from retrieval.accounts import quotas
from retrieval.documents import metadata
from retrieval.evaluations import runs
from retrieval.jobs import breakers, patience
from retrieval.maintenance import clock
from retrieval.readiness import LATE, Beat

BACK = timedelta(hours=5)
"""How far the clock goes back."""
SOON = 60.0


@pytest.fixture
def partition(library):
    return library.partition


def back(db, table, columns, condition, **values):
    """As if the clock had gone back after these rows were written."""
    moved = ", ".join(f"{column} = {column} + %(back)s" for column in columns)
    assert db.rows(f"update {table} set {moved} where {condition} returning 1", {"back": BACK, **values})


def seconds(db, table, column, **found):
    """Until that moment of a row."""
    (name,) = found
    row = db.row(
        f"select extract(epoch from {column} - now())::float8 as seconds from {table} where {name} = %({name})s", found
    )
    return row["seconds"]


def sweep(db, partition, wait, **values):
    """A sweep that is due after `wait`; its id."""
    values = {"kind": "file", "file_key": None, "tries": 0, "deletion_id": None, **values}
    return db.row(
        "insert into sweeps (partition_id, kind, file_key, tries, deletion_id, due_at) values"
        " (%(p)s, %(kind)s, %(file_key)s, %(tries)s, %(deletion_id)s, now() + %(wait)s) returning id",
        {"p": partition, "wait": wait, **values},
    )["id"]


@pytest.mark.parametrize(
    ("row", "wait", "most"),
    [
        ({"kind": "document", "deletion_id": "del_1"}, timedelta(0), SOON),
        ({"kind": "partition", "deletion_id": "del_1"}, timedelta(seconds=30), SOON),
        ({"kind": "generation"}, timedelta(minutes=2), 16 * 60),
        ({"kind": "partition"}, timedelta(minutes=15), 16 * 60),
        ({"kind": "generation", "tries": 3}, timedelta(minutes=4), 4 * 60),
        ({"kind": "file", "file_key": "key"}, timedelta(days=1), 86_400),
    ],
)
def test_garbage_is_collected_as_if_it_had_begun_to_wait_now(db, partition, row, wait, most):
    made = sweep(db, partition, wait, **row)
    clock.set_right(db)
    assert seconds(db, "sweeps", "due_at", id=made) == pytest.approx(wait.total_seconds(), abs=5), "all is well"
    back(db, "sweeps", ["due_at"], "id = %(id)s", id=made)
    clock.set_right(db)
    left = seconds(db, "sweeps", "due_at", id=made)
    assert wait.total_seconds() - 5 < left <= most, "late by no more than it waits, and early by nothing"


def delivery(db, scope, tries, wait):
    """One that waits for its attempt; its id."""
    hook = ids.webhook_id()
    db.rows(
        "insert into webhooks (id, organization_id, url, events, secret) values (%(id)s, %(o)s, 'x', '{}', '')",
        {"id": hook, "o": scope.organization},
    )
    return db.row(
        "insert into webhook_deliveries (id, webhook_id, event_id, sequence, type, body, tries, next_attempt_at,"
        " give_up_at) values (%(id)s, %(hook)s, 'e', 1, 't', '{}', %(tries)s, now() + %(wait)s,"
        " now() + interval '1 day') returning id",
        {"id": ids.webhook_delivery_id(), "hook": hook, "tries": tries, "wait": wait},
    )["id"]


@pytest.mark.parametrize(("tries", "wait"), [(0, 0), (0, 20), (1, 5), (2, 30), (3, 120), (4, 600), (5, 3600)])
def test_a_webhook_is_tried_again_by_its_schedule(db, new_scope, tries, wait):
    made = delivery(db, new_scope(), tries, timedelta(seconds=wait))
    clock.set_right(db)
    assert seconds(db, "webhook_deliveries", "next_attempt_at", id=made) == pytest.approx(wait, abs=5)
    back(db, "webhook_deliveries", ["next_attempt_at", "give_up_at"], "id = %(id)s", id=made)
    clock.set_right(db)
    assert seconds(db, "webhook_deliveries", "next_attempt_at", id=made) <= max(wait, 20)
    assert seconds(db, "webhook_deliveries", "give_up_at", id=made) <= 86_400


@pytest.fixture
def evaluation_run(db, library):
    db.rows("update evaluation_runs set finished_at = now() where finished_at is null")
    values = {"e": ids.new_id("eval"), "r": ids.evaluation_run_id(), "p": library.partition}
    db.rows("insert into evaluations (id, partition_id, name) values (%(e)s, %(p)s, 'x')", values)
    db.rows("insert into evaluation_runs (id, evaluation_id) values (%(r)s, %(e)s)", values)
    return values["r"]


def test_a_run_of_an_evaluation_whose_worker_died_is_begun_again_within_a_lease(db, evaluation_run):
    (asked,) = runs.waiting(db)
    clock.set_right(db)
    assert runs.waiting(db) == [], "it was asked for a moment ago"
    assert runs.claim(db, evaluation_run, asked["attempt"])
    back(db, "evaluation_runs", ["lease_until"], "id = %(id)s", id=evaluation_run)
    clock.set_right(db)
    assert seconds(db, "evaluation_runs", "lease_until", id=evaluation_run) <= runs.LEASE_SECONDS
    db.rows("update evaluation_runs set lease_until = lease_until - interval '61 seconds' where finished_at is null")
    assert [again["attempt"] for again in runs.waiting(db)] == [2]


def test_a_run_of_an_evaluation_that_nobody_began_is_asked_for_again(db, evaluation_run):
    runs.waiting(db)
    back(db, "evaluation_runs", ["lease_until"], "id = %(id)s", id=evaluation_run)
    clock.set_right(db)
    assert seconds(db, "evaluation_runs", "lease_until", id=evaluation_run) <= runs.START_SECONDS


def test_the_lease_of_a_closed_batch_holds_up_no_deletion_of_its_namespace(db, partition):
    """It was closed by the deletion, and its worker died."""
    db.rows(
        "insert into batches (id, partition_id, source, lease_until, finished_at)"
        " values (%(id)s, %(p)s, 'TEXT', now() + interval '30 seconds', now())",
        {"id": f"bat_{partition}", "p": partition},
    )
    sweep(db, partition, timedelta(seconds=30), kind="partition", deletion_id="del_1")
    back(db, "batches", ["lease_until", "finished_at"], "partition_id = %(p)s", p=partition)
    clock.set_right(db)
    assert 0 < seconds(db, "batches", "lease_until", partition_id=partition) <= 200, "its worker may be alive"


def test_who_waits_for_a_vendor_has_patience_from_now_on(db, library, partition):
    asked = breakers.Asked(library.scope.organization, "a vendor", {"key": str(partition)}, patience=600)
    for _ in range(breakers.FAILURES):
        breakers.failed(db, asked, "bat_1", seconds=20, reason="It did not answer.")
    db.rows(
        "insert into job_runs (id, job_id, partition_id, source, waits_for)"
        " values (%(r)s, %(j)s, %(p)s, 'TEXT', %(k)s)",
        {"r": f"ijr_{partition}", "j": job(db, partition), "p": partition, "k": asked.key},
    )
    back(db, "breakers", ["opened_at", "open_until", "updated_at"], "key = %(k)s", k=asked.key)
    back(db, "job_runs", ["created_at"], "id = %(r)s", r=f"ijr_{partition}")
    clock.set_right(db)
    assert seconds(db, "breakers", "opened_at", key=asked.key) <= 0
    patience.expire(db)
    assert finished(db, partition) is None
    db.rows("update breakers set opened_at = opened_at - interval '601 seconds' where key = %(k)s", {"k": asked.key})
    patience.expire(db)
    assert finished(db, partition) is not None
    breakers.succeeded(db, asked.key)


def job(db, partition):
    return db.row(
        "insert into jobs (id, organization_id, partition_id, source, config) select %(id)s, n.organization_id, p.id,"
        " 'TEXT', '{}' from partitions p join namespaces n on n.id = p.namespace_id where p.id = %(p)s returning id",
        {"id": f"job_{partition}", "p": partition},
    )["id"]


def finished(db, partition):
    return db.row("select finished_at from job_runs where partition_id = %(p)s", {"p": partition})["finished_at"]


def test_dispatchers_that_are_gone_do_not_count_as_at_work(db):
    db.rows("delete from dispatcher_loops")
    readiness.record(db, "there:1", [Beat(name, 1.0, 10_000.0) for name in LATE])
    back(db, "dispatcher_loops", ["started_at", "succeeded_at", "recorded_at"], "dispatcher = 'there:1'")
    assert readiness.look(db).loops == ()
    readiness.record(db, "here:1", [Beat("dispatch", 95.0, 200.0, "PoolTimeout")])
    assert readiness.look(db).stalled
    assert not db.rows("select 1 from dispatcher_loops where dispatcher = 'there:1'")


def test_quotas_are_counted_anew(db, new_scope):
    scope = new_scope()
    db.rows(
        "update organizations set counted = true, counted_at = now() + %(back)s where id = %(o)s",
        {"back": BACK, "o": scope.organization},
    )
    quotas.recount_due(db)
    assert seconds(db, "organizations", "counted_at", id=scope.organization) <= 0


def test_a_dispatcher_finds_out(db, partition, monkeypatch):
    """When it begins, since nobody watched before, and then once for each time."""
    watch, passed = clock.Watch(), 0.0
    monkeypatch.setattr(time, "monotonic", lambda now=time.monotonic: now() + passed)

    def waits():
        made = sweep(db, partition, timedelta(0), kind="document", deletion_id="del_1")
        back(db, "sweeps", ["due_at"], "id = %(id)s", id=made)
        watch.look(db)
        return seconds(db, "sweeps", "due_at", id=made)

    assert waits() < SOON
    assert waits() > SOON, "the tables are not read each minute"
    passed = BACK.total_seconds()  # as many seconds that PostgreSQL's clock does not know of
    assert waits() < SOON
    assert waits() > SOON


def test_what_is_valid_for_a_time_is_so_for_no_longer_than_its_kind(db, library, new_scope):
    """An idempotency key, a sign-in at a vendor, a webhook's former secret."""
    made = {"key": ids.webhook_id(), "hash": ids.webhook_id().encode(), "connection": ids.connection_id()}
    made |= {"partition": library.partition, "o": library.scope.organization, "hook": ids.webhook_id()}
    db.rows(
        "insert into idempotent_answers (caller, key, request_hash, sealed) values ('c', %(key)s, '', '')",
        made,
    )
    db.rows(
        "insert into connections (id, partition_id, connector, name)"
        " values (%(connection)s, %(partition)s, 'NOTION', 'n')",
        made,
    )
    db.rows(
        "insert into oauth_states (hash, connection_id, connector, expires_at)"
        " values (%(hash)s, %(connection)s, 'NOTION', now() + interval '10 minutes')",
        made,
    )
    db.rows(
        "insert into webhooks (id, organization_id, url, events, secret, previous, previous_until)"
        " values (%(hook)s, %(o)s, 'x', '{}', '', '', now() + interval '30 days')",
        made,
    )

    def left():
        return (
            seconds(db, "idempotent_answers", "created_at", key=made["key"]),
            seconds(db, "oauth_states", "expires_at", hash=made["hash"]),
            seconds(db, "webhooks", "previous_until", id=made["hook"]),
        )

    fresh = (0, 600, 30 * 86_400)
    clock.set_right(db)
    assert left() == pytest.approx(fresh, abs=5), "all is well"
    back(db, "idempotent_answers", ["created_at"], "key = %(key)s", key=made["key"])
    back(db, "oauth_states", ["expires_at"], "hash = %(hash)s", hash=made["hash"])
    back(db, "webhooks", ["previous_until"], "id = %(id)s", id=made["hook"])
    clock.set_right(db)
    assert left() == pytest.approx(fresh, abs=5)


NOW = datetime.now(UTC)


@pytest.mark.parametrize(
    ("accepted", "before", "stays"),
    [
        (NOW, NOW - BACK, False),
        (NOW - BACK, NOW, True),
        (NOW, NOW + BACK, False),
        (NOW + BACK, NOW, True),
        (NOW + BACK, NOW + 2 * BACK, True),
        (NOW + 2 * BACK, NOW + BACK, False),
    ],
)
def test_metadata_of_a_later_request_counts_although_the_clock_went_back_between(accepted, before, stays):
    row = {"metadata_at": before, "changes": [], "now": NOW + timedelta(seconds=1)}
    assert (metadata.merge_changes({"a": 1}, accepted, row) is None) == stays
    change = {"at": before.isoformat(), "set": {"b": 2}}
    row = {"metadata_at": None, "changes": [change], "now": NOW + timedelta(seconds=1)}
    assert metadata.merge_changes({"a": 1}, accepted, row) == ({"a": 1, "b": 2} if stays else {"a": 1})
