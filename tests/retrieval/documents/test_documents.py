"""Documents: listing, changing metadata and deleting, on a real database."""

import contextlib
import dataclasses
import random

import pytest

from retrieval.documents import documents
from retrieval.documents.queries import counts
from retrieval.errors import ErrorCode, ServiceError
from retrieval.filters import DocumentFilter
from tests.loops import run_coroutine

NO_FILTER = DocumentFilter()


@pytest.fixture
def call(db):
    """Run an async function of the noun on the test's database."""

    def run(function, *args, **options):
        return run_coroutine(db, function(db, *args, **options))

    return run


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
    listed_document = call(documents.list_page, library.scope, NO_FILTER, viewer=None).items[0]
    assert (listed_document.metadata, listed_document.updated_at) == (changed[0].metadata, changed[0].updated_at)
    assert listed_document.updated_at > listed_document.created_at


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
    assert [item.metadata for item in call(documents.list_page, library.scope, NO_FILTER, viewer=None).items] == [
        {},
        {"there": 1},
    ]


def test_counts_are_true_whatever_became_of_documents(library, call, monkeypatch):
    monkeypatch.setattr(counts, "MAX_PARTIAL_COUNTS", 10)
    dice, document_ids = random.Random(4), []
    changes = (
        "update documents set status = 'SUCCESS' where id = any(%(ids)s)",
        "update documents set status = 'FAILED' where id = any(%(ids)s)",
        "update documents set deleted_at = now() where id = any(%(ids)s)",
        "delete from documents where id = any(%(ids)s)",
    )
    for number in range(40):
        document_ids.append(library.put(source=dice.choice(["TEXT", "URL"]), status="QUEUED"))
        with contextlib.suppress(InterruptedError), library.db.transaction() as connection:
            connection.execute(dice.choice(changes), {"ids": dice.sample(document_ids, min(4, len(document_ids)))})
            if number % 3 == 0:
                raise InterruptedError
        if number % 15 == 14:
            counts.merge_counts(library.db)
    rows = library.db.rows(
        "select source, status, count(*) as documents from documents"
        " where partition_id = %(partition)s and deleted_at is null group by 1, 2 order by 1, 2",
        {"partition": library.partition},
    )
    assert [dataclasses.asdict(count) for count in call(counts.read_counts, library.scope)] == rows
    assert len(rows) > 3
    counts.merge_counts(library.db)
    parts = "select count(*) as parts from document_counts where partition_id = %(partition)s"
    assert library.db.row(parts, {"partition": library.partition})["parts"] == len(rows)
    library.db.rows("delete from partitions where id = %(partition)s", {"partition": library.partition})
    assert call(counts.read_counts, library.scope) == []
