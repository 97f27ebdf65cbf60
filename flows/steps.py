"""Pipeline steps for one window of documents, as plain functions."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, Final

import psycopg
from prefect.runtime import task_run

from connectors import registry
from flows.circuit_breaking import guard_port, guard_source
from flows.long_waits import MAX_RETRIES, LongWaits, permits_task_retry
from flows.step_outcome import Predecessors, StepReport, TaskResult
from retrieval import origin, settings, sources, tracing
from retrieval.database import disk_full
from retrieval.database.database import UNAVAILABLE_ERRORS, Database
from retrieval.errors import Fatal, Retryable, ServiceError, StepError, Unavailable
from retrieval.ingestion import chunk as chunking
from retrieval.ingestion import discover as discovering
from retrieval.ingestion import embed as embedding
from retrieval.ingestion import fetch as fetching
from retrieval.ingestion import items, model_choice
from retrieval.ingestion import parse as parsing
from retrieval.ingestion import upsert as upserting
from retrieval.ingestion.chunking.tokenizer import is_model_open, tokenizer_for
from retrieval.ingestion.queries import run_documents, step_outcomes
from retrieval.ingestion.queries.listings import PendingListing
from retrieval.ingestion.queries.step_outcomes import StepOutcome
from retrieval.jobs import names
from retrieval.jobs.breaker_watch import Circuits
from retrieval.jobs.queries.batches import DocumentKey, Lease, Superseded
from retrieval.logs import redact_urls
from retrieval.metrics import catalog, counts
from retrieval.namespaces import namespaces
from retrieval.namespaces.namespaces import NamespaceConfig
from retrieval.ports import Embedder, FileStore, Parser, Source, VectorStore
from retrieval.security.secrets import KeyRing
from retrieval.statuses import Stage

# Name of the step in Prefect, timings and metrics; stored, so it does not change.
INACTIVE_UPSERT_STEP: Final = "shadow"


class Work:
    """Window of documents with the namespace's ports."""

    # `config` replaces the namespace's config. `should_continue` is called before each download and each long file;
    # False ends the step early. With `circuits`, a step fails documents itself; without, it raises the error.
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
        should_continue: Callable[[], bool] = lambda: True,
        circuits: Circuits | None = None,
    ) -> None:
        self.db, self.ring, self.lease, self.window = db, ring, lease, window
        self.label, self.should_continue = label, should_continue
        self.long_waits = LongWaits(db, lease)
        self._circuits = circuits
        self._has_own_config = config is not None
        self._single_job_run = window[0].job_run_id if config is not None and window else None
        if config is not None:
            self._config = config

    def __repr__(self) -> str:
        return f"Work({self.lease.batch_id}, {len(self.window)} documents)"

    @cached_property
    def _config(self) -> NamespaceConfig:
        try:
            return namespaces.load_namespace(self.db, self.ring, self.lease.scope.namespace)
        except ServiceError as error:
            raise Fatal("The namespace was deleted.") from error

    def narrow_to(self, keys: Sequence[DocumentKey]) -> Work:
        """Return a copy for some documents of the window."""
        narrowed = copy.copy(self)
        narrowed.window = keys
        if len(keys) < len(self.window):
            narrowed.label = run_documents.window_label(self.db, keys)
        return narrowed

    @property
    def job_runs(self) -> list[str]:
        """Return the job run of each document."""
        return [key.job_run_id for key in self.window]

    def has_work_for(self, step: str) -> bool:
        """Check for open documents; `fetch` starts the window and always has work."""
        return step == "fetch" or bool(run_documents.list_open(self.db, self.window))

    def fail_all(self, error: StepError) -> None:
        """Fail every open document."""
        run_documents.fail_items(self.db, self.lease, dict.fromkeys(self.window, str(error)))

    def fail_remaining(self, step: str, error: Retryable) -> None:
        """Fail open documents before the step, except documents waiting for a circuit breaker."""
        keys = run_documents.list_unfinished(self.db, self.lease, self.window, step)
        reasons = {
            key: _exhausted_message(step, error.errors_by_key.get(key, error))
            for key in keys
            if not self.is_waiting(key)
        }
        run_documents.fail_items(self.db, self.lease, reasons)

    def read_outcome(self, step: str, error: StepError | None) -> StepOutcome:
        """Read passed and failed documents of the step."""
        is_fatal = isinstance(error, Fatal)
        return step_outcomes.read_window_outcome(self.db, self.window, step, fails_later_stages=is_fatal)

    @property
    def is_in_flow_run(self) -> bool:
        """Check if steps settle their errors and write their task run's log."""
        return self._circuits is not None

    def is_waiting(self, key: DocumentKey) -> bool:
        """Check if the document waits for an open circuit breaker."""
        return self._circuits is not None and bool(
            self._circuits.scope_breakers or key.job_run_id in self._circuits.blocked_runs
        )

    @property
    def files(self) -> FileStore:
        return guard_port(
            registry.make_file_store(self._config), "files", self._config, self._circuits, self._single_job_run
        )

    @property
    def source(self) -> Source | None:
        """Return the source of the batch's documents; None for uploads."""
        return self._fetched_source() if self.lease.source in sources.FETCHED_SOURCES else None

    def _fetched_source(self) -> Source:
        source = registry.make_source(self.lease.source, self._config, self.db, self.ring)
        return guard_source(source, self._config, self._circuits)

    @property
    def parser(self) -> Parser:
        return registry.make_namespace_parser(self._config)

    @property
    def parser_address(self) -> str:
        """Return the address of the namespace's own parser, or ""."""
        return str((self._config.parser or {}).get("url", ""))

    @property
    def vectors(self) -> VectorStore:
        store = registry.make_vector_store(self._config, self.db)
        return guard_port(store, "vectors", self._config, self._circuits, self._single_job_run)

    def choose_model(self) -> None:
        """Choose the namespace's model by the parsed documents if none is set, and update fingerprints."""
        if self._has_own_config or not is_model_open(self._config.embedding_model):
            return
        parsed = run_documents.items_at_stage(self.db, self.lease, self.window, Stage.PARSED)
        if not model_choice.choose_by_items(self.db, self._config.id, parsed, self.files):
            return
        del self._config
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
        """Return model and external parser, a part of each document's fingerprint."""
        embedder = self.embedder
        identity = {"provider": embedder.provider, "model": embedder.model, "dimensions": embedder.dimensions}
        return identity | ({"parser": self.parser_address} if self.parser_address else {})

    @property
    def embedder(self) -> Embedder:
        return guard_port(
            registry.make_embedder(self._config), "embedder", self._config, self._circuits, self._single_job_run
        )


