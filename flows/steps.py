"""The pipeline's steps on one window of a batch, as plain functions: `tasks` makes Prefect tasks of them."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
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
    """A window of documents with the ports they need. Not a dataclass, so that Prefect does not look inside.

    `config`: another than the namespace's own, for documents not yet searchable. `label`: name in messages.
    `goes_on`: whether another document or page may be begun that is to be fetched elsewhere, or takes long to parse.
    `circuits`: breakers through which vendors and sites are asked; None where nobody else could go on meanwhile.
    """

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
        """Some documents of this window, with the same ports."""
        part = copy.copy(self)
        part.window = window
        return part

    def waits(self, key: DocumentKey) -> bool:
        """Tell whether the document needs a vendor or site whose circuit breaker is open."""
        return self._circuits is not None and bool(self._circuits.held or key.job_run_id in self._circuits.waiting)

    @property
    def files(self) -> FileStore:
        return guard_port(registry.file_store(self._config), "files", self._config, self._circuits, self._alone)

    @property
    def source(self) -> Source | None:
        """Source of the batch's documents; None if the request itself brought them."""
        return self._fetched_source() if self.lease.source in sources.FETCHED else None

    def _fetched_source(self) -> Source:
        source = registry.make_source(self.lease.source, self._config, self.db, self.ring)
        return guard_source(source, self._config, self._circuits)

    @property
    def parser(self) -> Parser:
        return registry.parser_of(self._config)

    @property
    def parser_address(self) -> str:
        """Address of the namespace's own parser, which changes the parsed text; "" without one."""
        return str((self._config.parser or {}).get("url", ""))

    @property
    def vectors(self) -> VectorStore:
        store = registry.vector_store(self._config, self.db)
        return guard_port(store, "vectors", self._config, self._circuits, self._alone)

    def choose_model(self) -> None:
        """Have the namespace's model chosen by the parsed documents of this window, if it is open.

        What decides whether a document has changed is computed again for that model.
        """
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
        """Model and external parser, which decide with its content whether a document has changed."""
        embedder = self.embedder
        identity = {"provider": embedder.provider, "model": embedder.model, "dimensions": embedder.dimensions}
        return identity | ({"parser": self.parser_address} if self.parser_address else {})

    @property
    def embedder(self) -> Embedder:
        return guard_port(registry.make_embedder(self._config), "embedder", self._config, self._circuits, self._alone)


class Discovery(Work):
    """A job run that is to find out what to ingest."""

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
        """Store what the source lists, page by page."""
        source = self._fetched_source()
        discovering.record_listing(self.db, self.lease, self.listing, source, self.files, goes_on=self.goes_on)


Step = Callable[[Work], None]
_LAST = frozenset(("upsert", "shadow"))
"""After which a document is at its end: what was counted for it is told by then."""


def pipeline_step(function: Step) -> Step:
    """Time the step, and tell what a database's trouble means without showing what it was about."""

    @wraps(function)
    def run(work: Work) -> None:
        started = time.monotonic()
        origin.work_for(work.lease.scope.organization)
        runs = [key.job_run_id for key in work.window]
        with tracing.trace_step(function.__name__, runs, documents=len(work.window)), explain_errors():
            function(work)
            seconds = time.monotonic() - started
            run_documents.add_timing(work.db, work.lease, work.window, function.__name__, seconds)
        counts.observe_seconds(catalog.STAGE, seconds, function.__name__, times=len(set(runs)))
        if function.__name__ in _LAST:
            counts.write_counts(work.db)

    return run


@contextmanager
def explain_errors() -> Iterator[None]:
    """A database's trouble in the pipeline's words: try again, or do not."""
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
    """Retryable error of a full disk: worth another try once there may be room."""
    reason = disk_full.full_disk_reason(error)
    return Retryable(reason, after=2 * disk_full.AFTER) if reason else None


def discover(work: Discovery) -> None:
    """Find out what there is to ingest."""
    started = time.monotonic()
    origin.work_for(work.lease.scope.organization)
    with tracing.trace_step("discover", [work.listing.job_run_id]), explain_errors():
        work.list_documents()
    counts.observe_seconds(catalog.STAGE, time.monotonic() - started, "discover")


def prepare_parser(work: Work) -> None:
    """Have the process that reads files start while they are fetched, unless none of the window needs it."""
    if work.lease.source == "TEXT":
        return
    opened = [
        item
        for stage in items.BEFORE["parse"]
        for item in run_documents.at_stage(work.db, work.lease, work.window, stage)
    ]
    with suppress(Retryable):  # whoever parses tries again, and gives the reason
        work.parser.warm((item.name, item.media_type) for item in opened)


@pipeline_step
def fetch(work: Work) -> None:
    """Bring new content into the file store; finish what has not changed."""
    run_documents.start_window(work.db, work.lease, work.window)
    source = work.source
    fetching.fetch_documents(work.db, work.lease, work.window, work.files, work.identity, source, goes_on=work.goes_on)


@pipeline_step
def parse(work: Work) -> None:
    """Read raw files into Markdown."""
    parsing.parse_documents(work.db, work.lease, work.window, work.files, work.parser, work.goes_on, ring=work.ring)


@pipeline_step
def chunk(work: Work) -> None:
    """Cut texts by the model's tokens."""
    work.choose_model()
    embedder = work.embedder
    tokenizer = tokenizer_for(embedder.provider, embedder.model)
    run_documents.take_back(work.db, work.lease, work.window, work.epoch)
    chunking.chunk_documents(work.db, work.lease, work.window, work.files, tokenizer, embedder, epoch=work.epoch)


@pipeline_step
def embed(work: Work) -> None:
    """Make the vectors that are not there yet."""
    embedding.embed_documents(work.db, work.lease, work.window, work.embedder)


@pipeline_step
def upsert(work: Work) -> None:
    """Store the vectors and make the new generation visible."""
    options = settings.load_settings()
    upserting.upsert_documents(
        work.db,
        work.lease,
        work.window,
        work.vectors,
        options.keyword_language,
        timeout=options.readback_seconds,
        epoch=work.epoch,
    )


@pipeline_step
def shadow(work: Work) -> None:
    """Store the vectors beside those that are searched."""
    timeout = settings.load_settings().readback_seconds
    upserting.upsert_shadow(work.db, work.lease, work.window, work.vectors, timeout=timeout)


def _namespace(db: Database, ring: KeyRing, lease: Lease) -> namespaces.NamespaceConfig:
    try:
        return namespaces.load(db, ring, lease.scope.namespace)
    except ServiceError as error:
        raise Fatal("The namespace was deleted.") from error
