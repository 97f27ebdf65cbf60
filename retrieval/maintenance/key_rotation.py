"""Key rotation: encrypt stored secrets again with the first key of the ring, while the service runs."""

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

PAGE_ROWS = 100
SEALED_COLUMNS = (
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
"""Every column with sealed values."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Number of values that the first key seals now (`resealed`), and that another key still seals (`left`)."""

    resealed: int
    left: int


def reseal_secrets(db: Database, ring: KeyRing) -> Outcome:
    """Seal every value of another key again with the first; values that no key of the ring opens are logged."""
    resealed = 0
    for column in SEALED_COLUMNS:
        for value in _list_old(db, ring, column):
            try:
                resealed += _reseal(db, ring, column, value)
            except SecretError:
                log.warning("secret.not_decrypted", table=column.table, row=column.row_name(*value.identity))
    return Outcome(resealed, sum(1 for column in SEALED_COLUMNS for _ in _list_old(db, ring, column)))


def _list_old(db: Database, ring: KeyRing, column: Sealed) -> Iterator[SealedValue]:
    """Yield values that another key sealed, in pages, in the order of the primary key."""
    last: SealedValue | None = None
    while True:
        page = queries_sealed.list_values(db, column, ring.active, last, PAGE_ROWS)
        yield from page
        if len(page) < PAGE_ROWS:
            return
        last = page[-1]


def _reseal(db: Database, ring: KeyRing, column: Sealed, value: SealedValue) -> int:
    # Replaces only the value that was read: a value that a request stores in between stays.
    name = column.row_name(*value.identity)
    return queries_sealed.replace_value(db, column, value, ring.seal(ring.open(value.sealed, row=name), row=name))
