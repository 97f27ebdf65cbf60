"""Words of replaced texts leave the counts, quickly whatever was replaced before."""

import time

import pytest

from retrieval.database.database import Database
from retrieval.keywords import postings


@pytest.fixture
def swept(database_url):
    """The connection of the sweep, one for all: its statements are prepared and planned while the tables are small."""
    opened = Database(database_url, size=1, role="sweep")
    yield opened
    opened.close()


def replaced(swept, library, document, generation, *texts):
    """A new version takes over, as a run and the sweep after it leave it; how long the sweep's part took."""
    library.put(texts, document_id=document, generation=generation)
    old = library.db.rows(
        "select id from chunks where document_id = %(d)s and generation = %(g)s", {"d": document, "g": generation - 1}
    )
    began = time.monotonic()
    postings.forget_terms(swept, library.partition, [row["id"] for row in old], "english")
    library.db.rows("delete from chunks where id = any(%(ids)s)", {"ids": [row["id"] for row in old]})
    return time.monotonic() - began


def test_a_long_text_after_many_short_ones_is_forgotten_in_a_moment(library, swept):
    small = library.put(["a small text"])
    for generation in range(2, 60):
        replaced(swept, library, small, generation, f"a small text number{generation}")
    library.db.rows("analyze term_counts, chunks, postings")
    for generation in range(60, 80):
        replaced(swept, library, small, generation, f"a small text number{generation}")
    words = [f"word{number}x" for number in range(6000)]
    pages = [" ".join(words[at : at + 60]) for at in range(0, 6000, 60)]
    large = library.put(pages)
    took = replaced(swept, library, large, 2, *pages[:50])
    took += replaced(swept, library, large, 3, *pages[50:])
    left = library.db.rows(
        "select term, sum(chunks) as chunks from term_counts where partition_id = %(p)s group by term",
        {"p": library.partition},
    )
    assert {row["term"] for row in left if row["term"].startswith("word")} == set(words[3000:])
    assert took < 5
