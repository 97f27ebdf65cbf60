"""Packed posting lists: blocks that a search reads whole and scores at once (`retrieval.search.bm25_scorer`).

`postings` is the source of truth. Postings of a term in `FREQUENT` chunks or more are also packed into blocks; chunks
added to a partition or removed from it later are in `posting_changes`, written with the postings:

    postings of a packed term = its blocks without the chunks that changed + its rows of the chunks that were added

Packing changes neither side of that, so it may run, stop and restart at any time, beside writers and readers. Added
chunks join the blocks in the next round of upkeep; removed ones leave them when they are many or a day old.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from retrieval.database.database import Database
from retrieval.database.rows import Params
from retrieval.database.sessions import ThreadConnection
from retrieval.keywords import queries_blocks as queries
from retrieval.keywords.queries_blocks import Frequency

FREQUENT = 1_000
"""Chunks with a term from which on its list is packed; a shorter one is read by its rows."""
STALE = 50
"""One removed chunk in so many: everything is packed anew."""
_AT_ONCE = 500_000
"""Postings that one statement packs."""
_CHANGES = 100
"""Additions that one statement takes up; with more removals than that they are written as one."""
_ROUNDS = 1_000
_PAGE = 1_000


def pack_postings(db: Database, partition_id: int) -> None:
    """Pack what is not packed yet; nothing if another process is at it."""
    with ThreadConnection.connect(db.url, autocommit=True) as connection:
        queries.limit_session(connection)
        if not queries.try_lock(connection, partition_id):
            return
        with connection.transaction():
            queries.begin_packing(connection, partition_id)
        params: Params = {"partition": partition_id, "stale": STALE, "frequent": FREQUENT}
        state = queries.read_state(connection, params)
        if state is None:
            return
        params["base"] = state.base
        if state.outdated:
            _pack_everything(connection, params)
            queries.finish_packing(connection, params, state.removals)
        elif len(state.removals) > _CHANGES:
            queries.merge_removals(connection, params, state.removals)
        for _ in range(_ROUNDS):
            if not _append_oldest(connection, params):
                return


def wait_for_packing(db: Database, partition_id: int) -> None:
    """Wait for a packing that is under way, as far as the connection's limits allow.

    Of a partition without postings none makes blocks after that.
    """
    queries.wait_for_lock(db, partition_id)


def prune_changes(db: Database) -> None:
    """Delete the changes of partitions that have nothing packed."""
    with db.transaction() as connection:
        queries.delete_unused_changes(connection)


def _pack_everything(connection: ThreadConnection, params: Params) -> None:
    """Pack all frequent terms again, in pages."""
    last_term, complete = "", False
    while not complete:
        page = queries.list_frequent_terms(connection, params, last_term, _PAGE)
        complete = len(page) < _PAGE
        until = "" if complete else page[-1].term
        queries.delete_other_blocks(connection, params, last_term, until, [frequency.term for frequency in page])
        for terms in _groups(page):
            queries.pack_terms(connection, params, terms)
        last_term = until


def _append_oldest(connection: ThreadConnection, params: Params) -> bool:
    """Move the oldest additions into blocks; False without any."""
    with connection.transaction():
        additions = queries.read_oldest_additions(connection, params, _CHANGES)
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


def _groups(page: Sequence[Frequency]) -> Iterator[list[str]]:
    """Group terms whose postings one statement may pack."""
    group: list[str] = []
    size = 0
    for frequency in page:
        if group and size + frequency.chunks > _AT_ONCE:
            yield group
            group, size = [], 0
        group.append(frequency.term)
        size += frequency.chunks
    if group:
        yield group
