"""Schema revisions: pending migrations, and messages for databases of another version."""

import psycopg
import pytest
from alembic import command
from alembic.config import Config

from local import cli
from retrieval import settings
from retrieval.database import revisions


@pytest.fixture
def empty_url(postgres_url):
    """A database without a schema."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("drop database if exists without_schema")
        connection.execute("create database without_schema")
    return postgres_url.replace("/retrieval?", "/without_schema?")


def test_intervals_of_connections_become_schedules(empty_url):
    config = Config()
    config.set_main_option("script_location", str(revisions.MIGRATIONS_FOLDER))
    config.attributes["url"] = empty_url
    command.upgrade(config, "0051")
    with psycopg.connect(empty_url, autocommit=True) as connection:
        connection.execute(
            "insert into organizations (id, name) values ('org_a', 'a');"
            "insert into namespaces (id, organization_id, name, secrets) values ('ns_a', 'org_a', 'a', '');"
            "insert into partitions (namespace_id, tenant) values ('ns_a', '');"
            "insert into connections (id, partition_id, name, connector, status, sync_minutes)"
            " select c.id, p.id, 'n', 'BOX', 'ACTIVE', minutes from partitions p,"
            " (values ('conn_a', 60), ('conn_b', null), ('conn_c', 30)) c (id, minutes);"
            "insert into jobs (id, organization_id, partition_id, source, config) select 'job_a', 'org_a', id, 'BOX',"
            """ '{"connectionId": "conn_a", "scheduled": true}' from partitions;"""
            "insert into schedules (id, partition_id, job_id, source, config, minutes)"
            """ select 'sch_1', id, 'job_1', 'BOX', '{"connectionId": "conn_c"}', 15 from partitions"""
        )
        revisions.upgrade_schema(empty_url)
        moved = connection.execute(
            "select id, job_id, source, minutes, config ->> 'connectionId' from schedules order by id"
        ).fetchall()
        assert moved == [("sch_1", "job_1", "BOX", 15, "conn_c"), ("sch_a", "job_a", "BOX", 60, "conn_a")]
        (intervals,) = connection.execute("select count(sync_minutes) from connections").fetchall()
    assert intervals == (0,)


def test_stored_metadata_keys_become_those_that_requests_name(empty_url):
    config = Config()
    config.set_main_option("script_location", str(revisions.MIGRATIONS_FOLDER))
    config.attributes["url"] = empty_url
    command.upgrade(config, "0052")
    with psycopg.connect(empty_url, autocommit=True) as connection:
        connection.execute(
            "insert into organizations (id, name) values ('org_a', 'a');"
            "insert into namespaces (id, organization_id, name, config, secrets)"
            """ values ('ns_a', 'org_a', 'a', '{"vectorStorageConfig": {"provider": "PINECONE"}}', '');"""
            "insert into partitions (namespace_id, tenant) values ('ns_a', '');"
            "insert into jobs (id, organization_id, partition_id, source, config) select 'job_a', 'org_a', id, 'TEXT',"
            """ E'{"metadata": {"cafe\u0301": 1}}' from partitions;"""
            "insert into job_runs (id, job_id, partition_id, source) select 'ijr_a', 'job_a', id, 'TEXT'"
            " from partitions;"
            "insert into documents (id, partition_id, job_id, job_run_id, source, external_id, document_type, name,"
            " metadata) select d.id, p.id, 'job_a', 'ijr_a', 'TEXT', d.id, 'TEXT', 'n', metadata::jsonb"
            " from partitions p,"
            """ (values ('doc_a', E'{"cafe\u0301": "a", "b": 1}'), ('doc_b', E'{"caf\u00e9": "b", "cafe\u0301": 2}'),"""
            """ ('doc_c', E'{"b": "cafe\u0301"}')) d (id, metadata)"""
        )
        revisions.upgrade_schema(empty_url)
        documents = connection.execute("select id, metadata from documents order by id").fetchall()
        assert documents == [
            ("doc_a", {"caf\u00e9": "a", "b": 1}),
            ("doc_b", {"caf\u00e9": "b"}),
            ("doc_c", {"b": "cafe\u0301"}),
        ]
        assert connection.execute("select config from jobs").fetchone() == ({"metadata": {"caf\u00e9": 1}},)
        labels = connection.execute("select document_id from sweeps where kind = 'labels' order by 1").fetchall()
    assert labels == [("doc_a",), ("doc_b",)]


def test_pending_migrations_are_listed_until_they_are_carried_out(empty_url, tmp_path, monkeypatch, capsys):
    for name, value in {"HOME": str(tmp_path), "DATABASE_URL": empty_url, "SECRET_KEY": f"1:{'A' * 43}="}.items():
        monkeypatch.setenv(f"RETRIEVAL_{name}", value)
    settings.load_settings.cache_clear()
    try:
        assert cli.main(["migrate", "--check"]) == 1
        assert capsys.readouterr().out.splitlines()[0].startswith(revisions.BASELINE_REVISION)
        assert cli.main(["migrate"]) == 0
        capsys.readouterr()
        assert cli.main(["migrate", "--check"]) == 0
        assert capsys.readouterr().out == "The database has the newest schema.\n"
        with psycopg.connect(empty_url) as connection:
            row = connection.execute("select version_num from alembic_version").fetchone()
        assert row == (revisions.newest_revision(),)
    finally:
        settings.load_settings.cache_clear()
