"""Outcome of a step as Prefect shows it: the state of its task run, and the lines of its log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.states import Completed, Failed

from flows.prefect_errors import WAITING, WITH_FAILURES
from retrieval.errors import StepError
from retrieval.ingestion.queries.step_outcomes import FailedDocument, StepOutcome
from retrieval.jobs import names
from retrieval.logs import without_query

NAMED_FAILURES: Final = 3
"""Number of failed documents that a state's message names."""
REASON_CHARACTERS: Final = 120


@dataclass(frozen=True)
class StepResult:
    """Result of a task. The next task takes it, so that Prefect draws an edge between the two.

    `wait_seconds`: time after which the step is to be repeated, 0 if it has ended.
    """

    step: str
    documents: int
    failed: int = 0
    wait_seconds: float = 0.0


Predecessors = StepResult | Sequence[StepResult] | None
TaskResult = StepResult | State[StepResult]


class StepReport:
    """Outcome of a step: documents that passed it or failed, and the error that ended it."""

    def __init__(self, step: str, documents: int) -> None:
        self.step = step
        self.outcome = StepOutcome(documents)
        self.error: StepError | None = None
        self.is_waiting = False
        """Whether the remaining documents wait for a vendor or for disk space."""
        self.is_cut_short = False
        """Whether the error ended a listing, so that further documents are unknown."""
        self.wait_seconds = 0.0

    def wait_after(self, error: StepError, seconds: float = 0.0) -> None:
        """End the step while its remaining documents wait; repeat it after some seconds, 0 for another flow run."""
        self.error, self.is_waiting, self.wait_seconds = error, True, seconds

    def task_result(self) -> TaskResult:
        """Return the result of the task, in a state that names failed documents if there are any."""
        documents, failed = self.outcome.documents, self.outcome.failed
        result = StepResult(self.step, documents, failed, self.wait_seconds)
        if self.is_waiting:
            return Failed(name=WAITING, message=without_query(str(self.error)), data=result)
        if not failed:
            return result
        if self.is_cut_short:
            return Failed(message=without_query(str(self.error)), data=result)
        if failed == documents:
            return Failed(message=self._describe_failures(), data=result)
        return Completed(name=WITH_FAILURES, message=self._describe_failures(), data=result)

    def write_log(self, seconds: float) -> None:
        """Log the counts and seconds in one line, and a warning for each failed document."""
        logger, failed = get_run_logger(), self.outcome.failed
        counts = names.counted_noun(self.outcome.documents, "document") + (f", {failed:,} failed" if failed else "")
        logger.info("%s: %s, %.1f s", self.step, counts, seconds)
        if self.is_waiting:
            logger.warning("%s: %s", self.step, without_query(str(self.error)))
        if self.wait_seconds:  # the repetition names the failed documents
            return
        for failure in self.outcome.failures:
            name = names.plain_name(failure.name)
            logger.warning("%s: %s (%s) failed: %s", self.step, name, failure.document_id, self._reason(failure))
        if unnamed := failed - len(self.outcome.failures):
            logger.warning("%s: %s more failed; the job run lists them.", self.step, f"{unnamed:,}")

    def _describe_failures(self) -> str:
        outcome = self.outcome
        reasons = [
            f"{names.plain_name(failure.name)} ({self._first_sentence(failure)})"
            for failure in outcome.failures[:NAMED_FAILURES]
        ]
        remainder = f" and {outcome.failed - NAMED_FAILURES:,} more" if outcome.failed > NAMED_FAILURES else ""
        return f"{outcome.failed:,} of {outcome.documents:,} failed: {', '.join(reasons)}{remainder}"

    def _first_sentence(self, failure: FailedDocument) -> str:
        sentence = re.split(r"[.!?:;]\s", self._reason(failure), maxsplit=1)[0].rstrip(".")
        return sentence if len(sentence) <= REASON_CHARACTERS else sentence[: REASON_CHARACTERS - 1] + "…"

    def _reason(self, failure: FailedDocument) -> str:
        return without_query(failure.error).removeprefix(f"{self.step}: ")