class Discovery(Work):
    """Job run without a list of documents."""

    def __init__(
        self,
        db: Database,
        ring: KeyRing,
        lease: Lease,
        listing: PendingListing,
        should_continue: Callable[[], bool] = lambda: True,
        circuits: Circuits | None = None,
    ) -> None:
        super().__init__(db, ring, lease, (), should_continue=should_continue, circuits=circuits)
        self.label = names.host_name(listing.request.config.get("url")) or listing.job_run_id
        self.listing = listing

    def __repr__(self) -> str:
        return f"Discovery({self.listing.job_run_id}, {self.listing.request.source})"

    @property
    def job_runs(self) -> list[str]:
        return [self.listing.job_run_id]

    def has_work_for(self, _step: str) -> bool:
        return True

    def fail_all(self, error: StepError) -> None:
        """End the listing with a failed entry."""
        discovering.fail_listing(self.db, self.lease, self.listing, str(error))

    def fail_remaining(self, _step: str, error: Retryable) -> None:
        self.fail_all(error)

    def read_outcome(self, _step: str, _error: StepError | None) -> StepOutcome:
        """Read the listed and failed entries."""
        return step_outcomes.read_listing_outcome(self.db, self.listing.job_run_id)

    def list_documents(self) -> None:
        """Store the source's list page by page."""
        source = self._fetched_source()
        discovering.record_listing(
            self.db, self.lease, self.listing, source, self.files, should_continue=self.should_continue
        )


@contextmanager
def record_step(step: str, work: Work) -> Iterator[StepReport]:
    """Record duration, trace and outcome of a step; in a flow run, settle errors."""
    report, started = StepReport(step, len(work.window)), time.monotonic()
    origin.set_organization(work.lease.scope.organization)
    runs = work.job_runs
    try:
        with tracing.trace_step(step, runs, documents=len(work.window)), explain_errors():
            yield report
            if work.window:
                run_documents.add_timing(work.db, work.lease, work.window, step, time.monotonic() - started)
    except StepError as error:
        if not work.is_in_flow_run:
            raise
        settle_error(work, error, report)
    else:
        counts.observe_seconds(catalog.STAGE, time.monotonic() - started, step, times=len(set(runs)))
        if step in ("upsert", INACTIVE_UPSERT_STEP):
            # Last step of the pipeline; its counters are final.
            counts.write_counts(work.db)
    if work.is_in_flow_run:
        report.outcome = work.read_outcome(step, report.error)
        report.write_log(time.monotonic() - started)


