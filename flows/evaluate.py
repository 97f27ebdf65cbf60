"""The flow of an evaluation's run: one task for each setting, then the comparison."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import structlog
from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Cancelled, Completed, Failed
from prefect.tasks import exponential_backoff

from connectors import registry
from flows import context, endings, tasks
from retrieval import settings
from retrieval.errors import ConfigChanged, ServiceError, StepError
from retrieval.evaluations import evaluations, judge, runs
from retrieval.evaluations.judge import Bench, Judgement
from retrieval.evaluations.runs import Claimed
from retrieval.namespaces import namespaces
from retrieval.namespaces.namespaces import NamespaceConfig

log = structlog.get_logger()

RENEW_SECONDS = 5.0
"""How often the lease is renewed and the progress told."""


class _Lost(Exception):
    """Another flow run has the run, or it was deleted."""


@dataclass(slots=True)
class _Count:
    """Searches that were made, of all; 0 of 0 before they are known."""

    asked: int = 0
    total: int = 0


@contextmanager
def _held(claimed: Claimed, count: _Count) -> Iterator[Callable[[], None]]:
    """Renew the run's lease from a thread, however long one request takes, and tell the progress. What is given raises
    `_Lost` once the run is another's; threads may share it."""
    lost, over = threading.Event(), threading.Event()

    def beat() -> None:
        while not over.wait(RENEW_SECONDS):
            try:
                if not runs.renew(context.database(), claimed, count.asked, count.total):
                    lost.set()
                    return
            except endings.AWAY:
                continue

    def alive() -> None:
        if lost.is_set():
            raise _Lost

    thread = threading.Thread(target=beat, name="evaluation-lease", daemon=True)
    thread.start()
    try:
        yield alive
    finally:
        over.set()
        thread.join()


@flow(name="evaluate", persist_result=False)
def evaluate(run_id: str, attempt: int) -> State[None]:
    """Ask every question under every setting, and compare."""
    try:
        claimed = runs.claim(context.database(), run_id, attempt)
        if claimed is None:
            return Cancelled(name="Superseded", message="The run has ended, or another flow run has it.")
        count = _Count()
        with _held(claimed, count) as alive:
            return _evaluate(claimed, count, alive)
    except endings.AWAY as error:
        return endings.away(error)


def _evaluate(claimed: Claimed, count: _Count, alive: Callable[[], None]) -> State[None]:
    db = context.database()

    def next_one() -> None:
        alive()
        count.asked += 1

    try:
        config = namespaces.load(db, context.keys(), claimed.scope.namespace)
        bench = _bench(claimed, config)
        questions = evaluations.questions(db, claimed.evaluation_id)
        count.total = len(questions) * len(claimed.settings)
        runs.renew(db, claimed, 0, count.total)
        vectors = judge.vectors_of(bench, questions, claimed.settings, alive)
        judgements = [
            _judge.with_options(task_run_name=f"judge {setting['name']}")(
                partial(judge.judge, bench, questions, vectors, setting, next_one)
            )
            for setting in claimed.settings
        ]
        _require_unchanged(claimed, config)
    except _Lost:
        return Cancelled(name="Superseded", message="The run was deleted, or another flow run has it.")
    except (StepError, ServiceError) as error:
        runs.finish(db, claimed, None, str(error))
        return Failed(message=str(error))
    except endings.AWAY:
        raise
    except Exception:
        log.exception("evaluation.failed", run_id=claimed.id)
        runs.finish(db, claimed, None, "The searches failed; the worker's log says why.")
        raise
    runs.finish(db, claimed, judge.result(questions, claimed.settings, judgements))
    return Completed(message=f"{len(questions)} questions under {len(claimed.settings)} settings.")


def _require_unchanged(claimed: Claimed, config: NamespaceConfig) -> None:
    """ConfigChanged where what was measured is no longer what is searched."""
    if namespaces.load(context.database(), context.keys(), claimed.scope.namespace).epoch != config.epoch:
        raise ConfigChanged("The namespace got another model or vector store meanwhile; start the run again.")


def _bench(claimed: Claimed, config: NamespaceConfig) -> Bench:
    db = context.database()
    return Bench(
        db,
        claimed.scope,
        registry.make_embedder(config),
        registry.vector_store(config, db),
        lambda: registry.make_reranker(config),
        settings.load().keyword_language,
        reranks=config.reranker is not None,
    )


@task(
    name="judge",
    retries=2,
    retry_delay_seconds=exponential_backoff(1),
    retry_condition_fn=tasks.is_retryable,
    cache_policy=NO_CACHE,
    persist_result=False,
)
def _judge(ask: Callable[[], Judgement]) -> Judgement:
    """Measure all questions under one setting."""
    return ask()
