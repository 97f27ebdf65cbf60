"""A worker's part of a crawl, in a process that may be killed: `python -m tests.flows.crawling_child` and three words.

The key ring comes on standard input.
"""

from __future__ import annotations

import sys

from flows import steps
from retrieval.database.database import Database
from retrieval.ingestion import discover
from retrieval.jobs import batches
from retrieval.security.secrets import KeyRing

LEASE_SECONDS = 1.0


def main(url: str, batch: str, attempt: int, ring: KeyRing) -> None:
    db = Database(url)
    lease = batches.claim(db, batch, attempt, seconds=LEASE_SECONDS)
    if lease is None:
        raise SystemExit("the batch is taken")
    (wanted,) = discover.waiting(db, lease)
    steps.discover(steps.Discovery(db, ring, lease, wanted))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), KeyRing.parse(sys.stdin.read()))
