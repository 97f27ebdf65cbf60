"""Check of packed posting lists against their postings."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from retrieval.keywords.queries_blocks import LENGTH_BITS
from retrieval.maintenance.fsck import queries_stores
from retrieval.maintenance.fsck.findings import Finding, Instance

_LENGTH_BITS = int(LENGTH_BITS)


def find_stale_blocks(instance: Instance) -> Iterator[Finding]:
    """Yield terms with blocks different from the postings of chunks unchanged since the packing."""
    for pack in queries_stores.list_packs(instance.db):
        with instance.db.transaction() as connection:
            queries_stores.begin_snapshot(connection)
            base = queries_stores.find_base(connection, pack.partition_id)
            if base is None:
                continue
            changed = set(queries_stores.list_changed(connection, pack.partition_id))
            for term in queries_stores.list_packed_terms(connection, pack.partition_id):
                packed = _unpack(queries_stores.list_blocks(connection, pack.partition_id, term), base, changed)
                postings = queries_stores.list_postings(connection, pack.partition_id, term)
                if packed != sorted(posting for posting in postings if posting.chunk_id not in changed):
                    yield Finding(
                        "WRONG_BLOCKS",
                        pack.namespace_id,
                        None,
                        f"the packed postings of a term of partition {pack.partition_id} are not its postings",
                        {"partition_id": pack.partition_id},
                    )


def drop_blocks(instance: Instance, findings: Sequence[Finding]) -> None:
    """Delete packed posting lists."""
    # Searches read the postings until upkeep packs them again.
    for partition in sorted({finding.data["partition_id"] for finding in findings}):
        with instance.db.transaction() as connection:
            queries_stores.delete_blocks(connection, partition)


def _unpack(blocks: Sequence[bytes], base: int, changed: set[int]) -> list[tuple[int, int, int]]:
    postings = []
    for body in blocks:
        for chunk, packed in struct.iter_unpack(">iI", body):
            if base + chunk not in changed:
                postings.append((base + chunk, packed >> _LENGTH_BITS, packed & ((1 << _LENGTH_BITS) - 1)))
    return sorted(postings)
