"""Revisions of the schema: what is pending, and what a database of another version is told."""

import psycopg
import pytest

from local import cli
from retrieval import settings
from retrieval.database import revisions


@pytest.fixture
def empty_url(postgres_url):
    """A database without a schema."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("create database without_schema")
    return postgres_url.replace("/retrieval?", "/without_schema?")


def test_pending_migrations_are_listed_until_they_are_carried_out(empty_url, tmp_path, monkeypatch, capsys):
    for name, value in {"HOME": str(tmp_path), "DATABASE_URL": empty_url, "SECRET_KEY": f"1:{'A' * 43}="}.items():
        monkeypatch.setenv(f"RETRIEVAL_{name}", value)
    settings.load_settings.cache_clear()
    try:
        assert cli.main(["migrate", "--check"]) == 1
        assert capsys.readouterr().out.splitlines()[0].startswith(revisions.BASELINE)
        assert cli.main(["migrate"]) == 0
        capsys.readouterr()
        assert cli.main(["migrate", "--check"]) == 0
        assert capsys.readouterr().out == "The database has the newest schema.\n"
    finally:
        settings.load_settings.cache_clear()
