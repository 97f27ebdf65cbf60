"""Evaluations on the wire: judged questions, settings to compare, and what came out."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from api.wire.common import Answer, Listing, PartQuery, Timestamp
from api.wire.ingest import NamespaceId
from api.wire.search import PerDocument, QueryText, RecencyConfig, RerankOptions, SearchFilter, TopK, checked, where_of
from retrieval.errors import ErrorCode, ServiceError
from retrieval.evaluations import comparison, evaluations, judgements, runs
from retrieval.statuses import EvaluationStatus

INVALID = ErrorCode.INVALID_REQUEST
Name = Annotated[str, Meta(min_length=1, max_length=200, examples=["Support questions"])]
Id = Annotated[str, Meta(min_length=1, max_length=2048)]
Offset = Annotated[int, Meta(ge=0, le=2**31 - 1, description="Characters from the beginning of the parsed text.")]


class Relevant(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """A document that answers: by one of its ids, and by the span of its parsed text if that is known."""

    document_id: Id | UnsetType = UNSET
    external_id: Id | UnsetType = UNSET
    start: Offset | UnsetType = UNSET
    end: Offset | UnsetType = UNSET
    grade: Annotated[int, Meta(ge=1, le=4, description="How relevant; 1 by default.")] = 1


class Question(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """A query as users ask it, with everything that answers it."""

    query: QueryText
    relevant: Annotated[list[Relevant], Meta(min_length=1, max_length=1000)]
    filter: SearchFilter | None = None

    def to_values(self, field: str) -> dict[str, Any]:
        """As it is stored. `field`: where it stands in the request, for errors."""
        checked(self.query, INVALID, field=f"{field}.query")
        where_of(self.filter, INVALID, field=f"{field}.filter")
        for number, one in enumerate(self.relevant):
            at = f"{field}.relevant[{number}]"
            if (one.document_id is UNSET) == (one.external_id is UNSET):
                raise _wrong(f"{at} needs either documentId or externalId.", at)
            if (one.start is UNSET) != (one.end is UNSET):
                raise _wrong(f"{at}: start and end come together.", at)
            if one.start is not UNSET and one.end is not UNSET and one.start >= one.end:
                raise _wrong(f"{at}.end must be greater than start.", f"{at}.end")
        stored: dict[str, Any] = msgspec.to_builtins(self)
        return stored


Questions = Annotated[list[Question], Meta(min_length=1, max_length=evaluations.MOST_QUESTIONS)]


class CreateEvaluation(Struct, rename="camel", kw_only=True):
    """A set of judged questions."""

    namespace_id: NamespaceId
    name: Name
    questions: Questions


class Verdict(Struct, rename="camel", kw_only=True):
    """How relevant one document is to a query; 0 takes its judgement back. `filter` is for a question that is new."""

    query: QueryText
    document_id: Id | UnsetType = UNSET
    external_id: Id | UnsetType = UNSET
    grade: Annotated[int, Meta(ge=0, le=4, description="How relevant, 1 by default; 0: not judged any more.")] = 1
    filter: SearchFilter | None = None

    def to_values(self, field: str) -> judgements.Verdict:
        """`field`: where it stands in the request, for errors."""
        checked(self.query, INVALID, field=f"{field}.query")
        where_of(self.filter, INVALID, field=f"{field}.filter")
        if (self.document_id is UNSET) == (self.external_id is UNSET):
            raise _wrong(f"{field} needs either documentId or externalId.", field)
        return judgements.Verdict(
            self.query,
            self.document_id or None,
            self.external_id or None,
            self.grade,
            None if self.filter is None else msgspec.to_builtins(self.filter),
        )


class UpdateEvaluation(Struct, rename="camel", kw_only=True):
    """Another name; questions to add; queries whose questions are removed, before the others are added; documents to
    judge one by one, at the end."""

    namespace_id: NamespaceId
    name: Name | UnsetType = UNSET
    add: Annotated[list[Question], Meta(max_length=evaluations.MOST_QUESTIONS)] = []
    remove: Annotated[list[str], Meta(max_length=evaluations.MOST_QUESTIONS)] = []
    judge: Annotated[list[Verdict], Meta(max_length=100)] = []


class Setting(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """One way to search, under a name; the two weights sum to 1.0."""

    name: Annotated[str, Meta(min_length=1, max_length=100, examples=["hybrid"])]
    semantic_weight: Annotated[float, Meta(ge=0, le=1, examples=[0.5])]
    keyword_weight: Annotated[float, Meta(ge=0, le=1, examples=[0.5])]
    top_k: TopK | UnsetType = UNSET
    rerank: bool | RerankOptions | UnsetType = UNSET
    per_document: PerDocument | UnsetType = UNSET
    recency: RecencyConfig | UnsetType = UNSET


class StartRun(Struct, rename="camel", kw_only=True):
    """Settings to compare; differences are told from the first."""

    namespace_id: NamespaceId
    settings: Annotated[list[Setting], Meta(min_length=1, max_length=20)]

    def to_values(self) -> list[dict[str, Any]]:
        """As they are stored; INVALID_REQUEST for names that repeat, or weights that do not sum to 1."""
        if len({setting.name for setting in self.settings}) < len(self.settings):
            raise _wrong("Each of the settings needs a name of its own.", "settings")
        for number, setting in enumerate(self.settings):
            if abs(setting.semantic_weight + setting.keyword_weight - 1) > 1e-6:
                at = f"settings[{number}]"
                raise _wrong(f"{at}: semanticWeight and keywordWeight must sum to 1.0.", at)
        stored: list[dict[str, Any]] = msgspec.to_builtins(self.settings)
        return stored


class EvaluationQuery(Struct, rename="camel"):
    """The namespace that the evaluation is of."""

    namespace_id: NamespaceId


class EvaluationsQuery(PartQuery, rename="camel", kw_only=True):
    """The namespace whose evaluations are listed."""

    namespace_id: NamespaceId


class EvaluationRunQuery(EvaluationQuery, rename="camel", kw_only=True):
    """Where the run is; `questionLimit`: so many of its questions, those that the setting `changed` changed most first,
    or in their order without it."""

    question_limit: Annotated[int, Meta(ge=0, le=1000)] | None = None
    changed: Annotated[str, Meta(min_length=1, max_length=100)] | None = None


class QuestionsQuery(EvaluationsQuery, rename="camel", kw_only=True):
    """Where the evaluation is; `query`: only the questions that ask just this."""

    query: QueryText | None = None


class Evaluation(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """A set of questions; `unresolved`: judged external ids that the namespace does not have (not in listings)."""

    id: str
    name: str
    namespace_id: str
    question_count: int
    unresolved: list[str] | UnsetType = UNSET
    created_at: Timestamp

    @classmethod
    def of(cls, found: evaluations.Evaluation) -> Evaluation:
        return cls(
            id=found.id,
            name=found.name,
            namespace_id=found.namespace_id,
            question_count=found.question_count,
            unresolved=UNSET if found.unresolved is None else list(found.unresolved),
            created_at=Timestamp.of(found.created_at),
        )


Interval = Annotated[list[float], Meta(min_length=2, max_length=2, examples=[[0.31, 0.42]])]


class Metric(Struct, rename="camel"):
    """A mean over the questions; 95 % intervals of it, and of its difference from the first setting."""

    value: float
    ci95: Interval
    delta_ci95: Interval | None


class Metrics(Struct, rename="camel"):
    """As trec_eval has them; `spanRecallAt10` is null where no span is judged."""

    ndcg_at10: Metric
    recall_at10: Metric
    recall_at100: Metric
    mrr: Metric
    span_recall_at10: Metric | None


class Latency(Struct):
    """Milliseconds of a search after its query was embedded."""

    p50: float
    p95: float


class Compared(Struct):
    """Questions whose first judged document stands higher than under the first setting, where it stood, or lower."""

    better: int
    same: int
    worse: int


class SettingResult(Setting, rename="camel", kw_only=True, omit_defaults=True):
    """A setting, and from the end of the run on what came of it; `compared` where `questionLimit` was sent."""

    metrics: Metrics | UnsetType = UNSET
    latency_ms: Latency | UnsetType = UNSET
    reranked: int | UnsetType = UNSET
    compared: Compared | UnsetType = UNSET


class Progress(Struct):
    """Searches that were made, of all."""

    asked: int
    total: int


class QuestionResult(Struct):
    """For each setting the rank of each judged document, in the order of `relevant`; null if it was not found."""

    query: str
    ranks: dict[str, list[int | None]]


class EvaluationRun(Struct, rename="camel", kw_only=True):
    """A run; `questions` are there from its end on, `error` where it FAILED. `progress` where `questionLimit` was sent,
    null before its searches are counted."""

    id: str
    evaluation_id: str
    status: EvaluationStatus
    settings: list[SettingResult]
    questions: list[QuestionResult]
    error: str | None
    created_at: Timestamp
    finished_at: Timestamp | None
    progress: Progress | UnsetType | None = UNSET

    @classmethod
    def of(cls, run: runs.Run, *, whole: bool = True) -> EvaluationRun:
        result = run.result or {}
        questions = result.get("questions", []) if whole else []
        return cls(
            id=run.id,
            evaluation_id=run.evaluation_id,
            status=run.status,
            settings=msgspec.convert(result.get("settings", run.settings), list[SettingResult]),
            questions=msgspec.convert(questions, list[QuestionResult]),
            error=run.error,
            created_at=Timestamp.of(run.created_at),
            finished_at=Timestamp.of(run.finished_at) if run.finished_at else None,
        )


def compared(run: runs.Run, query: EvaluationRunQuery) -> EvaluationRun:
    """The run with so many of its questions as are asked for, what changed most first, and how the settings compare."""
    told = EvaluationRun.of(run)
    if query.question_limit is None:
        return told
    result = run.result or {}
    questions, names = result.get("questions", []), [one.name for one in told.settings]
    if query.changed is not None and query.changed not in names:
        raise _wrong("changed: the run has no setting of this name.", "changed")
    for setting in told.settings[1:] if questions else []:
        tally = comparison.tally(questions, names[0], setting.name)
        setting.compared = Compared(tally.better, tally.same, tally.worse)
    if query.changed is not None:
        questions = comparison.most_changed(questions, names[0], query.changed, query.question_limit)
    told.questions = msgspec.convert(questions[: query.question_limit], list[QuestionResult])
    told.progress = None if run.progress is None else msgspec.convert(run.progress, Progress)
    return told


class EvaluationData(Struct):
    """One evaluation."""

    evaluation: Evaluation


class EvaluationsData(Listing, kw_only=True):
    """Evaluations, newest first."""

    evaluations: list[Evaluation]


class QuestionsData(Listing, kw_only=True):
    """A page of questions, in their order."""

    questions: list[Question]


class RunData(Struct):
    """One run."""

    run: EvaluationRun


class RunsData(Listing, kw_only=True):
    """Runs, newest first, without their questions."""

    runs: list[EvaluationRun]


class EvaluationAnswer(Answer, kw_only=True):
    """One evaluation."""

    data: EvaluationData


class EvaluationsAnswer(Answer, kw_only=True):
    """All evaluations of the scope, or a part of them."""

    data: EvaluationsData


class EvaluationDeletedAnswer(Answer, kw_only=True):
    """It is gone, with its runs."""

    data: None = None


class QuestionsAnswer(Answer, kw_only=True):
    """A page of the questions, in their order."""

    data: QuestionsData


class RunAnswer(Answer, kw_only=True):
    """One run."""

    data: RunData


class RunsAnswer(Answer, kw_only=True):
    """All runs of an evaluation, or a part of them."""

    data: RunsData


def _wrong(message: str, field: str) -> ServiceError:
    return ServiceError(INVALID, message, field=field, reason="invalid")
