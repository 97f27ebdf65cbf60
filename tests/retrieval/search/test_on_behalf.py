"""Repeated searches of one user: remembered state affects speed, never visibility."""

from __future__ import annotations

import functools
import random

import psycopg
import pytest

from connectors.vectors import pgvector
from retrieval import principals
from retrieval.access import groups, reading
from retrieval.access.queries import memberships
from retrieval.access.queries.lists import set_lists
from retrieval.ports import Scope
from retrieval.principals import Access, Viewer
from retrieval.search import search, selectivity
from retrieval.search.search import Query
from tests.loops import run_coroutine
from tests.retrieval.access.worlds import World
from tests.retrieval.search.test_search import FixedEmbedder, axis, hybrid

WAYS = [hybrid(1.0), hybrid(0.0), hybrid(0.5)]


@pytest.fixture
def run(db):
    """Return a function that runs a coroutine on the database's event loop."""
    return functools.partial(run_coroutine, db)


@pytest.fixture
def seen_by(library, run, monkeypatch):
    """Return a function that lists documents found on behalf of a user."""
    monkeypatch.setattr(memberships, "MAX_VISIBLE_IDS", 0)
    monkeypatch.setattr(selectivity, "limit_exact", lambda *_: 0)

    def ask(user="ada", *, scope=None, top_k=20, **weights):
        scope = scope or library.scope
        viewer = run(memberships.find_viewer(library.db, scope, user))
        query = Query("wing", top_k=top_k, **weights)
        response = search.run_search(
            library.db, scope, query, viewer=viewer, embedder=FixedEmbedder(), vectors=library.store
        )
        return {hit.document_id for hit in response.hits}

    return ask


def set_access(library, document, access):
    with library.db.transaction() as connection:
        set_lists(connection, {document: access})


@pytest.mark.parametrize("viewer_options", WAYS)
def test_the_next_search_knows_what_was_changed_since_the_last(library, seen_by, run, viewer_options):
    def group(name, users=(), member_groups=()):
        run(groups.put_group(library.db, library.scope, name, users, member_groups))

    staff, mine, free = (library.put([f"wing {n}"], [axis(0.9 - n / 10)]) for n in range(3))
    set_access(library, staff, Access(groups=("staff",)))
    set_access(library, mine, Access(users=("ada",)))
    assert seen_by(**viewer_options) == {mine, free}
    group("staff", ["ada"])
    assert seen_by(**viewer_options) == {staff, mine, free}
    group("staff", [])
    assert seen_by(**viewer_options) == {mine, free}, "emptied"
    group("team", ["ada"])
    group("staff", [], ["team"])
    assert seen_by(**viewer_options) == {staff, mine, free}, "by a group that it holds"
    group("team", ["bob"])
    assert seen_by(**viewer_options) == {mine, free}, "that group has changed"
    assert seen_by("bob", **viewer_options) == {staff, free}
    group("team", ["ada"])
    run(groups.delete_group(library.db, library.scope, "staff"))
    assert seen_by(**viewer_options) == {mine, free}
    set_access(library, mine, Access(users=("bob",)))
    assert seen_by(**viewer_options) == {free}
    set_access(library, staff, Access(public=True))
    set_access(library, free, Access())
    assert seen_by(**viewer_options) == {staff}
    set_access(library, staff, Access(denied_users=("ada",), public=True))
    set_access(library, mine, None)
    assert seen_by(**viewer_options) == {mine}
    late = library.put(["wing late"], [axis(0.5)])
    assert seen_by(**viewer_options) == {mine, late}


@pytest.mark.parametrize("viewer_options", WAYS)
def test_a_tenant_is_searched_by_nothing_that_was_met_in_another(library, new_library, seen_by, run, viewer_options):
    scope = Scope(library.scope.organization, library.scope.namespace, "acme")
    other_tenant = new_library(scope)
    own_document, theirs = (tenant_library.put(["wing"], [axis(0.9)]) for tenant_library in (library, other_tenant))
    for tenant_library, document in ((library, own_document), (other_tenant, theirs)):
        set_access(tenant_library, document, Access(groups=("staff",)))
    run(groups.put_group(library.db, library.scope, "staff", ["ada"], []))
    assert seen_by(**viewer_options) == {own_document}
    assert seen_by(scope=scope, **viewer_options) == set()
    run(groups.put_group(library.db, scope, "staff", ["ada"], []))
    run(groups.put_group(library.db, library.scope, "staff", [], []))
    assert seen_by(**viewer_options) == set()
    assert seen_by(scope=scope, **viewer_options) == {theirs}
    viewer = run(memberships.find_viewer(library.db, scope, "ada"))
    query = Query("wing", **viewer_options)
    response = search.run_search(
        library.db, library.scope, query, viewer=viewer, embedder=FixedEmbedder(), vectors=library.store
    )
    assert {hit.document_id for hit in response.hits} <= {own_document}, "the scope that is asked for, whoever looks"


