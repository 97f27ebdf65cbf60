"""The step of `reembed` that judges a new generation by questions before it is swapped in."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from functools import partial

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.tasks import exponential_backoff

from connectors import registry
from flows import context, guarded, long_waits, tasks
from flows.steps import explained
from retrieval import settings
from retrieval.errors import StepError, Unavailable
from retrieval.evaluations import gate as gates
from retrieval.evaluations import judge
from retrieval.evaluations.gate import Gate, Verdict
from retrieval.evaluations.judge import Bench
from retrieval.ingestion import reembedding_swap
from retrieval.jobs.circuits import Circuits
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import Lease
from retrieval.namespaces import namespaces
from retrieval.namespaces.namespaces import NamespaceConfig
from retrieval.ports import Scope


class Trial:
    """A generation that is to be judged. Not a dataclass, so that Prefect does not look inside."""

    def __init__(self, lease: Lease, job_run_id: str, later: NamespaceConfig, gate: Gate, circuits: Circuits) -> None:
        self.lease, self.job_run_id, self.later, self.gate, self.circuits = lease, job_run_id, later, gate, circuits
        self.verdict: Verdict | None = None

    def __repr__(self) -> str:
        return f"Trial({self.job_run_id}, {self.gate.metric})"


async def passes(lease: Lease, job_run_id: str, later: NamespaceConfig, circuits: Circuits) -> bool:
    """Tell whether the generation may be swapped in: there is no gate, or it passed. The job run keeps the figures.

    False also where nobody waits for it any more, or `circuits` found that somebody does not answer.
    """
    db = context.database()
    gate = await asyncio.to_thread(reembedding_swap.asked, db, context.keys(), lease)
    if gate is None:
        return True
    trial = Trial(lease, job_run_id, later, gates.of(gate), circuits)
    try:
        await long_waits.patiently(db, lease, partial(judge_generation, trial))
    except Unavailable:
        return False
    except StepError as error:
        trial.verdict = gates.not_judged(str(error))
    if trial.verdict is None:
        return False
    await asyncio.to_thread(reembedding_swap.note, db, lease, job_run_id, asdict(trial.verdict))
    return trial.verdict.passed


def judged(trial: Trial) -> None:
    """Ask every question of the new generation, and of today's where it is compared with that."""
    db, gate = context.database(), trial.gate
    scope = trial.lease.scope

    def look() -> None:
        if not batches.is_wanted(db, trial.lease):
            raise _Unwanted

    alive = gates.every(look)
    try:
        with explained():
            evaluation, questions = gates.find(db, scope.organization, scope.namespace, gate)
            current = None
            if gate.not_worse_than is not None:
                present = _bench(trial, namespaces.load(db, context.keys(), scope.namespace), evaluation)
                vectors = judge.vectors_of(present, questions, [gates.SETTING], alive)
                current = gates.value(present, questions, vectors, gate.metric, alive)
            bench = _bench(trial, trial.later, evaluation)
            vectors = judge.vectors_of(bench, questions, [gates.SETTING], alive)
            with reembedding_swap.shadow(db, trial.job_run_id):
                later = gates.value(bench, questions, vectors, gate.metric, alive)
    except _Unwanted:
        return
    trial.verdict = gates.decide(gate, later, current, len(questions))


class _Unwanted(Exception):
    """The job run was cancelled, or is another's."""


def _bench(trial: Trial, config: NamespaceConfig, scope: Scope) -> Bench:
    db = context.database()
    return Bench(
        db,
        scope,
        guarded.embedder(registry.make_embedder(config), config, trial.circuits, trial.job_run_id),
        guarded.vectors(registry.vector_store(config, db), config, trial.circuits, trial.job_run_id),
        lambda: registry.make_reranker(config),
        settings.load().keyword_language,
    )


judge_generation = task(
    name="judge",
    description=judged.__doc__,
    retries=tasks.RETRIES,
    retry_delay_seconds=exponential_backoff(1),
    retry_jitter_factor=0.5,
    retry_condition_fn=tasks.is_retryable,
    cache_policy=NO_CACHE,
    persist_result=False,
)(judged)
