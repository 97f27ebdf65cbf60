"""Backup and restore of a home, with a real Postgres and nothing else of the service running."""

import argparse
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from connectors import registry
from local import LocalError, backup, instance, postgres, up
from local.instance import InstanceRecord
from local.processes import Process
from retrieval import settings
from retrieval.database import database, revisions
from retrieval.settings import Settings
from tests import registry_instances
from tests.flows.configured import Configured

pytestmark = pytest.mark.service


@pytest.fixture
def homes():
    """Return two folders with short paths and end their processes afterwards."""
    folders = [Path(tempfile.mkdtemp(prefix="rt-")) for _ in range(2)]
    yield folders
    for home in folders:
        postgres.stop(home)
        shutil.rmtree(home, ignore_errors=True)


def run(command, folder, home):
    return backup.run(argparse.Namespace(command=command, directory=str(folder)), Settings(_env_file=None, home=home))


def started(home):
    """Start PostgreSQL and write a supervisor record for this process."""
    url = postgres.start(home)
    process = Process.from_pid(os.getpid())
    instance.save_record(home, InstanceRecord(pid=process.pid, started=process.started, token="none", phase="ready"))
    return url


def refused(command, folder, home):
    with pytest.raises(LocalError) as caught:
        run(command, folder, home)
    return str(caught.value)


def test_a_home_is_copied_while_it_runs_and_put_into_another(homes, tmp_path, capsys):
    old, new = homes
    url = started(old)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create table things as select 'kept' as name")
    (old / "files" / "ns_1").mkdir(parents=True)
    (old / "files" / "ns_1" / "raw").write_text("a file")
    (old / "files" / "ns_1" / "raw.12.part").write_text("half a f")
    copy = tmp_path / "copy"
    assert run("backup", copy, old) == 0
    assert "is backed up in" in capsys.readouterr().out
    assert copy.stat().st_mode & 0o777 == 0o700
    assert (copy / "secret.key").read_text() == (old / "secret.key").read_text()
    assert "is not empty" in refused("backup", copy, old)
    assert "is running in" in refused("restore", copy, old)
    (old / "state.json").unlink()
    postgres.stop(old)
    assert "Nothing runs in" in refused("backup", tmp_path / "another", old)
    for home in (new, old):
        assert run("restore", copy, home) == 0
        with psycopg.connect(postgres.start(home)) as connection:
            assert connection.execute("select name from things").fetchone() == ("kept",)
        assert (home / "files" / "ns_1" / "raw").read_text() == "a file"
        assert not list((home / "files").rglob("*.part"))
        assert (home / "secret.key").read_text() == (copy / "secret.key").read_text()
        capsys.readouterr()
        assert up.stop(Namespace(), Settings(_env_file=None, home=home)) == 0
        assert capsys.readouterr().out == f"Stopped the database in {home}.\n"
    (aside,) = old.glob("before-restore-*")
    assert (aside / "postgres" / "PG_VERSION").exists()


@pytest.mark.slow
def test_what_is_replaced_while_a_backup_is_made_is_in_it_with_its_files(homes, tmp_path, monkeypatch):
    # Garbage collection keeps files referenced by the copied rows.
    old, new = homes
    monkeypatch.setenv("RETRIEVAL_HOME", str(old))
    settings.load_settings.cache_clear()
    registry_instances.forget_instances()
    url = started(old)
    revisions.upgrade_schema(url)
    db = database.Database(url, size=4)
    space = Configured(db)
    for number in range(3000):
        (old / "files" / f"ns_{number}").mkdir(parents=True)
        (old / "files" / f"ns_{number}" / "raw").write_text("as in an instance that holds much")
    changing, done = threading.Event(), threading.Event()

    def change():
        for number in itertools.count():
            for name in range(8):
                space.text(f"Seal {name} sleeps under water for the time {number}.", f"seal {name}")
            space.work()
            space.sweep()
            changing.set()
            if done.is_set():
                return

    try:
        with ThreadPoolExecutor(1) as threads:
            changed = threads.submit(change)
            assert changing.wait(60)
            try:
                assert run("backup", tmp_path / "copy", old) == 0
            finally:
                done.set()
            changed.result()
        space.sweep()
        needed = {row["raw_key"] for row in db.rows("select raw_key from documents")}
        assert set(registry.make_local_file_store().keys(space.scope.namespace)) == needed
    finally:
        db.close()
        settings.load_settings.cache_clear()
        registry_instances.forget_instances()
    assert run("restore", tmp_path / "copy", new) == 0
    with psycopg.connect(postgres.start(new)) as connection:
        keys = [key for (key,) in connection.execute("select raw_key from documents").fetchall()]
    assert len(keys) == 8
    assert [key for key in keys if not (new / "files" / key).is_file()] == []


@pytest.mark.slow
def test_the_first_start_of_a_restored_home_may_be_ended_amid_its_recovery(homes, tmp_path):
    # PostgreSQL has removed the backup label by then and would refuse to start.
    old, new = homes
    url = started(old)
    writing, done = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as threads:
        grown = threads.submit(grow, url, writing, done)
        try:
            assert writing.wait(60)
            assert run("backup", tmp_path / "copy", old) == 0
        finally:
            done.set()
        grown.result()
    ended_amid_recovery(new, lambda: run("restore", tmp_path / "copy", new))
    for _ in range(2):
        with psycopg.connect(postgres.start(new)) as connection:
            assert connection.execute("select count(*) > 0 from things").fetchone() == (True,)
        postgres.stop(new)


def grow(url, writing, done):
    """Insert rows during the backup to give the recovery work."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create table things (number bigint)")
        while not done.is_set():
            connection.execute("insert into things select generate_series(1, 50000)")
            writing.set()


def ended_amid_recovery(home, restore):
    """Kill PostgreSQL after it removed the backup label; restart if recovery was faster."""
    for _ in range(20):
        assert restore() == 0
        cluster = postgres.prepare(home)
        with subprocess.Popen(
            postgres.build_command(cluster),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            user=cluster.identity.user,
            group=cluster.identity.group,
        ) as process:
            while not (cluster.data / "backup_label.old").exists():
                assert process.poll() is None
            os.killpg(process.pid, signal.SIGKILL)
        if state(cluster) == "in archive recovery" or "crash recovery" in state(cluster):
            return
    raise AssertionError("each recovery was over before it was ended")


def state(cluster):
    """Return the cluster state reported by pg_controldata."""
    report = subprocess.run(
        [postgres._find_program("pg_controldata"), cluster.data],
        env={"LC_ALL": "C"}, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return next(line for line in report.splitlines() if "cluster state" in line).partition(":")[2].strip()


@pytest.mark.parametrize("lost", ["manifest.json", "secret.key", "postgres/PG_VERSION"])
def test_what_is_no_whole_backup_changes_nothing(homes, tmp_path, lost):
    home = homes[0]
    (tmp_path / "postgres").mkdir()
    for name in ("secret.key", "postgres.password", "postgres/PG_VERSION"):
        (tmp_path / name).write_text("18")
    (tmp_path / "manifest.json").write_text('{"version": 1, "postgres": "18"}')
    (tmp_path / lost).unlink()
    (home / "secret.key").write_text("mine")
    assert "not a complete backup" in refused("restore", tmp_path, home)
    assert [path.name for path in home.iterdir()] == ["secret.key"]
    assert (home / "secret.key").read_text() == "mine"
