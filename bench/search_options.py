"""What the options of a search cost: each beside the same search with none of them, in one run.

    python bench/search_options.py [--url URL] [--chunks 20000] [--rounds 5]

The corpus is that of `search_scale`: random vectors, texts with a Zipf vocabulary, 20 chunks a document. Each round
asks the same queries under every option, in another order each time; a ratio is that of the medians. Parsed texts are
held in memory, so `expand` is told without a file store's latency. A reranker costs what its model costs; it is not
here. What is made on the way goes away again, however the run ends.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import report, search_corpus
from bench.search_corpus import DIMENSIONS, PER_DOCUMENT
from bench.search_scale import Given, clean_up, cpu_of, migrated, server_processes, summary_of
from connectors.vectors.pgvector import PgVectorStore
from retrieval import filters
from retrieval.database import database
from retrieval.errors import ErrorCode
from retrieval.ingestion.chunking.tokenizer import MINILM, tokenizer_for
from retrieval.ports import Scope
from retrieval.search import packing, search
from retrieval.search.contexts import Unit
from retrieval.search.search import Query
from retrieval.search.shaping import Expansion, Recency, Shape, Texts

BASE = "none of them"
TEAMS = 10
"""Documents are of so many teams in turn: a filter by one of them leaves a tenth."""


def main() -> None:
    options = _options()
    report.end_in_order()
    with migrated(options.url, size=2) as db:
        found = _run(db, options)
    _print(found)
    report.write("search_options", found)


def queries(texts: Mapping[str, str]) -> dict[str, tuple[Query, Texts | None]]:
    """The search of each kind by name, without its text. `texts`: the parsed text of each document."""
    held = Texts(tokenizer_for("LOCAL", MINILM), texts.get)
    plain = Query("", semantic_weight=0.5, keyword_weight=0.5)

    def shaped(**shape: Any) -> Query:
        return Query("", semantic_weight=0.5, keyword_weight=0.5, shape=Shape(**shape))

    def narrowed(**parts: Any) -> Query:
        where = filters.parse_search(parts, ErrorCode.INVALID_SEARCH_REQUEST)
        return Query("", semantic_weight=0.5, keyword_weight=0.5, where=where)

    tenth = {"field": "metadata.team", "op": "lt", "value": 1}
    half = {"field": "metadata.team", "op": "gte", "value": TEAMS // 2}
    return {
        BASE: (plain, None),
        "perDocument 1": (shaped(per_document=1), None),
        "perDocument 3": (shaped(per_document=3), None),
        "recency": (shaped(recency=Recency(30, 0.2)), None),
        "expand CHUNK": (shaped(expansion=Expansion(Unit.CHUNK)), held),
        "expand SECTION, 512 tokens": (shaped(expansion=Expansion(Unit.SECTION)), held),
        "expand DOCUMENT, 2000 tokens": (shaped(expansion=Expansion(Unit.DOCUMENT, 2000)), held),
        "filter metadata, a tenth": (narrowed(metadata={"team": 0}), None),
        "filter where, a tenth": (narrowed(where=tenth), None),
        "filter where, a half": (narrowed(where=half), None),
        "topK 50, as a reranker asks": (Query("", top_k=50, semantic_weight=0.5, keyword_weight=0.5), None),
    }


def prepare(db: database.Database, partition: int) -> dict[str, str]:
    """Documents of some team and age, with chunks one after the other; their parsed texts by key."""
    values = {"partition": partition, "teams": TEAMS}
    db.rows(
        "update documents set parsed_key = id, metadata = jsonb_build_object('team', abs(hashtext(id)) %% %(teams)s),"
        " properties = properties || jsonb_build_object('modifiedAt',"
        " to_char(now() - abs(hashtext(id)) %% 400 * interval '1 day', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'))"
        " where partition_id = %(partition)s",
        values,
    )
    db.rows(
        "with placed as (select id, sum(length(content) + 1) over (partition by document_id order by index)"
        " - length(content) - 1 as place from chunks where partition_id = %(partition)s)"
        ' update chunks c set start = placed.place, "end" = placed.place + length(content) from placed'
        " where c.id = placed.id",
        values,
    )
    rows = db.rows(
        "select document_id, string_agg(content, ' ' order by index) as text from chunks"
        " where partition_id = %(partition)s group by 1",
        values,
    )
    return {row["document_id"]: row["text"] for row in rows}


def _run(db: database.Database, options: argparse.Namespace) -> dict[str, Any]:
    scope, partition = search_corpus.scope(db)
    store = PgVectorStore(db, scope.namespace, DIMENSIONS)
    dice = np.random.default_rng(7)
    try:
        search_corpus.fill(db, partition, dice, options.chunks)
        texts = prepare(db, partition)
        store.ensure_index(scope)
        packing.keep(db, partition)
        asked = search_corpus.queries(db, partition, dice, 20)
        return {
            "chunks": options.chunks,
            "per_document": PER_DOCUMENT,
            "options": _measure(db, scope, store, asked, queries(texts), options.rounds),
        }
    finally:
        if options.url:
            clean_up(db, scope, partition, store)


def _measure(
    db: database.Database,
    scope: Scope,
    store: PgVectorStore,
    asked: list[tuple[str, list[float]]],
    kinds: Mapping[str, tuple[Query, Texts | None]],
    rounds: int,
) -> dict[str, dict[str, float]]:
    spent: dict[str, list[tuple[float, float, float]]] = {name: [] for name in kinds}
    backends, dice = server_processes(db), np.random.default_rng(11)
    for number in range(rounds + 1):
        print(f"round {number} of {rounds}" if number else "warming up", flush=True)
        for text, values in asked:
            for name in dice.permutation(list(kinds)):  # whoever comes second finds warm caches
                query, texts = kinds[name]
                model: Any = Given()
                server, ours, start = cpu_of(backends), time.process_time(), time.perf_counter()
                wanted = replace(query, text=text)
                search.run(db, scope, wanted, embedder=model, vectors=store, texts=texts, values=values)
                wall, mine = time.perf_counter() - start, time.process_time() - ours
                if number:
                    spent[name].append((wall * 1000, cpu_of(backends) - server, mine * 1000))
    return {name: summary_of(rows) for name, rows in spent.items()}


def _print(found: dict[str, Any]) -> None:
    base = found["options"][BASE]
    print(f"{found['chunks']} chunks, {found['per_document']} a document")
    print(f"{'':32}{'p50 ms':>10}{'p95 ms':>10}{'CPU ms':>10}{'ratio':>8}{'of CPU':>8}")
    whole = base["server_cpu_ms"] + base["own_cpu_ms"]
    for name, row in found["options"].items():
        cpu = row["server_cpu_ms"] + row["own_cpu_ms"]
        print(
            f"{name:32}{row['p50_ms']:10}{row['p95_ms']:10}{cpu:10.2f}"
            f"{row['p50_ms'] / base['p50_ms']:8.2f}{cpu / whole:8.2f}"
        )


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--url", help="a database; an embedded one without it")
    options.add_argument("--chunks", type=int, default=20_000)
    options.add_argument("--rounds", type=int, default=5)
    return options.parse_args()


if __name__ == "__main__":
    main()