def settle_error(work: Work, error: StepError, report: StepReport) -> None:
    """Let documents wait (Unavailable), retry (Retryable), fail all (Fatal) or raise other errors."""
    is_listing = isinstance(work, Discovery)
    if isinstance(error, Superseded) or not (is_listing or isinstance(error, Retryable | Fatal)):
        raise error
    if isinstance(error, Unavailable):
        report.wait_after(error)
        return
    if isinstance(error, Retryable):
        if permits_task_retry(error) and 0 < task_run.run_count <= MAX_RETRIES:
            # Prefect retries the task, and stores and logs the error.
            raise Retryable(redact_urls(str(error)), after=error.after) from None
        if seconds := work.long_waits.take_seconds(report.step, error):
            report.wait_after(error, seconds)
            return
        work.fail_remaining(report.step, error)
    else:
        work.fail_all(error)
    report.error, report.is_cut_short = error, is_listing


def _exhausted_message(step: str, error: Retryable) -> str:
    attempts = f"It was tried {MAX_RETRIES + 1} times; retry when the cause is gone."
    seconds = error.after or 0
    wait = f"{seconds:,.0f} seconds" if seconds < 120 else f"{seconds / 60:,.0f} minutes"
    later = f"It asks to wait for {wait}: retry after that."
    return f"{step}: {error} {attempts if permits_task_retry(error) else later}"


@contextmanager
def explain_errors() -> Iterator[None]:
    """Translate database errors into `Retryable` and `Fatal`, without the statement."""
    try:
        yield
    except UNAVAILABLE_ERRORS as error:
        raise _full_disk_error(error) or Retryable("The database is away.") from error
    except (OSError, Retryable) as error:
        if full := _full_disk_error(error):
            raise full from error
        raise
    except psycopg.Error as error:
        raise Fatal(f"The database refused a statement (SQLSTATE {error.sqlstate}).") from None


def _full_disk_error(error: Exception) -> Retryable | None:
    """Return a `Retryable` error for a full disk."""
    reason = disk_full.full_disk_reason(error)
    return Retryable(reason, after=2 * disk_full.RETRY_AFTER_SECONDS) if reason else None


def discover(discovery: Discovery, _after: Predecessors = None) -> TaskResult:
    """List the documents of a source."""
    with record_step("discover", discovery) as report:
        discovery.list_documents()
    return report.task_result()


def fetch(work: Work, _after: Predecessors = None) -> TaskResult:
    """Download new content into the file store and finish unchanged documents."""
    with record_step("fetch", work) as report:
        run_documents.start_window(work.db, work.lease, work.window)
        fetching.fetch_documents(
            work.db,
            work.lease,
            work.window,
            work.files,
            work.identity,
            work.source,
            should_continue=work.should_continue,
        )
    return report.task_result()


def prepare_parser(work: Work) -> None:
    """Start the parser process while files are still fetched."""
    if work.lease.source == "TEXT":
        return
    unparsed = [
        item
        for stage in items.STAGES_BEFORE_STEP["parse"]
        for item in run_documents.items_at_stage(work.db, work.lease, work.window, stage)
    ]
    with suppress(Retryable, Fatal):  # a step meets the error again and reports it
        work.parser.warm((item.name, item.media_type) for item in unparsed)


def parse(work: Work, _after: Predecessors = None) -> TaskResult:
    """Convert raw files to Markdown."""
    with record_step("parse", work) as report:
        parsing.parse_documents(
            work.db, work.lease, work.window, work.files, work.parser, work.should_continue, ring=work.ring
        )
    return report.task_result()


def chunk(work: Work, _after: Predecessors = None) -> TaskResult:
    """Split Markdown into chunks by the model's tokens."""
    with record_step("chunk", work) as report:
        work.choose_model()
        embedder = work.embedder
        tokenizer = tokenizer_for(embedder.provider, embedder.model)
        run_documents.reset_outdated_chunks(work.db, work.lease, work.window, work.epoch)
        chunking.chunk_documents(work.db, work.lease, work.window, work.files, tokenizer, embedder, epoch=work.epoch)
    return report.task_result()


def embed(work: Work, _after: Predecessors = None) -> TaskResult:
    """Compute the missing vectors of chunks."""
    with record_step("embed", work) as report:
        embedding.embed_documents(work.db, work.lease, work.window, work.embedder)
    return report.task_result()


def upsert(work: Work, _after: Predecessors = None) -> TaskResult:
    """Store the vectors and make the new generation of each document visible."""
    options = settings.load_settings()
    with record_step("upsert", work) as report:
        upserting.upsert_documents(
            work.db,
            work.lease,
            work.window,
            work.vectors,
            options.keyword_language,
            timeout=options.readback_seconds,
            epoch=work.epoch,
        )
    return report.task_result()


def upsert_inactive(work: Work, _after: Predecessors = None) -> TaskResult:
    """Store the vectors of the next model; search does not use them before the swap."""
    timeout = settings.load_settings().readback_seconds
    with record_step(INACTIVE_UPSERT_STEP, work) as report:
        upserting.upsert_inactive(work.db, work.lease, work.window, work.vectors, timeout=timeout)
    return report.task_result()
