"""Keyword side and fusion against both written out plainly, while lists are packed, changed and packed again."""

import math
import random
import re
import threading
import time
from collections import Counter
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest

from retrieval.database.sessions import ThreadConnection
from retrieval.keywords import bm25_scorer, posting_blocks, postings, queries, queries_blocks
from retrieval.maintenance import garbage_actions
from retrieval.maintenance.queries_sweeps import Sweep
from retrieval.search import search
from retrieval.search.search import Query

FREQUENT_TERMS = [f"term{chr(97 + number // 8)}{chr(105 + number % 8)}" for number in range(40)]
ODDS = [1 / (number + 1) for number in range(40)]
WAITS = "select 1 from pg_locks where locktype = 'advisory' and not granted and classid = 1886413163"


def oracle(bags, query):
    """Return BM25 by key for bags with a query word."""
    average = sum(bag.total() for bag in bags.values()) / max(len(bags), 1)
    scores = Counter()
    typed = Counter(query.split())
    parts = {
        part: bm25_scorer.PART_COUNT
        for word in typed
        for part in re.findall(r"[a-z]+|[0-9]+", word)
        if part not in typed
    }
    for word, times in (typed | dict.fromkeys(parts, bm25_scorer.PART_COUNT)).items():
        df = sum(word in bag for bag in bags.values())
        weight = math.log(1 + (len(bags) - df + 0.5) / (df + 0.5))
        for key, bag in bags.items():
            if tf := bag[word]:
                scores[key] += times * weight * tf * 2.5 / (tf + 1.5 * (0.25 + 0.75 * bag.total() / average))
    return scores


class Shelf:
    """A scope with its expected hits."""

    def __init__(self, library, dice):
        self.library, self.dice, self.texts = library, dice, {}
        self.versions = Counter()

    def text(self):
        return " ".join(self.dice.choices(FREQUENT_TERMS, ODDS, k=self.dice.randint(1, 40)))

    def add(self):
        texts = [self.text() for _ in range(self.dice.randint(1, 6))]
        self.texts[self.library.put(texts)] = texts

    def replace(self):
        document = self.dice.choice(list(self.texts))
        self.versions[document] += 1
        self.texts[document] = [self.text() for _ in range(self.dice.randint(1, 6))]
        self.library.put(self.texts[document], document_id=document, generation=1 + self.versions[document])

    def remove(self):
        document = self.dice.choice(list(self.texts))
        self.texts.pop(document)
        self.library.flip(document, 10_000)

    def take_out_and_put_back(self):
        document = self.dice.choice(list(self.texts))
        self.library.flip(document, 10_000)
        if self.dice.random() < 0.5:
            self.pack()
        self.library.flip(document, 1 + self.versions[document])

    def pack(self):
        posting_blocks.pack_postings(self.library.db, self.library.partition)

    def prune(self):
        posting_blocks.prune_changes(self.library.db)

    def find_scores(self, query):
        with self.library.db.transaction() as connection:
            terms = bm25_scorer.read_terms(connection, self.library.partition, query, "english")
            ranked = bm25_scorer.rank_chunks(connection, terms).best(10_000)
        rows = self.library.db.rows(
            "select id, document_id, index from chunks where id = any(%(ids)s)",
            {"ids": [hit.chunk_id for hit in ranked]},
        )
        names = {row["id"]: (row["document_id"], row["index"]) for row in rows}
        return {names[hit.chunk_id]: hit.score for hit in ranked}

    def expected(self, query):
        bags = {
            (document, index): Counter(text.split())
            for document, texts in self.texts.items()
            for index, text in enumerate(texts)
        }
        return oracle(bags, query)


def packed(library):
    return library.db.row(
        "select count(*) as blocks, coalesce(sum(length(body)) / 8, 0)::int as postings from posting_blocks"
        " where partition_id = %(partition)s",
        {"partition": library.partition},
    )


@pytest.mark.parametrize("seed", range(6))
def test_scores_are_bm25_whatever_was_packed_and_changed_meanwhile(library, monkeypatch, seed):
    dice = random.Random(seed)
    monkeypatch.setattr(posting_blocks, "MIN_PACKED_CHUNKS", dice.choice([1, 5, 20]))
    monkeypatch.setattr(posting_blocks, "STALE_DIVISOR", dice.choice([2, 50]))
    monkeypatch.setattr(posting_blocks, "_MAX_CHANGES", dice.choice([1, 100]))
    monkeypatch.setattr(queries, "MAX_CHANGES", dice.choice([3, 1_000]))
    monkeypatch.setattr(queries, "MAX_ADDED_CHUNKS", dice.choice([0, 10, 5_000]))
    monkeypatch.setattr(bm25_scorer, "MAX_ARRAY_SPAN", dice.choice([-1, 4_000_000]))
    shelf = Shelf(library, dice)
    steps = [shelf.add, shelf.add, shelf.replace, shelf.remove, shelf.take_out_and_put_back, shelf.pack, shelf.prune]
    for _ in range(12):
        shelf.add()
    for _ in range(40):
        dice.choice(steps if len(shelf.texts) > 3 else [shelf.add])()
        query = " ".join(dice.sample(FREQUENT_TERMS, dice.randint(1, 6)))
        assert shelf.find_scores(query) == pytest.approx(shelf.expected(query), rel=1e-9)
    shelf.pack()
    assert packed(library)["postings"] > 0


