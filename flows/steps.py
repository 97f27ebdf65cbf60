"""Steps of the pipeline on one window of documents, as plain functions."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psycopg

from connectors import registry
from flows.circuit_breaking import guard_port, guard_source
from retrieval import origin, settings, sources, tracing
from retrieval.database import disk_full
from retrieval.database.database import AWAY, Database
from retrieval.errors import Fatal, Retryable, ServiceError
from retrieval.ingestion import chunk as chunking
from retrieval.ingestion import discover as discovering
from retrieval.ingestion import embed as embedding
from retrieval.ingestion import fetch as fetching
from retrieval.ingestion import items, model_choice
from retrieval.ingestion import parse as parsing
from retrieval.ingestion import upsert as upserting
from retrieval.ingestion.chunking.tokenizer import tokenizer_for
from retrieval.ingestion.queries import run_documents
from retrieval.ingestion.queries.listings import Waiting
from retrieval.jobs.breaker_watch import Circuits
from retrieval.jobs.queries.batches import DocumentKey, Lease
from retrieval.metrics import catalog, counts
from retrieval.namespaces import namespaces
from retrieval.namespaces.namespaces import NamespaceConfig
from retrieval.ports import Embedder, FileStore, Parser, Source, VectorStore
from retrieval.security.secrets import KeyRing
from retrieval.statuses import Stage


class Work:
    """Window of documents with the ports of its namespace.

    `config` replaces the namespace's own. `goes_on` is called before each download and each long file; False ends the
    step early. `circuits` guard vendors and sites; None calls them directly.
    """

    # Not a dataclass: Prefect would look for inputs in its fields.

    def __init__(
        self,
        db: Database,
        ring: KeyRing,
        lease: Lease,
        window: Sequence[DocumentKey],
        config: NamespaceConfig | None = None,
        *,
        label: str = "",
        goes_on: Callable[[], bool] = lambda: True,
        circuits: Circuits | None = None,
    ) -> None:
        self.db, self.lease, self.window = db, lease, window
        self.label, self.goes_on = label, goes_on
        self._circuits = circuits
        self._is_given = config is not None
        self._alone = window[0].job_run_id if config is not None and window else None
        self.ring = ring
        self._config = config or _namespace(db, ring, lease)

    def __repr__(self) -> str:
        return f"Work({self.lease.batch_id}, {len(self.window)} documents)"

    def part(self, window: Sequence[DocumentKey]) -> Work:
        """Copy the work for some documents of its window, and label it by their names."""
        part = copy.copy(self)
        part.window = window
        if len(window) < len(self.window):
            part.label = run_documents.window_label(self.db, window)
        return part

    def waits(self, key: DocumentKey) -> bool:
        """Check whether the document needs a vendor or site whose circuit breaker is open."""
        return self._circuits is not None and bool(self._circuits.held or key.job_run_id in self._circuits.waiting)

    @property
    def files(self) -> FileStore:
        return guard_port(registry.file_store(self._config), "files", self._config, self._circuits, self._alone)

    @property
    def source(self) -> Source | None:
        """Source of the batch's documents; None for uploads."""
        return self._fetched_source() if self.lease.source in sources.FETCHED else None

    def _fetched_source(self) -> Source:
        source = registry.make_source(self.lease.source, self._config, self.db, self.ring)
        return guard_source(source, self._config, self._circuits)

    @property
    def parser(self) -> Parser:
        return registry.parser_of(self._config)

    @property
    def parser_address(self) -> str:
        """Address of the namespace's own parser; "" without one."""
        return str((self._config.parser or {}).get("url", ""))

    @property
    def vectors(self) -> VectorStore:
        store = registry.vector_store(self._config, self.db)
        return guard_port(store, "vectors", self._config, self._circuits, self._alone)

    def choose_model(self) -> None:
        """Choose the namespace's model by this window's parsed documents if none is chosen, and update fingerprints."""
        if self._is_given or not model_choice.is_open(self._config.embedding_model):
            return
        parsed = run_documents.at_stage(self.db, self.lease, self.window, Stage.PARSED)
        if not model_choice.choose_by_items(self.db, self._config.id, parsed, self.files):
            return
        self._config = _namespace(self.db, self.ring, self.lease)
        identity = self.identity
        fingerprints = [
            (item, {"fingerprint": fetching.fingerprint(item, item.raw_hash or b"", identity)}) for item in parsed
        ]
        run_documents.advance_items(self.db, self.lease, fingerprints, Stage.PARSED)

    @property
    def epoch(self) -> int:
        return self._config.epoch

    @property
    def identity(self) -> dict[str, Any]:
        """Model and external parser, a part of each document's fingerprint."""
        embedder = self.embedder
        identity = {"provider": embedder.provider, "model": embedder.model, "dimensions": embedder.dimensions}
        return identity | ({"parser": self.parser_address} if self.parser_address else {})

    @property
    def embedder(self) -> Embedder:
        return guard_port(registry.make_embedder(self._config), "embedder", self._config, self._circuits, self._alone)


class Discovery(Work):
    """Job run whose documents are not listed yet."""

    def __init__(
        self,
        db: Database,
        ring: KeyRing,
        lease: Lease,
        listing: Waiting,
        goes_on: Callable[[], bool] = lambda: True,
        circuits: Circuits | None = None,
    ) -> None:
        super().__init__(db, ring, lease, (), goes_on=goes_on, circuits=circuits)
        self.listing = listing

    def __repr__(self) -> str:
        return f"Discovery({self.listing.job_run_id}, {self.listing.request.source})"

    def list_documents(self) -> None:
        """Store the source's list page by page."""
        source = self._fetched_source()
        discovering.record_listing(self.db, self.lease, self.listing, source, self.files, goes_on=self.goes_on)


