"""Documents: listing, changing metadata and deleting, on a real database."""

import asyncio
import time

import pytest

from retrieval.documents import documents
from retrieval.errors import ErrorCode, ServiceError
from retrieval.filters import DocumentFilter
from retrieval.ports import Scope
from retrieval.search import search
from retrieval.search.search import Query

ALL = DocumentFilter()


@pytest.fixture
def call(db):
    """Run an async function of the noun on the test's database."""

    def run(function, *args, **options):
        async def awaited():
            try:
                return await function(db, *args, **options)
            finally:
                await db.async_close()
                db._pools.loop = db._of_viewers.loop = None

        return asyncio.run(awaited())

    return run


def names(page):
    return [item.name for item in page.items]


def by_words(library, text):
    query = Query(text, semantic_weight=0.0, keyword_weight=1.0)
    return search.run(library.db, library.scope, query, viewer=None, embedder=None, vectors=None).hits


def test_a_listing_is_newest_first_and_walks_to_the_end_while_documents_come_in(library, call):
    for number in range(7):
        library.put(name=f"d{number}")
    first = call(documents.list_page, library.scope, ALL, 3, viewer=None)
    library.put(name="newcomer")
    second = call(documents.list_page, library.scope, ALL, 3, first.cursor, viewer=None)
    third = call(documents.list_page, library.scope, ALL, 3, second.cursor, viewer=None)
    assert names(first) + names(second) + names(third) == ["d6", "d5", "d4", "d3", "d2", "d1", "d0"]
    assert third.cursor is None


def test_a_page_that_just_holds_everything_has_no_cursor(library, call):
    for number in range(3):
        library.put(name=f"d{number}")
    assert call(documents.list_page, library.scope, ALL, 3, viewer=None).cursor is None


def test_nothing_matches_is_an_empty_listing(library, call):
    assert call(documents.list_page, library.scope, DocumentFilter(document_ids=("doc_none",)), viewer=None).items == []


def test_no_scope_lists_changes_or_deletes_anothers(library, new_library, call):
    tenant = new_library(Scope(library.scope.organization, library.scope.namespace, "t1"))
    other = new_library()
    ours = library.put(["wing"], name="ours", metadata={"k": 1})
    for scope in (tenant.scope, other.scope, Scope("org_none", library.scope.namespace)):
        assert call(documents.list_page, scope, ALL, viewer=None).items == []
        for change in (
            (documents.delete, scope, DocumentFilter(document_ids=(ours,))),
            (documents.patch_metadata, scope, DocumentFilter(document_ids=(ours,)), {"k": 2}, {}, {}),
        ):
            with pytest.raises(ServiceError) as caught:
                call(*change)
            assert caught.value.code == ErrorCode.DOCUMENTS_NOT_FOUND
    assert call(documents.list_page, library.scope, ALL, viewer=None).items[0].metadata == {"k": 1}


def test_a_change_without_any_restriction_is_refused(library, call):
    library.put(name="kept")
    empty = DocumentFilter(metadata={"k": ()})
    for change in (
        (documents.delete, library.scope, empty),
        (documents.patch_metadata, library.scope, ALL, {}, {}, {}),
    ):
        with pytest.raises(ServiceError) as caught:
            call(*change)
        assert caught.value.code == ErrorCode.INVALID_FILTER_CONFIG
    assert names(call(documents.list_page, library.scope, ALL, viewer=None)) == ["kept"]


def test_metadata_merges_by_key_and_operators_follow(library, call):
    document = library.put(metadata={"keep": True, "old": 1, "tags": ["a", "b", 1], "one": "x"})
    changed = call(
        documents.patch_metadata,
        library.scope,
        DocumentFilter(document_ids=(document,)),
        {"old": 2, "new": None},
        {"tags": ["b", "c"], "one": "y", "made": 1},
        {"tags": ["a", True], "one": ["x"], "old": 2, "absent": 1},
    )
    assert [row.metadata for row in changed] == [
        {"keep": True, "old": 2, "new": None, "tags": ["b", 1, "c"], "one": ["y"], "made": [1]}
    ]
    listed = call(documents.list_page, library.scope, ALL, viewer=None).items[0]
    assert (listed.metadata, listed.updated_at) == (changed[0].metadata, changed[0].updated_at)
    assert listed.updated_at > listed.created_at


def test_empty_operators_change_nothing(library, call):
    document = library.put(metadata={"k": 1})
    before = call(documents.list_page, library.scope, ALL, viewer=None).items
    after = call(documents.patch_metadata, library.scope, DocumentFilter(document_ids=(document,)), {}, {}, {})
    assert after == before


