"""Tables that travel row by row: what a namespace has beside its documents, with the numbers and ids that it gets here.

A table that belongs to namespaces gets an entry here, or a reason in `retrieval.maintenance.ownership`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, LiteralString

from retrieval import ids
from retrieval.maintenance.moving.archive import ArchiveError
from retrieval.maintenance.moving.frame import Frame

_ID = re.compile(r"[a-z]{1,10}_[0-9A-Za-z]{1,60}")
_PARTITIONS = "partitions"


@dataclass(frozen=True, slots=True)
class Carried:
    """Export and import of one table.

    statement: its rows in the namespace, each as JSON named `row`, in the order in which they are inserted.
    refers: columns that name a partition, or a row of an earlier table.
    made: makes an id, where rows have one; `taken`: selects ids that exist already.
    documents: JSON columns that contain ids of documents.
    """

    statement: LiteralString
    refers: Mapping[str, str]
    made: Callable[[], str] | None = None
    taken: LiteralString | None = None
    documents: tuple[str, ...] = ()


_OF: LiteralString = " join partitions p on p.id = e.partition_id where p.namespace_id = %(namespace)s"
CARRIED: Mapping[str, Carried] = {
    "evaluations": Carried(
        "select to_jsonb(e) as row from evaluations e" + _OF + " order by e.created_at, e.id",
        {"partition_id": _PARTITIONS},
        made=ids.evaluation_id,
        taken="select 1 as yes from evaluations where id = any(%(ids)s) limit 1",
    ),
    "evaluation_questions": Carried(
        "select to_jsonb(q) as row from evaluation_questions q join evaluations e on e.id = q.evaluation_id"
        + _OF
        + " order by q.evaluation_id, q.number",
        {"evaluation_id": "evaluations"},
        documents=("relevant", "filter"),
    ),
    "evaluation_runs": Carried(
        "select to_jsonb(r) as row from evaluation_runs r join evaluations e on e.id = r.evaluation_id"
        + _OF
        + " and r.finished_at is not null order by r.created_at, r.id",
        {"evaluation_id": "evaluations"},
        made=ids.evaluation_run_id,
        taken="select 1 as yes from evaluation_runs where id = any(%(ids)s) limit 1",
    ),
    "access_groups": Carried(
        "select to_jsonb(e) as row from access_groups e" + _OF + " order by e.partition_id, e.id",
        {"partition_id": _PARTITIONS},
    ),
    "group_members": Carried(
        "select to_jsonb(e) as row from group_members e" + _OF + " order by e.partition_id, e.group_id, e.member",
        {"partition_id": _PARTITIONS},
    ),
}
"""By table, in the order in which they are imported. Runs that have not ended are left out."""


class Carrying(Frame):
    """Writes them."""

    def _carry(self, documents: Mapping[str, str], *, renamed: bool) -> None:
        """Every row of every one. `documents`: their ids here by those of the archive."""
        new_ids: dict[str, dict[str, str]] = {}
        for table, carried in CARRIED.items():
            new_ids[table] = {}
            for page in self._pages(table):
                rows = [row for row in page if row.get("finished_at", "") is not None]
                if carried.made is not None:
                    new_ids[table] |= self._names_of(carried, carried.made, rows, renamed=renamed)
                self._insert(table, [self._carried(table, row, new_ids, documents) for row in rows])

    def _names_of(
        self, one: Carried, made: Callable[[], str], rows: list[dict[str, Any]], *, renamed: bool
    ) -> dict[str, str]:
        archived_ids = [row["id"] for row in rows]
        if not all(isinstance(name, str) and _ID.fullmatch(name) for name in archived_ids):
            raise ArchiveError("The export is damaged: a row has an id that cannot be.")
        in_use = one.taken is not None and self._db.row(one.taken, {"ids": archived_ids}) is not None
        return {name: made() if renamed or in_use else name for name in archived_ids}

    def _carried(
        self, table: str, row: dict[str, Any], known: Mapping[str, Mapping[str, str]], documents: Mapping[str, str]
    ) -> dict[str, Any]:
        carried = CARRIED[table]
        values = dict(row)
        for column, target in carried.refers.items():
            values[column] = self._partition(row) if target == _PARTITIONS else known[target][row[column]]
        if carried.made is not None:
            values["id"] = known[table][row["id"]]
        return values | {column: _renamed(row[column], documents) for column in carried.documents}


def _renamed(value: Any, documents: Mapping[str, str]) -> Any:
    """Return a copy of the JSON value with the new ids of documents."""
    match value:
        case str():
            return documents.get(value, value)
        case list():
            return [_renamed(item, documents) for item in value]
        case dict():
            return {key: _renamed(item, documents) for key, item in value.items()}
        case _:
            return value