@dataclass(frozen=True)
class StepResult:
    """Outcome of a step. The next step takes it, so that Prefect draws an edge between the two tasks."""

    step: str
    documents: int


Predecessors = StepResult | Sequence[StepResult] | None


@contextmanager
def record_step(step: str, work: Work) -> Iterator[None]:
    """Record duration and trace of a step on a window."""
    started = time.monotonic()
    origin.work_for(work.lease.scope.organization)
    runs = [key.job_run_id for key in work.window]
    with tracing.trace_step(step, runs, documents=len(work.window)), explain_errors():
        yield
        seconds = time.monotonic() - started
        run_documents.add_timing(work.db, work.lease, work.window, step, seconds)
    counts.observe_seconds(catalog.STAGE, seconds, step, times=len(set(runs)))
    if step in ("upsert", "shadow"):
        # Last step of the pipeline; its counters are final.
        counts.write_counts(work.db)


@contextmanager
def explain_errors() -> Iterator[None]:
    """Translate errors of the database into `Retryable` and `Fatal`, without the statement."""
    try:
        yield
    except AWAY as error:
        raise _full(error) or Retryable("The database is away.") from error
    except (OSError, Retryable) as error:
        if full := _full(error):
            raise full from error
        raise
    except psycopg.Error as error:
        raise Fatal(f"The database refused a statement (SQLSTATE {error.sqlstate}).") from None


def _full(error: Exception) -> Retryable | None:
    """Return the `Retryable` error of a full disk."""
    reason = disk_full.full_disk_reason(error)
    return Retryable(reason, after=2 * disk_full.AFTER) if reason else None


def discover(discovery: Discovery) -> StepResult:
    """List the documents of a source."""
    started = time.monotonic()
    origin.work_for(discovery.lease.scope.organization)
    with tracing.trace_step("discover", [discovery.listing.job_run_id]), explain_errors():
        discovery.list_documents()
    counts.observe_seconds(catalog.STAGE, time.monotonic() - started, "discover")
    return StepResult("discover", len(discovery.window))


def fetch(work: Work, _after: Predecessors = None) -> StepResult:
    """Download new content into the file store and finish unchanged documents."""
    with record_step("fetch", work):
        run_documents.start_window(work.db, work.lease, work.window)
        fetching.fetch_documents(
            work.db, work.lease, work.window, work.files, work.identity, work.source, goes_on=work.goes_on
        )
    return StepResult("fetch", len(work.window))


def prepare_parser(work: Work) -> None:
    """Start the parser process for files that need it while they are still fetched."""
    if work.lease.source == "TEXT":
        return
    unparsed = [
        item
        for stage in items.BEFORE["parse"]
        for item in run_documents.at_stage(work.db, work.lease, work.window, stage)
    ]
    with suppress(Retryable):  # parse tries again and reports the reason
        work.parser.warm((item.name, item.media_type) for item in unparsed)


def parse(work: Work, _after: Predecessors = None) -> StepResult:
    """Convert raw files to Markdown."""
    with record_step("parse", work):
        parsing.parse_documents(work.db, work.lease, work.window, work.files, work.parser, work.goes_on, ring=work.ring)
    return StepResult("parse", len(work.window))


def chunk(work: Work, _after: Predecessors = None) -> StepResult:
    """Split Markdown into chunks by the model's tokens."""
    with record_step("chunk", work):
        work.choose_model()
        embedder = work.embedder
        tokenizer = tokenizer_for(embedder.provider, embedder.model)
        run_documents.take_back(work.db, work.lease, work.window, work.epoch)
        chunking.chunk_documents(work.db, work.lease, work.window, work.files, tokenizer, embedder, epoch=work.epoch)
    return StepResult("chunk", len(work.window))


def embed(work: Work, _after: Predecessors = None) -> StepResult:
    """Compute the missing vectors of chunks."""
    with record_step("embed", work):
        embedding.embed_documents(work.db, work.lease, work.window, work.embedder)
    return StepResult("embed", len(work.window))


def upsert(work: Work, _after: Predecessors = None) -> StepResult:
    """Store the vectors and make the new generation of each document visible."""
    options = settings.load_settings()
    with record_step("upsert", work):
        upserting.upsert_documents(
            work.db,
            work.lease,
            work.window,
            work.vectors,
            options.keyword_language,
            timeout=options.readback_seconds,
            epoch=work.epoch,
        )
    return StepResult("upsert", len(work.window))


def shadow(work: Work, _after: Predecessors = None) -> StepResult:
    """Store the vectors of the next model next to the visible ones."""
    timeout = settings.load_settings().readback_seconds
    with record_step("shadow", work):
        upserting.upsert_shadow(work.db, work.lease, work.window, work.vectors, timeout=timeout)
    return StepResult("shadow", len(work.window))


def _namespace(db: Database, ring: KeyRing, lease: Lease) -> namespaces.NamespaceConfig:
    try:
        return namespaces.load(db, ring, lease.scope.namespace)
    except ServiceError as error:
        raise Fatal("The namespace was deleted.") from error
