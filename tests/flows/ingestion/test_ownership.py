"""Deleting a namespace deletes its rows in every table except the listed owners."""

from sqlalchemy import ARRAY, BigInteger, Boolean, Date, DateTime, Float, Integer, LargeBinary, Text
from sqlalchemy.dialects.postgresql import JSONB
from sqlmodel import SQLModel

import retrieval.database.schema  # noqa: F401  (fills SQLModel.metadata)
from retrieval.maintenance import ownership
from retrieval.namespaces import namespaces
from tests.flows.configured import Configured
from tests.flows.ingestion.test_fsck import quiet  # noqa: F401

TABLES = {table.name: table for table in SQLModel.metadata.sorted_tables}
IDS = {
    "documents": "d",
    "jobs": "j",
    "job_runs": "r",
    "connections": "c",
    "evaluations": "e",
    "deletions": "x",
    "webhooks": "w",
}
# Columns with a reference to the table.
NAMED = {f"{table.removesuffix('s')}_id": table for table in IDS} | {"group_id": "access_groups"}


def value_of(column, owners):
    """Value for the column: a reference, any value of its type, or None."""
    name, table = column.name, column.table.name
    if name in owners:
        return owners[name]
    if (table, name) == ("sweeps", "deletion_id"):
        return None  # a deletion that a client waits for comes before its namespace's
    if (table, name) == ("schedules", "minutes"):
        return 60  # or `cron`: one of them is there
    if name in NAMED or (name == "id" and isinstance(column.type, Text)):
        return f"{NAMED.get(name, table)}-planted"
    if column.nullable or column.server_default is not None or column.identity is not None:
        return None
    values = (
        (Text, {"status": "QUEUED", "kind": "User"}.get(name, "x")),
        (JSONB, "{}"),
        (ARRAY, "{}"),
        (Boolean, False),
        ((Integer, BigInteger, Float), 1),
        (LargeBinary, b"x"),
        ((DateTime, Date), "2026-01-01"),
        (object, "[" + ",".join(["1"] * 256) + "]"),  # a vector
    )
    return next(value for kind, value in values if isinstance(column.type, kind))


def plant(db, owners):
    """A row in each table of namespaces."""
    for name, table in TABLES.items():
        if name not in ownership.NAMESPACE_TABLES or name in {"namespaces", "partitions"}:
            continue
        values = {column.name: value_of(column, owners) for column in table.columns}
        filled_values = {column: value for column, value in values.items() if value is not None}
        columns, marks = (
            ", ".join(f'"{column}"' for column in filled_values),
            ", ".join(f"%({column})s" for column in filled_values),
        )
        db.rows(f"insert into {name} ({columns}) overriding system value values ({marks})", filled_values)


def tables_with_rows(db, owners):
    """Tables with rows of the namespace."""
    leftover = set()
    for name, table in TABLES.items():
        of = {"partition_id": owners["partition_id"], "namespace_id": owners["namespace_id"]}
        of |= {column: f"{named_column}-planted" for column, named_column in NAMED.items()}
        if name == "partitions":
            of = {"id": owners["partition_id"]}
        columns = [column for column in of if column in table.columns]
        if columns and db.rows(f"select 1 from {name} where " + " or ".join(f"{c} = %({c})s" for c in columns), of):
            leftover.add(name)
    return leftover


def test_a_deleted_namespace_leaves_nothing_in_any_table(quiet):  # noqa: F811
    space = Configured(quiet)
    space.text("Owls hunt mice at night.", "owls")
    space.work()
    scope = space.scope
    partition = quiet.row("select id from partitions where namespace_id = %(id)s", {"id": scope.namespace})["id"]
    owners = {
        "partition_id": partition,
        "namespace_id": scope.namespace,
        "organization_id": scope.organization,
        "tenant": "",
    }
    plant(quiet, owners)
    owned = {name for name, owner in ownership.NAMESPACE_TABLES.items() if name != "namespaces"}
    assert tables_with_rows(quiet, owners) == owned
    space.call(namespaces.delete_namespace(quiet, scope.organization, scope.namespace))
    for _ in range(3):
        space.sweep()
    stays = {name for name, owner in ownership.NAMESPACE_TABLES.items() if owner.stays and name != "namespaces"}
    assert tables_with_rows(quiet, owners) == stays
