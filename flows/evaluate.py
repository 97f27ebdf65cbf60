"""Flow of an evaluation run: one task per setting, then the comparison."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import structlog
from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Cancelled, Completed, Failed

from connectors import registry
from flows import context, flow_states, tasks
from flows.lease_renewal import repeat_in_thread
from retrieval import settings
from retrieval.errors import ConfigChanged, ServiceError, StepError
from retrieval.evaluations import calibration, evaluations, judge, runs
from retrieval.evaluations.judge import JudgeContext, Judgement
from retrieval.evaluations.runs import ClaimedRun
from retrieval.namespaces import namespaces
from retrieval.namespaces.namespaces import NamespaceConfig

log = structlog.get_logger()

LEASE_RENEW_SECONDS = 5.0


class _LeaseLost(Exception):
    """The run was deleted, or another flow run holds it."""


class _EvaluationProgress:
    """Thread-safe count of searches; 0 of 0 until the total is known."""

    def __init__(self, claimed: ClaimedRun) -> None:
        self._claimed, self._is_lost = claimed, False
        self.searched = self.total = 0

    def renew_lease(self) -> float | None:
        """Renew the lease with the progress; return the pause in seconds, None once the lease is lost."""
        with suppress(*flow_states.CONNECTION_ERRORS):
            self._is_lost = not runs.renew_lease(context.open_database(), self._claimed, self.searched, self.total)
        return None if self._is_lost else LEASE_RENEW_SECONDS

    def require_lease(self) -> None:
        if self._is_lost:
            raise _LeaseLost

    def count_search(self) -> None:
        self.require_lease()
        self.searched += 1


@flow(name="evaluate", persist_result=False)
def evaluate(run_id: str, attempt: int) -> State[None]:
    """Search every question with every setting, and compare the results."""
    try:
        claimed = runs.claim_run(context.open_database(), run_id, attempt)
        if claimed is None:
            return Cancelled(name="Superseded", message="The run has ended, or another flow run holds it.")
        progress = _EvaluationProgress(claimed)
        with repeat_in_thread(progress.renew_lease, LEASE_RENEW_SECONDS, name="evaluation-lease"):
            return _evaluate(claimed, progress)
    except flow_states.CONNECTION_ERRORS as error:
        return flow_states.away_state(error)


def _evaluate(claimed: ClaimedRun, progress: _EvaluationProgress) -> State[None]:
    db = context.open_database()
    try:
        config = namespaces.load_namespace(db, context.load_keys(), claimed.scope.namespace)
        judge_context = _make_judge_context(claimed, config)
        questions = evaluations.read_questions(db, claimed.evaluation_id)
        progress.total = len(questions) * len(claimed.settings)
        runs.renew_lease(db, claimed, 0, progress.total)
        vectors, refused = judge.embed_queries(judge_context, questions, claimed.settings, progress.require_lease)
        embedded = judge.require_embedded(questions, refused)
        judgements = [
            tasks.name_task(_judge_task, setting["name"])(
                partial(judge.judge_setting, judge_context, embedded, vectors, setting, progress.count_search)
            )
            for setting in claimed.settings
        ]
        _require_unchanged(claimed, config)
    except _LeaseLost:
        return Cancelled(name="Superseded", message="The run was deleted, or another flow run holds it.")
    except (StepError, ServiceError) as error:
        runs.finish_run(db, claimed, None, str(error))
        return Failed(message=str(error))
    except flow_states.CONNECTION_ERRORS:
        raise
    except Exception:
        log.exception("evaluation.failed", run_id=claimed.id)
        runs.finish_run(db, claimed, None, "The searches failed; see the worker's log for the reason.")
        raise
    fits = calibration.fit_evaluation(
        claimed.evaluation_id,
        [bool(question.relevant) for question in embedded],
        claimed.settings,
        [judgement.answerabilities for judgement in judgements],
    )
    if runs.finish_run(db, claimed, judge.run_result(questions, claimed.settings, judgements, refused)):
        calibration.store_fits(db, claimed.evaluation_id, config.epoch, fits)
    return Completed(message=f"{len(questions)} questions, {len(claimed.settings)} settings.")


def _require_unchanged(claimed: ClaimedRun, config: NamespaceConfig) -> None:
    """Raise ConfigChanged if searches no longer use the measured model or store."""
    if (
        namespaces.load_namespace(context.open_database(), context.load_keys(), claimed.scope.namespace).epoch
        != config.epoch
    ):
        raise ConfigChanged("The namespace's model or vector store changed during the run; start the run again.")


def _make_judge_context(claimed: ClaimedRun, config: NamespaceConfig) -> JudgeContext:
    db = context.open_database()
    return JudgeContext(
        db,
        claimed.scope,
        registry.make_embedder(config),
        registry.make_vector_store(config, db),
        lambda reranker: registry.make_reranker(replace(config, reranker=reranker or config.reranker)),
        settings.load_settings().keyword_language,
        reranks=config.reranker is not None,
    )


def _judge_setting(judge_questions: Callable[[], Judgement]) -> Judgement:
    """Measure all questions under one setting."""
    return judge_questions()


_judge_task = tasks.retried_task(_judge_setting, name="judge", retries=2, has_tag=False)
