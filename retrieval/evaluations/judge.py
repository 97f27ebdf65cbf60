"""Run an evaluation: search with each setting like clients, and measure against judgements."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, delete, insert, or_, select, update

from retrieval import filters
from retrieval.database import partitions, schema
from retrieval.database.compiling import columns_of, compile_statement, equals, in_list, parameters
from retrieval.database.database import Database
from retrieval.database.rows import AsyncExecutor
from retrieval.errors import ErrorCode, Fatal, NotEmbedded, ServiceError
from retrieval.evaluations import calibration, metrics
from retrieval.evaluations.metrics import Interval, JudgedDocument, RankedResult
from retrieval.namespaces.namespaces import Config
from retrieval.ports import Embedder, Reranker, Scope, VectorStore
from retrieval.search import reranking, search
from retrieval.search.answerability import Answerability
from retrieval.search.queries import Copy, Hit
from retrieval.search.reranking import RerankRequest
from retrieval.search.result_selection import Recency, Shape
from retrieval.search.search import Query

# Per question.
MAX_JUDGED_PER_QUESTION = 1_000


@dataclass(frozen=True, slots=True)
class StoredQuestion:
    """Question with its judged documents and filter, ordered by number."""

    number: int
    query: str
    relevant: Sequence[Mapping[str, Any]]
    filter: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class DocumentIds:
    """Id and external id of a document."""

    id: str
    external_id: str


_question: Any = schema.EvaluationQuestion
_of_evaluation = equals(_question.evaluation_id, "id")
_is_question = equals(_question.number)
_FIND_QUESTION = compile_statement(
    select(*columns_of(_question, StoredQuestion))
    .where(_of_evaluation, equals(_question.query))
    .order_by(_question.number)
    .limit(1)
)
_document: Any = schema.Document
_evaluation: Any = schema.Evaluation
_FIND_DOCUMENT_IDS = compile_statement(
    select(_document.id, _document.external_id).where(
        equals(_evaluation.id),
        _document.partition_id == _evaluation.partition_id,
        _document.deleted_at.is_(None),
        or_(equals(_document.id, "document"), equals(_document.external_id, "external")),
    )
)
_INSERT_QUESTION = compile_statement(
    insert(_question).values(evaluation_id=bindparam("id"), **parameters("query", "relevant", "filter"))
)
_UPDATE_JUDGEMENTS = compile_statement(
    update(_question).where(_of_evaluation, _is_question).values(**parameters("relevant"))
)
_DELETE_QUESTION = compile_statement(delete(_question).where(_of_evaluation, _is_question))


@dataclass(frozen=True, slots=True)
class Verdict:
    """Relevance (1 to 4; 0 removes) of a document to a query. `filter`: search filter of a new question."""

    query: str
    document_id: str | None
    external_id: str | None
    grade: int
    filter: Mapping[str, Any] | None = None

    @property
    def judgement(self) -> dict[str, Any]:
        """Return the judgement as stored."""
        if self.document_id is not None:
            return {"documentId": self.document_id, "grade": self.grade}
        return {"externalId": self.external_id, "grade": self.grade}


async def apply_verdicts(connection: AsyncExecutor, evaluation_id: str, verdicts: Sequence[Verdict]) -> None:
    """Apply verdicts in order within the caller's transaction. Raises INVALID_REQUEST above MAX_JUDGED_PER_QUESTION."""
    # The first question with the query is judged; without one a question is added. Questions without judgements are
    # removed, and judged spans stay with the new grade.
    for number, verdict in enumerate(verdicts):
        await _apply_verdict(connection, evaluation_id, verdict, f"judge[{number}]")


