"""Statements of a connection with 10,000 documents at the beginning and the end of a run."""

from __future__ import annotations

import time

import pytest

from retrieval import ids
from retrieval.connections import queries_sync
from retrieval.documents.queries import connection_documents
from retrieval.ports import DiscoveryRequest

DOCUMENTS = 10_000
UNLISTED = 100
REFUSED = 50
# Far more than needed, and far less than a comparison of all pairs (half a minute).
SECONDS = 10

_RUN = (
    """
    insert into connections (id, partition_id, name, connector, status)
    values (%(connection)s, %(partition)s, 'x', 'BOX', 'ACTIVE')
    """,
    """
    insert into jobs (id, organization_id, partition_id, source)
    values (%(job)s, %(organization)s, %(partition)s, 'BOX')
    """,
    """
    insert into job_runs (id, job_id, partition_id, source, finished_at)
    values (%(run)s, %(job)s, %(partition)s, 'BOX', now())
    """,
    """
    insert into documents (id, partition_id, job_id, job_run_id, source, external_id, document_type, name, status,
                           connection_id)
    select %(run)s || i, %(partition)s, %(job)s, %(run)s, 'BOX', 'file-' || i, 'x', 'x', 'SUCCESS', %(connection)s
    from generate_series(1, %(all)s) i
    """,
    """
    insert into connection_documents (document_id, connection_id)
    select %(run)s || i, %(connection)s from generate_series(1, %(all)s) i
    """,
    """
    insert into run_documents (job_run_id, document_id, position, generation, name, properties)
    select %(run)s, %(run)s || i, i, 1, 'x', '{"path": "x"}' from generate_series(1, %(listed)s) i
    """,
    """
    insert into run_documents (job_run_id, document_id, position, generation, name, properties)
    select %(run)s, 'refused-' || %(run)s || i, i, 1, 'x', jsonb_build_object('externalId', 'file-' || i)
    from generate_series(%(all)s - %(refused)s + 1, %(all)s) i
    """,
)


@pytest.fixture
def make_documents(db, new_scope):
    """Return a function: list all but the last documents of a connection, some with errors."""
    runs = []

    def make(documents, unlisted=0, refused=0):
        scope, names = new_scope(), {"job": ids.job_id(), "run": ids.job_run_id(), "connection": ids.connection_id()}
        values = {**names, "organization": scope.organization, "namespace": scope.namespace, "all": documents}
        row = db.row("insert into partitions (namespace_id) values (%(namespace)s) returning id", values)
        values |= {"partition": row["id"], "listed": documents - unlisted, "refused": refused}
        runs.append(values)
        for statement in _RUN:
            db.rows(statement, values)
        return DiscoveryRequest(scope, "BOX", {}, names["connection"], names["run"])

    yield make
    for values in runs:
        db.rows("delete from run_documents where job_run_id = %(run)s", values)
        db.rows("delete from documents where job_run_id = %(run)s", values)
        db.rows("delete from connection_documents where connection_id = %(connection)s", values)
        db.rows("delete from sweeps where partition_id = %(partition)s", values)


@pytest.mark.parametrize("is_known", [True, False], ids=["analyzed", "before it is analyzed"])
def test_what_was_not_listed_is_found_at_once(db, make_documents, is_known):
    """With and without statistics of the database."""
    make_documents(500)
    db.rows("analyze documents, run_documents, departures, connection_documents")
    request = make_documents(DOCUMENTS, UNLISTED, REFUSED)
    if is_known:
        db.rows("analyze documents, run_documents, departures, connection_documents")
    began = time.monotonic()
    assert queries_sync.list_unfinished(db, request) == []
    missing = queries_sync.list_missing(db, request)
    with db.transaction() as connection:
        queries_sync.record_page(connection, request=request, listed=[], departed=missing)
        queries_sync.finish_listing(connection, request=request, cursor="there", moved=False)
    assert time.monotonic() - began < SECONDS
    assert sorted(missing) == sorted(f"file-{i}" for i in range(DOCUMENTS - UNLISTED + 1, DOCUMENTS - REFUSED + 1))
    row = db.row(
        "select count(*) as left from documents where connection_id = %(id)s and deleted_at is null",
        {"id": request.connection_id},
    )
    assert row["left"] == DOCUMENTS - UNLISTED + REFUSED


def test_a_first_run_that_was_cancelled_is_taken_up_at_once(db, make_documents):
    make_documents(500)
    db.rows("analyze documents, run_documents, departures, connection_documents")
    request = make_documents(DOCUMENTS, UNLISTED)
    db.rows("update documents set status = 'CANCELLED' where connection_id = %(id)s", {"id": request.connection_id})
    began = time.monotonic()
    assert len(queries_sync.list_unfinished(db, request)) == UNLISTED
    assert time.monotonic() - began < SECONDS


@pytest.mark.slow
@pytest.mark.parametrize("keep", [True, False], ids=["KEEP", "DELETE"])
def test_a_revoked_connection_lets_go_of_all_in_slices(db, make_documents, keep):
    """The sweep finishes the rest in slices, one transaction each."""
    make_documents(500)
    db.rows("analyze documents, run_documents, departures, connection_documents")
    request = make_documents(2 * DOCUMENTS)
    values = {"id": request.connection_id}
    db.rows("update connections set status = 'REVOKED' where id = %(id)s", values)
    began = time.monotonic()
    assert not connection_documents.release_documents(db, request.connection_id, keep=keep, seconds=0)
    remaining = db.row("select count(*) as left from connection_documents where connection_id = %(id)s", values)
    assert remaining["left"] == 2 * DOCUMENTS - connection_documents.RELEASE_BATCH_SIZE
    assert connection_documents.release_documents(db, request.connection_id, keep=keep, seconds=60)
    assert time.monotonic() - began < 4 * SECONDS
    row = db.row(
        "select count(*) filter (where deleted_at is null) as left, count(connection_id) as named from documents"
        " where job_run_id = %(run)s",
        {"run": request.job_run_id},
    )
    assert row == ({"left": 2 * DOCUMENTS, "named": 0} if keep else {"left": 0, "named": 2 * DOCUMENTS})
