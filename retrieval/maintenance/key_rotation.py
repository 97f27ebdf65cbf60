"""Key rotation: encrypt stored secrets again with the first key of the ring, while the service runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import structlog

from retrieval.accounts import idempotency
from retrieval.connections import connections, pushes
from retrieval.database.database import Database
from retrieval.ingestion import sealed_configs
from retrieval.jobs.queries import passwords
from retrieval.maintenance import queries_sealed
from retrieval.maintenance.queries_sealed import SealedColumn, SealedValue
from retrieval.namespaces import namespaces
from retrieval.security import secrets
from retrieval.security.secrets import KeyRing, SecretError
from retrieval.webhooks import endpoints

log = structlog.get_logger()

PAGE_ROWS = 100
# Complete list of columns with sealed values.
SEALED_COLUMNS = (
    SealedColumn("server_secrets", "sealed", ("name",), secrets.row_name),
    SealedColumn("namespaces", "secrets", ("id",), namespaces.row_name),
    SealedColumn("namespaces", "pending", ("id",), partial(sealed_configs.row_name, column="pending")),
    SealedColumn("namespaces", "retired", ("id",), partial(sealed_configs.row_name, column="retired")),
    SealedColumn("connections", "credentials", ("id",), connections.row_name),
    SealedColumn("pushes", "secret", ("connection_id",), pushes.row_name),
    SealedColumn("webhooks", "secret", ("id",), endpoints.row_name),
    SealedColumn("webhooks", "previous", ("id",), endpoints.row_name),
    SealedColumn("job_runs", "password", ("id",), passwords.row_name),
    SealedColumn("oauth_states", "verifier", ("hash",), connections.state_row_name),
    SealedColumn("idempotent_answers", "sealed", ("caller", "key"), idempotency.row_name),
)


@dataclass(frozen=True, slots=True)
class RotationOutcome:
    """Number of resealed values, and of values still sealed with another key."""

    resealed: int
    left: int


def reseal_secrets(db: Database, ring: KeyRing) -> RotationOutcome:
    """Seal values of other keys with the first key; unreadable values are logged."""
    resealed = 0
    for column in SEALED_COLUMNS:
        for value in _list_old(db, ring, column):
            try:
                resealed += _reseal(db, ring, column, value)
            except SecretError:
                log.warning("secret.not_decrypted", table=column.table, row=column.row_name(*value.identity))
    return RotationOutcome(resealed, sum(1 for column in SEALED_COLUMNS for _ in _list_old(db, ring, column)))


def _list_old(db: Database, ring: KeyRing, column: SealedColumn) -> Iterator[SealedValue]:
    """Yield values sealed with another key, in primary key order."""
    last: SealedValue | None = None
    while True:
        page = queries_sealed.list_values(db, column, ring.active, last, PAGE_ROWS)
        yield from page
        if len(page) < PAGE_ROWS:
            return
        last = page[-1]


def _reseal(db: Database, ring: KeyRing, column: SealedColumn, value: SealedValue) -> int:
    # Replaces only the value that was read: a value that a request stores in between stays.
    name = column.row_name(*value.identity)
    return queries_sealed.replace_value(db, column, value, ring.seal(ring.open(value.sealed, row=name), row=name))