@pytest.mark.parametrize(
    "change",
    [
        {f"k{number}": 1 for number in range(50)},
        {"x" * 65: 1},
        {"$k": 1},
        {"k": "x" * 2048},
        {f"k{number}": "x" * 2000 for number in range(9)},
    ],
)
def test_a_change_beyond_the_limits_leaves_every_document_as_it_was(library, call, change):
    library.put(name="n", metadata={"there": 1})
    library.put(name="n", metadata={})
    with pytest.raises(ServiceError) as caught:
        call(documents.patch_metadata, library.scope, DocumentFilter(types=("TEXT",)), change, {}, {})
    assert caught.value.code == ErrorCode.INVALID_FILTER_CONFIG
    assert [item.metadata for item in call(documents.list_page, library.scope, ALL, viewer=None).items] == [
        {},
        {"there": 1},
    ]


def test_changed_metadata_is_found_by_search_at_once(library, call):
    document = library.put(["wing"], metadata={"team": "red"})
    call(documents.patch_metadata, library.scope, DocumentFilter(document_ids=(document,)), {"team": "blue"}, {}, {})
    assert [hit.metadata for hit in by_words(library, "wing")] == [{"team": "blue"}]


def test_a_deleted_document_is_gone_at_once_and_left_to_the_sweep(library, call):
    gone = library.put(["wing flow", "wing"], external_id="same")
    kept = library.put(["wing pressure"])
    counts = {"partition": library.partition}
    assert call(documents.delete, library.scope, DocumentFilter(document_ids=(gone,))).documents == 1
    assert [hit.document_id for hit in by_words(library, "wing")] == [kept]
    assert [item.id for item in call(documents.list_page, library.scope, ALL, viewer=None).items] == [kept]
    sums = library.db.row("select chunks, terms from partitions where id = %(partition)s", counts)
    assert sums == {"chunks": 1, "terms": 2}
    sweeps = library.db.rows(
        "select kind, document_id, generation from sweeps where partition_id = %(partition)s", counts
    )
    assert sweeps == [{"kind": "document", "document_id": gone, "generation": None}]
    with pytest.raises(ServiceError) as caught:
        call(documents.delete, library.scope, DocumentFilter(document_ids=(gone,)))
    assert caught.value.code == ErrorCode.DOCUMENTS_NOT_FOUND
    library.put(["again"], external_id="same")


def test_a_run_in_flight_cannot_bring_a_deleted_document_back(library, call):
    document = library.put(["wing"])
    call(documents.delete, library.scope, DocumentFilter(document_ids=(document,)))
    library.put(["wing again"], document_id=document, generation=2)
    assert by_words(library, "wing") == []
    assert call(documents.list_page, library.scope, ALL, viewer=None).items == []


def test_scores_after_a_deletion_are_those_of_a_scope_that_never_had_it(library, new_library, call):
    fresh = new_library()
    for one in (library, fresh):
        one.put(["wing boundary layer", "pressure"], [[1.0] + [0.0] * 7] * 2)
    gone = library.put(["wing wing wing", "layer of pressure"])
    call(documents.delete, library.scope, DocumentFilter(document_ids=(gone,)))
    scores = [[hit.score for hit in by_words(one, "wing pressure")] for one in (library, fresh)]
    assert scores[0] == pytest.approx(scores[1])


def test_three_thousand_documents_are_deleted_in_seconds(library, call):
    library.db.rows(
        "insert into documents (id, partition_id, job_id, job_run_id, source, external_id, document_type, name)"
        " select 'doc_' || %(partition)s || '_' || n, %(partition)s, 'j', 'r', 'TEXT', n::text, 'TEXT', 'n'"
        " from generate_series(1, 3000) n",
        {"partition": library.partition},
    )
    started = time.monotonic()
    assert call(documents.delete, library.scope, DocumentFilter(types=("TEXT",))).documents == 3000
    assert time.monotonic() - started < 60
    assert call(documents.list_page, library.scope, ALL, viewer=None).items == []


def test_stats_count_by_source_and_status(library, call):
    for source, status in (("TEXT", "SUCCESS"), ("TEXT", "FAILED"), ("SITEMAP", "SUCCESS")):
        library.put(source=source, status=status)
    counted = call(documents.stats, library.scope, ALL, viewer=None)
    assert counted.by_source == {"TEXT": 2, "SITEMAP": 1}
    assert counted.by_status == {"SUCCESS": 2, "FAILED": 1}
