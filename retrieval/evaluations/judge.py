"""Run an evaluation: each setting's searches, as clients make them, measured against the judgements."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

from retrieval import filters
from retrieval.database import partitions
from retrieval.database.database import Database
from retrieval.database.rows import AsyncExecutor
from retrieval.errors import ErrorCode, Fatal, NotEmbedded, ServiceError
from retrieval.evaluations import calibration, metrics
from retrieval.evaluations.metrics import Found, Interval, Judged
from retrieval.namespaces.namespaces import Config
from retrieval.ports import Embedder, Reranker, Scope, VectorStore
from retrieval.search import reranking, search
from retrieval.search.answerability import Answerability
from retrieval.search.diversity import Recency, Shape
from retrieval.search.queries import Copy, Hit
from retrieval.search.reranking import RerankRequest
from retrieval.search.search import Query

MOST_RELEVANT = 1_000
"""Judged documents of one question."""


@dataclass(frozen=True, slots=True)
class StoredQuestion:
    """A question in the order of its number, with the documents judged for it and its filter."""

    number: int
    query: str
    relevant: Sequence[Mapping[str, Any]]
    filter: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class DocumentIds:
    """Both ids of a document."""

    id: str
    external_id: str


_QUESTION: LiteralString = """
    select number, query, relevant, filter from evaluation_questions where evaluation_id = %(id)s and query = %(query)s
    order by number limit 1
"""
_IDS: LiteralString = """
    select d.id, d.external_id from documents d join evaluations e on e.partition_id = d.partition_id
    where e.id = %(id)s and d.deleted_at is null and (d.id = %(document)s or d.external_id = %(external)s)
"""
_ADD: LiteralString = """
    insert into evaluation_questions (evaluation_id, query, relevant, filter)
    values (%(id)s, %(query)s, %(relevant)s, %(filter)s)
"""
_CHANGE: LiteralString = """
    update evaluation_questions set relevant = %(relevant)s where evaluation_id = %(id)s and number = %(number)s
"""
_REMOVE: LiteralString = "delete from evaluation_questions where evaluation_id = %(id)s and number = %(number)s"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Relevance of a document, by one of its ids, to a query: 1 to 4; 0 removes the judgement.

    `filter` is that of the search, for a question that is new.
    """

    query: str
    document_id: str | None
    external_id: str | None
    grade: int
    filter: Mapping[str, Any] | None = None

    @property
    def named(self) -> dict[str, Any]:
        if self.document_id is not None:
            return {"documentId": self.document_id, "grade": self.grade}
        return {"externalId": self.external_id, "grade": self.grade}


async def apply_verdicts(connection: AsyncExecutor, evaluation_id: str, verdicts: Sequence[Verdict]) -> None:
    """One after the other, within the caller's transaction, which holds the evaluation.

    The first question with the query gets the judgement, a new one where there is none; a question without any
    judgement is removed. Spans that were judged stay, with the new grade. INVALID_REQUEST above 1,000 in a question.
    """
    for number, verdict in enumerate(verdicts):
        await _one(connection, evaluation_id, verdict, f"judge[{number}]")


async def _one(connection: AsyncExecutor, evaluation_id: str, verdict: Verdict, field: str) -> None:
    values: dict[str, Any] = {
        "id": evaluation_id,
        "query": verdict.query,
        "document": verdict.document_id,
        "external": verdict.external_id,
    }
    documents = await connection.async_fetch(DocumentIds, _IDS, values)
    ids = {document.id for document in documents} | {verdict.document_id} - {None}
    external = {document.external_id for document in documents} | {verdict.external_id} - {None}
    question = await connection.async_fetch_one(StoredQuestion, _QUESTION, values)
    previous: Sequence[Mapping[str, Any]] = [] if question is None else question.relevant
    same_document = [
        entry for entry in previous if entry.get("documentId") in ids or entry.get("externalId") in external
    ]
    relevant = [entry for entry in previous if entry not in same_document]
    if verdict.grade:
        relevant += [{**entry, "grade": verdict.grade} for entry in same_document] or [verdict.named]
    if len(relevant) > MOST_RELEVANT:
        message = f"A question has {MOST_RELEVANT:,} judged documents at most."
        raise ServiceError(ErrorCode.INVALID_REQUEST, message, field=field, reason="number_of_judged_documents")
    values["relevant"] = json.dumps(relevant)
    if question is not None:
        values["number"] = question.number
        await connection.async_execute(_CHANGE if relevant else _REMOVE, values)
    elif relevant:
        values["filter"] = None if verdict.filter is None else json.dumps(verdict.filter)
        await connection.async_execute(_ADD, values)


