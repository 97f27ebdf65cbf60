"""Outcome of a step in Prefect: the task run's state and log lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.states import Completed, Failed

from flows.prefect_errors import PARTIAL_STATE, WAITING_STATE
from retrieval.errors import StepError
from retrieval.ingestion.queries.step_outcomes import FailedDocument, StepOutcome
from retrieval.jobs import names
from retrieval.logs import redact_urls

# In a state's message.
MAX_NAMED_FAILURES: Final = 3
MAX_REASON_CHARACTERS: Final = 120


@dataclass(frozen=True)
class StepResult:
    """Result of a task."""

    # The next task takes it as a parameter: Prefect draws the edge from it. `wait_seconds`: pause before the step
    # repeats.

    step: str
    documents: int
    failed: int = 0
    wait_seconds: float = 0.0


Predecessors = StepResult | Sequence[StepResult] | None
TaskResult = StepResult | State[StepResult]


class StepReport:
    """Passed and failed documents of a step, and the final error."""

    def __init__(self, step: str, documents: int) -> None:
        self.step = step
        self.outcome = StepOutcome(documents)
        self.error: StepError | None = None
        # The remaining documents wait for a vendor or for disk space.
        self.is_waiting = False
        # The error ended a listing; further documents are unknown.
        self.is_cut_short = False
        self.wait_seconds = 0.0

    def wait_after(self, error: StepError, seconds: float = 0.0) -> None:
        """Leave the documents open; repeat the step after `seconds`, or in a later flow run for 0."""
        self.error, self.is_waiting, self.wait_seconds = error, True, seconds

    def task_result(self) -> TaskResult:
        """Return the task's result, in a state with the names of failed documents."""
        documents, failed = self.outcome.documents, self.outcome.failed
        result = StepResult(self.step, documents, failed, self.wait_seconds)
        if self.is_waiting:
            return Failed(name=WAITING_STATE, message=redact_urls(str(self.error)), data=result)
        if not failed:
            return result
        if self.is_cut_short:
            return Failed(message=redact_urls(str(self.error)), data=result)
        if failed == documents:
            return Failed(message=self._describe_failures(), data=result)
        return Completed(name=PARTIAL_STATE, message=self._describe_failures(), data=result)

    def write_log(self, seconds: float) -> None:
        """Log counts and seconds in one line, and a warning per failed document."""
        logger, failed = get_run_logger(), self.outcome.failed
        counts = names.counted_noun(self.outcome.documents, "document") + (f", {failed:,} failed" if failed else "")
        logger.info("%s: %s, %.1f s", self.step, counts, seconds)
        if self.is_waiting:
            logger.warning("%s: %s", self.step, redact_urls(str(self.error)))
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
            for failure in outcome.failures[:MAX_NAMED_FAILURES]
        ]
        remainder = f" and {outcome.failed - MAX_NAMED_FAILURES:,} more" if outcome.failed > MAX_NAMED_FAILURES else ""
        return f"{outcome.failed:,} of {outcome.documents:,} failed: {', '.join(reasons)}{remainder}"

    def _first_sentence(self, failure: FailedDocument) -> str:
        sentence = re.split(r"[.!?:;]\s", self._reason(failure), maxsplit=1)[0].rstrip(".")
        return sentence if len(sentence) <= MAX_REASON_CHARACTERS else sentence[: MAX_REASON_CHARACTERS - 1] + "…"

    def _reason(self, failure: FailedDocument) -> str:
        return redact_urls(failure.error).removeprefix(f"{self.step}: ")
