"""What the stores are still to be told: deletions, gone from all answers before and read back here, and new labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import LiteralString

import structlog

from retrieval import frontier, keyword, labels, settings
from retrieval.database import Database, Row
from retrieval.errors import Retryable, StepError
from retrieval.ports import FileStore, Scope, VectorStore

log = structlog.get_logger()

PAGE = 1000
PATIENCE = 8
"""Tries, each after twice the time, in which a vector store that was left may become reachable: some four hours."""
LARGE = 10_000
"""Chunks from which on a scope is looked after."""


@dataclass(frozen=True, slots=True)
class Stores:
    """Where a namespace's things lie. `end` wipes and ends the authorizations of a partition, by its number."""

    vectors: VectorStore
    files: FileStore
    end: Callable[[int], None]
    others: tuple[VectorStore, ...] = ()
    """Vector stores that hold or held vectors beside: the one that is being built, the one before."""


def run(db: Database, stores: Callable[[str], Stores], *, limit: int = 200) -> int:
    """Do what is due, `stores` by namespace id; how many were done. What fails is tried again, later each time."""
    due = db.rows(
        """
        update sweeps s
        set tries = tries + 1, due_at = now() + interval '1 minute' * least(power(2, s.tries), 720)
        from (select id from sweeps where due_at <= now() order by due_at limit %(limit)s for update skip locked) d,
             partitions p join namespaces n on n.id = p.namespace_id
        where s.id = d.id and p.id = s.partition_id
        returning s.*, p.namespace_id, p.tenant, n.organization_id
        """,
        {"limit": limit},
    )
    done: list[int] = []
    for row in due:
        try:
            _ACTIONS[row["kind"]](db, stores(row["namespace_id"]), row)
        except StepError as error:
            log.warning("sweep.postponed", sweep=row["id"], kind=row["kind"], tries=row["tries"], reason=str(error))
            continue
        done.append(row["id"])
    if done:
        db.rows("delete from sweeps where id = any(%(done)s)", {"done": done})
    return len(done)


def maintain(db: Database, stores: Callable[[str], Stores]) -> None:
    """Let the vector stores look after the scopes that have grown large."""
    large = db.rows(
        """
        select n.organization_id, p.namespace_id, p.tenant from partitions p join namespaces n on n.id = p.namespace_id
        where p.chunks >= %(large)s and n.deleted_at is null
        """,
        {"large": LARGE},
    )
    for row in large:
        try:
            stores(row["namespace_id"]).vectors.maintain(
                Scope(row["organization_id"], row["namespace_id"], row["tenant"])
            )
        except StepError as error:
            log.warning("maintenance.postponed", namespace=row["namespace_id"], reason=str(error))


def forget(db: Database) -> None:
    """Drop what has served its time: answers of idempotency keys after a day, of addresses after a minute, of searches
    after two days."""
    db.rows(
        "delete from idempotent_answers where ctid = any(array("
        "select ctid from idempotent_answers where created_at < now() - interval '1 day' limit %(page)s))",
        {"page": 10 * PAGE},
    )
    db.rows(
        "delete from rate_windows where caller like 'address:%%'"
        " and minute < floor(extract(epoch from now()) / 60)::bigint - 1",
        {},
    )
    db.rows("delete from search_times where hour < now() - interval '2 days'", {})
    frontier.forget(db)


def _file(_db: Database, stores: Stores, row: Row) -> None:
    stores.files.delete([row["file_key"]])


def _labels(db: Database, stores: Stores, row: Row) -> None:
    """A document whose metadata changed."""
    scope = Scope(row["organization_id"], row["namespace_id"], row["tenant"])
    labels.tell(db, stores.vectors, scope, row["document_id"])


def _generation(db: Database, stores: Stores, row: Row) -> None:
    """One generation of a document, unless it is the visible one."""
    visible = db.row(
        "select 1 as yes from documents where id = %(document_id)s and active_generation = %(generation)s"
        " and deleted_at is null",
        row,
    )
    if visible is None:
        _vectors_and_chunks(db, stores, row, row["generation"])


def _document(db: Database, stores: Stores, row: Row) -> None:
    """A deleted document: every generation, every file, then the row itself."""
    generations = db.rows("select distinct generation from chunks where document_id = %(document_id)s", row)
    for found in generations:
        _vectors_and_chunks(db, stores, row, found["generation"])
    files = db.rows(
        """
        select raw_key as key from run_documents where document_id = %(document_id)s and raw_key is not null
        union select parsed_key from run_documents where document_id = %(document_id)s and parsed_key is not null
        """,
        row,
    )
    stores.files.delete([file["key"] for file in files])
    with db.transaction() as connection:
        connection.execute("delete from inbox where document_id = %(document_id)s", row)
        connection.execute("delete from documents where id = %(document_id)s and deleted_at is not null", row)