async def _apply_verdict(connection: AsyncExecutor, evaluation_id: str, verdict: Verdict, field: str) -> None:
    values: dict[str, Any] = {
        "id": evaluation_id,
        "query": verdict.query,
        "document": verdict.document_id,
        "external": verdict.external_id,
    }
    documents = await connection.async_fetch(DocumentIds, _FIND_DOCUMENT_IDS, values)
    ids = {document.id for document in documents} | {verdict.document_id} - {None}
    external = {document.external_id for document in documents} | {verdict.external_id} - {None}
    question = await connection.async_fetch_one(StoredQuestion, _FIND_QUESTION, values)
    previous: Sequence[Mapping[str, Any]] = [] if question is None else question.relevant
    same_document = [
        entry for entry in previous if entry.get("documentId") in ids or entry.get("externalId") in external
    ]
    relevant = [entry for entry in previous if entry not in same_document]
    if verdict.grade:
        relevant += [{**entry, "grade": verdict.grade} for entry in same_document] or [verdict.judgement]
    if len(relevant) > MAX_JUDGED_PER_QUESTION:
        message = f"A question has {MAX_JUDGED_PER_QUESTION:,} judged documents at most."
        raise ServiceError(ErrorCode.INVALID_REQUEST, message, field=field, reason="number_of_judged_documents")
    values["relevant"] = json.dumps(relevant)
    if question is not None:
        values["number"] = question.number
        await connection.async_execute(_UPDATE_JUDGEMENTS if relevant else _DELETE_QUESTION, values)
    elif relevant:
        values["filter"] = None if verdict.filter is None else json.dumps(verdict.filter)
        await connection.async_execute(_INSERT_QUESTION, values)


Vectors = Mapping[str, Sequence[float]]

DEFAULT_TOP_K = 100
# Queries per embedding call.
QUERIES_PER_CALL = 96


@dataclass(frozen=True, slots=True)
class JudgeContext:
    """Dependencies of the searches of a scope."""

    db: Database
    scope: Scope
    embedder: Embedder
    vectors: VectorStore
    # By the setting's config; None: the namespace's.
    reranker: Callable[[Config | None], Reranker]
    language: str
    # Default for settings without `rerank`.
    reranks: bool = False


@dataclass(frozen=True, slots=True)
class Judgement:
    """Results of one setting: metrics, ranks and search milliseconds without embedding, by question."""

    measures: Sequence[Mapping[str, float | None]]
    ranks: Sequence[Sequence[int | None]]
    milliseconds: Sequence[float]
    # Number of reranked searches; None without reranking.
    reranked: int | None
    answerabilities: Sequence[Answerability] = ()


def embed_queries(
    bench: JudgeContext,
    questions: Sequence[StoredQuestion],
    settings: Sequence[Mapping[str, Any]],
    alive: Callable[[], None],
) -> tuple[Vectors, dict[str, str]]:
    """Embed each query once for all settings; return vectors by text, and reasons of refused queries."""
    if not any(setting["semanticWeight"] > 0 for setting in settings):
        return {}, {}
    texts = list(dict.fromkeys(question.query for question in questions))
    vectors: dict[str, list[float]] = {}
    refused: dict[str, str] = {}
    for start in range(0, len(texts), QUERIES_PER_CALL):
        alive()
        batch = texts[start : start + QUERIES_PER_CALL]
        try:
            vectors |= zip(batch, bench.embedder.embed(batch, "query").tolist(), strict=True)
        except NotEmbedded as error:
            refused |= {batch[position]: reason for position, reason in error.reasons.items()}
            vectors |= zip((text for text in batch if text not in refused), error.vectors.tolist(), strict=True)
    return vectors, refused


def require_embedded(questions: Sequence[StoredQuestion], refused: Mapping[str, str]) -> list[StoredQuestion]:
    """Return the questions embedded by the model. Raises Fatal if it refused all."""
    embedded = [question for question in questions if question.query not in refused]
    if refused and not embedded:
        raise Fatal(f"The model cannot embed any of the questions: {next(iter(refused.values()))}")
    return embedded


