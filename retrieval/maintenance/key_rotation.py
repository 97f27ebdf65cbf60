"""Key rotation: encrypts stored secrets again with the first key of the ring, while the service runs.

Runs beside a working service. A value is replaced only if it is still the one that was read, so a newer one that
a request stores meanwhile stays; no lock is held longer than one row's update; what is done stays done.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import structlog

from retrieval.accounts import idempotency
from retrieval.connections import connections
from retrieval.database.database import Database
from retrieval.ingestion import reembedding
from retrieval.jobs.queries import passwords
from retrieval.maintenance import queries_sealed
from retrieval.maintenance.queries_sealed import Sealed, SealedValue
from retrieval.namespaces import namespaces
from retrieval.security import secrets
from retrieval.security.secrets import KeyRing, SecretError
from retrieval.webhooks import endpoints

log = structlog.get_logger()

BATCH = 100


SEALED = (
    Sealed("server_secrets", "sealed", ("name",), secrets.row_name),
    Sealed("namespaces", "secrets", ("id",), namespaces.row_name),
    Sealed("namespaces", "pending", ("id",), partial(reembedding.row_name, column="pending")),
    Sealed("namespaces", "retired", ("id",), partial(reembedding.row_name, column="retired")),
    Sealed("connections", "credentials", ("id",), connections.row_name),
    Sealed("webhooks", "secret", ("id",), endpoints.row_name),
    Sealed("webhooks", "previous", ("id",), endpoints.row_name),
    Sealed("job_runs", "password", ("id",), passwords.row_name),
    Sealed("oauth_states", "verifier", ("hash",), connections.state_row_name),
    Sealed("idempotent_answers", "sealed", ("caller", "key"), idempotency.row_name),
)
"""Every sealed column there is."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`resealed` values bear the first key now. `left` bear another, which is not in the ring or still seals."""

    resealed: int
    left: int


def reseal_secrets(db: Database, ring: KeyRing) -> Outcome:
    """Go once through all that another key than the first has sealed."""
    resealed = 0
    for column in SEALED:
        for value in _list_old(db, ring, column):
            try:
                resealed += _renew(db, ring, column, value)
            except SecretError:
                log.warning("secret.not_decrypted", table=column.table, row=column.row_name(*value.identity))
    return Outcome(resealed, sum(1 for column in SEALED for _ in _list_old(db, ring, column)))


def _list_old(db: Database, ring: KeyRing, column: Sealed) -> Iterator[SealedValue]:
    """Yield values that another key sealed, in pages, in the order of the primary key."""
    last: SealedValue | None = None
    while True:
        page = queries_sealed.list_values(db, column, ring.active, last, BATCH)
        yield from page
        if len(page) < BATCH:
            return
        last = page[-1]


def _renew(db: Database, ring: KeyRing, column: Sealed, value: SealedValue) -> int:
    name = column.row_name(*value.identity)
    return queries_sealed.replace_value(db, column, value, ring.seal(ring.open(value.sealed, row=name), row=name))
