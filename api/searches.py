"""Search over one or several namespaces: limits, reranking, grouping and the response."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypedDict, TypeVar

import structlog

from api import query_limits
from api.request import ApiRequest
from api.services import Services
from api.wire.answerable import Answerable, CorrectedWord
from api.wire.search import DEFAULT_TOP_K, HybridSearchRequest, SearchData, SearchRequest, SearchResult, SearchTimings
from api.wire.searches import WhyData, WhyRequest
from connectors import registry
from retrieval import tracing
from retrieval.errors import ErrorCode, Fatal, Retryable, ServiceError, Skippable
from retrieval.ingestion.chunking.tokenizer import is_model_open, tokenizer_for
from retrieval.namespaces import namespaces, validation
from retrieval.namespaces.namespaces import EMBEDDED_CONFIGS, EMBEDDING_MODEL, VECTOR_STORAGE, NamespaceConfig
from retrieval.ports import Scope
from retrieval.principals import Viewer
from retrieval.search import explain, reranking, result_selection, search
from retrieval.search.context_expansion import Texts
from retrieval.search.queries import Hit
from retrieval.search.reranking import RerankRequest
from retrieval.search.search import Clock, Query

CallP = ParamSpec("CallP")
ResultT = TypeVar("ResultT")
log = structlog.get_logger()

INVALID_REQUEST = ErrorCode.INVALID_SEARCH_REQUEST
# The error must arrive within the search's time limit.
TIME_LIMIT_SHARE = 0.8
# Interval of checks whether the current step waits for a vendor.
STEP_CHECK_SECONDS = 0.2
WAITING_STEP = "turn"
DEFAULT_GROUP_SIZE, MAX_GROUP_SIZE = 3, 10

SearchBody = SearchRequest | HybridSearchRequest


class NamespaceSelection(TypedDict):
    namespace_id: str | None
    namespace_ids: list[str] | None


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """Namespace to search, with configuration and viewer (None: the application)."""

    scope: Scope
    config: NamespaceConfig
    viewer: Viewer | None


@dataclass(frozen=True, slots=True)
class NamespaceHit:
    """Hit of a namespace."""

    hit: Hit
    namespace: str


async def answer_search(request: ApiRequest, data: SearchBody) -> SearchData:
    """Run a search; raise NAMESPACE_NOT_FOUND, INVALID_SEARCH_REQUEST or INVALID_HYBRID_CONFIG."""
    query, size = _widen_for_groups(data, data.to_values())
    selection = NamespaceSelection(namespace_id=data.namespace_id, namespace_ids=data.namespace_ids)
    spaces = await open_spaces(request, selection)
    names = [space.config.id for space in spaces]
    about = tracing.describe_search(names, spaces[0].config.embedding_model["model"], query.top_k)
    with tracing.trace_call("retrieval", about):
        return await _answer(request.services, spaces, data, query, size)


_MODEL_FIELDS = ("provider", "url", "model", "queryPrefix", "passagePrefix")


async def open_spaces(request: ApiRequest, selection: NamespaceSelection) -> list[SearchSpace]:
    """Return the namespaces to search; raise NAMESPACE_NOT_FOUND for a missing namespace."""
    namespace_id, namespace_ids = selection["namespace_id"], selection["namespace_ids"]
    if (namespace_id is None) is (namespace_ids is None):
        message = "Send either namespaceId or namespaceIds."
        raise ServiceError(INVALID_REQUEST, message, field="namespaceId", reason="missing")
    scopes = [request.scope_of(name) for name in dict.fromkeys(namespace_ids or [namespace_id or ""])]
    services = request.services
    spaces = [
        SearchSpace(
            scope,
            await namespaces.get_namespace(services.db, services.ring, scope.organization, scope.namespace),
            await request.find_viewer(scope),
        )
        for scope in scopes
    ]
    # A namespace without a chosen model is empty.
    spaces = [space for space in spaces if not is_model_open(space.config.embedding_model)] or spaces
    models = {
        (*(space.config.embedding_model.get(field) for field in _MODEL_FIELDS), space.config.dimensions)
        for space in spaces
    }
    if len(models) > 1:
        names = " and ".join(sorted({f"{provider} {model}" for provider, _, model, *_ in models}))
        message = f"The namespaces of one search must have the same embedding provider and model; these have {names}."
        raise ServiceError(INVALID_REQUEST, message, field="namespaceIds", reason="different_models")
    return spaces


async def limit_vendor_time(
    services: Services, config: NamespaceConfig, clock: Clock, work: Coroutine[Any, Any, ResultT]
) -> ResultT:
    """Wait for a part of a search; raise SERVICE_UNAVAILABLE with the silent vendor's name before the time limit."""
    # Statements have limits of their own; their error suggests smaller filters.
    seconds = TIME_LIMIT_SHARE * services.settings.search_seconds
    task, silent = asyncio.ensure_future(work), None
    try:
        await asyncio.wait({task}, timeout=seconds)
        while not task.done() and (silent := _find_silent_vendor(config, clock.step)) is None:
            await asyncio.wait({task}, timeout=STEP_CHECK_SECONDS)
        if silent is None:
            return await task
    finally:
        task.cancel()
    log.warning("search.given_up", step=clock.step, seconds=seconds)
    responsible, field = silent
    message = f"{responsible} did not answer within {seconds:g} s. Try again in a moment."
    raise ServiceError(ErrorCode.SERVICE_UNAVAILABLE, message, field=field, reason="took_too_long")


