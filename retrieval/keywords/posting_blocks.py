"""Pack frequent terms into blocks, read by searches as a whole.

postings of a packed term = blocks without changed chunks + rows of added chunks
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from retrieval.database.database import Database
from retrieval.database.rows import Params
from retrieval.database.sessions import ThreadConnection
from retrieval.keywords import queries_blocks as queries
from retrieval.keywords.queries_blocks import TermFrequency

# Rarer terms are read by row.
MIN_PACKED_CHUNKS = 1_000
# A share of removed chunks above 1/50 causes a full packing.
STALE_DIVISOR = 50
# Postings per statement.
_MAX_PACKED_POSTINGS = 500_000
# Changes per statement; more removals are merged first.
_MAX_CHANGES = 100
_MAX_ROUNDS = 1_000
_TERMS_PER_PAGE = 1_000


def pack_postings(db: Database, partition_id: int) -> None:
    """Pack changed postings, unless another process does."""
    # Packing changes neither side of the equation, so it may stop and restart at any time, next to writers.
    with ThreadConnection.connect(db.url, autocommit=True) as connection:
        queries.limit_session(connection)
        if not queries.try_lock(connection, partition_id):
            return
        with connection.transaction():
            queries.begin_packing(connection, partition_id)
        params: Params = {"partition": partition_id, "stale": STALE_DIVISOR, "frequent": MIN_PACKED_CHUNKS}
        state = queries.read_state(connection, params)
        if state is None:
            return
        params["base"] = state.base
        if state.outdated:
            _pack_everything(connection, params)
            queries.finish_packing(connection, params, state.removals)
        elif len(state.removals) > _MAX_CHANGES:
            queries.merge_removals(connection, params, state.removals)
        for _ in range(_MAX_ROUNDS):
            if not _append_oldest(connection, params):
                return


def wait_for_packing(db: Database, partition_id: int) -> None:
    """Wait for a running packing, within the connection's limits."""
    queries.wait_for_lock(db, partition_id)


def prune_changes(db: Database) -> None:
    """Delete changes of unpacked partitions."""
    with db.transaction() as connection:
        queries.delete_unused_changes(connection)


def _pack_everything(connection: ThreadConnection, params: Params) -> None:
    """Pack all frequent terms, in pages."""
    last_term, complete = "", False
    while not complete:
        page = queries.list_frequent_terms(connection, params, last_term, _TERMS_PER_PAGE)
        complete = len(page) < _TERMS_PER_PAGE
        until = "" if complete else page[-1].term
        queries.delete_other_blocks(connection, params, last_term, until, [frequency.term for frequency in page])
        for terms in _group_terms(page):
            queries.pack_terms(connection, params, terms)
        last_term = until


def _append_oldest(connection: ThreadConnection, params: Params) -> bool:
    """Move the oldest additions into blocks; False without any."""
    with connection.transaction():
        additions = queries.read_oldest_additions(connection, params, _MAX_CHANGES)
        if additions is None:
            return False
        for term in additions.unpacked:
            queries.pack_terms(connection, params, [term])
        terms = [*additions.packed, *additions.unpacked]
        queries.append_additions(connection, params, additions.changes, terms)
        scattered = queries.list_scattered_terms(connection, params, terms)
    for term in scattered:
        queries.pack_terms(connection, params, [term])
    return True


def _group_terms(page: Sequence[TermFrequency]) -> Iterator[list[str]]:
    """Group terms up to the limit of postings per statement."""
    group: list[str] = []
    size = 0
    for frequency in page:
        if group and size + frequency.chunks > _MAX_PACKED_POSTINGS:
            yield group
            group, size = [], 0
        group.append(frequency.term)
        size += frequency.chunks
    if group:
        yield group
