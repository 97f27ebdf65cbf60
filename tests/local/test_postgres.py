"""Embedded PostgreSQL: disk and write figures of `retrieval status`, and memory settings."""

import json
import os
import shutil
import signal
import tempfile
import time
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import psycopg
from psycopg.conninfo import conninfo_to_dict

from local import health, instance, postgres, processes
from local.instance import InstanceRecord, RoleRecord
from local.processes import Process
from retrieval.database import disk_full, revisions
from retrieval.settings import Settings


def test_a_database_that_takes_no_writes_is_told_in_the_first_line_of_status(fresh_database, tmp_path, capsys):
    url = fresh_database("status_of_writes")
    settings = Settings(home=tmp_path, database_url=url, secret_key="1:" + "A" * 43 + "=")
    myself = Process.from_pid(os.getpid())
    instance.save_record(tmp_path, InstanceRecord(myself.pid, myself.started, "token", phase="ready"))
    assert health.print_status(Namespace(json=False), settings) == 0
    first, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("ready (supervisor ")
    assert first.endswith(" GB free")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"alter database {conninfo_to_dict(url)['dbname']} set default_transaction_read_only = on")
    assert health.print_status(Namespace(json=False), settings) == 3
    first, *_ = capsys.readouterr().out.splitlines()
    assert first == f"not writing (supervisor {myself.pid}): {disk_full.READ_ONLY_MESSAGE}"
    assert health.print_status(Namespace(json=True), settings) == 3
    whole = json.loads(capsys.readouterr().out)
    assert (whole["phase"], whole["healthy"], whole["disk"]["problem"]) == (
        "not writing",
        False,
        disk_full.READ_ONLY_MESSAGE,
    )


def test_status_says_within_seconds_that_a_silent_database_does_not_answer(tmp_path, capsys):
    # The stopped processes accept connections and never answer.
    with tempfile.TemporaryDirectory(prefix="ra-") as folder:
        home = Path(folder)
        url = postgres.start(home)
        revisions.upgrade_schema(url)
        settings = Settings(home=home, database_url=url, secret_key="1:" + "A" * 43 + "=")
        myself = Process.from_pid(os.getpid())
        dispatcher = RoleRecord("dispatcher", state="up", pid=myself.pid, started=myself.started)
        instance.save_record(
            home, InstanceRecord(myself.pid, myself.started, "token", phase="ready", roles=[dispatcher])
        )
        stopped = processes.list_working_in((home / "postgres").resolve(), "postgres")
        for process in stopped:
            process.send_signal(signal.SIGSTOP)
        try:
            begun = time.monotonic()
            assert health.print_status(Namespace(json=False), settings) == 3
            assert time.monotonic() - begun < 8
            assert "The database does not answer." in capsys.readouterr().out.splitlines()[0]
        finally:
            for process in stopped:
                process.send_signal(signal.SIGCONT)
            postgres.stop(home)


def test_a_disk_without_room_for_postgres_is_full(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=postgres.RECOVERY_BYTES - 1))
    problem = health.check_disk(Settings(home=tmp_path))[1]
    assert problem is not None
    assert "is full: 31 MB are free" in problem