def measure_refused(question: StoredQuestion) -> Mapping[str, float | None]:
    """Return the metrics of an empty search result."""
    return metrics.measure_question(_judgements(question.relevant, {}), [])


def judge_setting(
    bench: JudgeContext,
    questions: Sequence[StoredQuestion],
    vectors: Vectors,
    setting: Mapping[str, Any],
    alive: Callable[[], None],
) -> Judgement:
    """Run one setting over all questions sequentially. `alive` may raise to cancel."""
    measures: list[Mapping[str, float | None]] = []
    ranks: list[Sequence[int | None]] = []
    milliseconds: list[float] = []
    answerabilities: list[Answerability] = []
    reranked = 0
    rerank = _rerank(setting, by_default=bench.reranks)
    external_ids = _external_ids(bench, questions)
    for question in questions:
        alive()
        judged = _judgements(question.relevant, external_ids)
        start = time.perf_counter()
        hits, is_reranked, answerability = _search_question(
            bench, question, vectors.get(question.query), setting, rerank
        )
        milliseconds.append((time.perf_counter() - start) * 1000)
        reranked += is_reranked
        answerabilities.append(answerability)
        hit_ranks = _ranked_results(hits, {judgement.key for judgement in judged})
        measures.append(metrics.measure_question(judged, hit_ranks))
        ranks.append(metrics.judged_ranks(judged, hit_ranks))
    return Judgement(measures, ranks, milliseconds, None if rerank is None else reranked, answerabilities)


def run_result(
    questions: Sequence[StoredQuestion],
    settings: Sequence[Mapping[str, Any]],
    judgements: Sequence[Judgement],
    refused: Mapping[str, str],
) -> dict[str, Any]:
    """Return `settings` with metrics and `questions` with ranks; refused questions have an `error`."""
    import numpy as np

    embedded = [question for question in questions if question.query not in refused]
    ranks_by_question = iter(zip(*(judgement.ranks for judgement in judgements), strict=True))
    by_setting = {setting["name"]: judgement for setting, judgement in zip(settings, judgements, strict=True)}
    compared = metrics.compare_settings({name: judgement.measures for name, judgement in by_setting.items()})
    return {
        "settings": [
            {
                **setting,
                "metrics": {name: _dump_interval(interval) for name, interval in compared[setting["name"]].items()},
                "latencyMs": dict(
                    zip(
                        ("p50", "p95"),
                        (round(float(percentile), 1) for percentile in np.percentile(judgement.milliseconds, [50, 95])),
                        strict=True,
                    )
                ),
                **({"reranked": judgement.reranked} if judgement.reranked is not None else {}),
                **calibration.describe_calibration(
                    [bool(question.relevant) for question in embedded], judgement.answerabilities
                ),
            }
            for setting, judgement in zip(settings, judgements, strict=True)
        ],
        "questions": [
            {"query": question.query, "ranks": {}, "error": refused[question.query]}
            if question.query in refused
            else {"query": question.query, "ranks": dict(zip(by_setting, next(ranks_by_question), strict=True))}
            for question in questions
        ],
    }


def _search_question(
    bench: JudgeContext,
    question: StoredQuestion,
    values: Sequence[float] | None,
    setting: Mapping[str, Any],
    rerank: RerankRequest | None,
) -> tuple[Sequence[Hit], bool, Answerability]:
    query = Query(
        text=question.query,
        top_k=setting.get("topK") or DEFAULT_TOP_K,
        document_filter=filters.parse_search(question.filter or {}, ErrorCode.INVALID_REQUEST),
        semantic_weight=setting["semanticWeight"],
        keyword_weight=setting["keywordWeight"],
        shape=_shape(setting),
    )
    wide_query = query if rerank is None else rerank.widen_query(query)
    result = search.run_search(
        bench.db,
        bench.scope,
        wide_query,
        viewer=None,
        embedder=bench.embedder,
        vectors=bench.vectors,
        language=bench.language,
        values=values,
    )
    hits: Sequence[Hit] = result.hits
    if rerank is None or not hits:
        return hits, rerank is not None, result.answerability
    reranked = reranking.rerank_hits(bench.reranker(setting.get("rerankConfig")), query, hits, rerank.budget_ms / 1000)
    ordered = reranking.choose_hits(hits, query) if reranked is None else reranked
    return ordered, reranked is not None, result.answerability