def _partition(db: Database, stores: Stores, row: Row) -> None:
    """Everything of a deleted namespace's scope; its job runs have ended before."""
    stores.end(row["partition_id"])
    for store in (stores.vectors, *stores.others):
        store.drop(Scope(row["organization_id"], row["namespace_id"], row["tenant"]))
    files = db.rows(
        """
        with members as (
            select d.raw_key, d.parsed_key from run_documents d
            join job_runs r on r.id = d.job_run_id where r.partition_id = %(partition_id)s
        )
        select raw_key as key from members where raw_key is not null
        union select parsed_key from members where parsed_key is not null
        union select file_key from sweeps where partition_id = %(partition_id)s and file_key is not null
        """,
        row,
    )
    stores.files.delete([file["key"] for file in files])
    for statement in _BULK:
        db.rows(statement, row)


_BULK: tuple[LiteralString, ...] = (
    "delete from postings where partition_id = %(partition_id)s",
    "delete from term_counts where partition_id = %(partition_id)s",
    "delete from chunks where partition_id = %(partition_id)s",
    "delete from embeddings where partition_id = %(partition_id)s",
    "delete from partitions where id = %(partition_id)s",
)
"""The last one takes jobs, job runs, documents and sweeps with it."""


def _vectors_and_chunks(db: Database, stores: Stores, row: Row, generation: int) -> None:
    scope = Scope(row["organization_id"], row["namespace_id"], row["tenant"])
    values = {**row, "generation": generation}
    indexes = db.rows(
        "select index from chunks where document_id = %(document_id)s and generation = %(generation)s order by index",
        values,
    )
    prefix = f"{row['document_id']}#{generation}#"
    names = [f"{prefix}{found['index']}" for found in indexes]
    for store in (stores.vectors, *stores.others):
        _delete(store, scope, names, prefix)
    with db.transaction() as connection:
        connection.execute("select pg_advisory_xact_lock(%(partition_id)s)", row)
        keyword.forget(
            connection, row["partition_id"], row["document_id"], generation, settings.load().keyword_language
        )
        gone = connection.execute(
            "delete from chunks where document_id = %(document_id)s and generation = %(generation)s"
            " returning embedding_key",
            values,
        ).fetchall()
        connection.execute(
            """
            delete from embeddings e
            where e.partition_id = %(partition_id)s and e.key = any(%(keys)s)
              and not exists (select from chunks c where c.partition_id = e.partition_id and c.embedding_key = e.key)
            """,
            {**values, "keys": [found["embedding_key"] for found in gone]},
        )


def _delete(store: VectorStore, scope: Scope, names: Sequence[str], prefix: str) -> None:
    for start in range(0, len(names), PAGE):
        store.delete(scope, names[start : start + PAGE])
    if left := list(store.ids(scope, prefix)):
        store.delete(scope, left)
        if any(store.ids(scope, prefix)):
            raise Retryable("The vector store still shows what was deleted; it is asked again later.")


def _embeddings(db: Database, _stores: Stores, row: Row) -> None:
    """Embeddings whose last chunk went when its document was cut again."""
    with db.transaction() as connection:
        connection.execute("select pg_advisory_xact_lock(%(partition_id)s)", row)
        connection.execute(
            """
            delete from embeddings e where e.partition_id = %(partition_id)s
              and not exists (select from chunks c where c.partition_id = e.partition_id and c.embedding_key = e.key)
            """,
            row,
        )


def _other_stores(db: Database, _stores: Stores, row: Row) -> None:
    """Forget vector stores that are not used any more, once they are empty or could not be emptied for some hours."""
    waits = db.row(
        "select 1 as yes from sweeps s join partitions p on p.id = s.partition_id"
        " where p.namespace_id = %(namespace_id)s and s.kind in ('generation', 'document') limit 1",
        row,
    )
    if waits is not None and row["tries"] < PATIENCE:
        raise Retryable("The vector store that was left is not empty yet.")
    db.rows(
        """
        update namespaces n
        set retired = case when n.epoch = %(generation)s then null else n.retired end,
            pending = case when run.id is null then null else n.pending end,
            pending_run = case when run.id is null then null else n.pending_run end
        from (select 1) one left join job_runs run
          on run.finished_at is null and run.id = (select pending_run from namespaces where id = %(namespace_id)s)
        where n.id = %(namespace_id)s
        """,
        row,
    )


_ACTIONS: dict[str, Callable[[Database, Stores, Row], None]] = {
    "file": _file,
    "labels": _labels,
    "generation": _generation,
    "document": _document,
    "embeddings": _embeddings,
    "stores": _other_stores,
    "partition": _partition,
}
