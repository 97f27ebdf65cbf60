"""Access of what is found out on the way: members of archives, items of a listing."""

import asyncio

from retrieval.access.queries import lists
from retrieval.documents import documents
from retrieval.documents.documents import NewAccess
from retrieval.filters import DocumentFilter
from retrieval.ingestion import discover
from retrieval.ingestion.queries import listings
from retrieval.job_config import Ingestion
from retrieval.jobs import runs
from retrieval.jobs.queries import batches
from retrieval.principals import Access
from tests.flows.ingestion.test_discovery import SITE, Listing
from tests.flows.ingestion.test_unpack import TIDES, house, ingest, packed  # noqa: F401
from tests.flows.jobs.test_batches import claimed

ADA, BOB = Access(users=("ada",)), Access(users=("bob",))


def accesses(db, scope):
    """By external id, the users whom each document is for; None for an open one."""
    found = db.rows(
        "select d.external_id, d.access, d.allowed as names from documents d join partitions p on p.id = d.partition_id"
        " where p.namespace_id = %(namespace)s and d.deleted_at is null",
        {"namespace": scope.namespace},
    )
    for row in found:
        said = None if row["access"] is None else Access.load(row["access"])
        assert row["names"] == (["@"] if said is None else [f"u:{name}" for name in said.users])
    return {row["external_id"]: row["access"] and row["access"]["users"] for row in found}


def test_members_of_an_archive_inherit_and_follow_it(house):  # noqa: F811
    inner = packed([("deep.txt", b"Deep water.")])
    data = packed([("tides.txt", TIDES), ("inner.zip", inner)])
    ingest(house, "boat.zip", data, access=ADA)
    names = {"boat.zip", "boat.zip/tides.txt", "boat.zip/inner.zip", "boat.zip/inner.zip/deep.txt"}
    assert accesses(house.db, house.scope) == {key: ["ada"] for key in names}
    where = DocumentFilter(external_ids=("boat.zip",))
    house.call(documents.patch_metadata(house.db, house.scope, where, {}, {}, {}, access=NewAccess(BOB)))
    assert accesses(house.db, house.scope) == {key: ["bob"] for key in names}
    more = packed([("tides.txt", TIDES), ("inner.zip", inner), ("crew.txt", b"The crew is six.")])
    ingest(house, "boat.zip", more)
    assert accesses(house.db, house.scope) == {key: ["bob"] for key in {*names, "boat.zip/crew.txt"}}


def listed(db, scope, *pages, **said):
    """A website's job whose run lists these pages, and nothing more."""
    return found(db, *accepted(db, scope, **said), *pages)


def accepted(db, scope, **said):
    """A website's job whose run has begun."""

    async def post():
        made = await runs.accept_discovery(
            db, scope, source="WEBSITE", config={"url": SITE}, ingestion=Ingestion(**said)
        )
        await db.async_close()
        return made

    asyncio.run(post())
    lease = claimed(db)
    (wanted,) = listings.pending_listings(db, lease)
    return lease, wanted


def found(db, lease, wanted, *pages):
    """What this run lists."""
    discover.record_listing(db, lease, wanted, Listing(*pages))
    with db.transaction() as connection:
        connection.execute("update job_runs set finished_at = now() where batch_id = %(b)s", {"b": lease.batch_id})
    batches.finish_batch(db, lease)
    return [
        row["external_id"].removeprefix(f"{SITE}/")
        for row in db.rows(
            "select d.external_id from run_documents m join documents d on d.id = m.document_id"
            " where m.job_run_id = %(run)s order by 1",
            {"run": wanted.job_run_id},
        )
    ]


def test_a_listing_gives_access_to_what_it_finds_and_undoes_no_later_change(db, new_scope):
    scope = new_scope()
    listed(db, scope, "a", "b", access=ADA)
    assert accesses(db, scope) == {f"{SITE}/a": ["ada"], f"{SITE}/b": ["ada"]}
    listed(db, scope, "a", "c")
    assert accesses(db, scope) == {f"{SITE}/a": ["ada"], f"{SITE}/b": ["ada"], f"{SITE}/c": None}
    lease, wanted = accepted(db, scope, access=Access(users=("cyd", "ada")))
    (row,) = db.rows(
        "select d.id from documents d join partitions p on p.id = d.partition_id where d.external_id = %(a)s"
        " and p.namespace_id = %(namespace)s",
        {"a": f"{SITE}/a", "namespace": scope.namespace},
    )
    with db.transaction() as connection:
        lists.set_lists(connection, {row["id"]: BOB})
    found(db, lease, wanted, "a", "b")
    pending = db.rows(
        "select d.external_id, m.access is not null as comes from run_documents m join documents d"
        " on d.id = m.document_id where m.job_run_id = %(run)s order by 1",
        {"run": wanted.job_run_id},
    )
    assert [row["comes"] for row in pending] == [False, True]
    assert accesses(db, scope) == {f"{SITE}/a": ["bob"], f"{SITE}/b": ["ada"], f"{SITE}/c": None}
