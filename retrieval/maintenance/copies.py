"""Copies of what is stored: while one is made, garbage collection deletes no file that its rows may refer to.

Who copies holds an advisory lock from before its snapshot on. A sweep that is due for what was replaced or deleted
since then is seen only by statements that see the lock as well; what was due before is of no row of the snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import LiteralString

from psycopg.rows import dict_row

from retrieval.database.sessions import ThreadConnection

LOCK: LiteralString = "1131376761"
"""Of copies, among advisory locks of the database; the second number is the namespace's, 0 for all of them."""
_HOLD: LiteralString = f"select pg_advisory_lock_shared({LOCK}, coalesce(hashtext(%(namespace)s), 0))"
IS_COPIED: LiteralString = """exists (
    select from pg_locks l where l.locktype = 'advisory' and l.classid = 1131376761 and l.objsubid = 2
      and l.database = (select oid from pg_database where datname = current_database())
      and l.objid::bigint in (0, hashtext({namespace})::bigint & 4294967295)
)"""
"""Whether a copy of everything, or of a namespace, is being made."""


@contextmanager
def keep_files(url: str, namespace: str | None = None) -> Iterator[ThreadConnection]:
    """A connection, in no transaction; until the end all files of the namespace stay, those of all for None.

    psycopg's errors if the connection is lost meanwhile, and the files may not have stayed.
    """
    with ThreadConnection.connect(url, autocommit=True, row_factory=dict_row) as connection:
        connection.execute(_HOLD, {"namespace": namespace})
        yield connection
        connection.execute("select 1")
