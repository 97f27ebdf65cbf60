"""Access of what is found out on the way: members of archives, items of a listing."""

import asyncio
import json

import pytest

from retrieval.documents import documents
from retrieval.documents.documents import NewAccess
from retrieval.filters import DocumentFilter
from retrieval.ingestion import discover
from retrieval.job_config import Ingestion
from retrieval.jobs import batches, runs
from retrieval.principals import Access
from tests.flows.ingestion.test_discovery import SITE, Listing
from tests.flows.ingestion.test_unpack import TIDES, house, ingest, packed  # noqa: F401
from tests.flows.jobs.test_batches import claimed

ADA, BOB = Access(users=("ada",)), Access(users=("bob",))


@pytest.fixture(autouse=True)
def _nothing_else_waits(db):
    db.rows("update job_runs set finished_at = now() where finished_at is null")
    db.rows("update batches set finished_at = now() where finished_at is null")


def accesses(db, scope):
    """By external id, the users whom each document is for; None for an open one."""
    found = db.rows(
        "select d.external_id, d.access, array(select a.principal from document_principals a"
        " where a.document_id = d.id) as names from documents d join partitions p on p.id = d.partition_id"
        " where p.namespace_id = %(namespace)s and d.deleted_at is null",
        {"namespace": scope.namespace},
    )
    for row in found:
        said = None if row["access"] is None else Access.load(row["access"])
        assert row["names"] == ([] if said is None else [f"u:{name}" for name in said.users])
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

    async def post():
        made = await runs.accept_discovery(
            db, scope, source="WEBSITE", config={"url": SITE}, ingestion=Ingestion(**said)
        )
        await db.async_close()
        return made

    asyncio.run(post())
    lease = claimed(db)
    (wanted,) = discover.waiting(db, lease)
    discover.run(db, lease, wanted, Listing(*pages))
    with db.transaction() as connection:
        connection.execute("update job_runs set finished_at = now() where batch_id = %(b)s", {"b": lease.batch_id})
    batches.finish(db, lease)
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
    db.rows(
        "update documents set access = %(open)s::jsonb, access_at = now() + interval '30 seconds'"
        " where external_id = %(a)s",
        {"open": json.dumps(BOB.dump()), "a": f"{SITE}/a"},
    )
    listed(db, scope, "a", "b", access=Access(users=("cyd", "ada")))
    assert accesses(db, scope) == {f"{SITE}/a": ["bob"], f"{SITE}/b": ["ada"], f"{SITE}/c": None}


def test_a_listing_for_a_user_leaves_hidden_documents_alone(db, new_scope):
    scope = new_scope()
    listed(db, scope, "a", "b", access=ADA)
    listed(db, scope, "c")
    assert listed(db, scope, "a", "c", "d", access=BOB, principal="bob") == ["c", "d"]
    assert accesses(db, scope) == {
        f"{SITE}/a": ["ada"],
        f"{SITE}/b": ["ada"],
        f"{SITE}/c": ["bob"],
        f"{SITE}/d": ["bob"],
    }


def restrict(house, access, *names):  # noqa: F811
    where = DocumentFilter(external_ids=names)
    house.call(documents.patch_metadata(house.db, house.scope, where, {}, {}, {}, access=NewAccess(access)))


def test_an_archive_for_a_user_leaves_hidden_members_alone(house):  # noqa: F811
    """Neither their content is replaced, nor do they go where the new version lacks them, nor do they become seen."""
    ingest(house, "loose/secret.txt", b"Ada's own.", access=ADA)
    data = packed([("open.txt", TIDES), ("secret.txt", b"First."), ("gone.txt", b"Here at first.")])
    ingest(house, "boat.zip", data)
    restrict(house, ADA, "boat.zip/secret.txt", "boat.zip/gone.txt")
    before = generations(house)
    ended = ingest(house, "boat.zip", packed([("open.txt", b"New."), ("secret.txt", b"Bob's.")]), principal="bob")
    assert {name: status for name, (status, _, _) in ended.items()} == {"boat.zip": "SUCCESS", "open.txt": "SUCCESS"}
    after = generations(house)
    hidden = {"boat.zip/secret.txt", "boat.zip/gone.txt", "loose/secret.txt"}
    assert {name: after[name] for name in hidden} == {name: before[name] for name in hidden}
    ingest(house, "loose", packed([("secret.txt", b"Bob's.")]), access=BOB, principal="bob")
    assert generations(house)["loose/secret.txt"] == before["loose/secret.txt"]
    assert accesses(house.db, house.scope)["loose/secret.txt"] == ["ada"]
    restrict(house, Access(groups=("staff",)), "boat.zip/secret.txt")
    seen = packed([("open.txt", b"Newest."), ("secret.txt", b"Bob's, of the staff.")])
    ingest(house, "boat.zip", seen, principal="bob", groups=("staff",))
    assert generations(house)["boat.zip/secret.txt"] > before["boat.zip/secret.txt"]
    ingest(house, "boat.zip", packed([("open.txt", b"Last."), ("secret.txt", b"Ours.")]))
    assert set(generations(house)) == {*before, "loose"} - {"boat.zip/gone.txt"}


def generations(house):  # noqa: F811
    found = house.db.rows(
        "select d.external_id, d.active_generation from documents d join partitions p on p.id = d.partition_id"
        " where p.namespace_id = %(namespace)s and d.deleted_at is null",
        {"namespace": house.scope.namespace},
    )
    return {row["external_id"]: row["active_generation"] for row in found}


def test_access_of_a_listing_for_a_user_does_not_reach_what_is_hidden_within(db, new_scope):
    scope = new_scope()
    listed(db, scope, "a", "a/open", "a/hidden")
    listed(db, scope, "a/hidden", access=ADA)
    db.rows(
        "update documents d set archive_id = a.id from documents a where a.external_id = %(a)s"
        " and a.partition_id = d.partition_id and d.external_id <> %(a)s",
        {"a": f"{SITE}/a"},
    )
    assert listed(db, scope, "a", access=BOB, principal="bob") == ["a"]
    assert accesses(db, scope) == {f"{SITE}/a": ["bob"], f"{SITE}/a/open": ["bob"], f"{SITE}/a/hidden": ["ada"]}
