"""The embedded Postgres in real processes: start, durability, clean end."""

from __future__ import annotations

import os
import pwd
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from local import postgres, processes
from retrieval.database import revisions


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield from _home(tmp_path / "home")


def _home(path: Path) -> Iterator[Path]:
    yield path
    postgres.stop(path)
    assert _running(path) == []


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """Home and address of a running server that tests neither stop nor kill."""
    for home in _home(tmp_path_factory.mktemp("shared") / "home"):
        yield home, postgres.start(home)


def _running(home: Path) -> list[processes.Process]:
    return processes.list_working_in(home / "postgres", "postgres")


def _note(url: str, text: str) -> list[str]:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS notes (text text)")
        connection.execute("INSERT INTO notes VALUES (%s)", [text])
        connection.commit()
        return [row[0] for row in connection.execute("SELECT text FROM notes ORDER BY text")]


def _postmaster(home: Path) -> int:
    return int((home / "postgres" / "postmaster.pid").read_text().split()[0])


def test_it_starts_with_vectors_on_a_private_socket_only(started: tuple[Path, str]) -> None:
    home, url = started
    with psycopg.connect(url) as connection:
        distance = connection.execute("SELECT '[1,0]'::vector <=> '[0,1]'::vector").fetchone()
        listens = connection.execute("SHOW listen_addresses").fetchone()
        durable = connection.execute("SHOW synchronous_commit").fetchone()
    assert distance == (1.0,)
    assert listens == ("",)
    assert durable == ("on",)
    socket = Path((home / "postgres.socket").read_text())
    assert stat.S_IMODE(socket.stat().st_mode) == 0o700
    assert stat.S_IMODE((home / "postgres.password").stat().st_mode) == 0o600


def test_prefects_role_owns_a_database_of_its_own_and_reads_no_other(started: tuple[Path, str]) -> None:
    home, _ = started
    database_url = postgres.prefect_url(home)
    with psycopg.connect(database_url) as connection:
        connection.execute("CREATE EXTENSION pg_trgm")
        connection.execute("CREATE TABLE flow_run (name text)")
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        psycopg.connect(database_url.replace("/prefect?", "/retrieval?"))


def test_the_services_role_owns_the_data_of_an_earlier_home_and_is_no_superuser(home: Path) -> None:
    # Until 0.2.0 the service created its tables as the superuser.
    revisions.upgrade_schema(postgres.start(home))
    with psycopg.connect(postgres.url(home), autocommit=True) as connection:
        connection.execute("ALTER DATABASE retrieval OWNER TO retrieval")
        connection.execute("CREATE TYPE public.mood AS ENUM ('ok')")
    postgres.stop(home)
    postgres.start(home)
    with psycopg.connect(postgres.service_url(home), autocommit=True) as connection:
        rights = connection.execute(
            "SELECT rolsuper, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls FROM pg_roles"
            " WHERE rolname = current_user"
        ).fetchone()
        assert rights == (False,) * 5
        for catalog, owner in (("pg_class", "relowner"), ("pg_proc", "proowner"), ("pg_type", "typowner")):
            foreign = connection.execute(
                f"SELECT oid FROM {catalog} c WHERE {owner} <> current_user::regrole AND oid >= 16384 AND NOT EXISTS"
                " (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype IN ('e', 'i'))"
            ).fetchall()
            assert foreign == []
        connection.execute("ALTER TABLE documents ADD COLUMN added text")
        connection.execute("ALTER TYPE public.mood ADD VALUE 'bad'")
        connection.execute("SET ROLE retrieval_viewer")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("DELETE FROM documents")
        connection.execute("RESET ROLE")
        for statement in (
            "COPY (SELECT 1) TO PROGRAM 'true'",
            "SELECT pg_read_file('PG_VERSION')",
            "CREATE ROLE other",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        psycopg.connect(postgres.service_url(home).replace("/retrieval?", "/prefect?"))


@pytest.mark.slow
def test_a_home_of_before_gets_prefects_database_and_the_newest_extension(home: Path) -> None:
    # Versions with Prefect on SQLite left such a home.
    with psycopg.connect(postgres.start(home), autocommit=True) as connection:
        connection.execute("DROP DATABASE prefect")
        connection.execute("DROP ROLE prefect")
        connection.execute("UPDATE pg_extension SET extversion = '0.8.5' WHERE extname = 'vector'")
    postgres.stop(home)
    with psycopg.connect(postgres.start(home)) as connection:
        row = connection.execute(
            "SELECT installed_version = default_version FROM pg_available_extensions WHERE name = 'vector'"
        ).fetchone()
    assert row == (True,)
    psycopg.connect(postgres.prefect_url(home)).close()


def test_what_was_acknowledged_survives_a_kill_of_all_its_processes(home: Path) -> None:
    assert _note(postgres.start(home), "before") == ["before"]
    for process in _running(home):
        process.send_signal(signal.SIGKILL)
    assert _note(postgres.start(home), "later") == ["before", "later"]


def test_a_lock_file_that_names_another_living_process_is_not_believed(home: Path) -> None:
    url = postgres.start(home)
    _note(url, "kept")
    lock_file = (home / "postgres" / "postmaster.pid").read_text()
    postgres.stop(home)
    lines = lock_file.split("\n")
    (home / "postgres" / "postmaster.pid").write_text("\n".join([str(os.getppid()), *lines[1:]]))
    assert _note(postgres.start(home), "next") == ["kept", "next"]


def test_it_asks_for_the_password(started: tuple[Path, str]) -> None:
    home, url = started
    password = (home / "postgres.password").read_text()
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(url.replace(password, "wrong"))


def test_its_log_holds_no_value_of_a_failed_statement(started: tuple[Path, str]) -> None:
    home, url = started
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE once (value text PRIMARY KEY)")
        connection.execute("INSERT INTO once VALUES ('canary-in-a-row')")
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("INSERT INTO once VALUES ('canary-in-a-row')")
    log = (home / "postgres.log").read_text()
    assert "duplicate key" in log
    assert "canary" not in log


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")
def test_root_without_user_namespaces_becomes_an_existing_user(monkeypatch: pytest.MonkeyPatch) -> None:
    # Another pytest run closes pytest's own folder to other users.
    monkeypatch.setattr(processes, "_user_namespace", lambda: ())
    with tempfile.TemporaryDirectory(prefix="rt-open-") as folder:
        Path(folder).chmod(0o755)
        home = Path(folder) / "home"
        try:
            assert _note(postgres.start(home), "as another") == ["as another"]
            owner = pwd.getpwuid((home / "postgres").stat().st_uid).pw_name
            assert owner in ("postgres", "nobody")
            assert Path(f"/proc/{_postmaster(home)}").stat().st_uid != 0
        finally:
            postgres.stop(home)


def test_it_ends_in_order_when_its_parent_is_killed(home: Path) -> None:
    # The kernel signals Postgres at the supervisor's death.
    program = f"""
import subprocess, sys, time
from pathlib import Path
from local import postgres, processes
cluster = postgres.prepare(Path({str(home)!r}))
end_child = processes.make_parent_death_hook({int(signal.SIGINT)})
child = subprocess.Popen(postgres.build_command(cluster), preexec_fn=end_child)
while not postgres.is_ready(cluster):
    time.sleep(0.05)
print("ready", flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        running = _running(home)
        assert running
        parent.kill()
    processes.end_processes(running, first=0, grace=10)
    assert _running(home) == []
    assert not (home / "postgres" / "postmaster.pid").exists(), "it was killed, not shut down"