@pytest.fixture
def small_packs(monkeypatch):
    """Pack lists of a hundred chunks, instead of a thousand."""
    monkeypatch.setattr(posting_blocks, "MIN_PACKED_CHUNKS", 100)


def many(library, count, dice):
    """Insert documents of one chunk in bulk."""
    texts = [" ".join(dice.choices(FREQUENT_TERMS, ODDS, k=dice.randint(5, 40))) for _ in range(count)]
    document = library.put([])
    with library.db.transaction() as connection:
        rows = connection.execute(
            'insert into chunks (partition_id, document_id, generation, index, start, "end", tokens, content,'
            " embedding_key) select %(partition)s, %(document)s, 1, n - 1, 0, length(text), 1, text, ''::bytea"
            " from unnest(%(texts)s::text[]) with ordinality t(text, n) returning id, index",
            {"partition": library.partition, "document": document, "texts": texts},
        ).fetchall()
        added = postings.index_chunks(connection, library.partition, [row["id"] for row in rows], "english")
        connection.execute(
            "update partitions set chunks = chunks + %(chunks)s, terms = terms + %(terms)s where id = %(id)s",
            {"chunks": added[0], "terms": added[1], "id": library.partition},
        )
    return {row["id"]: Counter(texts[row["index"]].split()) for row in rows}


def scores(library, query):
    with library.db.transaction() as connection:
        terms = bm25_scorer.read_terms(connection, library.partition, query, "english")
        return {hit.chunk_id: hit.score for hit in bm25_scorer.rank_chunks(connection, terms).best(100_000)}


def test_what_is_added_while_lists_are_packed_is_found_as_soon_as_it_is_committed(library, small_packs, database_url):
    bags = many(library, 300, random.Random(2))
    with library.db.transaction() as connection:
        chunk = connection.execute(
            'insert into chunks (partition_id, document_id, generation, index, start, "end", tokens, content,'
            " embedding_key) values (%(p)s, 'late', 1, 0, 0, 1, 1, 'termai termai termaj', '') returning id",
            {"p": library.partition},
        ).fetchone()["id"]
        added = postings.index_chunks(connection, library.partition, [chunk], "english")
        worker = threading.Thread(target=posting_blocks.pack_postings, args=(library.db, library.partition))
        worker.start()
        worker.join(30)
        assert not worker.is_alive()
        assert packed(library)["postings"] > 0
        connection.execute(
            "update partitions set chunks = chunks + %(chunks)s, terms = terms + %(terms)s where id = %(id)s",
            {"chunks": added[0], "terms": added[1], "id": library.partition},
        )
    bags[chunk] = Counter(["termai", "termai", "termaj"])
    assert scores(library, "termai termaj") == pytest.approx(oracle(bags, "termai termaj"))
    posting_blocks.pack_postings(library.db, library.partition)
    assert scores(library, "termai termaj") == pytest.approx(oracle(bags, "termai termaj"))


def test_packing_that_was_interrupted_begins_again_and_shows_nothing_twice(library, small_packs, monkeypatch):
    bags = many(library, 400, random.Random(3))
    monkeypatch.setattr(posting_blocks, "_MAX_PACKED_POSTINGS", 1)
    with monkeypatch.context() as broken:
        broken.setattr(queries_blocks, "finish_packing", lambda connection, *_: connection.execute("select 1 / 0"))
        with pytest.raises(Exception, match="division"):
            posting_blocks.pack_postings(library.db, library.partition)
    assert scores(library, "termai termal") == pytest.approx(oracle(bags, "termai termal"))
    posting_blocks.pack_postings(library.db, library.partition)
    bags |= many(library, 50, random.Random(4))
    posting_blocks.pack_postings(library.db, library.partition)
    assert scores(library, "termai termal") == pytest.approx(oracle(bags, "termai termal"))


