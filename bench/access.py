"""What it costs to search on behalf of a user, beside the same search of the application itself, in one run.

    python -m bench.access [--chunks 100000] [--groups 1000] [--of-user 200] [--rounds 7]

The corpus is that of `search`, 20 chunks a document. Each document is for some of the groups by chance: for one
of them, so that the user may see a fifth, then for three, about a half. A search for the user includes the statement
that reads the groups; `first` is one of a user who did not search for a minute, of whom nothing is known. Vectors
are given. Each round asks the same queries of every kind, in another order each time; a ratio is that of the medians,
`ratio` the largest but for those of first searches. It fails if a search shows the user a hidden document, or fewer
results than asked for.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from bench.harness import parse_options, write
from bench.search import (
    DIMENSIONS,
    Given,
    compare,
    fill,
    make_queries,
    make_scope,
    opened_database,
    server_processes,
    vacuum,
)
from connectors.vectors.pgvector import PgVectorStore
from retrieval.access.queries import memberships
from retrieval.access.reading import viewed_database
from retrieval.database import database
from retrieval.documents import documents
from retrieval.filters import DocumentFilter
from retrieval.keywords import posting_blocks
from retrieval.ports import Scope
from retrieval.principals import Viewer
from retrieval.search import search, selectivity
from retrieval.search.search import Query

USER = "ada@example.com"
STRANGER = "eve@example.com"
"""Of the same groups; nothing is known of searches of this user."""
KINDS = {
    "semantic": Query("", semantic_weight=1.0, keyword_weight=0.0),
    "hybrid": Query("", semantic_weight=0.5, keyword_weight=0.5),
}
EACH = (1, 3)
"""Groups that a document is for."""
LOOP = asyncio.new_event_loop()
"""On which groups are read and documents counted, as the API does."""


def main() -> None:
    options = parse_options(__doc__, chunks=100_000, groups=1_000, of_user=200, rounds=7)
    with opened_database(1) as db:
        figures = _run(db, options)
    _print(figures)
    write("access", figures)


def _run(db: database.Database, options: argparse.Namespace) -> dict[str, Any]:
    scope, partition = make_scope(db)
    store = PgVectorStore(db, scope.namespace, DIMENSIONS)
    dice = np.random.default_rng(7)
    fill(db, partition, dice, options.chunks)
    _groups(db, partition, options.groups, options.of_user)
    store.ensure_index(scope)
    posting_blocks.pack_postings(db, partition)
    queries = make_queries(db, partition, dice, 20)
    each: dict[str, Any] = {}
    for groups in EACH:
        visible = _share(db, partition, options.groups, options.of_user, groups)
        _wait_for_others(db)
        kinds = _measure(db, scope, store, queries, options.rounds)
        ratios = {**_ratios(kinds), "counts": _counts(db, scope)}
        each[str(groups)] = {"documents_seen": visible, "kinds": kinds, "ratios": ratios}
    ratio = max(figures["ratios"][name] for figures in each.values() for name in KINDS)
    return {**vars(options), "each": each, "ratio": ratio}


def _groups(db: database.Database, partition: int, groups: int, of_user: int) -> None:
    values = {
        "partition": partition,
        "groups": groups,
        "of_user": of_user,
        "user": f"u:{USER}",
        "stranger": f"u:{STRANGER}",
    }
    db.rows(
        "insert into access_groups (partition_id, id) select %(partition)s, 'g' || n"
        " from generate_series(0, %(groups)s - 1) n",
        values,
    )
    db.rows(
        "insert into group_members (partition_id, group_id, member) select %(partition)s, 'g' || n, member"
        " from generate_series(0, %(groups)s - 1) n, unnest(array[%(user)s, %(stranger)s, 'u:bob@example.com'])"
        " member where n < %(of_user)s or member = 'u:bob@example.com'",
        values,
    )


def _share(db: database.Database, partition: int, groups: int, of_user: int, each: int) -> int:
    """Each document is for so many of the groups; how many documents the user may see."""
    dice = np.random.default_rng(each)
    names = [row["id"] for row in db.rows("select id from documents where partition_id = %(p)s", {"p": partition})]
    chosen = [dice.choice(groups, each, replace=False) for _ in names]
    db.rows(
        "update documents d set access = jsonb_build_object('users', '[]'::jsonb, 'groups', w.groups::jsonb)"
        " from unnest(%(ids)s::text[], %(groups)s::text[]) w (id, groups) where d.id = w.id",
        {"ids": names, "groups": ["[" + ",".join(f'"g{one}"' for one in some) + "]" for some in chosen]},
    )
    vacuum(db.url)
    return sum(bool((some < of_user).any()) for some in chosen)


def _wait_for_others(db: database.Database) -> None:
    """Until the connection that has vacuumed is gone: processor time is read of all there are."""
    until = time.monotonic() + 10
    while len(server_processes(db)) > 1 and time.monotonic() < until:
        time.sleep(0.1)


def _measure(
    db: database.Database, scope: Scope, store: PgVectorStore, asked: list[Any], rounds: int
) -> dict[str, dict[str, float]]:
    kinds: dict[str, Callable[[str, Any], search.SearchResult]] = {}
    for name, query in KINDS.items():
        kinds[name] = _search(db, scope, store, query)
        kinds[f"{name}, for the user"] = _search(db, scope, store, query, USER)
        kinds[f"{name}, for the user, first"] = _search(db, scope, store, query, STRANGER)
    viewer = LOOP.run_until_complete(memberships.find_viewer(db, scope, USER))

    def check(name: str, result: search.SearchResult) -> None:
        if "for the user" in name:
            _check(db, result, viewer)

    return compare(db, kinds, asked, rounds, check)


def _search(
    db: database.Database, scope: Scope, store: PgVectorStore, query: Query, user: str | None = None
) -> Callable[[str, Any], search.SearchResult]:
    def run(text: str, values: Any) -> search.SearchResult:
        viewer = LOOP.run_until_complete(memberships.find_viewer(db, scope, user)) if user is not None else None
        if user == STRANGER:
            selectivity.forget_remembered(db)
        asked = replace(query, text=text)
        model: Any = Given()
        return search.run_search(db, scope, asked, viewer=viewer, embedder=model, vectors=store, values=values)

    return run


def _counts(db: database.Database, scope: Scope) -> float:
    """How many times as long documents are counted for the user, by medians."""
    viewer = LOOP.run_until_complete(memberships.find_viewer(db, scope, USER))
    spent: dict[bool, list[float]] = {True: [], False: []}

    async def ask() -> None:
        for number in range(80):
            is_user = bool(number % 2)
            start = time.perf_counter()
            await documents.count_documents(db, scope, DocumentFilter(), viewer=viewer if is_user else None)
            spent[is_user].append(time.perf_counter() - start)
        await db.async_close()

    LOOP.run_until_complete(ask())
    return round(float(np.median(spent[True][10:]) / np.median(spent[False][10:])), 3)


def _check(db: database.Database, found: search.SearchResult, viewer: Viewer) -> None:
    ids = [hit.document_id for hit in found.hits]
    row = viewed_database(db, viewer).row(
        "select count(*) as seen from documents where id = any(%(ids)s)", {"ids": ids}
    )
    if len(ids) < KINDS["hybrid"].top_k or row is None or row["seen"] < len(set(ids)):
        raise RuntimeError(f"a search for the user found {len(ids)} results, of documents seen: {row}")


def _ratios(kinds: dict[str, dict[str, float]]) -> dict[str, float]:
    def ratio(name: str, *figures: str, of: str = "for the user") -> float:
        mine, base = kinds[f"{name}, {of}"], kinds[name]
        return round(sum(mine[one] for one in figures) / (sum(base[one] for one in figures) or 1), 3)

    found = {name: ratio(name, "p50_ms") for name in KINDS}
    first = {f"{name}, first": ratio(name, "p50_ms", of="for the user, first") for name in KINDS}
    return {**found, **first, "CPU": ratio("hybrid", "server_cpu_ms", "own_cpu_ms")}


def _print(found: dict[str, Any]) -> None:
    print(f"{found['chunks']} chunks, {found['groups']} groups, the user in {found['of_user']}")
    print(f"{'':32}{'p50 ms':>10}{'p95 ms':>10}{'server CPU':>12}{'own CPU':>10}")
    for each, one in found["each"].items():
        print(f"documents for {each} of the groups: the user may see {one['documents_seen']}")
        for name, row in one["kinds"].items():
            print(f"{name:32}{row['p50_ms']:10}{row['p95_ms']:10}{row['server_cpu_ms']:12}{row['own_cpu_ms']:10}")
        print("  times the application's: " + ", ".join(f"{name} {ratio}" for name, ratio in one["ratios"].items()))


if __name__ == "__main__":
    main()