@pytest.mark.slow
@pytest.mark.parametrize("viewer_options", WAYS)
def test_a_user_who_may_see_little_of_late_still_gets_all_of_it(library, seen_by, monkeypatch, viewer_options):
    monkeypatch.setattr(search, "MAX_FILTERED_CHUNKS", 60)
    hidden = [library.put([f"wing wing {n}"], [axis(0.9)]) for n in range(120)]
    few = [library.put([f"wing far from it {n}"], [axis(0.1)]) for n in range(10)]
    for document in hidden:
        set_access(library, document, Access(users=("bob",)))
    assert seen_by(top_k=10, **viewer_options) == set(few)


def test_the_policies_and_the_rule_in_the_statement_show_what_the_oracle_says(library):
    dice = random.Random(351)
    names = [library.put([f"wing {n}"], [axis(0.9)]) for n in range(12)]
    for _ in range(40):
        world = World.random(dice, names)
        for name, access in world.said.items():
            set_access(
                library,
                name,
                None if access is None else Access(**{key: _tuple(value) for key, value in access.items()}),
            )
        user = dice.choice(["ada", "bob", "eve"])
        groups_of = [principals.group_principal(group) for group in world.groups_of(user)]
        viewer = Viewer(user, (principals.user_principal(user), *groups_of), library.partition)
        scoped = reading.scope_statement("select id from documents", {}, viewer)
        assert {row["id"] for row in library.db.rows(scoped.text, dict(scoped.params))} == world.seen_by(user)
        for table in ("documents", "chunks", "vectors"):
            column = "id" if table == "documents" else "document_id"
            rows = reading.viewed_database(library.db, viewer).rows(f"select distinct {column} as id from {table}")
            assert {row["id"] for row in rows} == world.seen_by(user), table


def test_a_viewer_of_no_partition_or_another_one_and_a_connection_without_settings_see_nothing(library):
    library.put(["wing"], [axis(0.9)])
    ada = Viewer("ada", ("u:ada",))
    assert reading.viewed_database(library.db, ada).rows("select id from documents") == []
    foreign_viewer = Viewer("ada", ("u:ada",), library.partition + 1)
    assert reading.viewed_database(library.db, foreign_viewer).rows("select id from documents") == []
    for table in ("documents", "chunks", "vectors", "run_documents", "embeddings", "postings"):
        assert library.db.viewed({}).rows(f"select * from {table}") == [], table
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        library.db.viewed({}).rows("select * from api_keys")


def test_a_connection_keeps_nothing_of_the_viewer_before(library, run):
    mine = library.put(["wing"], [axis(0.9)])
    set_access(library, mine, Access(users=("ada",)))
    ada = Viewer("ada", ("u:ada",), library.partition)
    query = "select id from documents"

    async def read_pages(settings):
        return [row["id"] for row in await library.db.viewed(settings).async_rows(query)]

    for settings in ({}, {"app.names": ada.names}, {"app.partition": str(library.partition)}):
        assert [row["id"] for row in reading.viewed_database(library.db, ada).rows(query)] == [mine]
        assert library.db.viewed(settings).rows(query) == []
        assert run(read_pages(ada.settings)) == [mine]
        assert run(read_pages(settings)) == []


@pytest.mark.parametrize("viewer_options", WAYS)
def test_an_index_of_vectors_is_walked_for_what_the_user_may_see(library, seen_by, monkeypatch, viewer_options):
    monkeypatch.setattr(pgvector, "INDEX_MIN_ROWS", 100)
    names = [library.put([f"wing {n} {part}" for part in range(10)], [axis(0.9 - n / 100)] * 10) for n in range(30)]
    assert library.store.ensure_index(library.scope)
    for name in names[::3]:
        set_access(library, name, Access(users=("ada",)))
    for name in (*names[1::3], *names[2::3]):
        set_access(library, name, Access(denied_users=("ada",), public=True))
    for _ in range(3):
        assert seen_by(top_k=100, **viewer_options) == set(names[::3])
    set_access(library, names[0], Access(users=("bob",)))
    assert seen_by(top_k=100, **viewer_options) == set(names[3::3])
    assert seen_by("bob", top_k=1_000, **viewer_options) == set(names) - set(names[3::3])
    library.store.drop_index(library.scope)


def _tuple(value):
    return tuple(value) if isinstance(value, list) else value
