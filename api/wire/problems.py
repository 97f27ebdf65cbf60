"""Problems of the service and a namespace in responses, with their severity."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from msgspec import Meta, Struct

from api.wire.common import DataAnswer, NamespaceId, Timestamp

Severity = Literal["blocked", "failing", "attention", "info"]
# The most severe first.
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
ProblemKind = Literal[
    "STORAGE",
    "PREFECT",
    "WORKER",
    "DISPATCHER",
    "NOT_ANSWERING",
    "CONNECTION",
    "SCHEDULE",
    "WEBHOOK",
    "REMOVALS",
    "FAILED_DOCUMENTS",
    "HIDDEN_PASSAGES",
    "MACHINE",
]


class ProblemsQuery(Struct, rename="camel"):
    """The namespace to examine; absent for the problems of the installation only."""

    namespace_id: NamespaceId | None = None


class Problem(Struct, rename="camel", kw_only=True):
    """Something that blocks, fails or waits for a person."""

    severity: Annotated[
        Severity,
        Meta(
            description="blocked: no accepted work makes progress. failing: one component fails, the others work. "
            "attention: a person must act. info: nothing is lost."
        ),
    ]
    kind: Annotated[ProblemKind, Meta(description="The component or object with the problem.")]
    cause: Annotated[str, Meta(description="The observation as a sentence.")]
    remedy: Annotated[str | None, Meta(description="The remedy as a sentence; null if unknown.")] = None
    since: Annotated[
        Timestamp | None,
        Meta(
            description="Time of the first failure; for blocked work, creation of the oldest waiting job run. Null if "
            "unknown."
        ),
    ] = None
    link: Annotated[str | None, Meta(description="Page in Prefect to repair it; null without one.")] = None
    object_id: Annotated[
        str | None, Meta(description="Id of the connection, schedule or webhook; null for others.")
    ] = None
    count: Annotated[int | None, Meta(description="Number of documents or job runs; null if not counted.")] = None


class ProblemsData(Struct):
    """Problems, the most severe first."""

    problems: list[Problem]


class ProblemsAnswer(DataAnswer[ProblemsData]):
    """Problems of the installation, and of a namespace."""
