"""Gate of a new generation: activate it only after a passed evaluation.

Measures semantic search only, since the model and the vector store affect nothing else; 100 results per question.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

from retrieval.database.database import Database
from retrieval.errors import Fatal
from retrieval.evaluations import evaluations, judge
from retrieval.evaluations.judge import JudgeContext, StoredQuestion
from retrieval.evaluations.metrics import SPAN_METRIC
from retrieval.namespaces import validation
from retrieval.ports import Scope

CheckAlive = Callable[[], None]
GATE_SETTING: Final[Mapping[str, Any]] = {"name": "gate", "semanticWeight": 1.0, "keywordWeight": 0.0}
_CHECK_INTERVAL_SECONDS: Final = 2.0
_FLOAT_TOLERANCE: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Gate:
    """Requirement of a metric: at least `minimum`, or at most `not_worse_than` below the current value; the other is
    None."""

    evaluation_id: str
    metric: str
    minimum: float | None = None
    not_worse_than: float | None = None


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """Result of a gate with a sentence of its figures."""

    passed: bool
    # Key in stored results.
    told: str
    questions: int


@dataclass(frozen=True, slots=True)
class JudgedTenant:
    """Tenant of an evaluation. `spans`: a question judges a span of a document."""

    tenant: str
    spans: bool


_FIND_JUDGED: LiteralString = """
    select p.tenant, exists (
        select from evaluation_questions q cross join jsonb_array_elements(q.relevant) judged
        where q.evaluation_id = e.id and judged -> 'end' is not null
    ) as spans
    from evaluations e join partitions p on p.id = e.partition_id and p.namespace_id = %(namespace)s
    join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
    where e.id = %(evaluation)s
"""


async def require_gate(db: Database, organization: str, namespace_id: str, gate: Gate) -> None:
    """Raise INVALID_NAMESPACE_CONFIG unless the namespace has the evaluation and the metric applies."""
    judged = await db.async_fetch_one(JudgedTenant, _FIND_JUDGED, _params(organization, namespace_id, gate))
    if judged is None:
        raise validation.invalid_field(
            "gate.evaluationId", "gate.evaluationId names no evaluation of this namespace.", "evaluation_not_found"
        )
    if gate.metric == SPAN_METRIC and not judged.spans:
        raise validation.invalid_field("gate.metric", "No question of the evaluation judges a span.", "no_spans")


def find_questions(
    db: Database, organization: str, namespace_id: str, gate: Gate
) -> tuple[Scope, list[StoredQuestion]]:
    """Return the evaluation's scope and questions. Raises Fatal for a deleted evaluation."""
    judged = db.fetch_one(JudgedTenant, _FIND_JUDGED, _params(organization, namespace_id, gate))
    if judged is None:
        raise Fatal(f"The evaluation {gate.evaluation_id} of the gate was deleted.")
    return Scope(organization, namespace_id, judged.tenant), evaluations.read_questions(db, gate.evaluation_id)


def mean_measure(
    bench: JudgeContext,
    questions: Sequence[StoredQuestion],
    vectors: judge.Vectors,
    refused: Mapping[str, str],
    metric: str,
    alive: CheckAlive,
) -> float:
    """Return the mean of a metric over the questions. Raises Fatal if it applies to none.

    Queries refused by the model count as empty results. `alive` may raise to cancel.
    """
    embedded = judge.require_embedded(questions, refused)
    measures = [
        *judge.judge_setting(bench, embedded, vectors, GATE_SETTING, alive).measures,
        *(judge.measure_refused(question) for question in questions if question.query in refused),
    ]
    values = [number for measure in measures if (number := measure[metric]) is not None]
    if not values:
        raise Fatal(f"No question of the gate's evaluation can be measured by {metric}.")
    return sum(values) / len(values)


def decide_gate(gate: Gate, value: float, current: float | None, questions: int) -> GateVerdict:
    """Compare the new generation's value with the gate. `current`: today's value for `not_worse_than`."""
    figure = f"{gate.metric} is {value:.4f} over {questions:,} questions of {gate.evaluation_id}"
    if gate.minimum is not None:
        passed, requirement = value >= gate.minimum - _FLOAT_TOLERANCE, f"the gate asks for {gate.minimum:.4f} at least"
    else:
        minimum = (current or 0.0) - (gate.not_worse_than or 0.0)
        passed = value >= minimum - _FLOAT_TOLERANCE
        requirement = f"it is {current or 0.0:.4f} now, and may fall by {gate.not_worse_than or 0.0:.4f} at most"
    outcome = "passed its gate" if passed else "was refused, and nothing has changed"
    return GateVerdict(
        passed=passed, told=f"The new generation {outcome}: {figure}; {requirement}.", questions=questions
    )


def not_judged(reason: str) -> GateVerdict:
    """Return the failed verdict of an impossible evaluation."""
    reason_text = f"The new generation could not be judged, and nothing has changed: {reason}"
    return GateVerdict(passed=False, told=reason_text, questions=0)


def throttle_alive(look: CheckAlive) -> CheckAlive:
    """Return `look` limited to one call in two seconds."""
    called_at = time.monotonic()

    def alive() -> None:
        nonlocal called_at
        if time.monotonic() - called_at >= _CHECK_INTERVAL_SECONDS:
            look()
            called_at = time.monotonic()

    return alive


def load_gate(values: Mapping[str, Any]) -> Gate:
    """Load a gate from the output of `dump_gate`."""
    return Gate(values["evaluationId"], values["metric"], values.get("minimum"), values.get("notWorseThan"))


def dump_gate(gate: Gate) -> dict[str, Any]:
    """Serialize a gate with wire names."""
    return {
        "evaluationId": gate.evaluation_id,
        "metric": gate.metric,
        "minimum": gate.minimum,
        "notWorseThan": gate.not_worse_than,
    }


def _params(organization: str, namespace_id: str, gate: Gate) -> dict[str, Any]:
    return {"organization": organization, "namespace": namespace_id, "evaluation": gate.evaluation_id}
