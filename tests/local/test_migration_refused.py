"""A refused migration prints one sentence with advice and no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

COMMAND = Path(sys.executable).with_name("retrieval")


@pytest.fixture
def plain_user(postgres_url):
    """Return the URL of a user limited to database `plain`, and the superuser's URL."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("create role plain login password 'p'")
        connection.execute("create database plain owner plain")
    address = postgres_url.replace("/retrieval?", "/plain?")
    yield "postgresql://plain:p@" + address.rpartition("@")[2], address
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("drop database plain with (force)")
        connection.execute("drop role plain")


def migrate(url: str, home: Path, command: str = "migrate", **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RETRIEVAL_", "PREFECT_"))}
    environment |= {
        "RETRIEVAL_HOME": str(home),
        "RETRIEVAL_DATABASE_URL": url,
        "RETRIEVAL_SECRET_KEY": f"1:{'A' * 43}=",
    }
    environment |= settings
    return subprocess.run([COMMAND, command], env=environment, capture_output=True, text=True, timeout=60, check=False)


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1
    assert "Traceback" not in done.stderr + done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("retrieval: ")
    return line


@pytest.mark.slow
def test_a_missing_right_or_server_is_told_in_a_sentence_with_what_to_do(plain_user, tmp_path):
    url, superuser = plain_user
    assert "`CREATE EXTENSION vector` in the database plain" in sentence(migrate(url, tmp_path))
    with psycopg.connect(superuser, autocommit=True) as connection:
        connection.execute("create extension vector")
        connection.execute("alter database plain owner to retrieval")
        connection.execute("revoke create on schema public from public")
    rights = "GRANT CREATE ON DATABASE plain TO plain; GRANT CREATE ON SCHEMA public TO plain"
    assert rights in sentence(migrate(url, tmp_path))
    with psycopg.connect(superuser, autocommit=True) as connection:
        connection.execute("grant create on schema public to plain")
        connection.execute("grant create on database plain to plain")
        if not connection.execute("select 1 from pg_roles where rolname = 'retrieval_viewer'").fetchone():
            connection.execute("create role retrieval_viewer nologin")
    assert "`CREATE ROLE retrieval_viewer NOLOGIN; GRANT retrieval_viewer TO plain`" in sentence(migrate(url, tmp_path))
    with psycopg.connect(superuser, autocommit=True) as connection:
        connection.execute("grant retrieval_viewer to plain")
    done = migrate(url, tmp_path)
    assert (done.returncode, done.stdout) == (0, "The database has the newest schema.\n"), done.stderr
    language = {"RETRIEVAL_KEYWORD_LANGUAGE": "klingon"}
    assert "RETRIEVAL_KEYWORD_LANGUAGE: the database has no" in sentence(migrate(url, tmp_path, **language))
    wrong = sentence(migrate(url.replace("plain:p@", "plain:canary-password@"), tmp_path))
    assert "password authentication failed" in wrong
    assert "canary" not in wrong
    assert "RETRIEVAL_DATABASE_URL" in sentence(migrate("postgresql://a:b@127.0.0.1:1/x", tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("command", ["migrate", "up"])
@pytest.mark.parametrize(
    ("revision", "advice"),
    [
        ("0050", "`retrieval export` each namespace there, and `retrieval import` the files into a new RETRIEVAL_HOME"),
        ("9999", "Start the version that made it, or restore a backup of this one."),
    ],
)
def test_a_schema_of_another_version_is_refused_with_what_to_do(fresh_database, tmp_path, command, revision, advice):
    url = fresh_database(f"of_{revision}_{command}")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("update alembic_version set version_num = %s", [revision])
    ports = {f"RETRIEVAL_{role}_PORT": "0" for role in ("API", "UI")}
    done = migrate(url, tmp_path, command, RETRIEVAL_PREFECT_API_URL="http://127.0.0.1:1/api", **ports)
    line = sentence(done)
    assert revision in line
    assert advice in line
    with psycopg.connect(url) as connection:
        assert connection.execute("select version_num from alembic_version").fetchall() == [(revision,)]
