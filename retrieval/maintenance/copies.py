"""Advisory lock against garbage collection of files during a backup or export."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import LiteralString

from psycopg.rows import dict_row

from retrieval.database.sessions import ThreadConnection

# The second key is the hash of the namespace id, 0 for all namespaces.
COPY_LOCK: LiteralString = "1131376761"
_LOCK_QUERY: LiteralString = f"select pg_advisory_lock_shared({COPY_LOCK}, coalesce(hashtext(%(namespace)s), 0))"
# A copy of the namespace, or of all, is in progress.
IS_COPIED: LiteralString = """exists (
    select from pg_locks l where l.locktype = 'advisory' and l.classid = 1131376761 and l.objsubid = 2
      and l.database = (select oid from pg_database where datname = current_database())
      and l.objid::bigint in (0, hashtext({namespace})::bigint & 4294967295)
)"""


@contextmanager
def keep_files(url: str, namespace: str | None = None) -> Iterator[ThreadConnection]:
    """Keep all files of the namespace (None: of all) during the context; psycopg's error after a lost lock."""
    # The lock is taken before the snapshot of the copy. A sweep that becomes due later is visible only to statements
    # that also see the lock; a sweep that was due earlier concerns no row of the snapshot.
    with ThreadConnection.connect(url, autocommit=True, row_factory=dict_row) as connection:
        connection.execute(_LOCK_QUERY, {"namespace": namespace})
        yield connection
        connection.execute("select 1")