def _rerank(setting: Mapping[str, Any], *, by_default: bool) -> RerankRequest | None:
    requested = setting.get("rerank", by_default or "rerankConfig" in setting)
    if isinstance(requested, bool):
        return RerankRequest() if requested else None
    return RerankRequest(
        requested.get("candidates", RerankRequest().candidates), requested.get("budgetMs", RerankRequest().budget_ms)
    )


def _shape(setting: Mapping[str, Any]) -> Shape:
    recency = setting.get("recency")
    return Shape(
        setting.get("perDocument"), None, Recency(recency["halfLifeDays"], recency["weight"]) if recency else None
    )


_partition: Any = schema.Partition
_LIST_EXTERNAL_IDS = compile_statement(
    select(_document.id, _document.external_id).where(
        in_list(_document.id, "ids"),
        _document.partition_id == _partition.id,
        equals(_partition.namespace_id, "namespace"),
        equals(_partition.tenant),
    )
)


def _external_ids(bench: JudgeContext, questions: Sequence[StoredQuestion]) -> dict[str, str]:
    """Return external ids by document id, for questions judged by both kinds of ids."""
    both = [
        question.relevant
        for question in questions
        if any(entry.get("externalId") for entry in question.relevant)
        and any(entry.get("documentId") for entry in question.relevant)
    ]
    document_ids = sorted({entry["documentId"] for relevant in both for entry in relevant if entry.get("documentId")})
    if not document_ids:
        return {}
    documents = bench.db.fetch(
        DocumentIds, _LIST_EXTERNAL_IDS, {**partitions.scope_params(bench.scope), "ids": document_ids}
    )
    return {document.id: document.external_id for document in documents}


def _judgements(relevant: Sequence[Mapping[str, Any]], external_ids: Mapping[str, str]) -> list[JudgedDocument]:
    """Return judgements with one key per document."""
    external = {entry["externalId"] for entry in relevant if entry.get("externalId")}
    return [
        _parse_judgement({**entry, "documentId": None, "externalId": name})
        if (name := external_ids.get(entry.get("documentId") or "")) in external
        else _parse_judgement(entry)
        for entry in relevant
    ]


def _parse_judgement(entry: Mapping[str, Any]) -> JudgedDocument:
    key = f"id:{entry['documentId']}" if entry.get("documentId") else f"external:{entry['externalId']}"
    span = (entry["start"], entry["end"]) if entry.get("end") is not None else None
    return JudgedDocument(key, entry.get("grade") or 1, span)


def _ranked_results(hits: Sequence[Hit], judged: set[str]) -> list[RankedResult]:
    """Return results under their judged keys; judged copies of the same text count, too."""
    results: list[RankedResult] = []
    for hit in hits:
        result, copies = _result_of(hit, judged), [_result_of(copy, judged) for copy in hit.copies]
        # A judged document counts where a result names it.
        results += [entry for entry in (result, *copies) if entry.key in judged] or [result]
    return results


def _result_of(entry: Hit | Copy, judged: set[str]) -> RankedResult:
    external_key = f"external:{entry.external_id}"
    return RankedResult(external_key if external_key in judged else f"id:{entry.document_id}", entry.start, entry.end)


def _dump_interval(interval: Interval | None) -> dict[str, Any] | None:
    if interval is None:
        return None
    delta = None if interval.delta is None else list(interval.delta)
    return {"value": interval.value, "ci95": [interval.low, interval.high], "deltaCi95": delta}
