"""What migrations make of the rows that are there."""

import psycopg
from alembic import command
from alembic.config import Config

from local.roles import PROJECT
from retrieval import ids
from retrieval.database.database import Database


def alembic(url):
    config = Config()
    config.set_main_option("script_location", str(PROJECT / "migrations"))
    config.attributes["url"] = url
    return config


def test_pairs_are_made_of_the_one_connection_that_a_document_had(fresh_database):
    """A revoked one's documents are nobody's; who shares its place with another lists everything anew."""
    url = fresh_database("migrated_pairs")
    command.downgrade(alembic(url), "0016")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("insert into organizations (id, name) values ('org', 'x')")
        connection.execute(
            "insert into namespaces (id, organization_id, name, config, secrets) values ('ns', 'org', 'x', '{}', '')"
        )
        connection.execute("insert into partitions (id, namespace_id) overriding system value values (1, 'ns')")
        for name, connector, status in (("a", "BOX", "ACTIVE"), ("b", "BOX", "REVOKED"), ("c", "NOTION", "FAILED")):
            connection.execute(
                "insert into connections (id, partition_id, name, connector, status, cursor)"
                " values (%s, 1, 'x', %s, %s, '{\"at\": \"there\"}')",
                [name, connector, status],
            )
        for held, packed in (("a", None), ("b", None), ("c", None), ("c", "doc-c"), (None, None)):
            connection.execute(
                "insert into documents (id, partition_id, job_id, job_run_id, source, external_id, document_type, name,"
                " connection_id, archive_id) values (%s, 1, 'j', 'r', 'BOX', %s, 'x', 'x', %s, %s)",
                [f"doc-{held}" if packed is None else ids.document_id(), ids.document_id(), held, packed],
            )
    command.upgrade(alembic(url), "head")
    db = Database(url)
    pairs = db.rows("select document_id, connection_id from connection_documents order by 1")
    cursors = db.rows("select id from connections where cursor is not null order by 1")
    db.close()
    assert [tuple(pair.values()) for pair in pairs] == [("doc-a", "a"), ("doc-c", "c")]
    assert [row["id"] for row in cursors] == ["b", "c"]
