"""What a connection of 20,000 documents asks of the database at the beginning and the end of a run."""

from __future__ import annotations

import time

import pytest

from retrieval import ids, syncing
from retrieval.ports import DiscoveryRequest

DOCUMENTS = 20_000
UNLISTED = 100
REFUSED = 50
SECONDS = 10
"""Far more than it takes, and far less than to compare each document with each entry of the run (five minutes)."""


@pytest.fixture
def request_(db, new_scope):
    """A run that listed all of a connection's documents but the last ones, and could not have some of those."""
    scope, names = new_scope(), {"job": ids.job_id(), "run": ids.job_run_id(), "connection": ids.connection_id()}
    values = {**names, "organization": scope.organization, "namespace": scope.namespace, "all": DOCUMENTS}
    row = db.row("insert into partitions (namespace_id) values (%(namespace)s) returning id", values)
    values |= {"partition": row["id"], "listed": DOCUMENTS - UNLISTED, "refused": REFUSED}
    for statement in (
        (
            "insert into connections (id, partition_id, name, connector, status)"
            " values (%(connection)s, %(partition)s, 'x', 'BOX', 'ACTIVE')"
        ),
        (
            "insert into jobs (id, organization_id, partition_id, source)"
            " values (%(job)s, %(organization)s, %(partition)s, 'BOX')"
        ),
        (
            "insert into job_runs (id, job_id, partition_id, source, finished_at)"
            " values (%(run)s, %(job)s, %(partition)s, 'BOX', now())"
        ),
        (
            "insert into documents (id, partition_id, job_id, job_run_id, source, external_id, document_type, name,"
            " status, connection_id)"
            " select %(run)s || i, %(partition)s, %(job)s, %(run)s, 'BOX', 'file-' || i, 'x', 'x',"
            " 'SUCCESS', %(connection)s from generate_series(1, %(all)s) i"
        ),
        (
            "insert into run_documents (job_run_id, document_id, position, generation, name, properties)"
            """ select %(run)s, %(run)s || i, i, 1, 'x', '{"path": "x"}' from generate_series(1, %(listed)s) i"""
        ),
        (
            "insert into run_documents (job_run_id, document_id, position, generation, name, properties)"
            " select %(run)s, 'refused-' || %(run)s || i, i, 1, 'x', jsonb_build_object('externalId', 'file-' || i)"
            " from generate_series(%(all)s - %(refused)s + 1, %(all)s) i"
        ),
    ):
        db.rows(statement, values)
    yield DiscoveryRequest(scope, "BOX", {}, names["connection"], names["run"])
    for table in ("run_documents", "documents"):
        db.rows(f"delete from {table} where job_run_id = %(run)s", values)
    db.rows("delete from sweeps where partition_id = %(partition)s", values)


def test_what_was_not_listed_is_found_at_once(db, request_):
    began = time.monotonic()
    assert syncing.unfinished(db, request_) == []
    missing = syncing.missing(db, request_)
    with db.transaction() as connection:
        syncing.finish(connection, request=request_, departed=missing, cursor="there", moved=False)
    assert time.monotonic() - began < SECONDS
    assert sorted(missing) == sorted(f"file-{i}" for i in range(DOCUMENTS - UNLISTED + 1, DOCUMENTS - REFUSED + 1))
    row = db.row(
        "select count(*) as left from documents where connection_id = %(id)s and deleted_at is null",
        {"id": request_.connection_id},
    )
    assert row["left"] == DOCUMENTS - UNLISTED + REFUSED
