"""Deletion by a client and by a listing have the same effect."""

import asyncio

import pytest

from retrieval.documents.queries import deletion
from retrieval.search import search
from retrieval.search.search import Query


def by_a_client(db, ids):
    async def awaited():
        try:
            async with db.async_transaction() as connection:
                return await deletion.async_delete_documents(connection, ids)
        finally:
            await db.async_close()

    return asyncio.run(awaited())


def by_a_listing(db, ids):
    with db.transaction() as connection:
        return deletion.delete_documents(connection, ids)


WAYS = pytest.mark.parametrize("delete", [by_a_client, by_a_listing])


def find_documents(library):
    query = Query("wing", semantic_weight=0.0, keyword_weight=1.0)
    return {
        hit.document_id
        for hit in search.run_search(library.db, library.scope, query, viewer=None, embedder=None, vectors=None).hits
    }


def count_rows(library):
    """Count the scope's rows, terms and queued garbage collection."""
    of = {"partition": library.partition}
    return {
        "sums": dict(library.db.row("select chunks, terms from partitions where id = %(partition)s", of)),
        "words": {
            row["term"]: row["chunks"]
            for row in library.db.rows(
                "select term, sum(chunks)::int as chunks from term_counts where partition_id = %(partition)s"
                " group by term having sum(chunks) <> 0",
                of,
            )
        },
        "garbage": sorted(
            row["document_id"]
            for row in library.db.rows(
                "select document_id from sweeps where partition_id = %(partition)s and kind = 'document'", of
            )
        ),
        "departures": library.db.rows(
            "select 1 as yes from departures x join documents d on d.id = x.document_id"
            " where d.partition_id = %(partition)s",
            of,
        ),
    }


def packed_into(library, archive, document):
    library.db.rows(
        "update documents set archive_id = %(archive)s where id = %(id)s", {"archive": archive, "id": document}
    )
    return document


@WAYS
def test_a_document_goes_with_all_that_is_packed_into_it_and_nothing_else(library, delete):
    archive = library.put(["wing of an archive"])
    inner = packed_into(library, archive, library.put(["wing of an inner archive"]))
    member = packed_into(library, inner, library.put(["wing of a member", "wing once more"]))
    other_document = library.put(["wing pressure"])
    assert find_documents(library) == {archive, inner, member, other_document}
    assert sorted(delete(library.db, [archive])) == sorted([archive, inner, member])
    assert find_documents(library) == {other_document}
    assert count_rows(library) == {
        "sums": {"chunks": 1, "terms": 2},
        "words": {"wing": 1, "pressur": 1},
        "garbage": sorted([archive, inner, member]),
        "departures": [],
    }


@WAYS
def test_what_is_deleted_already_or_was_never_there_is_left_alone(library, delete):
    deleted, other_document = library.put(["wing"]), library.put(["wing"])
    assert delete(library.db, [deleted]) == [deleted]
    counts = count_rows(library)
    assert delete(library.db, [deleted, "doc_unknown"]) == []
    assert count_rows(library) == counts
    assert find_documents(library) == {other_document}


@WAYS
def test_documents_of_two_scopes_are_counted_each_in_its_own(library, new_library, delete):
    other_library = new_library()
    ids = [library.put(["wing", "wing flow"]), other_library.put(["wing"])]
    library.put(["wing"])
    assert sorted(delete(library.db, ids)) == sorted(ids)
    assert count_rows(library)["sums"] == {"chunks": 1, "terms": 1}
    assert count_rows(other_library)["sums"] == {"chunks": 0, "terms": 0}


@WAYS
def test_a_document_of_many_chunks_leaves_no_word_behind(library, delete):
    # Exceeds the number of chunks removed by one statement.
    document = library.put(["wing"])
    of = {"partition": library.partition, "document": document}
    library.db.rows(
        'insert into chunks (partition_id, document_id, generation, index, start, "end", tokens, content,'
        ' embedding_key) select partition_id, document_id, generation, n, start, "end", tokens, content,'
        " embedding_key from chunks, generate_series(1, 20500) n where document_id = %(document)s",
        of,
    )
    library.db.rows(
        "insert into postings (partition_id, term, chunk_id, tf, length)"
        " select partition_id, 'wing', id, 1, 1 from chunks where document_id = %(document)s on conflict do nothing",
        of,
    )
    library.db.rows("insert into term_counts (partition_id, term, chunks) values (%(partition)s, 'wing', 20500)", of)
    library.db.rows("update partitions set chunks = 20501, terms = 20501 where id = %(partition)s", of)
    assert delete(library.db, [document]) == [document]
    assert count_rows(library)["sums"] == {"chunks": 0, "terms": 0}
    assert count_rows(library)["words"] == {}