Vectors = Mapping[str, Sequence[float]]

TOP_K = 100
TOGETHER = 96
"""Queries of one call of the model."""


@dataclass(frozen=True, slots=True)
class Bench:
    """Dependencies of the searches of a scope."""

    db: Database
    scope: Scope
    embedder: Embedder
    vectors: VectorStore
    reranker: Callable[[Config | None], Reranker]
    """By the configuration of a setting, None: of the namespace."""
    language: str
    reranks: bool = False
    """Whether settings that say nothing of it are reranked, as searches are where the namespace has a reranker."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """One setting: measures and ranks of each question, and what its search took after its query was embedded."""

    measures: Sequence[Mapping[str, float | None]]
    ranks: Sequence[Sequence[int | None]]
    milliseconds: Sequence[float]
    reranked: int | None
    """Searches that the reranker has ordered; None where it was not to."""
    answerabilities: Sequence[Answerability] = ()


def vectors_of(
    bench: Bench, questions: Sequence[StoredQuestion], settings: Sequence[Mapping[str, Any]], alive: Callable[[], None]
) -> tuple[Vectors, dict[str, str]]:
    """Embed each query once for all settings: the vectors by text, and a reason for each query that the model cannot
    embed. Both are empty if no setting searches by meaning."""
    if not any(setting["semanticWeight"] > 0 for setting in settings):
        return {}, {}
    texts = list(dict.fromkeys(question.query for question in questions))
    vectors: dict[str, list[float]] = {}
    refused: dict[str, str] = {}
    for at in range(0, len(texts), TOGETHER):
        alive()
        part = texts[at : at + TOGETHER]
        try:
            vectors |= zip(part, bench.embedder.embed(part, "query").tolist(), strict=True)
        except NotEmbedded as error:
            refused |= {part[position]: reason for position, reason in error.reasons.items()}
            vectors |= zip((text for text in part if text not in refused), error.vectors.tolist(), strict=True)
    return vectors, refused


def require_embedded(questions: Sequence[StoredQuestion], refused: Mapping[str, str]) -> list[StoredQuestion]:
    """Return the questions that the model embeds. Raises Fatal if it refused all of them."""
    embedded = [question for question in questions if question.query not in refused]
    if refused and not embedded:
        raise Fatal(f"The model cannot embed any of the questions: {next(iter(refused.values()))}")
    return embedded


def measure_refused(question: StoredQuestion) -> Mapping[str, float | None]:
    """Return the measures of a question whose search finds nothing."""
    return metrics.measure_question(_judgements(question.relevant, {}), [])


def judge_setting(
    bench: Bench,
    questions: Sequence[StoredQuestion],
    vectors: Vectors,
    setting: Mapping[str, Any],
    alive: Callable[[], None],
) -> Judgement:
    """One setting over all questions, one search at a time. `alive` is called before each and may raise to end it."""
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
        hits, is_reranked, answerability = _searched(bench, question, vectors.get(question.query), setting, rerank)
        milliseconds.append((time.perf_counter() - start) * 1000)
        reranked += is_reranked
        answerabilities.append(answerability)
        hit_ranks = _found(hits, {judgement.key for judgement in judged})
        measures.append(metrics.measure_question(judged, hit_ranks))
        ranks.append(metrics.judged_ranks(judged, hit_ranks))
    return Judgement(measures, ranks, milliseconds, None if rerank is None else reranked, answerabilities)


def run_result(
    questions: Sequence[StoredQuestion],
    settings: Sequence[Mapping[str, Any]],
    judgements: Sequence[Judgement],
    refused: Mapping[str, str],
) -> dict[str, Any]:
    """Result of a run: `settings` with their metrics, and `questions` with the ranks under each setting.

    `judgements` leave out the questions whose queries are in `refused`; these have its reason as their `error`.
    """
    import numpy as np

    embedded = [question for question in questions if question.query not in refused]
    ranks_by_question = iter(zip(*(judgement.ranks for judgement in judgements), strict=True))
    by_setting = {setting["name"]: judgement for setting, judgement in zip(settings, judgements, strict=True)}
    compared = metrics.compare_settings({name: judgement.measures for name, judgement in by_setting.items()})
    return {
        "settings": [
            {
                **setting,
                "metrics": {name: _shown(interval) for name, interval in compared[setting["name"]].items()},
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


def _searched(
    bench: Bench,
    question: StoredQuestion,
    values: Sequence[float] | None,
    setting: Mapping[str, Any],
    rerank: RerankRequest | None,
) -> tuple[Sequence[Hit], bool, Answerability]:
    query = Query(
        text=question.query,
        top_k=setting.get("topK") or TOP_K,
        document_filter=filters.parse_search(question.filter or {}, ErrorCode.INVALID_REQUEST),
        semantic_weight=setting["semanticWeight"],
        keyword_weight=setting["keywordWeight"],
        shape=_shape(setting),
    )
    wide = query if rerank is None else rerank.widen_query(query)
    result = search.run_search(
        bench.db,
        bench.scope,
        wide,
        viewer=None,
        embedder=bench.embedder,
        vectors=bench.vectors,
        language=bench.language,
        values=values,
    )
    hits: Sequence[Hit] = result.hits
    if rerank is None or not hits:
        return hits, rerank is not None, result.answerability
    reread = reranking.rerank_hits(bench.reranker(setting.get("rerankConfig")), query, hits, rerank.budget_ms / 1000)
    ordered = reranking.choose_hits(hits, query) if reread is None else reread
    return ordered, reread is not None, result.answerability


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


_NAMED: LiteralString = """
    select d.id, d.external_id from documents d
    join partitions p on p.id = d.partition_id and p.namespace_id = %(namespace)s and p.tenant = %(tenant)s
    where d.id = any(%(ids)s)
