"""Cost of a search on behalf of a user, compared with the application's search.

    python -m bench.access [--chunks 100000] [--groups 1000] [--of-user 200] [--rounds 7]

Uses the corpus of `bench.search`, with 20 chunks per document. In the first measurement each document has one group,
and the user sees a fifth of the documents; in the second each has three groups. A search includes reading the groups of
the user. "first" is the search of a user without a recent search. `ratio` is the largest ratio of medians, without
first searches. The benchmark fails for results hidden from the user, and for too few results.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from bench.harness import parse_options, write_figures
from bench.search import (
    DIMENSIONS,
    FixedVectorModel,
    compare_searches,
    fill_partition,
    make_queries,
    make_scope,
    open_database,
    server_processes,
    vacuum_database,
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

USER_NAME = "ada@example.com"
# A user in the same groups; each of its searches is a first one.
STRANGER_NAME = "eve@example.com"
SEARCH_QUERIES = {
    "semantic": Query("", semantic_weight=1.0, keyword_weight=0.0),
    "hybrid": Query("", semantic_weight=0.5, keyword_weight=0.5),
}
GROUPS_PER_DOCUMENT = (1, 3)
# The API reads groups and counts documents asynchronously.
EVENT_LOOP = asyncio.new_event_loop()


def main() -> None:
    options = parse_options(__doc__, chunks=100_000, groups=1_000, of_user=200, rounds=7)
    with open_database(1) as db:
        figures = run_rounds(db, options)
    print_figures(figures)
    write_figures("access", figures)


def run_rounds(db: database.Database, options: argparse.Namespace) -> dict[str, Any]:
    scope, partition = make_scope(db)
    store = PgVectorStore(db, scope.namespace, DIMENSIONS)
    generator = np.random.default_rng(7)
    fill_partition(db, partition, generator, options.chunks)
    insert_groups(db, partition, options.groups, options.of_user)
    store.ensure_index(scope)
    posting_blocks.pack_postings(db, partition)
    queries = make_queries(db, partition, generator, 20)
    figures_by_groups: dict[str, Any] = {}
    for groups in GROUPS_PER_DOCUMENT:
        visible = share_documents(db, partition, options.groups, options.of_user, groups)
        wait_for_vacuum(db)
        kinds = measure_searches(db, scope, store, queries, options.rounds)
        ratios = {**compute_ratios(kinds), "counts": compare_counts(db, scope)}
        figures_by_groups[str(groups)] = {"documents_seen": visible, "kinds": kinds, "ratios": ratios}
    ratio = max(figures["ratios"][name] for figures in figures_by_groups.values() for name in SEARCH_QUERIES)
    return {**vars(options), "each": figures_by_groups, "ratio": ratio}


def insert_groups(db: database.Database, partition: int, groups: int, user_groups: int) -> None:
    """Insert groups; the user and the stranger are in the first `user_groups` of them."""
    values = {
        "partition": partition,
        "groups": groups,
        "of_user": user_groups,
        "user": f"u:{USER_NAME}",
        "stranger": f"u:{STRANGER_NAME}",
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


def share_documents(
    db: database.Database, partition: int, groups: int, user_groups: int, groups_per_document: int
) -> int:
    """Give each document random groups; return the number of documents that the user may see."""
    generator = np.random.default_rng(groups_per_document)
    document_ids = [
        row["id"] for row in db.rows("select id from documents where partition_id = %(p)s", {"p": partition})
    ]
    group_choices = [generator.choice(groups, groups_per_document, replace=False) for _ in document_ids]
    db.rows(
        "update documents d set access = jsonb_build_object('users', '[]'::jsonb, 'groups', w.groups::jsonb)"
        " from unnest(%(ids)s::text[], %(groups)s::text[]) w (id, groups) where d.id = w.id",
        {
            "ids": document_ids,
            "groups": [json.dumps([f"g{number}" for number in group_numbers]) for group_numbers in group_choices],
        },
    )
    vacuum_database(db.url)
    return sum(bool((group_numbers < user_groups).any()) for group_numbers in group_choices)


def wait_for_vacuum(db: database.Database) -> None:
    """Wait until the connection of the vacuum has ended."""
    # The measured CPU time is that of all connections.
    deadline = time.monotonic() + 10
    while len(server_processes(db)) > 1 and time.monotonic() < deadline:
        time.sleep(0.1)


def measure_searches(
    db: database.Database, scope: Scope, store: PgVectorStore, queries: list[Any], rounds: int
) -> dict[str, dict[str, float]]:
    kinds: dict[str, Callable[[str, Any], search.SearchResult]] = {}
    for name, query in SEARCH_QUERIES.items():
        kinds[name] = make_search(db, scope, store, query)
        kinds[f"{name}, for the user"] = make_search(db, scope, store, query, USER_NAME)
        kinds[f"{name}, for the user, first"] = make_search(db, scope, store, query, STRANGER_NAME)
    viewer = EVENT_LOOP.run_until_complete(memberships.find_viewer(db, scope, USER_NAME))

    def check(name: str, result: search.SearchResult) -> None:
        if "for the user" in name:
            check_result(db, result, viewer)

    return compare_searches(db, kinds, queries, rounds, check)


def make_search(
    db: database.Database, scope: Scope, store: PgVectorStore, query: Query, user: str | None = None
) -> Callable[[str, Any], search.SearchResult]:
    def run_search(text: str, values: Any) -> search.SearchResult:
        viewer = EVENT_LOOP.run_until_complete(memberships.find_viewer(db, scope, user)) if user is not None else None
        if user == STRANGER_NAME:
            # Each search of the stranger is a first one.
            selectivity.forget_remembered(db)
        user_query = replace(query, text=text)
        model: Any = FixedVectorModel()
        return search.run_search(db, scope, user_query, viewer=viewer, embedder=model, vectors=store, values=values)

    return run_search


def compare_counts(db: database.Database, scope: Scope) -> float:
    """Return the ratio of median times of a count: the user's over the application's."""
    viewer = EVENT_LOOP.run_until_complete(memberships.find_viewer(db, scope, USER_NAME))
    seconds_by_is_user: dict[bool, list[float]] = {True: [], False: []}

    async def count_alternately() -> None:
        for number in range(80):
            is_user = bool(number % 2)
            start = time.perf_counter()
            await documents.count_documents(db, scope, DocumentFilter(), viewer=viewer if is_user else None)
            seconds_by_is_user[is_user].append(time.perf_counter() - start)
        await db.async_close()

    EVENT_LOOP.run_until_complete(count_alternately())
    # The first ten are warm-up.
    user_median, application_median = (np.median(seconds_by_is_user[is_user][10:]) for is_user in (True, False))
    return round(float(user_median / application_median), 3)


def check_result(db: database.Database, result: search.SearchResult, viewer: Viewer) -> None:
    """Raise RuntimeError for a result that the viewer may not see, and for too few results."""
    ids = [hit.document_id for hit in result.hits]
    row = viewed_database(db, viewer).row(
        "select count(*) as seen from documents where id = any(%(ids)s)", {"ids": ids}
    )
    if len(ids) < SEARCH_QUERIES["hybrid"].top_k or row is None or row["seen"] < len(set(ids)):
        raise RuntimeError(f"a search for the user found {len(ids)} results, of documents seen: {row}")


def compute_ratios(kinds: dict[str, dict[str, float]]) -> dict[str, float]:
    """Return the user's figures over the application's."""

    def ratio(name: str, *figures: str, searcher: str = "for the user") -> float:
        user_figures, application_figures = kinds[f"{name}, {searcher}"], kinds[name]
        user_sum = sum(user_figures[figure] for figure in figures)
        application_sum = sum(application_figures[figure] for figure in figures)
        return round(user_sum / (application_sum or 1), 3)

    ratios = {name: ratio(name, "p50_ms") for name in SEARCH_QUERIES}
    first = {f"{name}, first": ratio(name, "p50_ms", searcher="for the user, first") for name in SEARCH_QUERIES}
    return {**ratios, **first, "CPU": ratio("hybrid", "server_cpu_ms", "own_cpu_ms")}


def print_figures(result: dict[str, Any]) -> None:
    print(f"{result['chunks']} chunks, {result['groups']} groups, the user in {result['of_user']}")
    print(f"{'':32}{'p50 ms':>10}{'p95 ms':>10}{'server CPU':>12}{'own CPU':>10}")
    for groups_per_document, group_figures in result["each"].items():
        print(f"documents for {groups_per_document} of the groups: the user may see {group_figures['documents_seen']}")
        for name, row in group_figures["kinds"].items():
            print(f"{name:32}{row['p50_ms']:10}{row['p95_ms']:10}{row['server_cpu_ms']:12}{row['own_cpu_ms']:10}")
        print(
            "  times the application's: "
            + ", ".join(f"{name} {ratio}" for name, ratio in group_figures["ratios"].items())
        )


if __name__ == "__main__":
    main()
