"""Access of archive members and of listed items."""

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
    """Users by external id; None for an open document."""
    stored = db.rows(
        "select d.external_id, d.access, d.allowed as names from documents d join partitions p on p.id = d.partition_id"
        " where p.namespace_id = %(namespace)s and d.deleted_at is null",
        {"namespace": scope.namespace},
    )
    for row in stored:
        access = None if row["access"] is None else Access.load(row["access"])
        assert row["names"] == (["@"] if access is None else [f"u:{name}" for name in access.users])
    return {row["external_id"]: row["access"] and row["access"]["users"] for row in stored}


def test_members_of_an_archive_inherit_and_follow_it(house):  # noqa: F811
    inner = packed([("deep.txt", b"Deep water.")])
    data = packed([("tides.txt", TIDES), ("inner.zip", inner)])
    ingest(house, "boat.zip", data, access=ADA)
    names = {"boat.zip", "boat.zip/tides.txt", "boat.zip/inner.zip", "boat.zip/inner.zip/deep.txt"}
    assert accesses(house.db, house.scope) == {key: ["ada"] for key in names}
    archive_filter = DocumentFilter(external_ids=("boat.zip",))
    house.call(documents.patch_metadata(house.db, house.scope, archive_filter, {}, {}, {}, access=NewAccess(BOB)))
    assert accesses(house.db, house.scope) == {key: ["bob"] for key in names}
    longer_archive = packed([("tides.txt", TIDES), ("inner.zip", inner), ("crew.txt", b"The crew is six.")])
    ingest(house, "boat.zip", longer_archive)
    assert accesses(house.db, house.scope) == {key: ["bob"] for key in {*names, "boat.zip/crew.txt"}}


def list_pages(db, scope, *pages, **fields):
    """Run a website's job with these pages."""
    return record_pages(db, *accepted(db, scope, **fields), *pages)


def accepted(db, scope, **fields):
    """Claim a website's job run."""

    async def post():
        job_run = await runs.accept_discovery(
            db, scope, source="WEBSITE", config={"url": SITE}, ingestion=Ingestion(**fields)
        )
        await db.async_close()
        return job_run

    asyncio.run(post())
    lease = claimed(db)
    (listing,) = listings.pending_listings(db, lease)
    return lease, listing


def record_pages(db, lease, listing, *pages):
    """Record the pages of this run."""
    discover.record_listing(db, lease, listing, Listing(*pages))
    with db.transaction() as connection:
        connection.execute("update job_runs set finished_at = now() where batch_id = %(b)s", {"b": lease.batch_id})
    batches.finish_batch(db, lease)
    return [
        row["external_id"].removeprefix(f"{SITE}/")
        for row in db.rows(
            "select d.external_id from run_documents m join documents d on d.id = m.document_id"
            " where m.job_run_id = %(run)s order by 1",
            {"run": listing.job_run_id},
        )
    ]


def test_a_listing_gives_access_to_what_it_finds_and_undoes_no_later_change(db, new_scope):
    scope = new_scope()
    list_pages(db, scope, "a", "b", access=ADA)
    assert accesses(db, scope) == {f"{SITE}/a": ["ada"], f"{SITE}/b": ["ada"]}
    list_pages(db, scope, "a", "c")
    assert accesses(db, scope) == {f"{SITE}/a": ["ada"], f"{SITE}/b": ["ada"], f"{SITE}/c": None}
    lease, listing = accepted(db, scope, access=Access(users=("cyd", "ada")))
    (row,) = db.rows(
        "select d.id from documents d join partitions p on p.id = d.partition_id where d.external_id = %(a)s"
        " and p.namespace_id = %(namespace)s",
        {"a": f"{SITE}/a", "namespace": scope.namespace},
    )
    with db.transaction() as connection:
        lists.set_lists(connection, {row["id"]: BOB})
    record_pages(db, lease, listing, "a", "b")
    pending = db.rows(
        "select d.external_id, m.access is not null as comes from run_documents m join documents d"
        " on d.id = m.document_id where m.job_run_id = %(run)s order by 1",
        {"run": listing.job_run_id},
    )
    assert [row["comes"] for row in pending] == [False, True]
    assert accesses(db, scope) == {f"{SITE}/a": ["bob"], f"{SITE}/b": ["ada"], f"{SITE}/c": None}