def _find_silent_vendor(config: NamespaceConfig, step: str) -> tuple[str, str | None] | None:
    """Return the vendor that delays this step, with the config; None for the service's own database."""
    provider = config.vector_storage["provider"]
    if step == WAITING_STEP:
        vendor = _find_vendor(config)
        return "A search before this one" if vendor is None else f"{vendor}, asked by searches before this one,", None
    if step == "embed_ms":
        return f"The embedding model of {config.embedding_model['provider']}", EMBEDDING_MODEL
    if step == "vector_ms" and provider != EMBEDDED_CONFIGS[VECTOR_STORAGE]["provider"]:
        return f"The vector store {provider}", VECTOR_STORAGE
    return None


def _find_vendor(config: NamespaceConfig) -> str | None:
    """Return the external provider of the namespace's searches, or None."""
    parts = (config.embedding_model["provider"], EMBEDDING_MODEL), (config.vector_storage["provider"], VECTOR_STORAGE)
    return next((provider for provider, part in parts if provider != EMBEDDED_CONFIGS[part]["provider"]), None)


async def _run_in_thread(
    services: Services,
    config: NamespaceConfig,
    function: Callable[CallP, ResultT],
    *args: CallP.args,
    **kwargs: CallP.kwargs,
) -> ResultT:
    """Call a part of a search in a thread: in a slot of the organization, or for vendors of the namespace."""
    if _find_vendor(config) is None:
        return await services.run_search(config.organization_id, function, *args, **kwargs)
    return await services.call_vendor(config.id, function, *args, **kwargs)


async def search_space(
    services: Services, space: SearchSpace, query: Query, values: Sequence[float] | None
) -> search.SearchResult:
    """Search a namespace, with the query's vector if known."""
    clock = Clock(step=WAITING_STEP)
    return await limit_vendor_time(services, space.config, clock, _search_once(services, space, query, values, clock))


async def _search_once(
    services: Services, space: SearchSpace, query: Query, values: Sequence[float] | None, clock: Clock
) -> search.SearchResult:
    def run_search(config: NamespaceConfig, values: Sequence[float] | None) -> search.SearchResult:
        by_meaning = query.semantic_weight > 0
        clock.step = ""  # a thread is free; the vendor's SDK may be imported next
        with query_limits.limit_search(services, query.document_filter):
            return search.run_search(
                services.db,
                space.scope,
                query,
                viewer=space.viewer,
                embedder=registry.make_embedder(config) if by_meaning else None,
                vectors=registry.make_vector_store(config, services.db) if by_meaning else None,
                language=services.settings.keyword_language,
                texts=None if query.shape.expansion is None else _make_texts(config),
                values=values,
                clock=clock,
            )

    result = await _run_in_thread(services, space.config, run_search, space.config, values)
    if space.config.changing:  # the model may have been replaced during the search
        scope = space.scope
        current = await namespaces.get_namespace(services.db, services.ring, scope.organization, scope.namespace)
        if current.epoch != space.config.epoch:
            result = await _run_in_thread(services, current, run_search, current, None)
    return result


