"""Problems of the service and a namespace in responses, with their severity."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from api.wire.common import DataAnswer, NamespaceId, Timestamp

Severity = Literal["blocked", "failing", "attention", "info"]
SEVERITIES: tuple[Severity, ...] = ("blocked", "failing", "attention", "info")
Kind = Literal[
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
    """The namespace whose problems are added; only those of the installation without one."""

    namespace_id: NamespaceId | None = None


class Problem(Struct, rename="camel", kw_only=True):
    """Something that blocks, fails or waits for a person."""

    severity: Annotated[
        Severity,
        Meta(
            description="blocked: no accepted work makes progress. failing: a part fails, the others go on. attention: "
            "waits for a person. info: nothing is lost."
        ),
    ]
    kind: Annotated[Kind, Meta(description="The part that has the problem.")]
    cause: Annotated[str, Meta(description="What was observed, as a sentence.")]
    remedy: Annotated[str | None, Meta(description="What helps, as a sentence; null if unknown.")] = None
    since: Annotated[
        Timestamp | None,
        Meta(
            description="Time of the first failure; for blocked work, creation of the oldest waiting job run. Null if "
            "unknown."
        ),
    ] = None
    link: Annotated[str | None, Meta(description="Page in Prefect where it is repaired; null without one.")] = None
    object_id: Annotated[
        str | None, Meta(description="Id of the connection, schedule or webhook; null for others.")
    ] = None
    count: Annotated[int | None, Meta(description="Number of documents or job runs; null if not counted.")] = None


class ProblemsData(Struct):
    """Problems, the most severe first."""

    problems: list[Problem]


class ProblemsAnswer(DataAnswer[ProblemsData]):
    """Problems of the installation, and of a namespace."""


def to_timestamp(moment: datetime | None) -> Timestamp | None:
    return None if moment is None else Timestamp.from_datetime(moment)
