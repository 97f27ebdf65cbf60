"""A namespace made from its configuration, driven through the steps without Prefect."""

from __future__ import annotations

import base64
import hashlib
import os
from datetime import UTC, datetime
from typing import Any

from connectors import registry
from flows import steps
from retrieval import ids
from retrieval.documents import documents
from retrieval.filters import DocumentFilter
from retrieval.ingestion import reembedding
from retrieval.ingestion.queries import results, run_documents
from retrieval.job_config import Ingestion
from retrieval.jobs import runs, uploads
from retrieval.jobs.queries import batches
from retrieval.maintenance import garbage as sweep
from retrieval.namespaces import namespaces
from retrieval.namespaces.namespaces import NamespaceConfig
from retrieval.ports import Scope
from retrieval.search import search
from retrieval.search.search import Query
from retrieval.security.secrets import KeyRing
from tests.loops import run_coroutine

STEPS = (steps.fetch, steps.parse, steps.chunk, steps.embed, steps.upsert)
EMBEDDED = {
    "fileStorageConfig": {"type": "LOCAL"},
    "vectorStorageConfig": {"provider": "PGVECTOR"},
    "embeddingModelConfig": {"provider": "LOCAL", "model": "wordllama-l2-supercat-256"},
}


class Configured:
    """Namespace of `EMBEDDED` with overrides, in the organization of `neighbour` or a new one."""

    def __init__(self, db, *, neighbour: Configured | None = None, **configs: Any) -> None:
        self.db = db
        self.ring: KeyRing = (
            neighbour.ring if neighbour else KeyRing.parse("1:" + base64.b64encode(os.urandom(32)).decode())
        )
        organization: str = neighbour.scope.organization if neighbour else ids.organization_id()
        self.scope: Scope = Scope(organization, ids.namespace_id())
        created_at = datetime.now(UTC)
        config_fields = namespaces.split_configs({**EMBEDDED, **configs})
        draft = NamespaceConfig(
            self.scope.namespace,
            self.scope.organization,
            "n",
            dimensions=None,
            created_at=created_at,
            updated_at=created_at,
            **config_fields,
        )
        if neighbour is None:
            db.rows("insert into organizations (id, name) values (%(id)s, 'test')", {"id": organization})
        self.call(namespaces.create_namespace(db, self.ring, draft, limit=10))

    def call(self, coroutine):
        return run_coroutine(self.db, coroutine)

    @property
    def config(self) -> NamespaceConfig:
        return namespaces.load_namespace(self.db, self.ring, self.scope.namespace, deleted=True)

    def text(self, text, name, **ingestion):
        return self.call(runs.accept_text(self.db, self.scope, text=text, name=name, ingestion=Ingestion(**ingestion)))

    def file(self, name, content, media_type="", **ingestion):
        async def accept():
            upload = await uploads.begin_upload(self.db, self.scope)
            size = registry.make_file_store(self.config).put(upload.key, [content])
            return await runs.accept_file(
                self.db,
                self.scope,
                upload=upload,
                name=name,
                media_type=media_type,
                size=size,
                sha256=hashlib.sha256(content).digest(),
                ingestion=Ingestion(**ingestion),
            )

        return self.call(accept())

    def lease(self):
        batches.form_batches(self.db, size=64, batches=8)
        for batch in batches.undispatched_batches(self.db):
            batches.record_flow_run(self.db, batch, "run")
            if lease := batches.claim_lease(self.db, batch.id, batch.attempt, seconds=30):
                return lease
        return None

    def work(self, *, before_step=lambda _name: None):
        """Take all waiting work through the steps; call `before_step(name)` before each."""
        while lease := self.lease():
            self.take(lease, before_step=before_step)

    def take(self, lease, *, before_step=lambda _name: None):
        while windows := run_documents.list_windows(self.db, lease, documents=64, size=1 << 24):
            for window in windows:
                for step in STEPS:
                    before_step(step.__name__)
                    step(steps.Work(self.db, self.ring, lease, window))
                    results.settle_runs(self.db, lease)
        results.settle_runs(self.db, lease)
        batches.finish_batch(self.db, lease)

    def search(self, query, *, viewer=None, **fields):
        """Names of matching documents, best first."""
        return [hit.name for hit in self.find_hits(query, viewer=viewer, **fields)]

    def find_hits(self, query, *, viewer=None, **fields):
        """The hits of a search, best first."""
        config = self.config
        result = search.run_search(
            self.db,
            self.scope,
            Query(query, **fields),
            viewer=viewer,
            embedder=registry.make_embedder(config),
            vectors=registry.make_vector_store(config, self.db),
        )
        return result.hits

    def delete(self, *document_ids):
        deletion = self.call(documents.delete_documents(self.db, self.scope, DocumentFilter(document_ids=document_ids)))
        self.deletion = deletion.deletion_id
        return deletion.documents

    def sweep(self):
        config = self.config
        other_stores = [
            registry.make_vector_store(store_config, self.db)
            for store_config in reembedding.other_stores(self.db, self.ring, config)
        ]
        stores = sweep.Stores(
            registry.make_vector_store(config, self.db),
            registry.make_file_store(config),
            lambda _: None,
            tuple(other_stores),
        )
        # What earlier tests left behind waits: it would fail at these stores, and take the threads.
        self.db.rows(
            "update sweeps s set due_at = case when p.namespace_id = %(namespace)s then now() else now() + '1 day' end"
            " from partitions p where p.id = s.partition_id",
            {"namespace": self.scope.namespace},
        )
        while sweep.collect_garbage(self.db, lambda _: stores):
            pass

    def run(self, job_run_id):
        return self.call(runs.read_run(self.db, self.scope, job_run_id))

    def documents(self):
        """Live documents by external id."""
        rows = self.db.rows(
            "select d.* from documents d join partitions p on p.id = d.partition_id"
            " where p.namespace_id = %(namespace)s and d.deleted_at is null",
            {"namespace": self.scope.namespace},
        )
        return {row["external_id"]: row for row in rows}