async def explain_search(request: ApiRequest, data: WhyRequest) -> WhyData:
    """Explain the rank or absence of a document; raise DOCUMENTS_NOT_FOUND and the errors of a search."""
    query, services = data.to_values(), request.services
    (space,) = await open_spaces(request, NamespaceSelection(namespace_id=data.namespace_id, namespace_ids=None))
    by_meaning = query.semantic_weight > 0

    def run_explanation() -> WhyData:
        with query_limits.limit_search(services, query.document_filter):
            explanation = explain.explain_document(
                services.db,
                space.scope,
                query,
                document=data.document_id,
                external_id=data.external_id,
                request_filters=data.list_request_filters(),
                embedder=registry.make_embedder(space.config) if by_meaning else None,
                vectors=registry.make_vector_store(space.config, services.db) if by_meaning else None,
                language=services.settings.keyword_language,
            )
        return WhyData.from_why(explanation)

    return await _run_in_thread(services, space.config, run_explanation)


async def _answer(
    services: Services, spaces: Sequence[SearchSpace], data: SearchBody, requested: Query, size: int | None
) -> SearchData:
    began = time.monotonic()
    first = spaces[0]
    reranker = _choose_reranker(services, spaces, data)
    rerank = data.read_reranking(configured=reranker.reranker is not None)
    if rerank is not None and size is not None:
        size = min(size, reranking.MAX_CANDIDATES // (data.top_k or DEFAULT_TOP_K))
        requested, size = _limit_group_size(data, requested, size)
    query = requested if rerank is None else rerank.widen_query(requested)
    values = None
    if len(spaces) > 1 and query.semantic_weight > 0:
        embedder = registry.make_embedder(first.config)
        embedding = _run_in_thread(services, first.config, search.embed_query, embedder, first.scope, query.text)
        values = await limit_vendor_time(services, first.config, Clock(step="embed_ms"), embedding)
    parts = await asyncio.gather(*(search_space(services, space, query, values) for space in spaces))
    answerability = max((part.answerability for part in parts), key=lambda estimate: estimate.probability)
    _record_search(services, data, spaces, parts, answerability.probability)
    is_refused = data.min_probability is not None and answerability.probability < data.min_probability
    parts = [replace(part, hits=[]) for part in parts] if is_refused else parts
    placed = [
        NamespaceHit(hit, space.config.id) for space, part in zip(spaces, parts, strict=True) for hit in part.hits
    ]
    if len(spaces) > 1:
        placed.sort(key=_rank_key)
        if query.shape.per_document is None:
            placed = result_selection.lead_documents(placed, lambda entry: (entry.hit.document_id, entry.hit.score))
        placed = sorted(placed[: query.top_k], key=_rank_key)
    reranked = None
    if rerank is not None and not is_refused:
        placed, reranked = await _rerank(services, reranker, requested, placed, rerank)
    mode = "hybrid" if isinstance(data, HybridSearchRequest) else "semantic"
    for space in spaces:
        services.times.record_search(space.scope, time.monotonic() - began, mode)
    result = SearchData(
        _build_results(data, placed[: requested.top_k], size), answerable=Answerable.from_estimate(answerability)
    )
    if reranked is not None:
        result.reranked = reranked
    if data.explain:
        result.timings = SearchTimings.from_durations(_sum_timings(parts))
        if corrected := {correction.word: correction for part in parts for correction in part.corrections}:
            result.corrections = [CorrectedWord(word, list(corrected[word].words)) for word in corrected]
    if is_refused:
        result.note = (
            f"The documents probably do not answer this: the probability is {answerability.probability:g}, below"
            f" minProbability {data.min_probability:g}. Ask in other words, search more documents, or lower it."
        )
    elif notes := _list_notes(parts):
        result.note = " ".join(notes)
    elif not result.results and await _has_only_stop_words(services, spaces, requested):
        result.note = f"Nothing was found: {explain.ONLY_STOP_WORDS}"
    return result


def _list_notes(parts: Sequence[search.SearchResult]) -> list[str]:
    """Return distinct notes on query syntax and corrections."""
    readings = [part.note for part in parts if part.note]
    corrections = [correction.note for part in parts for correction in part.corrections]
    return list(dict.fromkeys(readings + corrections))


def _record_search(
    services: Services,
    data: SearchBody,
    spaces: Sequence[SearchSpace],
    parts: Sequence[search.SearchResult],
    probability: float,
) -> None:
    """Record the search for the report of weak searches, by namespace with the best score."""
    if not services.settings.weak_search_days or data.explain:
        return
    for space, part in zip(spaces, parts, strict=True):
        best = max((hit.score for hit in part.hits), default=None)
        services.weak_searches.note_search(space.scope, data.query, best, probability)


def _choose_reranker(services: Services, spaces: Sequence[SearchSpace], data: SearchBody) -> NamespaceConfig:
    """Return a configuration with the request's reranker, or the reranker that all namespaces share."""
    config = spaces[0].config
    if data.rerank_config is None:
        same = all(space.config.reranker == config.reranker for space in spaces)
        return config if same else replace(config, reranker=None)
    validation.require_local_reranker(services.settings, INVALID_REQUEST, "rerankConfig")
    return replace(config, reranker={"provider": "LOCAL"})


async def _has_only_stop_words(services: Services, spaces: Sequence[SearchSpace], query: Query) -> bool:
    """Return whether an empty result is due to a query of stop words."""
    # A semantic search without a threshold returns every document of the filter.
    if query.keyword_weight <= 0 or (query.semantic_weight > 0 and query.threshold <= 0):
        return False
    usual = services.settings.keyword_language

    def has_stop_words() -> bool:
        return any(
            explain.has_only_stop_words(services.db, space.scope, query.text, usual, space.viewer) for space in spaces
        )

    return await services.run_in_thread(has_stop_words)


async def _rerank(
    services: Services, config: NamespaceConfig, query: Query, placed: Sequence[NamespaceHit], rerank: RerankRequest
) -> tuple[list[NamespaceHit], bool]:
    hits = [entry.hit for entry in placed]
    spaces = {(entry.hit.document_id, entry.hit.index): entry.namespace for entry in placed}
    rescored, reranked = await reranking.rerank_within_budget(
        services.reranking, lambda: registry.make_reranker(config), query, hits, rerank
    )
    return [NamespaceHit(hit, spaces[hit.document_id, hit.index]) for hit in rescored], reranked


def _rank_key(entry: NamespaceHit) -> tuple[float, str, int]:
    return -entry.hit.score, entry.hit.document_id, entry.hit.index


def _widen_for_groups(data: SearchBody, query: Query) -> tuple[Query, int | None]:
    """Return a search with enough results for groups, and the size of a group; None without groups."""
    # Of topK * size results with at most `size` of each document, at least topK documents are among them.
    if data.group_by is None:
        return query, None
    size = query.shape.per_document or DEFAULT_GROUP_SIZE
    if size > MAX_GROUP_SIZE:
        message = f"perDocument: a group may have {MAX_GROUP_SIZE} results at most."
        raise ServiceError(INVALID_REQUEST, message, field="perDocument", reason="out_of_bounds")
    return _limit_group_size(data, query, size)


def _limit_group_size(data: SearchBody, query: Query, size: int) -> tuple[Query, int]:
    """Return the search for groups of this size."""
    # Reranking has a bound on candidates: groups become smaller, not fewer.
    top_k = (data.top_k or DEFAULT_TOP_K) * size
    return replace(query, top_k=top_k, shape=replace(query.shape, per_document=size)), size


def _build_results(data: SearchBody, placed: Sequence[NamespaceHit], size: int | None) -> list[SearchResult]:
    results: list[SearchResult] = []
    groups: defaultdict[str, list[SearchResult]] = defaultdict(list)
    for entry in placed:
        result = SearchResult.from_hit(entry.hit, explain=bool(data.explain))
        if data.namespace_ids is not None:
            result.namespace_id = entry.namespace
        results.append(result)
        groups[entry.hit.document_id].append(result)
    if size is None:
        return results
    for best, *rest_of_group in groups.values():
        best.more = rest_of_group
    return [group[0] for group in groups.values()][: data.top_k or DEFAULT_TOP_K]


def _sum_timings(parts: Sequence[search.SearchResult]) -> dict[str, float]:
    steps = dict.fromkeys(step for part in parts for step in part.timings)
    return {step: sum(part.timings.get(step, 0.0) for part in parts) for step in steps}


def _make_texts(config: NamespaceConfig) -> Texts:
    model, files = config.embedding_model, registry.make_file_store(config)

    def read(key: str) -> str | None:
        try:
            with files.open(key) as stream:
                return stream.read().decode()
        except (Skippable, Retryable, Fatal, OSError) as error:
            log.warning("search.text_not_read", error=type(error).__name__)
            return None

    return Texts(tokenizer_for(model["provider"], model["model"]), read)
