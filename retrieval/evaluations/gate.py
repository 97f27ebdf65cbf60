"""The gate of a new generation: searched in the shadow, and swapped in only if it answers judged questions well.

What is judged is the search by meaning, since another model or vector store changes nothing else; of each question the
best 100 results, as a run of the evaluation measures them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

from retrieval.database.database import Database
from retrieval.errors import Fatal
from retrieval.evaluations import evaluations, judge
from retrieval.evaluations.judge import Bench, StoredQuestion
from retrieval.evaluations.metrics import SPANS
from retrieval.namespaces import validation
from retrieval.ports import Scope

Alive = Callable[[], None]
SETTING: Final[Mapping[str, Any]] = {"name": "gate", "semanticWeight": 1.0, "keywordWeight": 0.0}
_LOOK_SECONDS: Final = 2.0
_SLACK: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Gate:
    """Requirement for a new generation: a measure of at least `minimum`, or lower than today by at most
    `not_worse_than`. One of the two is None."""

    evaluation_id: str
    metric: str
    minimum: float | None = None
    not_worse_than: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of a gate: whether it passed, the figures in a sentence, and the number of questions."""

    passed: bool
    told: str
    questions: int


@dataclass(frozen=True, slots=True)
class Judged:
    """The tenant whose documents an evaluation judges. `spans`: a question judges a part of a document."""

    tenant: str
    spans: bool


_FOUND: LiteralString = """
    select p.tenant, exists (
        select from evaluation_questions q cross join jsonb_array_elements(q.relevant) one
        where q.evaluation_id = e.id and one -> 'end' is not null
    ) as spans
    from evaluations e join partitions p on p.id = e.partition_id and p.namespace_id = %(namespace)s
    join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
    where e.id = %(evaluation)s
"""


async def require_gate(db: Database, organization: str, namespace_id: str, gate: Gate) -> None:
    """INVALID_NAMESPACE_CONFIG unless the namespace has the evaluation, whichever tenant's, and it can be measured."""
    judged = await db.async_fetch_one(Judged, _FOUND, _params(organization, namespace_id, gate))
    if judged is None:
        raise validation.invalid_field(
            "gate.evaluationId", "gate.evaluationId names no evaluation of this namespace.", "evaluation_not_found"
        )
    if gate.metric == SPANS and not judged.spans:
        raise validation.invalid_field("gate.metric", "No question of the evaluation judges a span.", "no_spans")


def find_questions(
    db: Database, organization: str, namespace_id: str, gate: Gate
) -> tuple[Scope, list[StoredQuestion]]:
    """The scope whose documents were judged, and the questions. Fatal if the evaluation was deleted."""
    judged = db.fetch_one(Judged, _FOUND, _params(organization, namespace_id, gate))
    if judged is None:
        raise Fatal(f"The evaluation {gate.evaluation_id} of the gate was deleted.")
    return Scope(organization, namespace_id, judged.tenant), evaluations.read_questions(db, gate.evaluation_id)


def mean_measure(
    bench: Bench,
    questions: Sequence[StoredQuestion],
    vectors: judge.Vectors,
    refused: Mapping[str, str],
    metric: str,
    alive: Alive,
) -> float:
    """The mean of a measure over the questions. `alive` may raise to end it. Fatal where no question has it.

    Questions whose queries the model refused count as searches without results.
    """
    embedded = judge.require_embedded(questions, refused)
    measures = [
        *judge.judge_setting(bench, embedded, vectors, SETTING, alive).measures,
        *(judge.measure_refused(question) for question in questions if question.query in refused),
    ]
    values = [number for measure in measures if (number := measure[metric]) is not None]
    if not values:
        raise Fatal(f"No question of the gate's evaluation can be measured by {metric}.")
    return sum(values) / len(values)


def decide_gate(gate: Gate, later: float, now: float | None, questions: int) -> Verdict:
    """`later`: the measure of the new generation; `now`: of today's, where the gate compares with it."""
    figure = f"{gate.metric} is {later:.4f} over {questions:,} questions of {gate.evaluation_id}"
    if gate.minimum is not None:
        passed, requirement = later >= gate.minimum - _SLACK, f"the gate asks for {gate.minimum:.4f} at least"
    else:
        least = (now or 0.0) - (gate.not_worse_than or 0.0)
        passed = later >= least - _SLACK
        requirement = f"it is {now or 0.0:.4f} now, and may fall by {gate.not_worse_than or 0.0:.4f} at most"
    end = "passed its gate" if passed else "was refused, and nothing has changed"
    return Verdict(passed=passed, told=f"The new generation {end}: {figure}; {requirement}.", questions=questions)


def not_judged(reason: str) -> Verdict:
    """Result of a gate that could not be evaluated: not passed."""
    reason_text = f"The new generation could not be judged, and nothing has changed: {reason}"
    return Verdict(passed=False, told=reason_text, questions=0)


def throttle_alive(look: Alive) -> Alive:
    """`look`, called at most every two seconds."""
    last = time.monotonic()

    def alive() -> None:
        nonlocal last
        if time.monotonic() - last >= _LOOK_SECONDS:
            look()
            last = time.monotonic()

    return alive


def load_gate(values: Mapping[str, Any]) -> Gate:
    """Load a gate that `dump` wrote."""
    return Gate(values["evaluationId"], values["metric"], values.get("minimum"), values.get("notWorseThan"))


def dump_gate(gate: Gate) -> dict[str, Any]:
    """With the names of the wire."""
    return {
        "evaluationId": gate.evaluation_id,
        "metric": gate.metric,
        "minimum": gate.minimum,
        "notWorseThan": gate.not_worse_than,
    }


def _params(organization: str, namespace_id: str, gate: Gate) -> dict[str, Any]:
    return {"organization": organization, "namespace": namespace_id, "evaluation": gate.evaluation_id}
