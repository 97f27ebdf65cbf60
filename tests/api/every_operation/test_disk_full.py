"""A full disk fails every write route with a clear error and no partial write."""

import errno
import os
import tempfile
from contextlib import contextmanager

import pytest
from psycopg import sql

from tests.api.every_operation.test_audit import WRITES
from tests.api.every_operation.test_isolation import ROUTES, Worlds, case_name
from tests.api.support import Failures, assert_error


@contextmanager
def full(api_db):
    # The error of PostgreSQL on a full disk, raised for each write.
    tables = [
        row["name"]
        for row in api_db.rows(
            "select table_name as name from information_schema.tables where table_schema = current_schema"
            " and table_type = 'BASE TABLE'"
        )
    ]
    with api_db.transaction() as connection:
        connection.execute(
            "create or replace function refuse_full() returns trigger language plpgsql as"
            " $$ begin raise exception 'could not extend file: No space left on device' using errcode = '53100'; end $$"
        )
        for table in tables:
            connection.execute(
                sql.SQL(
                    "create trigger full_disk before insert or update on {} for each statement"
                    " execute function refuse_full()"
                ).format(sql.Identifier(table))
            )
    try:
        yield
    finally:
        with api_db.transaction() as connection:
            connection.execute("drop function refuse_full() cascade")


def assert_full(answer):
    body = assert_error(answer, 503, "SERVICE_UNAVAILABLE")
    assert body["error"]["details"]["reason"] == "disk_full"
    assert "disk" in body["message"]
    assert "full" in body["message"]
    assert int(answer.headers["retry-after"]) >= 30


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("folder", ["spool", "store"])
def test_the_disk_for_files_is_full(org, monkeypatch, folder, code):
    space = org.namespace()

    def refuse(*_args, **_named):
        raise OSError(code, os.strerror(code))

    class Full:
        write = staticmethod(refuse)

        def close(self):
            pass

    if folder == "spool":
        monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: Full())
    else:
        monkeypatch.setattr(os, "fsync", refuse)
    files = {"file": ("a.txt", b"text", "text/plain")}
    assert_full(org.client.post("/v1/ingest/file", data={"namespaceId": space}, files=files))
    monkeypatch.undo()
    assert org.client.post("/v1/ingest/file", data={"namespaceId": space}, files=files).status_code == 200


def test_writes_report_a_full_disk_and_reads_continue(base, api_db, ring):
    # Writes report the full disk, or are refused earlier; searches skip counters and notes.
    worlds, failures = Worlds(base, api_db, ring), Failures()
    world = worlds.fill(worlds.organization(), "alice")
    with full(api_db):
        for route in ROUTES:
            with failures.of(case_name(route)):
                answer = world.send(route)
                if route in WRITES and not 400 <= answer.status_code < 500:
                    assert_full(answer)
                assert route in WRITES or answer.status_code < 500
    worlds.close()
    failures.report()
