"""Evaluations in requests and responses: judged questions, compared settings, results."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from api.wire.answerable import Calibration
from api.wire.common import Answer, DataAnswer, Listing, NamespaceId, PaginationQuery, Timestamp
from api.wire.reranking import RerankOptions, SearchReranker
from api.wire.search import (
    PerDocument,
    QueryText,
    RecencyConfig,
    SearchFilter,
    TopK,
    check_query,
    read_filter,
)
from retrieval.errors import ErrorCode, ServiceError
from retrieval.evaluations import evaluations, runs
from retrieval.evaluations.judge import Verdict as JudgedDocument
from retrieval.evaluations.metrics import most_changed, tally_questions
from retrieval.statuses import EvaluationStatus

INVALID_REQUEST = ErrorCode.INVALID_REQUEST
Name = Annotated[str, Meta(min_length=1, max_length=200, examples=["Support questions"])]
DocumentId = Annotated[str, Meta(min_length=1, max_length=2048)]
Offset = Annotated[int, Meta(ge=0, le=2**31 - 1, description="Characters from the beginning of the parsed text.")]


class Relevant(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """A relevant document by one of its ids, optionally with a span of its parsed text."""

    document_id: Annotated[DocumentId | UnsetType, Meta(description="The document's id.")] = UNSET
    external_id: Annotated[DocumentId | UnsetType, Meta(description="The document's external id.")] = UNSET
    start: Offset | UnsetType = UNSET
    end: Offset | UnsetType = UNSET
    grade: Annotated[int, Meta(ge=1, le=4, description="Relevance grade. Default: 1.")] = 1


class Question(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """A query of users, with its relevant documents."""

    query: QueryText
    relevant: Annotated[
        list[Relevant], Meta(max_length=1000, description="The relevant documents; empty if nothing answers the query.")
    ]
    filter: Annotated[SearchFilter | None, Meta(description="Restricts the search to matching documents.")] = None

    def to_values(self, field: str) -> dict[str, Any]:
        """Return the question as stored; `field` is its path for errors."""
        check_query(self.query, INVALID_REQUEST, field=f"{field}.query")
        read_filter(self.filter, INVALID_REQUEST, field=f"{field}.filter")
        for number, document in enumerate(self.relevant):
            at = f"{field}.relevant[{number}]"
            if (document.document_id is UNSET) == (document.external_id is UNSET):
                raise _invalid_request(f"{at} needs either documentId or externalId.", at)
            if (document.start is UNSET) != (document.end is UNSET):
                raise _invalid_request(f"{at}: start and end come together.", at)
            if document.start is not UNSET and document.end is not UNSET and document.start >= document.end:
                raise _invalid_request(f"{at}.end must be greater than start.", f"{at}.end")
        stored: dict[str, Any] = msgspec.to_builtins(self)
        return stored


Questions = Annotated[list[Question], Meta(min_length=1, max_length=evaluations.MAX_QUESTIONS)]


class CreateEvaluation(Struct, rename="camel", kw_only=True):
    """A set of judged questions."""

    namespace_id: NamespaceId
    name: Annotated[Name, Meta(description="The display name.")]
    questions: Annotated[Questions, Meta(description="Queries with their relevant documents.")]


class Verdict(Struct, rename="camel", kw_only=True):
    """Judgement of a document for a query; grade 0 removes the judgement. `filter` applies to a new question."""

    query: QueryText
    document_id: Annotated[DocumentId | UnsetType, Meta(description="The document's id.")] = UNSET
    external_id: Annotated[DocumentId | UnsetType, Meta(description="The document's external id.")] = UNSET
    grade: Annotated[int, Meta(ge=0, le=4, description="Relevance grade. Default: 1. 0 removes the judgement.")] = 1
    filter: Annotated[SearchFilter | None, Meta(description="Restricts the search to matching documents.")] = None

    def to_values(self, field: str) -> JudgedDocument:
        """Return the judgement; `field` is its path for errors."""
        check_query(self.query, INVALID_REQUEST, field=f"{field}.query")
        read_filter(self.filter, INVALID_REQUEST, field=f"{field}.filter")
        if (self.document_id is UNSET) == (self.external_id is UNSET):
            raise _invalid_request(f"{field} needs either documentId or externalId.", field)
        return JudgedDocument(
            self.query,
            self.document_id or None,
            self.external_id or None,
            self.grade,
            None if self.filter is None else msgspec.to_builtins(self.filter),
        )


class UpdateEvaluation(Struct, rename="camel", kw_only=True):
    """Changes to an evaluation, in this order: name, removed queries, added questions, judgements."""

    namespace_id: NamespaceId
    name: Annotated[Name | UnsetType, Meta(description="The display name.")] = UNSET
    add: Annotated[list[Question], Meta(max_length=evaluations.MAX_QUESTIONS, description="Questions to add.")] = []
    remove: Annotated[
        list[str],
        Meta(
            max_length=evaluations.MAX_QUESTIONS,
            description="Queries of the questions to remove. Removal comes before additions.",
        ),
    ] = []
    judge: Annotated[list[Verdict], Meta(max_length=100, description="Judgements of single documents by query.")] = []


class Setting(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """A named setting of the search; the weights sum to 1.0."""

    name: Annotated[str, Meta(min_length=1, max_length=100, examples=["hybrid"], description="The display name.")]
    semantic_weight: Annotated[float, Meta(ge=0, le=1, examples=[0.5], description="Weight of the semantic score.")]
    keyword_weight: Annotated[float, Meta(ge=0, le=1, examples=[0.5], description="Weight of the keyword score.")]
    top_k: TopK | UnsetType = UNSET
    rerank: Annotated[bool | RerankOptions | UnsetType, Meta(description="Reranking of the best results.")] = UNSET
    rerank_config: Annotated[
        SearchReranker | UnsetType, Meta(description="Reranks by the service's own model instead of the namespace's.")
    ] = UNSET
    per_document: PerDocument | UnsetType = UNSET
    recency: Annotated[RecencyConfig | UnsetType, Meta(description="Boosts recent documents.")] = UNSET


class StartRun(Struct, rename="camel", kw_only=True):
    """Settings to compare; differences are computed from the first."""

    namespace_id: NamespaceId
    settings: Annotated[
        list[Setting],
        Meta(min_length=1, max_length=20, description="The compared settings. Differences are relative to the first."),
    ]

    def to_values(self) -> list[dict[str, Any]]:
        """Return the settings as stored; raise INVALID_REQUEST for repeated names or a wrong sum of weights."""
        if len({setting.name for setting in self.settings}) < len(self.settings):
            raise _invalid_request("Each of the settings needs a name of its own.", "settings")
        for number, setting in enumerate(self.settings):
            if abs(setting.semantic_weight + setting.keyword_weight - 1) > 1e-6:
                at = f"settings[{number}]"
                raise _invalid_request(f"{at}: semanticWeight and keywordWeight must sum to 1.0.", at)
        stored: list[dict[str, Any]] = msgspec.to_builtins(self.settings)
        return stored


class EvaluationQuery(Struct, rename="camel"):
    """The namespace of the evaluation."""

    namespace_id: NamespaceId


class EvaluationsQuery(PaginationQuery, rename="camel", kw_only=True):
    """The namespace of the evaluations."""

    namespace_id: NamespaceId


class EvaluationRunQuery(EvaluationQuery, rename="camel", kw_only=True):
    """The namespace of the run, and the questions to return: the most changed first with `changed`."""

    question_limit: Annotated[
        Annotated[int, Meta(ge=0, le=1000)] | None,
        Meta(description="Maximum number of questions to return. Default: all."),
    ] = None
    changed: Annotated[
        Annotated[str, Meta(min_length=1, max_length=100)] | None,
        Meta(description="Name of a setting: returns the questions with the largest differences."),
    ] = None


class QuestionsQuery(EvaluationsQuery, rename="camel", kw_only=True):
    """The namespace of the evaluation; `query` returns only questions with exactly this query."""

    query: Annotated[QueryText | None, Meta(description="The query, at most 8 KB.")] = None


class Evaluation(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """A set of questions; `unresolved` has judged external ids without a document (not in listings)."""

    id: Annotated[str, Meta(description="The object's id.")]
    name: Annotated[str, Meta(description="The display name.")]
    namespace_id: Annotated[str, Meta(description="The namespace's id.")]
    question_count: Annotated[int, Meta(description="Number of questions.")]
    unresolved: Annotated[
        list[str] | UnsetType, Meta(description="Judged external ids that do not exist in the namespace, at most 100.")
    ] = UNSET
    created_at: Annotated[Timestamp, Meta(description="Time of creation.")]

    @classmethod
    def from_evaluation(cls, evaluation: evaluations.Evaluation) -> Evaluation:
        return cls(
            id=evaluation.id,
            name=evaluation.name,
            namespace_id=evaluation.namespace_id,
            question_count=evaluation.question_count,
            unresolved=UNSET if evaluation.unresolved is None else list(evaluation.unresolved),
            created_at=Timestamp.from_datetime(evaluation.created_at),
        )


Interval = Annotated[list[float], Meta(min_length=2, max_length=2, examples=[[0.31, 0.42]])]


class Metric(Struct, rename="camel"):
    """A mean over the questions, with 95 % intervals of the mean and of the difference from the first setting."""

    value: Annotated[float, Meta(description="The mean over all questions.")]
    ci95: Annotated[Interval, Meta(description="95 % confidence interval.")]
    delta_ci95: Annotated[
        Interval | None, Meta(description="95 % confidence interval of the difference from the first setting.")
    ]


class Metrics(Struct, rename="camel"):
    """Metrics as defined by trec_eval; `spanRecallAt10` is null without judged spans."""

    ndcg_at10: Annotated[Metric, Meta(description="Normalized discounted cumulative gain at 10.")]
    recall_at10: Annotated[Metric, Meta(description="Recall among the first ten results.")]
    recall_at100: Annotated[Metric, Meta(description="Recall among the first hundred results.")]
    mrr: Annotated[Metric, Meta(description="Mean reciprocal rank within the first hundred.")]
    span_recall_at10: Annotated[
        Metric | None, Meta(description="Recall of judged spans in the first ten results; null without spans.")
    ]


class Latency(Struct):
    """Milliseconds of a search without the embedding of the query."""

    p50: Annotated[float, Meta(description="Median in milliseconds.")]
    p95: Annotated[float, Meta(description="95th percentile in milliseconds.")]


class Compared(Struct):
    """Number of questions with a higher, equal or lower rank of the first judged document than under the first
    setting."""

    better: Annotated[int, Meta(description="Questions whose first relevant document ranks higher.")]
    same: Annotated[
        int, Meta(description="Questions whose first relevant document has the same rank, or none in both.")
    ]
    worse: Annotated[int, Meta(description="Questions whose first relevant document ranks lower.")]


class SettingResult(Setting, rename="camel", kw_only=True, omit_defaults=True):
    """A setting with the results of a finished run; `compared` with `questionLimit`."""

    metrics: Annotated[Metrics | UnsetType, Meta(description="Metrics of the setting.")] = UNSET
    latency_ms: Annotated[Latency | UnsetType, Meta(description="Search durations without embedding of the query.")] = (
        UNSET
    )
    reranked: Annotated[int | UnsetType, Meta(description="Number of reranked searches.")] = UNSET
    compared: Annotated[
        Compared | UnsetType,
        Meta(description="Number of questions answered better, equally and worse than by the first setting."),
    ] = UNSET
    calibration: Annotated[
        Calibration | UnsetType,
        Meta(description="Calibration of `answerable`, if the questions have both kinds."),
    ] = UNSET


class Progress(Struct):
    """Number of finished searches."""

    asked: Annotated[int, Meta(description="Number of finished searches.")]
    total: Annotated[int, Meta(description="Total number of searches: each question under each setting.")]


class QuestionResult(Struct):
    """The rank of each judged document by setting, in the order of `relevant`; null if not found."""

    query: Annotated[str, Meta(description="The query, at most 8 KB.")]
    ranks: Annotated[
        dict[str, list[int | None]], Meta(description="Rank of each judged document by setting; null if not found.")
    ]
    error: Annotated[str | UnsetType, Meta(description="Reason why the model cannot embed the query.")] = UNSET


class EvaluationRun(Struct, rename="camel", kw_only=True):
    """A run, with `questions` after the end and `error` if FAILED; `progress` with `questionLimit`."""

    id: Annotated[str, Meta(description="The object's id.")]
    evaluation_id: Annotated[str, Meta(description="The evaluation of the run.")]
    status: Annotated[EvaluationStatus, Meta(description="The current status of the run.")]
    settings: Annotated[
        list[SettingResult], Meta(description="The compared settings. Differences are relative to the first.")
    ]
    questions: Annotated[list[QuestionResult], Meta(description="The ranks of each question; empty before the end.")]
    error: Annotated[str | None, Meta(description="Reason of the failure; null if the run has not failed.")]
    created_at: Annotated[Timestamp, Meta(description="Time of creation.")]
    finished_at: Annotated[Timestamp | None, Meta(description="Time of the end; null before.")]
    progress: Annotated[
        Progress | UnsetType | None, Meta(description="Progress of the run; null before it starts.")
    ] = UNSET

    @classmethod
    def from_run(cls, run: runs.EvaluationRun, *, whole: bool = True) -> EvaluationRun:
        result = run.result or {}
        questions = result.get("questions", []) if whole else []
        return cls(
            id=run.id,
            evaluation_id=run.evaluation_id,
            status=run.status,
            settings=msgspec.convert(result.get("settings", run.settings), list[SettingResult]),
            questions=msgspec.convert(questions, list[QuestionResult]),
            error=run.error,
            created_at=Timestamp.from_datetime(run.created_at),
            finished_at=Timestamp.from_optional(run.finished_at),
        )


def compare_settings(run: runs.EvaluationRun, query: EvaluationRunQuery) -> EvaluationRun:
    """Return the run with the requested questions and the comparison of its settings."""
    evaluation_run = EvaluationRun.from_run(run)
    if query.question_limit is None:
        return evaluation_run
    result = run.result or {}
    questions, names = result.get("questions", []), [entry.name for entry in evaluation_run.settings]
    if query.changed is not None and query.changed not in names:
        raise _invalid_request("changed: the run has no setting of this name.", "changed")
    for setting in evaluation_run.settings[1:] if questions else []:
        counted = tally_questions(questions, names[0], setting.name)
        setting.compared = Compared(counted.better, counted.same, counted.worse)
    if query.changed is not None:
        questions = most_changed(questions, names[0], query.changed, query.question_limit)
    evaluation_run.questions = msgspec.convert(questions[: query.question_limit], list[QuestionResult])
    evaluation_run.progress = None if run.progress is None else msgspec.convert(run.progress, Progress)
    return evaluation_run


class EvaluationData(Struct):
    """An evaluation."""

    evaluation: Evaluation


class EvaluationsData(Listing, kw_only=True):
    """Evaluations, newest first."""

    evaluations: list[Evaluation]


class QuestionsData(Listing, kw_only=True):
    """A page of questions, in their order."""

    questions: Annotated[list[Question], Meta(description="Queries with their relevant documents.")]


class RunData(Struct):
    """A run."""

    run: EvaluationRun


class RunsData(Listing, kw_only=True):
    """Runs, newest first, without their questions."""

    runs: list[EvaluationRun]


class EvaluationAnswer(DataAnswer[EvaluationData]):
    """An evaluation."""


class EvaluationsAnswer(DataAnswer[EvaluationsData]):
    """Evaluations of the scope, all or one page."""


class EvaluationDeletedAnswer(Answer, kw_only=True):
    """The evaluation was deleted with its runs."""

    data: Annotated[None, Meta(description="The requested change.")] = None


class QuestionsAnswer(DataAnswer[QuestionsData]):
    """A page of the questions, in their order."""


class RunAnswer(DataAnswer[RunData]):
    """A run."""


class RunsAnswer(DataAnswer[RunsData]):
    """Runs of an evaluation, all or one page."""


def _invalid_request(message: str, field: str) -> ServiceError:
    return ServiceError(INVALID_REQUEST, message, field=field, reason="invalid")
