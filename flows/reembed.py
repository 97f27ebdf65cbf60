"""Flow for another model or vector store of a namespace; search uses the current one until the swap."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import partial

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.states import Completed

from connectors import registry
from flows import flow_states, report, tasks
from flows.circuit_breaking import guard_port
from flows.run_context import RunContext
from flows.steps import Work, explain_errors
from flows.tasks import run_step
from retrieval import settings
from retrieval.errors import StepError, Unavailable
from retrieval.evaluations import gate as gates
from retrieval.evaluations import judge
from retrieval.evaluations.gate import Gate, GateVerdict
from retrieval.evaluations.judge import JudgeContext
from retrieval.ingestion import crash_isolation, reembedding
from retrieval.ingestion.items import WINDOW_DOCUMENTS
from retrieval.ingestion.queries import reembedding as queries
from retrieval.ingestion.queries import reembedding_swap, results, run_documents
from retrieval.ingestion.reembedding import ReembeddingWindow
from retrieval.jobs import notifications, run_outcome
from retrieval.jobs.queries import batches
from retrieval.namespaces import namespaces
from retrieval.namespaces.namespaces import NamespaceConfig
from retrieval.ports import Scope


@flow(name="reembed", persist_result=False)
async def reembed(batch_id: str, attempt: int) -> State[None]:
    """Embed all documents of a namespace for its next model or vector store."""
    async with flow_states.claim_batch(batch_id, attempt) as batch:
        if (run := batch.run) is not None:
            swapped = await rebuild_documents(run)
            if swapped is None:
                await run.hand_back()
            else:
                reembedding.drop_runs(run.db, run.lease)
                batches.finish_batch(run.db, run.lease)
            run.circuits.release_probes()
            batch.report = partial(_report_outcome, run, swapped=swapped)
    return batch.state


async def _report_outcome(run: RunContext, *, swapped: bool | None) -> State[None]:
    if swapped is None:
        notifications.notify_listeners(run.db)
        return Completed(message="Other batches wait, or a service does not answer. Continues in a later flow run.")
    await report.report_results(run.namespace, results.list_outcomes(run.db, run.lease))
    if swapped:
        return Completed(message="The namespace is searched with its new model and vector store.")
    message = "Search stays with the old model and vector store; see the result table."
    return flow_states.final_state(run_outcome.list_batch_outcomes(run.db, run.lease.batch_id), message)


async def rebuild_documents(run: RunContext) -> bool | None:
    """Embed documents until all are current, then swap; False after a failure or refusal, None to continue later."""
    # Documents that arrive during the evaluation are embedded, but not evaluated again.
    db, ring, lease = run.db, run.keys, run.lease
    language = settings.load_settings().keyword_language
    passed = False
    while (target := await asyncio.to_thread(reembedding.read_target, db, ring, lease)) is not None:
        next_config, job_run = target.config, target.job_run_id
        await asyncio.to_thread(queries.list_outdated, db, lease, job_run)
        windows = await asyncio.to_thread(reembedding.list_windows, db, lease, size=WINDOW_DOCUMENTS)
        progress = report.ProgressBar(run.namespace, sum(len(window.keys) for window in windows))
        for window in windows:
            if not run.should_continue():
                return None
            with (
                crash_isolation.mark_isolated(db, window.lease, window.keys[0].document_id)
                if window.is_suspect
                else nullcontext()
            ):
                await rebuild_window(run, window, next_config)
            if run.is_blocked:
                return None
            await progress.add(len(window.keys))
        if await asyncio.to_thread(queries.has_failed, db, job_run):
            get_run_logger().warning("A document could not be embedded again: nothing is swapped.")
            return False
        passed = passed or await passes_gate(run, job_run, next_config)
        if not passed:
            return None if run.is_blocked else False
        if await asyncio.to_thread(reembedding_swap.swap_generations, db, ring, lease, job_run, next_config, language):
            return True
    return False


async def rebuild_window(run: RunContext, window: ReembeddingWindow, next_config: NamespaceConfig) -> None:
    """Chunk, embed and store one window for the next model or vector store."""
    run_documents.start_window(run.db, window.lease, window.keys)
    label = run_documents.window_label(run.db, window.keys)
    work = Work(run.db, run.keys, window.lease, window.keys, next_config, label=label, circuits=run.circuits)
    chunked = await run_step(tasks.chunk, work)
    embedded = await run_step(tasks.embed, work, chunked)
    await run_step(tasks.upsert_inactive, work, embedded)


class Trial:
    """Evaluation of a new generation."""

    # Not a dataclass: Prefect would traverse its fields.

    def __init__(self, run: RunContext, job_run_id: str, next_config: NamespaceConfig, gate: Gate) -> None:
        self.run, self.job_run_id, self.next_config, self.gate = run, job_run_id, next_config, gate
        self.verdict: GateVerdict | None = None

    def __repr__(self) -> str:
        return f"Trial({self.job_run_id}, {self.gate.metric})"


async def passes_gate(run: RunContext, job_run_id: str, next_config: NamespaceConfig) -> bool:
    """Check if the generation passes the gate, or has none; False if the run was cancelled or is blocked."""
    db, lease = run.db, run.lease
    gate = await asyncio.to_thread(reembedding_swap.read_gate, db, run.keys, lease)
    if gate is None:
        return True
    trial = Trial(run, job_run_id, next_config, gates.load_gate(gate))
    try:
        await tasks.wait_and_repeat(db, lease, partial(judge_generation, trial))
    except Unavailable:
        return False
    except StepError as error:
        trial.verdict = gates.not_judged(str(error))
    if trial.verdict is None:
        return False
    await asyncio.to_thread(reembedding_swap.record_verdict, db, lease, job_run_id, asdict(trial.verdict))
    return trial.verdict.passed


def judge_new_generation(trial: Trial) -> None:
    """Evaluate every question on the new generation, and on the current one if the gate compares both."""
    db, gate = trial.run.db, trial.gate
    scope = trial.run.lease.scope

    def require_open() -> None:
        if not batches.has_unfinished_runs(db, trial.run.lease):
            raise _JobRunEnded

    alive = gates.throttle_alive(require_open)
    try:
        with explain_errors():
            evaluation, questions = gates.find_questions(db, scope.organization, scope.namespace, gate)
            current_score = None
            if gate.not_worse_than is not None:
                current_bench = _make_bench(
                    trial, namespaces.load_namespace(db, trial.run.keys, scope.namespace), evaluation
                )
                vectors, refused = judge.embed_queries(current_bench, questions, [gates.GATE_SETTING], alive)
                current_score = gates.mean_measure(current_bench, questions, vectors, refused, gate.metric, alive)
            next_bench = _make_bench(trial, trial.next_config, evaluation)
            vectors, refused = judge.embed_queries(next_bench, questions, [gates.GATE_SETTING], alive)
            with reembedding_swap.search_next_generation(db, trial.job_run_id):
                next_score = gates.mean_measure(next_bench, questions, vectors, refused, gate.metric, alive)
    except _JobRunEnded:
        return
    trial.verdict = gates.decide_gate(gate, next_score, current_score, len(questions))


class _JobRunEnded(Exception):
    """The job run was cancelled, or another worker holds it."""


def _make_bench(trial: Trial, config: NamespaceConfig, scope: Scope) -> JudgeContext:
    db, circuits = trial.run.db, trial.run.circuits
    return JudgeContext(
        db,
        scope,
        guard_port(registry.make_embedder(config), "embedder", config, circuits, trial.job_run_id),
        guard_port(registry.make_vector_store(config, db), "vectors", config, circuits, trial.job_run_id),
        lambda reranker: registry.make_reranker(replace(config, reranker=reranker or config.reranker)),
        settings.load_settings().keyword_language,
    )


judge_generation = tasks.retried_task(judge_new_generation, name="judge")