def test_a_removed_text_leaves_the_blocks_within_a_day(library, small_packs):
    bags = many(library, 300, random.Random(5))
    posting_blocks.pack_postings(library.db, library.partition)
    removed = list(bags)[:4]
    with library.db.transaction() as connection:
        fewer = postings.remove_chunks(connection, removed)
        connection.execute(
            "update partitions set chunks = chunks - %(chunks)s, terms = terms - %(terms)s where id = %(id)s",
            {"chunks": fewer[0], "terms": fewer[1], "id": library.partition},
        )
    bags = {chunk: bag for chunk, bag in bags.items() if chunk not in removed}
    assert scores(library, "termai termaj") == pytest.approx(oracle(bags, "termai termaj"))
    posting_count = packed(library)["postings"]
    posting_blocks.pack_postings(library.db, library.partition)
    assert packed(library)["postings"] == posting_count
    library.db.rows(
        "update posting_packs set packed_at = now() - interval '25 hours' where partition_id = %(p)s",
        {"p": library.partition},
    )
    posting_blocks.pack_postings(library.db, library.partition)
    assert packed(library)["postings"] < posting_count
    assert scores(library, "termai termaj") == pytest.approx(oracle(bags, "termai termaj"))


def test_a_scope_that_is_deleted_while_it_is_packed_leaves_no_blocks(library, small_packs, database_url):
    many(library, 300, random.Random(6))
    posting_blocks.prune_changes(library.db)
    row = Sweep(
        partition_id=library.partition,
        kind="partition",
        organization_id=library.scope.organization,
        namespace_id=library.scope.namespace,
        tenant=library.scope.tenant,
        vector_store="PGVECTOR",
        file_store="LOCAL",
    )
    nothing = SimpleNamespace(
        vectors=library.store, others=(), files=Mock(**{"keys.return_value": []}), end_authorizations=Mock()
    )
    with ThreadConnection.connect(database_url) as packer:
        queries_blocks.try_lock(packer, library.partition)
        queries_blocks.pack_terms(packer, {"partition": library.partition, "base": 0}, ["termai"])
        sweep = threading.Thread(target=garbage_actions.SWEEP_ACTIONS["partition"], args=(library.db, nothing, row))
        sweep.start()
        ends = time.monotonic() + 30
        while sweep.is_alive() and not library.db.rows(WAITS) and time.monotonic() < ends:
            time.sleep(0.05)
    sweep.join(30)
    assert not sweep.is_alive()
    assert packed(library)["blocks"] == 0


class Given:
    """The model: a vector by text."""

    provider, model, dimensions, batch_size, calls, max_tokens = "TEST", "given", 8, 8, 1, 256
    passage_prefix = ""

    def __init__(self, values):
        self.values = values

    def embed(self, texts, _kind):
        return [self.values for _ in texts]

    def check(self):
        pass


@pytest.mark.parametrize("weight", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("at", ["rows", "blocks"])
def test_a_hybrid_search_is_the_fusion_of_the_best_hundred_of_each_side(library, monkeypatch, weight, at):
    # With 400 chunks, most candidates come from one side only.
    monkeypatch.setattr(posting_blocks, "MIN_PACKED_CHUNKS", 10)
    dice, numbers = random.Random(7), np.random.default_rng(7)
    bags, near, names = {}, {}, []
    query, query_vector = "termaj terman termbj termcm", numbers.normal(size=8)
    query_vector /= np.linalg.norm(query_vector)
    for _ in range(20):
        texts = [" ".join(dice.choices(FREQUENT_TERMS, ODDS, k=dice.randint(5, 40))) for _ in range(20)]
        vectors = numbers.normal(size=(20, 8))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        document = library.put(texts, vectors.tolist())
        for index, text in enumerate(texts):
            key = document, index
            names.append(key)
            bags[key] = Counter(text.split())
            near[key] = max(0.0, float(vectors[index].astype(np.float16).astype(float) @ query_vector))
    if at == "blocks":
        posting_blocks.pack_postings(library.db, library.partition)
        assert packed(library)["postings"] > 100
    words = oracle(bags, query)
    keyword = {key: words[key] / (words[key] + 10) for key in names}
    candidate_count = 100 if 0 < weight < 1 else 20
    candidates = set()
    if weight > 0:
        candidates |= set(sorted(names, key=lambda key: -near[key])[:candidate_count])
    if weight < 1:
        candidates |= set(sorted(words, key=lambda key: (-words[key], names.index(key)))[:candidate_count])
    fused = {key: weight * near[key] + (1 - weight) * keyword[key] for key in candidates}
    best = sorted(fused, key=lambda key: (-fused[key], key))[:10]
    hits = search.run_search(
        library.db,
        library.scope,
        Query(query, semantic_weight=weight, keyword_weight=1 - weight),
        viewer=None,
        embedder=Given(query_vector.tolist()),
        vectors=library.store,
    ).hits
    assert [hit.score for hit in hits] == pytest.approx([fused[key] for key in best], abs=1e-3)
    assert {(hit.document_id, hit.index): hit.score for hit in hits} == pytest.approx(
        {(hit.document_id, hit.index): fused[hit.document_id, hit.index] for hit in hits}, abs=1e-3
    )
    if weight == 0:
        assert [(hit.document_id, hit.index) for hit in hits] == best
