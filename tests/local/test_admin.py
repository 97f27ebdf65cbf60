"""`retrieval key`, `org` and `tenant`: changes and audit entries."""

from __future__ import annotations

import base64
import getpass
import os
from pathlib import Path

import psycopg
import pytest

from local import cli
from retrieval import settings
from retrieval.database.database import Database


@pytest.fixture(scope="module")
def administered(fresh_database):
    return fresh_database("administered")


@pytest.fixture
def db(administered):
    opened = Database(administered)
    yield opened
    opened.close()


@pytest.fixture
def retrieval(administered, tmp_path, monkeypatch, capsys):
    """Return a function that runs the CLI and returns exit code and output."""
    for name in [name for name in os.environ if name.startswith("RETRIEVAL_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(Path.cwd())
    monkeypatch.setenv("RETRIEVAL_HOME", str(tmp_path))
    monkeypatch.setenv("RETRIEVAL_DATABASE_URL", administered)
    monkeypatch.setenv("RETRIEVAL_SECRET_KEY", "1:" + base64.b64encode(b"k" * 32).decode())
    settings.load_settings.cache_clear()
    mask = os.umask(0o022)

    def run(*arguments):
        code = cli.main(arguments)
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    yield run
    os.umask(mask)
    settings.load_settings.cache_clear()


@pytest.fixture
def org(retrieval):
    code, output = retrieval("org", "create", "shop")
    assert code == 0
    return output.splitlines()[1].split()[0]


def log(db, org):
    return db.rows(
        "select route, object_type, object_id, status, source, principal, method from audit_entries"
        " where organization_id = %(org)s order by created_at, id",
        {"org": org},
    )


def test_what_the_command_line_writes_is_in_the_log(retrieval, org, db):
    code, output = retrieval("key", "create", "--name", "site", "--org", org)
    assert code == 0
    key, secret = output.splitlines()[:2]
    assert retrieval("tenant", "create", "alice", "--org", org)[0] == 0
    assert retrieval("tenant", "delete", "nobody", "--org", org)[0] == 1
    assert retrieval("key", "create", "--name", "x", "--scopes", "all", "--org", org)[0] == 2
    assert retrieval("key", "revoke", key)[0] == 0
    assert retrieval("org", "update", org, "--requests", "7")[0] == 0
    for verb in ("key", "tenant"):
        assert retrieval(verb, "list", "--org", org)[0] == 0
    entries = log(db, org)
    assert [(row["route"], row["object_type"], row["object_id"], row["status"]) for row in entries] == [
        ("retrieval org create", "organization", org, 200),
        ("retrieval key create", "key", key, 200),
        ("retrieval tenant create", "tenant", "alice", 200),
        ("retrieval tenant delete", "tenant", None, 404),
        ("retrieval key create", "key", None, 400),
        ("retrieval key revoke", "key", key, 200),
        ("retrieval org update", "organization", org, 200),
    ]
    assert {(row["source"], row["principal"], row["method"]) for row in entries} == {("CLI", getpass.getuser(), "CLI")}
    assert secret not in str(entries)


@pytest.mark.parametrize("bound", ["--scopes", "--namespace", "--tenant"])
@pytest.mark.parametrize("server", [(), ("--url", "http://127.0.0.1:9", "--key", "k")])
def test_an_empty_bound_creates_no_wider_key(retrieval, org, db, capsys, bound, server):
    """As of a script with an unset variable."""
    target = server or ("--org", org)
    with pytest.raises(SystemExit) as ended:
        retrieval("key", "create", "--name", "site", *target, bound, " ")
    assert ended.value.code == 2
    assert f"argument {bound}: must not be empty" in capsys.readouterr().err
    assert db.rows("select from api_keys where organization_id = %(org)s", {"org": org}) == []


def test_an_import_that_is_refused_is_in_the_log(retrieval, org, db, tmp_path):
    broken = tmp_path / "notes.txt"
    broken.write_text("no export")
    for file in (broken, tmp_path / "missing.zip"):
        code, output = retrieval("import", str(file), "--org", org)
        assert code == 1, output
        assert str(file) in output
    entries = [(row["route"], row["object_type"], row["object_id"], row["status"]) for row in log(db, org)[1:]]
    assert entries == 2 * [("retrieval import", "namespace", None, 400)]


def test_nothing_changes_without_its_entry(retrieval, org, db, administered):
    with psycopg.connect(administered, autocommit=True) as connection:
        connection.execute("alter table audit_entries add constraint refused check (route = '') not valid")
        try:
            with pytest.raises(psycopg.errors.CheckViolation):
                retrieval("key", "create", "--name", "site", "--org", org)
        finally:
            connection.execute("alter table audit_entries drop constraint refused")
    assert db.rows("select id from api_keys where organization_id = %(org)s", {"org": org}) == []
