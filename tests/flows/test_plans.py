"""No statement of the sweep, the dispatcher and the hot paths reads a big table whole, however large it has become.

The statements are recorded from what they do, so what is added later is looked at without a thought. They are explained
as they are run (planned for their values) in tables of 10, of 10,000 and, as a slow test, of 200,000 rows of other
scopes, after `analyze`.
"""

import asyncio

import psycopg
import pytest

from retrieval import batches, frontier, keyword, losses, readiness, runs, sweep
from retrieval.database import Database
from retrieval.readiness import Beat
from tests.flows.test_pipeline import House

BIG = {
    "batches",
    "chunks",
    "documents",
    "embeddings",
    "inbox",
    "job_runs",
    "jobs",
    "postings",
    "run_documents",
    "sweeps",
    "term_counts",
    "vectors",
}
FILL = """
    insert into partitions (namespace_id, tenant) select min(id), 'other' || n from namespaces,
        generate_series(1, 50) n group by n on conflict do nothing;
    create temporary table others as select id, row_number() over () - 1 as number, count(*) over () as of
        from partitions where tenant like 'other%';
    insert into jobs (id, organization_id, partition_id, source) select 'job_' || n, (select min(id) from
        organizations), o.id, 'TEXT' from generate_series(1, {rows}) n join others o on o.number = n % o.of;
    insert into batches (id, partition_id, source, dispatched_at, finished_at) select 'bat_' || n, o.id,
        'TEXT', now(), now() from generate_series(1, {rows}) n join others o on o.number = n % o.of;
    insert into job_runs (id, job_id, partition_id, source, status, batch_id, finished_at) select 'ijr_' || n,
        'job_' || n, o.id, 'TEXT', 'COMPLETED', 'bat_' || n, now() from generate_series(1, {rows}) n join
        others o on o.number = n % o.of;
    insert into run_documents (job_run_id, document_id, position, generation, name, status) select 'ijr_' ||
        n, 'doc_' || n, 0, n, 'a name', 'SUCCESS' from generate_series(1, {rows}) n;
    insert into documents (id, partition_id, job_id, job_run_id, source, external_id, document_type, name,
        status) select 'doc_' || n, o.id, 'job_' || n, 'ijr_' || n, 'TEXT', n::text, 'TEXT', 'a name',
        'SUCCESS' from generate_series(1, {rows}) n join others o on o.number = n % o.of;
    insert into inbox (job_run_id, document_id, content) select 'ijr_' || n, 'doc_' || n, 'text' from
        generate_series(1, {rows}) n;
    insert into chunks (partition_id, document_id, generation, index, start, "end", tokens, content,
        embedding_key) select o.id, 'doc_' || n, n, 0, 0, 1, 1, 'some text', decode(md5(n::text), 'hex') from
        generate_series(1, {rows}) n join others o on o.number = n % o.of;
    insert into embeddings (partition_id, key, values) select o.id, decode(md5(n::text), 'hex'),
        '[1,0]'::halfvec from generate_series(1, {rows}) n join others o on o.number = n % o.of;
    insert into vectors (partition_id, id, document_id, values) select o.id, 'doc_' || n || '#1#0', 'doc_' ||
        n, '[1,0]'::halfvec from generate_series(1, {rows}) n join others o on o.number = n % o.of;
    insert into postings (partition_id, term, chunk_id, tf, length) select o.id, 'term' || n % 5000, n, 1, 5
        from generate_series(1, {rows}) n join others o on o.number = n % o.of;
    insert into term_counts (partition_id, term, chunks) select o.id, 'term' || n % 5000, 1 from
        generate_series(1, {rows}) n join others o on o.number = n % o.of;
    insert into sweeps (partition_id, kind, file_key, due_at) select o.id, 'file', n::text, now() + interval
        '1 day' from generate_series(1, {rows}) n join others o on o.number = n % o.of;
    drop table others
"""
"""Rows of other scopes in every big table; `{rows}`: how many."""


@pytest.fixture(params=[10, 10_000, pytest.param(200_000, marks=pytest.mark.slow)])
def rows(request):
    """Rows of other scopes in each big table."""
    return request.param


@pytest.fixture
def db(fresh_database, rows):
    url = fresh_database(f"plans_{rows}")
    opened = Database(url, size=4, role="sweep")
    yield opened
    opened.close()
    with psycopg.connect(url.replace(f"/plans_{rows}?", "/retrieval?"), autocommit=True) as connection:
        connection.execute(f"drop database plans_{rows} with (force)")


@pytest.fixture
def recorded(monkeypatch):
    """Every statement with its values, once for each text."""
    found = {}

    def recording(kind):
        real = kind.execute

        def execute(self, statement, params=None, **options):
            found.setdefault(statement, params)
            return real(self, statement, params, **options)

        monkeypatch.setattr(kind, "execute", execute)

    recording(psycopg.Connection)
    recording(psycopg.AsyncConnection)
    return found


def everything(db, house):
    """What the sweep, the dispatcher, ingestion and search ask the database."""
    document = house.ingest("owls hunt at night", "one")
    house.ingest("owls sleep by day", "one")
    house.ingest("a second text", "two")
    house.sweep()
    house.post("waits", "three")
    batches.in_flight(db)
    batches.form(db, size=64, batches=4)
    for batch in batches.undispatched(db):
        batches.dispatched(db, batch, "run")
    for batch in batches.open_batches(db):
        losses.again(db, batch)
        lease = batches.claim(db, batch.id, batch.attempt + 1, seconds=30)
        batches.renew(db, lease, seconds=30)
    readiness.record(db, "here:1", [Beat("dispatch", 1.0, 2.0)])
    readiness.look(db)
    frontier.forget(db)
    sweep.forget(db)
    with db.transaction() as connection:
        partition = connection.execute("select id from partitions order by id desc limit 1").fetchone()["id"]
        keyword.best(connection, keyword.terms(connection, partition, "owls sleep", "english"), 10)

    async def read():
        await runs.read(db, house.scope, document.job_run_id)
        await db.async_close()

    asyncio.run(read())


def scans(plan):
    """Big tables that a plan reads from end to end."""
    if plan["Node Type"] == "Seq Scan" and plan["Relation Name"] in BIG:
        yield plan["Relation Name"]
    for below in plan.get("Plans", ()):
        yield from scans(below)


def is_explained(text):
    """Of what was recorded: statements that read or change rows."""
    return isinstance(text, str) and text.split(None, 1)[0].lower() in ("select", "insert", "update", "delete", "with")


def test_no_big_table_is_read_whole(db, new_scope, tmp_path, recorded, rows):
    house = House(db, new_scope(), tmp_path)
    everything(db, house)
    statements = {text: values for text, values in recorded.items() if is_explained(text)}
    statements.pop("update sweeps set due_at = now()")  # the test's own
    recorded.clear()
    assert len(statements) > 60
    whole = {}
    with psycopg.connect(db.url, autocommit=True) as connection:
        connection.execute("set session_replication_role = replica")  # nothing here refers to what is not there
        for statement in FILL.format(rows=rows).split(";"):
            connection.execute(statement)
        connection.execute("vacuum analyze")
        connection.execute("set plan_cache_mode = force_custom_plan")
        for text, values in statements.items():
            plan = connection.execute("explain (format json) " + text, values).fetchone()[0][0]["Plan"]
            if found := set(scans(plan)):
                whole[text] = found
    told = "\n\n".join(f"{sorted(tables)}: {' '.join(text.split())}" for text, tables in whole.items())
    assert rows < 1000 or not whole, told
