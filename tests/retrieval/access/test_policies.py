"""Each database policy hides the rows of a hidden document."""

import asyncio
import json

import pytest

from retrieval.access import reading
from retrieval.access.queries import lists
from retrieval.ports import Scope
from retrieval.principals import Access, Viewer
from tests.retrieval.search.test_search import axis

OF_DOCUMENTS = ("documents", "chunks", "vectors", "run_documents", "connection_documents", "departures")
OF_PAGES = ("page_misses", "document_aliases")
OF_PARTITIONS = ("embeddings", "postings")


@pytest.fixture
def hidden(db, library):
    """Insert a document hidden from ada, with a row in each table with a policy."""
    document = library.put(["wing"], [axis(0.9)])
    db.rows(
        "with job as (insert into jobs (id, organization_id, partition_id, source, config) select 'job_' || %(id)s,"
        " n.organization_id, p.id, 'TEXT', '{}' from partitions p join namespaces n on n.id = p.namespace_id"
        " where p.id = %(partition)s returning id, partition_id), run as (insert into job_runs (id, job_id,"
        " partition_id, source) select 'ijr_' || %(id)s, id, partition_id, 'TEXT' from job returning id)"
        " insert into run_documents (job_run_id, document_id, position, generation, name)"
        " select id, %(id)s, 0, 1, 'a name' from run",
        {"id": document, "partition": library.partition},
    )
    db.rows(
        "insert into connections (id, partition_id, connector, name, status) values ('conn_' || %(id)s, %(partition)s,"
        " 'BOX', 'a connection', 'ACTIVE')",
        {"id": document, "partition": library.partition},
    )
    values = {"id": document}
    db.rows("insert into connection_documents (document_id, connection_id) values (%(id)s, 'conn_' || %(id)s)", values)
    db.rows(
        "insert into departures (document_id, connection_id, job_run_id)"
        " values (%(id)s, 'conn_' || %(id)s, 'ijr_' || %(id)s)",
        values,
    )
    db.rows(
        "insert into page_misses (document_id, job_run_id, reason) values (%(id)s, 'ijr_' || %(id)s, 'gone')", values
    )
    db.rows(
        "insert into document_aliases (partition_id, source, address, document_id, job_run_id)"
        " values (%(partition)s, 'WEBSITE', 'https://example.org/' || %(id)s, %(id)s, 'ijr_' || %(id)s)",
        {"id": document, "partition": library.partition},
    )
    with db.transaction() as connection:
        lists.set_lists(connection, {document: Access(users=("bob",))})
    return document


def count_visible(db, table, viewer, document):
    column = "id" if table == "documents" else "document_id"
    statement = f"select 1 as yes from {table} where {column} = %(id)s"
    return bool(reading.viewed_database(db, viewer).rows(statement, {"id": document}))


@pytest.mark.parametrize("table", OF_DOCUMENTS + OF_PAGES)
def test_the_policy_alone_hides_the_rows_of_a_hidden_document(db, library, hidden, table):
    ada, bob = (Viewer(name, (f"u:{name}",), library.partition) for name in ("ada", "bob"))
    assert (count_visible(db, table, ada, hidden), count_visible(db, table, bob, hidden)) == (False, True)
    policy = db.row("select qual from pg_policies where tablename = %(table)s", {"table": table})["qual"]
    db.rows(f"alter policy visible on {table} using (true)")
    try:
        assert count_visible(db, table, ada, hidden), "the policy is what hides it"
    finally:
        db.rows(f"alter policy visible on {table} using ({policy})")
    assert not count_visible(db, table, ada, hidden)
    assert json.loads(ada.names) == {"u:ada": 1, "*": 1, "@": 1}


@pytest.mark.parametrize("table", OF_PARTITIONS)
def test_the_policy_alone_hides_the_rows_of_another_scope(db, library, new_library, table):
    other_library = new_library(Scope(library.scope.organization, library.scope.namespace, "acme"))
    other_library.put(["wing"], [axis(0.9)])
    ada = Viewer("ada", ("u:ada",), library.partition)
    statement = f"select 1 as yes from {table} where partition_id = %(partition)s"
    values = {"partition": other_library.partition}
    assert db.rows(statement, values)
    assert not reading.viewed_database(db, ada).rows(statement, values)
    policy = db.row("select qual from pg_policies where tablename = %(table)s", {"table": table})["qual"]
    db.rows(f"alter policy visible on {table} using (true)")
    try:
        assert reading.viewed_database(db, ada).rows(statement, values), "the policy is what hides it"
    finally:
        db.rows(f"alter policy visible on {table} using ({policy})")


def test_every_policy_is_tried_here(db):
    rows = db.rows("select tablename from pg_policies where policyname = 'visible'")
    assert {row["tablename"] for row in rows} == {*OF_DOCUMENTS, *OF_PAGES, *OF_PARTITIONS}


def test_a_cancelled_request_of_one_user_leaves_no_connection_that_shows_another_its_rows(db, library):
    ada, bob = (Viewer(name, (f"u:{name}",), library.partition) for name in ("ada", "bob"))
    statement = "select current_setting('app.names') as names where %(yes)s"

    async def names_after(pauses: int) -> str:
        """Return ada's settings after a cancelled request of bob on the same connection."""
        await reading.viewed_database(db, ada).async_rows(statement, {"yes": True})
        request = asyncio.ensure_future(reading.viewed_database(db, bob).async_rows(statement, {"yes": True}))
        for _ in range(pauses):
            await asyncio.sleep(0)
        request.cancel()
        await asyncio.wait({request})
        return (await reading.viewed_database(db, ada).async_rows(statement, {"yes": True}))[0]["names"]

    async def every_point() -> set[str]:
        try:
            return {await names_after(pauses) for pauses in range(30)}
        finally:
            await db.async_close()

    assert asyncio.run(every_point()) == {ada.names}
