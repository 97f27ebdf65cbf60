"""Reader lists: intersection, inheritance, and migration of the first format."""

import json
import random

import pytest

from retrieval import ids
from retrieval.access.queries import lists
from retrieval.principals import Access, Viewer, group_principal, user_principal

USERS, GROUPS = ["ada", "bob@x.org", "cyd@y.org"], ["staff", "guests", "domain:x.org"]
VIEWERS = [
    Viewer(name, (user_principal(name), *map(group_principal, [*groups, *domain])))
    for name, domain in zip(USERS, ([], ["domain:x.org"], ["domain:y.org"]), strict=True)
    for groups in ([], ["staff"], ["guests"], ["staff", "guests"])
]


def draw_names(rng, of):
    return tuple(rng.sample(of, rng.randint(0, len(of))))


def draw_access(rng):
    denied = draw_names(rng, USERS) if rng.random() < 0.3 else (), draw_names(rng, GROUPS) if rng.random() < 0.2 else ()
    return Access(draw_names(rng, USERS), draw_names(rng, GROUPS), *denied, rng.random() < 0.2)


def stored(access):
    return None if access is None else json.dumps(access.dump())


def intersected(db, pairs):
    old, new = ([stored(access) for access in side] for side in zip(*pairs, strict=True))
    rows = db.rows(
        "select intersect_access(old, new) as both from unnest(%(old)s::jsonb[], %(new)s::jsonb[]) w (old, new)",
        {"old": old, "new": new},
    )
    return [None if row["both"] is None else Access.load(row["both"]) for row in rows]


def test_two_lists_together_show_nobody_more_than_either_and_nobody_less_than_names_say(db):
    rng = random.Random(462)
    pairs = [(draw_access(rng), draw_access(rng)) for _ in range(3000)]
    for (old, new), both in zip(pairs, intersected(db, pairs), strict=True):
        for viewer in VIEWERS:
            by_both = viewer.sees(old) and viewer.sees(new)
            assert not viewer.sees(both) or by_both
            alike = {*old.users, *map(group_principal, old.groups)} & {*new.users, *map(group_principal, new.groups)}
            of_domain = viewer.user == "bob@x.org" and all(
                {"bob@x.org", "domain:x.org"} & {*access.users, *access.groups} for access in (old, new)
            )
            if by_both and ({viewer.user, *viewer.principals} & alike or old.public or new.public or of_domain):
                assert viewer.sees(both)


def test_an_open_document_is_limited_to_the_list_that_comes(db):
    wide = Access(("ada", "bob"), ("staff",), ("cyd",), ("guests",), public=True)
    assert intersected(db, [(wide, wide), (None, wide), (wide, None), (None, None)]) == [wide, wide, wide, None]


@pytest.fixture
def packed(db, library):
    """Insert an archive with a nested archive and a text."""
    archive, inner, text = library.put(), library.put(), library.put(["a text"])
    for child, parent in ((inner, archive), (text, inner)):
        values = {"parent": parent, "child": child}
        db.rows("update documents set archive_id = %(parent)s, inherits_access = true where id = %(child)s", values)
    return archive, inner, text


def give(db, **accesses):
    with db.transaction() as connection:
        lists.set_lists(connection, accesses)


def readers(db, *documents):
    rows = db.rows("select id, allowed from documents where id = any(%(ids)s)", {"ids": list(documents)})
    allowed_by_id = {row["id"]: row["allowed"] for row in rows}
    return [allowed_by_id[document] for document in documents]


def test_packed_documents_follow_their_container_but_for_those_with_lists_of_their_own(db, packed):
    archive, inner, _text = packed
    give(db, **{archive: Access(("ada",))})
    assert readers(db, *packed) == [["u:ada"]] * 3
    give(db, **{inner: Access(("bob",))})
    assert readers(db, *packed) == [["u:ada"], ["u:bob"], ["u:bob"]]
    give(db, **{archive: Access(("cyd",))})
    assert readers(db, *packed) == [["u:cyd"], ["u:bob"], ["u:bob"]]
    give(db, **{archive: None})
    assert readers(db, *packed) == [["@"], ["u:bob"], ["u:bob"]]


def version(db, document, access):
    """Accept a version with this list and return a function that sets its status."""
    values = {"document": document, "access": stored(access), "job": ids.job_id(), "run": ids.job_run_id()}
    db.rows(
        "with job as (insert into jobs (id, organization_id, partition_id, source, config) select %(job)s,"
        " n.organization_id, d.partition_id, d.source, '{}' from documents d join partitions p on p.id = d.partition_id"
        " join namespaces n on n.id = p.namespace_id where d.id = %(document)s returning id, partition_id, source),"
        " run as (insert into job_runs (id, job_id, partition_id, source) select %(run)s, id, partition_id, source"
        " from job returning id)"
        " insert into run_documents (job_run_id, document_id, position, generation, name, access)"
        " select id, %(document)s, 0, 2, 'a version', %(access)s::jsonb from run",
        values,
    )
    statement = "update run_documents set status = %(status)s where job_run_id = %(run)s"
    return lambda status: db.rows(statement, {**values, "status": status})


@pytest.mark.parametrize("end", ["FAILED", "CANCELLED", "SUCCESS"])
def test_a_version_on_its_way_limits_a_container_with_all_that_inherits_until_it_ends(db, packed, end):
    archive, inner, _text = packed
    give(db, **{archive: Access(("ada", "bob"))})
    becomes = version(db, archive, Access(("bob", "cyd")))
    assert readers(db, *packed) == [["u:bob"]] * 3
    becomes("PROCESSING")
    give(db, **{inner: Access(("ada", "eve"))})
    assert readers(db, *packed) == [["u:bob"], ["u:ada", "u:eve"], ["u:ada", "u:eve"]]
    becomes(end)
    assert readers(db, *packed) == [["u:ada", "u:bob"], ["u:ada", "u:eve"], ["u:ada", "u:eve"]]


def test_a_list_applies_with_its_version_and_what_inherits_waits_for_its_own(db, packed):
    archive, _inner, text = packed
    give(db, **{archive: Access(("ada", "bob"))})
    for document in (archive, text):
        version(db, document, Access(("bob", "cyd")))
    with db.transaction() as connection:
        lists.show_versions(connection, [(archive, 2)], is_unchanged=False)
    assert readers(db, *packed) == [["u:bob", "u:cyd"], ["u:bob"], ["u:bob"]]
    with db.transaction() as connection:
        lists.show_versions(connection, [(text, 2)], is_unchanged=False)
    assert readers(db, *packed) == [["u:bob", "u:cyd"], ["u:bob"], ["u:bob", "u:cyd"]]


def test_a_list_that_a_client_sets_takes_the_place_of_those_that_were_to_come(db, packed):
    archive, _inner, text = packed
    version(db, archive, Access(("bob",)))
    version(db, text, Access(("cyd",)))
    give(db, **{archive: Access(("ada",))})
    assert readers(db, *packed) == [["u:ada"]] * 3
    with db.transaction() as connection:
        lists.show_versions(connection, [(archive, 2), (text, 2)], is_unchanged=False)
    assert readers(db, *packed) == [["u:ada"]] * 3
