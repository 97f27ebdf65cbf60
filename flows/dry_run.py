"""Flow of dry runs: estimates an ingestion and writes a report only."""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger

from connectors import registry
from flows import context, flow_states, tasks
from flows.run_context import RunContext
from flows.steps import explain_errors
from retrieval import settings, sources
from retrieval.connections.connected_source import ConnectedSource
from retrieval.errors import Fatal, ServiceError, Skippable, StepError
from retrieval.evaluations.gate import throttle_alive
from retrieval.ingestion import dry_run_report
from retrieval.ingestion.chunking.tokenizer import is_model_open, tokenizer_for
from retrieval.ingestion.dry_run import Estimator, Tools
from retrieval.job_config import JobConfig
from retrieval.jobs import dry_runs, notifications, run_outcome
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import Lease
from retrieval.namespaces import namespaces
from retrieval.namespaces.namespaces import NamespaceConfig
from retrieval.ports import DiscoveryRequest, Embedder, RawContent, SourceItem


@flow(name="dry-run", persist_result=False)
async def dry_run(batch_id: str, attempt: int) -> State[None]:
    """Estimate ingestions without storing anything, one after the other."""
    async with flow_states.claim_batch(batch_id, attempt) as batch:
        if (run := batch.run) is not None:
            for dry_run_record in await asyncio.to_thread(dry_runs.pending_dry_runs, run.db, run.lease):
                await _estimate_run(run, dry_run_record)
            dry_runs.close_cancelled(run.db, run.lease)
            batches.finish_batch(run.db, run.lease)
            batch.report = partial(_report_outcome, run)
    return batch.state


async def _report_outcome(run: RunContext) -> State[None]:
    notifications.notify_listeners(run.db)
    outcomes = run_outcome.list_batch_outcomes(run.db, run.lease.batch_id)
    return flow_states.final_state(outcomes, "The reports stand with their job runs.")


async def _estimate_run(run: RunContext, dry_run_record: dry_runs.PendingDryRun) -> None:
    trial = Trial(run.lease, dry_run_record)
    try:
        await asyncio.to_thread(estimate_in_task, trial)
        result: dict[str, Any] = {"report": trial.report, **trial.extra_results}
    except _Cancelled:
        return
    except StepError as error:
        get_run_logger().warning("There is no report: %s", error)
        result = {"verdict": {"passed": False, "told": str(error), "questions": 0}}
    await asyncio.to_thread(dry_runs.finish_dry_run, run.db, run.lease, trial.job_run_id, result)


class Trial:
    """One dry run."""

    # Not a dataclass: Prefect would traverse its fields.

    def __init__(self, lease: Lease, run: dry_runs.PendingDryRun) -> None:
        self.lease, self.job_run_id, self.content = lease, run.id, run.content
        self.job_config = JobConfig.load(run.config)
        self.report: dict[str, Any] = {}
        self.extra_results: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"Trial({self.job_run_id}, {self.job_config.dry_run})"


class _Cancelled(Exception):
    """The job run was cancelled and needs no report."""


def estimate_ingestion(trial: Trial) -> None:
    """Fetch, parse and chunk as the ingestion would, without embedding."""
    with explain_errors():
        db, lease, began = context.open_database(), trial.lease, time.monotonic()
        try:
            config = namespaces.load_namespace(db, context.load_keys(), lease.scope.namespace)
        except ServiceError as error:
            raise Fatal("The namespace was deleted.") from error
        estimator = Estimator(_make_tools(trial, config), throttle_alive(lambda: _require_uncancelled(trial)))
        dry_runs.begin_dry_run(db, lease, trial.job_run_id, status="PRE_PROCESSING")
        _require_uncancelled(trial)
        _count_documents(trial, config, estimator)
        report, embedder, options = estimator.report, estimator.tools.embedder, settings.load_settings()
        seconds = dry_run_report.estimate_seconds(db, lease.partition, report.tokens, time.monotonic() - began)
        trial.report = dry_run_report.report_json(report, embedder, options.prices, options.price_currency, seconds)