"""


def _external_ids(bench: Bench, questions: Sequence[StoredQuestion]) -> dict[str, str]:
    """By document id, for the documents of questions that are judged by ids of both kinds."""
    both = [
        question.relevant
        for question in questions
        if any(entry.get("externalId") for entry in question.relevant)
        and any(entry.get("documentId") for entry in question.relevant)
    ]
    document_ids = sorted({entry["documentId"] for relevant in both for entry in relevant if entry.get("documentId")})
    if not document_ids:
        return {}
    documents = bench.db.fetch(DocumentIds, _NAMED, {**partitions.scope_params(bench.scope), "ids": document_ids})
    return {document.id: document.external_id for document in documents}


def _judgements(relevant: Sequence[Mapping[str, Any]], named: Mapping[str, str]) -> list[Judged]:
    """Under one key for each document, by whichever of its ids it was judged."""
    external = {entry["externalId"] for entry in relevant if entry.get("externalId")}
    return [
        _judged({**entry, "documentId": None, "externalId": name})
        if (name := named.get(entry.get("documentId") or "")) in external
        else _judged(entry)
        for entry in relevant
    ]


def _judged(one: Mapping[str, Any]) -> Judged:
    key = f"id:{one['documentId']}" if one.get("documentId") else f"external:{one['externalId']}"
    span = (one["start"], one["end"]) if one.get("end") is not None else None
    return Judged(key, one.get("grade") or 1, span)


def _found(hits: Sequence[Hit], judged: set[str]) -> list[Found]:
    """Results under the key by which their document was judged, or judged documents with the same text."""
    results: list[Found] = []
    for hit in hits:
        result, copies = _keyed(hit, judged), [_keyed(copy, judged) for copy in hit.copies]
        # A judged document counts where a result names it.
        results += [entry for entry in (result, *copies) if entry.key in judged] or [result]
    return results


def _keyed(entry: Hit | Copy, judged: set[str]) -> Found:
    external_key = f"external:{entry.external_id}"
    return Found(external_key if external_key in judged else f"id:{entry.document_id}", entry.start, entry.end)


def _shown(interval: Interval | None) -> dict[str, Any] | None:
    if interval is None:
        return None
    delta = None if interval.delta is None else list(interval.delta)
    return {"value": interval.value, "ci95": [interval.low, interval.high], "deltaCi95": delta}
