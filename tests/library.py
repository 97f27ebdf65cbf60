"""Insert indexed content into the tables without running the pipeline."""

import asyncio
import hashlib
import json

from retrieval import ids
from retrieval.access.queries import memberships
from retrieval.documents import passage_matching
from retrieval.keywords import postings
from retrieval.ports import Vector


def clear_queue(db):
    """Remove waiting batches, sweeps and probes of other tests."""
    for table in ("job_runs", "batches"):
        db.rows(f"update {table} set finished_at = now() where finished_at is null")
    for table in ("sweeps", "breakers", "dispatcher_loops"):
        db.rows(f"delete from {table}")


def viewer_of(db, scope, name):
    """Return a viewer with the user's groups, read as in the API."""

    async def read():
        try:
            return await memberships.find_viewer(db, scope, name)
        finally:
            await db.async_close()

    return asyncio.run(read())


class Library:
    """Puts documents straight into a scope; texts and vectors are given, so a test knows every score."""

    def __init__(self, db, scope, store):
        self.db, self.scope, self.store = db, scope, store
        self.partition = db.row(
            "insert into partitions (namespace_id, tenant) values (%(namespace)s, %(tenant)s)"
            " on conflict (namespace_id, tenant) do update set tenant = excluded.tenant returning id",
            {"namespace": scope.namespace, "tenant": scope.tenant},
        )["id"]

    def put(self, texts=(), vectors=(), *, visible=True, generation=1, document_id=None, stored=True, **fields):
        """Insert a document with `texts` as chunks; `visible=False` leaves the generation inactive."""
        document = document_id or self._document(fields)
        for index, text in enumerate(texts):
            self._chunk(document, generation, index, text, vectors[index] if vectors else [1.0] + [0.0] * 7)
        if stored and self.store is not None and vectors:
            self.store.upsert(
                self.scope,
                [Vector(f"{document}#{generation}#{index}", document, v) for index, v in enumerate(vectors)],
            )
        if visible:
            self.flip(document, generation)
        return document

    def flip(self, document, generation):
        """Activate a generation as the pipeline does."""
        with self.db.transaction() as connection:
            values = {"id": document, "generation": generation}
            old = connection.execute(
                "select c.id from chunks c join documents d on d.id = c.document_id"
                " and d.active_generation = c.generation where d.id = %(id)s",
                values,
            ).fetchall()
            new = connection.execute(
                "select id from chunks where document_id = %(id)s and generation = %(generation)s", values
            ).fetchall()
            connection.execute(
                "update documents set active_generation = %(generation)s where id = %(id)s and deleted_at is null",
                values,
            )
            passage_matching.hide_matching_chunks(connection, [document])
            less = postings.remove_chunks(connection, [row["id"] for row in old])
            added = postings.index_chunks(connection, self.partition, [row["id"] for row in new], "english")
            connection.execute(
                "update partitions set chunks = chunks + %(chunks)s, terms = terms + %(terms)s where id = %(id)s",
                {"chunks": added[0] - less[0], "terms": added[1] - less[1], "id": self.partition},
            )

    def _document(self, fields):
        document = fields.pop("id", None) or ids.document_id()
        values = {
            "external_id": document,
            "document_type": "TEXT",
            "source": "TEXT",
            "name": "a name",
            "status": "SUCCESS",
            "connection_id": None,
            **fields,
            "metadata": json.dumps(fields.get("metadata", {})),
            "id": document,
            "partition": self.partition,
        }
        self.db.rows(
            "insert into documents (id, partition_id, job_id, job_run_id, source, external_id, document_type, name,"
            " status, connection_id, metadata) values (%(id)s, %(partition)s, 'job_1', 'ijr_1', %(source)s,"
            " %(external_id)s, %(document_type)s, %(name)s, %(status)s, %(connection_id)s, %(metadata)s)",
            values,
        )
        if values["connection_id"]:
            self.db.rows(
                "insert into connection_documents (document_id, connection_id) values (%(id)s, %(connection_id)s)",
                values,
            )
        return document

    def _chunk(self, document, generation, index, text, vector):
        key = hashlib.sha256(f"{text}{list(vector)}".encode()).digest()
        values = {
            "partition": self.partition,
            "document": document,
            "generation": generation,
            "index": index,
            "text": text,
            # Chunks of a document lie apart.
            "start": index * 10_000,
            "end": index * 10_000 + len(text),
            "key": key,
            "vector": str([float(value) for value in vector]),
        }
        self.db.rows(
            "with embedded as (insert into embeddings (partition_id, key, values)"
            " values (%(partition)s, %(key)s, %(vector)s::halfvec) on conflict do nothing)"
            ' insert into chunks (partition_id, document_id, generation, index, start, "end", tokens, content,'
            " embedding_key) values (%(partition)s, %(document)s, %(generation)s, %(index)s, %(start)s, %(end)s, 1,"
            " %(text)s, %(key)s)",
            values,
        )
