"""`bench.search` inserts rows as ingestion does."""

import numpy as np

from bench import search
from retrieval.database.database import Database
from retrieval.keywords.postings import index_chunks


def test_postings_and_counts_are_those_that_indexing_makes(database_url):
    db = Database(database_url, size=1)
    try:
        scope, partition = search.make_scope(db)
        search.fill_partition(db, partition, np.random.default_rng(3), 50)
        of = {"partition": partition}
        mine = postings(db, of)
        counts = db.rows("select term, chunks from term_counts where partition_id = %(partition)s order by 1", of)
        sizes = db.row("select chunks, terms from partitions where id = %(partition)s", of)
        assert len(mine) > 2000
        with db.transaction() as connection:
            connection.execute("delete from postings where partition_id = %(partition)s", of)
            connection.execute("delete from term_counts where partition_id = %(partition)s", of)
            rows = connection.execute("select id from chunks where partition_id = %(partition)s", of).fetchall()
            gained = index_chunks(connection, partition, [row["id"] for row in rows], "english")
        assert mine == postings(db, of)
        indexed = "select term, sum(chunks)::int as chunks from term_counts where partition_id = %(partition)s"
        assert counts == db.rows(f"{indexed} group by term order by 1", of)
        assert gained == (sizes["chunks"], sizes["terms"])
        text, vector = search.make_queries(db, partition, np.random.default_rng(4), 1)[0]
        assert text.startswith("w")
        assert len(vector) == search.DIMENSIONS
    finally:
        with db.transaction() as connection:
            for table in ("postings", "term_counts", "posting_changes", "chunks", "embeddings", "vectors", "documents"):
                connection.execute(f"delete from {table} where partition_id = %(partition)s", of)
            connection.execute("delete from organizations where id = %(id)s", {"id": scope.organization})
        db.close()


def postings(db, of):
    statement = "select chunk_id, term, tf, length from postings where partition_id = %(partition)s order by 1, 2"
    return db.rows(statement, of)
