"""Key rotation: encrypts stored secrets again with the first key of the ring, while the service runs.

Runs beside a working service. A value is replaced only if it is still the one that was read, so a newer one that
a request stores meanwhile stays; no lock is held longer than one row's update; what is done stays done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import LiteralString

import structlog

from retrieval.accounts import idempotency
from retrieval.connections import connections
from retrieval.database.database import Database, Row
from retrieval.ingestion import reembedding
from retrieval.namespaces import namespaces
from retrieval.security import secrets
from retrieval.security.secrets import KeyRing, SecretError
from retrieval.webhooks import endpoints

log = structlog.get_logger()

BATCH = 100


@dataclass(frozen=True, slots=True)
class Sealed:
    """A column that holds sealed values. `identity`: the primary key, in its order."""

    table: LiteralString
    column: LiteralString
    identity: tuple[LiteralString, ...]
    row_name: Callable[[Row], str]


SEALED = (
    Sealed("server_secrets", "sealed", ("name",), lambda row: secrets.row_name(row["name"])),
    Sealed("namespaces", "secrets", ("id",), lambda row: namespaces.row_name(row["id"])),
    Sealed("namespaces", "pending", ("id",), lambda row: reembedding.row_name(row["id"], "pending")),
    Sealed("namespaces", "retired", ("id",), lambda row: reembedding.row_name(row["id"], "retired")),
    Sealed("connections", "credentials", ("id",), lambda row: connections.row_name(row["id"])),
    Sealed("webhooks", "secret", ("id",), lambda row: endpoints.row_name(row["id"])),
    Sealed("webhooks", "previous", ("id",), lambda row: endpoints.row_name(row["id"])),
    Sealed("oauth_states", "verifier", ("hash",), lambda row: connections.state_row_name(row["hash"])),
    Sealed(
        "idempotent_answers",
        "sealed",
        ("caller", "key"),
        lambda row: idempotency.row_name(row["caller"], row["key"]),
    ),
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
    for sealed in SEALED:
        for row in _old(db, ring, sealed):
            try:
                resealed += _renew(db, ring, sealed, row)
            except SecretError:
                log.warning("secret.not_decrypted", table=sealed.table, row=sealed.row_name(row))
    return Outcome(resealed, sum(1 for sealed in SEALED for _ in _old(db, ring, sealed)))


def _old(db: Database, ring: KeyRing, place: Sealed) -> Iterator[Row]:
    """Yield rows that another key sealed, in pages, in the order of the primary key."""
    identity = ", ".join(place.identity)
    last: Row | None = None
    while True:
        bound = "" if last is None else f" and ({identity}) > ({_placeholders(place)})"
        rows = db.rows(
            f"select {identity}, {place.column} as sealed from {place.table}"
            f" where substring({place.column} from 2 for get_byte(nullif({place.column}, ''), 0)) <> %(active)s{bound}"
            f" order by {identity} limit {BATCH}",
            {**(last or {}), "active": ring.active.encode()},
        )
        yield from rows
        if len(rows) < BATCH:
            return
        last = rows[-1]


def _renew(db: Database, ring: KeyRing, place: Sealed, row: Row) -> int:
    name = place.row_name(row)
    fresh = ring.seal(ring.open(row["sealed"], row=name), row=name)
    identity = ", ".join(place.identity)
    changed = db.rows(
        f"update {place.table} set {place.column} = %(fresh)s"
        f" where ({identity}) = ({_placeholders(place)}) and {place.column} = %(sealed)s returning 1 as one",
        {**row, "fresh": fresh},
    )
    return len(changed)


def _placeholders(place: Sealed) -> LiteralString:
    return ", ".join(f"%({name})s" for name in place.identity)
