"""Every table has an owner that covers export, deletion and `retrieval fsck`."""

from sqlmodel import SQLModel

import retrieval.database.schema  # noqa: F401  (fills SQLModel.metadata)
from retrieval.maintenance import ownership
from retrieval.maintenance.fsck import tables
from retrieval.maintenance.moving import queries_export

TABLES = {table.name: table for table in SQLModel.metadata.sorted_tables}


def test_every_table_has_an_owner():
    owned = {**ownership.NAMESPACE_TABLES, **ownership.OTHER_TABLES}
    assert TABLES.keys() == owned.keys(), (
        "Add a line for the table to NAMESPACE_TABLES or OTHER_TABLES in retrieval/maintenance/ownership.py."
    )
    assert not ownership.NAMESPACE_TABLES.keys() & ownership.OTHER_TABLES.keys()


def test_every_table_that_travels_is_part_of_an_export():
    assert {*queries_export.TABLE_QUERIES, "embeddings"} == set(ownership.EXPORTED_TABLES), (
        "Add the table to TABLE_QUERIES in retrieval/maintenance/moving/queries_export.py."
    )


def test_rows_of_a_partition_that_is_not_there_cannot_be_or_are_found():
    for name, owner in ownership.NAMESPACE_TABLES.items():
        column = TABLES[name].columns.get("partition_id")
        if column is not None and not column.foreign_keys and not column.nullable and not owner.stays:
            assert any(
                check.kind == "ORPHAN_ROWS" and f"from {name} " in check.statement for check in tables.TABLE_CHECKS
            ), f"Add a check of kind ORPHAN_ROWS for {name} to TABLE_CHECKS in retrieval/maintenance/fsck/tables.py."