estimate_in_task = tasks.retried_task(estimate_ingestion, name="estimate", retries=2)


def _require_uncancelled(trial: Trial) -> None:
    if batches.is_cancelled(context.open_database(), trial.job_run_id):
        raise _Cancelled


def _make_tools(trial: Trial, config: NamespaceConfig) -> Tools:
    job_config, source = trial.job_config, trial.job_config.dry_run or ""
    embedder = registry.make_embedder(config)

    def load_model(name: str) -> Embedder:
        return registry.make_embedder(replace(config, embedding_model={**config.embedding_model, "model": name}))

    return Tools(
        context.open_database(),
        trial.lease.partition,
        source,
        DiscoveryRequest(
            trial.lease.scope, source, job_config.request or {}, job_config.connection_id, trial.job_run_id
        ),
        job_config.ingestion,
        registry.make_file_store(config),
        registry.make_namespace_parser(config),
        str((config.parser or {}).get("url", "")),
        tokenizer_for(embedder.provider, embedder.model),
        embedder,
        load_model if is_model_open(config.embedding_model) else None,
    )


def _count_documents(trial: Trial, config: NamespaceConfig, estimator: Estimator) -> None:
    tools, request = estimator.tools, trial.job_config.request or {}
    if tools.source == "TEXT":
        estimator.add_text(request["externalId"], request["name"], trial.content or "")
        return
    if tools.source == "LOCAL_FILE":
        for file in request.get("files", [request]):
            estimator.check_deadline()
            _count_file(file, estimator)
        return
    source = registry.make_source(tools.source, config, tools.db, context.load_keys())
    if tools.source == "URLS_LIST":
        dry_runs.begin_dry_run(tools.db, trial.lease, trial.job_run_id, status="PROCESSING")
        estimator.add_items(source, [SourceItem(url, url) for url in request["urls"]])
    elif tools.source in sources.CONNECTED_SOURCES:
        _count_connection(trial, cast("ConnectedSource", source), estimator)
    else:
        waiting: list[SourceItem] = []
        for page in source.discover(tools.request, None):
            estimator.check_deadline()
            estimator.add_items(source, [item for item in page.items if item.content is not None])
            waiting += [item for item in page.items if item.content is None]
        dry_runs.begin_dry_run(tools.db, trial.lease, trial.job_run_id, status="PROCESSING")
        estimator.add_items(source, waiting)


def _count_file(upload: Any, estimator: Estimator) -> None:
    with tempfile.TemporaryDirectory(prefix="dry-run-") as folder:
        path = Path(folder) / "raw"
        try:
            with estimator.tools.files.open(upload["rawKey"]) as stream, path.open("wb") as file:
                while block := stream.read(1 << 20):
                    file.write(block)
        except Skippable as error:
            raise Fatal("The file is no longer there; send it again.") from error
        estimator.add_file(upload["externalId"], RawContent(path, upload["name"], upload["mediaType"], upload["size"]))


def _count_connection(trial: Trial, source: ConnectedSource, estimator: Estimator) -> None:
    """Count changes since the connection's last listing, and documents to remove."""
    request, departed, waiting = estimator.tools.request, dict[str, None](), dict[str, SourceItem]()
    for page in source.preview(request):
        estimator.check_deadline()
        for item in page.items:
            if item.deleted:
                departed[item.external_id] = None
                waiting.pop(item.external_id, None)
            else:
                departed.pop(item.external_id, None)
                waiting[item.external_id] = item
    dry_runs.begin_dry_run(estimator.tools.db, trial.lease, trial.job_run_id, status="PROCESSING")
    estimator.add_items(source, list(waiting.values()))
    estimator.report.remove, held_count = source.count_removals(request, list(departed))
    if estimator.report.remove:
        estimator.list_removed(list(departed))
    if held_count:
        trial.extra_results["awaitingConfirmation"] = held_count
