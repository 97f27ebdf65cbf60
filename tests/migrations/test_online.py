"""Migrations run beside the service: each is read by the linter."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest
from alembic import command

from local import cli
from local.migration_lint import problems
from local.roles import PROJECT
from retrieval import settings
from retrieval.database.database import Database
from tests.migrations.test_migrations import alembic

VERSIONS = sorted((PROJECT / "migrations" / "versions").glob("0*.py"))

TWO = """
op.add_column("jobs", sa.Column("x", sa.Text()))
op.add_column("batches", sa.Column("x", sa.Text()))
"""
REFERRED = """
op.create_table("n", sa.Column("a", sa.Text(), sa.ForeignKey("jobs.id")), sa.Column("n", sa.ForeignKey("n.a")))
op.add_column("batches", sa.Column("x", sa.Text()))
"""
BAD = {
    'op.create_index("x", "documents", ["name"])': "builds an index on documents",
    'op.create_index("x", "chunks", ["name"], unique=True)': "builds an index on chunks",
    'op.execute("create index x on postings (term)")': "builds an index on postings",
    'op.add_column("jobs", sa.Column("x", sa.Text(), nullable=False))': "not null and has no default",
    'op.add_column("jobs", sa.Column("x", sa.Text(), server_default=sa.text("gen_random_uuid()")))': "rewrites jobs",
    'op.add_column("jobs", sa.Column("x", sa.BigInteger(), sa.Identity()))': "rewrites jobs",
    'op.drop_column("jobs", "source")': "say unused_since",
    'op.drop_table("jobs")': "say unused_since",
    'op.rename_table("jobs", "tasks")': "say unused_since",
    'op.alter_column("jobs", "source", new_column_name="kind")': "renames a column of jobs",
    'op.alter_column("jobs", "source", type_=sa.BigInteger())': "rewrites jobs",
    'op.alter_column("jobs", "source", nullable=False)': "NOT NULL",
    'op.create_foreign_key("x", "jobs", "batches", ["a"], ["b"])': "checks all of jobs",
    'op.create_check_constraint("x", "jobs", "true")': "checks all of jobs",
    'op.execute("alter table jobs add constraint x check (true)")': "checks all of jobs",
    'op.execute("alter table jobs drop column source")': "drops a column of jobs",
    'op.execute("update documents set name = id")': "changes the rows of documents",
    'op.add_column("jobs", sa.Column("x", sa.Text(), nullable=True))': "without a lock_timeout",
    'op.create_table("n", sa.Column("a", sa.Text(), sa.ForeignKey("jobs.id")))': "jobs without a lock_timeout",
    'op.create_table("n", sa.ForeignKeyConstraint(["a"], ["jobs.id"]))': "refers to jobs without a lock_timeout",
    TWO: "locks batches and jobs in one transaction",
    REFERRED: "locks batches and jobs in one transaction",
    "op.execute(\"set local lock_timeout = '30s'\")": "waits 30s for a lock",
}
GOOD = """
op.execute("set local lock_timeout = '500ms'")
op.add_column("jobs", sa.Column("x", sa.Text(), nullable=True))
op.add_column("jobs", sa.Column("y", sa.Integer(), nullable=False, server_default="0"))
op.create_table("new", sa.Column("id", sa.Text(), nullable=False))
op.create_index("new_x", "new", ["id"])
op.create_check_constraint("x", "jobs", "true", postgresql_not_valid=True)
op.create_table("newer", sa.Column("id", sa.ForeignKey("new.id")), sa.Column("job", sa.ForeignKey("jobs.id")))
with op.get_context().autocommit_block():
    op.add_column("batches", sa.Column("x", sa.Text(), nullable=True), if_not_exists=True)
    op.add_column("documents", sa.Column("x", sa.Text(), nullable=True), if_not_exists=True)
    op.create_index("z", "documents", ["name"], postgresql_concurrently=True)
"""


def module(body, before=""):
    inside = "\n".join("    " + line for line in body.strip().splitlines())
    return f'{before}\ndef upgrade():\n{inside}\n\ndef downgrade():\n    op.drop_column("jobs", "x")\n'


@pytest.mark.parametrize("body", BAD)
def test_what_is_not_online_is_refused(body):
    told = problems(module(body))
    assert any(BAD[body] in one for one in told), told


def test_what_is_online_is_taken():
    assert problems(module(GOOD)) == []
    dropped = """op.execute("set local lock_timeout = '1s'")\nop.drop_column("jobs", "source")"""
    assert problems(module(dropped, 'unused_since = "0.2.0"\n')) == []


def test_the_check_lists_what_is_pending_and_changes_nothing(fresh_database, tmp_path, monkeypatch, capsys):
    url = fresh_database("checked")
    for name in [name for name in os.environ if name.startswith("RETRIEVAL_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(Path.cwd())
    monkeypatch.setenv("RETRIEVAL_HOME", str(tmp_path))
    monkeypatch.setenv("RETRIEVAL_DATABASE_URL", url)
    monkeypatch.setenv("RETRIEVAL_SECRET_KEY", "1:" + base64.b64encode(b"k" * 32).decode())
    settings.load.cache_clear()
    mask = os.umask(0o022)
    try:
        assert cli.main(["migrate", "--check"]) == 0
        assert capsys.readouterr().out == "The database has the newest schema.\n"
        command.downgrade(alembic(url), "0016")
        for _ in range(2):
            assert cli.main(["migrate", "--check"]) == 1
            told = capsys.readouterr().out.splitlines()
            lines = [line for line in told if not line.startswith(" ")]
            assert [line[:4] for line in lines] == [path.stem[:4] for path in VERSIONS if path.stem[:4] > "0016"]
            assert lines[0].startswith("0017  not online  ")
            assert lines[1].startswith("0018  online  ")
            assert "departures" in told[1]
        assert cli.main(["migrate"]) == 0
        capsys.readouterr()
        assert cli.main(["migrate", "--check"]) == 0
        db = Database(url)
        db.rows("update alembic_version set version_num = '9999'")
        db.close()
        capsys.readouterr()
        assert cli.main(["migrate", "--check"]) == 1
        assert "newer than this version" in capsys.readouterr().err
    finally:
        os.umask(mask)
        settings.load.cache_clear()
