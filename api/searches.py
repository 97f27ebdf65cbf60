"""One search on its way through the API: in one namespace or several, reranked, grouped, and as it is answered."""

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
from api.wire.search import HybridSearchRequest, SearchData, SearchRequest, SearchResult, SearchTimings
from api.wire.searches import WhyData, WhyRequest
from connectors import registry
from retrieval import tracing
from retrieval.errors import ErrorCode, Fatal, Retryable, ServiceError, Skippable
from retrieval.ingestion import model_choice
from retrieval.ingestion.chunking.tokenizer import tokenizer_for
from retrieval.namespaces import namespaces, validation
from retrieval.namespaces.namespaces import EMBEDDED, EMBEDDING_MODEL, VECTOR_STORAGE, NamespaceConfig
from retrieval.ports import Scope
from retrieval.principals import Viewer
from retrieval.search import diversity, explain, reranking, search
from retrieval.search.context_expansion import Texts
from retrieval.search.queries import Hit
from retrieval.search.reranking import RerankRequest
from retrieval.search.search import Clock, Query

P = ParamSpec("P")
T = TypeVar("T")
log = structlog.get_logger()

INVALID = ErrorCode.INVALID_SEARCH_REQUEST
TOP = 10
"""Results, unless `topK` says another number."""
ANSWERED = 0.8
"""Share of a search's seconds after which it is given up, so that its error arrives within them."""
LOOK_SECONDS = 0.2
"""Seconds between two checks of a search that exceeds its time: its next step can be a vendor that does not answer."""
TURN = "turn"
"""The step of a search that waits for a thread."""
GROUP, GROUP_MOST = 3, 10
"""Results of one document in a group, unless `perDocument` says another number, and at most."""

SearchBody = SearchRequest | HybridSearchRequest


class Where(TypedDict):
    """The namespaces of a data, as its fields."""

    namespace_id: str | None
    namespace_ids: list[str] | None


@dataclass(frozen=True, slots=True)
class Space:
    """A namespace that is searched, with the configuration that it has now, and who looks (None: the application)."""

    scope: Scope
    config: NamespaceConfig
    viewer: Viewer | None


@dataclass(frozen=True, slots=True)
class Placed:
    """A hit and its namespace."""

    hit: Hit
    namespace: str


async def answer_search(request: ApiRequest, data: SearchBody) -> SearchData:
    """Run a search. Raises NAMESPACE_NOT_FOUND, INVALID_SEARCH_REQUEST, INVALID_HYBRID_CONFIG."""
    query, size = _widened(data, data.to_values())
    spaces = await open_spaces(request, Where(namespace_id=data.namespace_id, namespace_ids=data.namespace_ids))
    names = [space.config.id for space in spaces]
    about = tracing.describe_search(names, spaces[0].config.embedding_model["model"], query.top_k)
    with tracing.trace_call("retrieval", about):
        return await _answer(request.services, spaces, data, query, size)


_MODEL_FIELDS = ("provider", "url", "model", "queryPrefix", "passagePrefix")


async def open_spaces(request: ApiRequest, where: Where) -> list[Space]:
    """Return the namespaces that are searched. Raises NAMESPACE_NOT_FOUND if one of them is missing.

    One whose model is not chosen yet holds nothing to find: it is left out beside others.
    """
    namespace_id, namespace_ids = where["namespace_id"], where["namespace_ids"]
    if (namespace_id is None) is (namespace_ids is None):
        raise ServiceError(INVALID, "Send either namespaceId or namespaceIds.", field="namespaceId", reason="missing")
    scopes = [request.scope_of(name) for name in dict.fromkeys(namespace_ids or [namespace_id or ""])]
    services = request.services
    spaces = [
        Space(
            scope,
            await namespaces.get(services.db, services.ring, scope.organization, scope.namespace),
            await request.find_viewer(scope),
        )
        for scope in scopes
    ]
    spaces = [space for space in spaces if not model_choice.is_model_open(space.config.embedding_model)] or spaces
    models = {
        (*(space.config.embedding_model.get(field) for field in _MODEL_FIELDS), space.config.dimensions)
        for space in spaces
    }
    if len(models) > 1:
        named = " and ".join(sorted({f"{provider} {model}" for provider, _, model, *_ in models}))
        message = f"The namespaces of one search must have the same embedding provider and model; these have {named}."
        raise ServiceError(INVALID, message, field="namespaceIds", reason="different_models")
    return spaces


async def in_time(services: Services, config: NamespaceConfig, clock: Clock, work: Coroutine[Any, Any, T]) -> T:
    """Wait for a part of a search. Raises SERVICE_UNAVAILABLE before its seconds are up, naming the vendor that does
    not answer.

    Statements end by limits of their own, whose error advises on what to leave out.
    """
    seconds = ANSWERED * services.settings.search_seconds
    task, silent = asyncio.ensure_future(work), None
    try:
        await asyncio.wait({task}, timeout=seconds)
        while not task.done() and (silent := _silent(config, clock.step)) is None:
            await asyncio.wait({task}, timeout=LOOK_SECONDS)
        if silent is None:
            return await task
    finally:
        task.cancel()
    log.warning("search.given_up", step=clock.step, seconds=seconds)
    responsible, field = silent
    message = f"{responsible} did not answer within {seconds:g} s. Try again in a moment."
    raise ServiceError(ErrorCode.SERVICE_UNAVAILABLE, message, field=field, reason="took_too_long")


def _silent(config: NamespaceConfig, step: str) -> tuple[str, str | None] | None:
    """Return the vendor that delays a search in this step, and its config; None for the service's own database."""
    provider = config.vector_storage["provider"]
    if step == TURN:
        vendor = _vendor(config)
        return "A search before this one" if vendor is None else f"{vendor}, asked by searches before this one,", None
    if step == "embed_ms":
        return f"The embedding model of {config.embedding_model['provider']}", EMBEDDING_MODEL
    if step == "vector_ms" and provider != EMBEDDED[VECTOR_STORAGE]["provider"]:
        return f"The vector store {provider}", VECTOR_STORAGE
    return None


def _vendor(config: NamespaceConfig) -> str | None:
    """Return the provider outside of this service that searches of the namespace request, or None."""
    parts = (config.embedding_model["provider"], EMBEDDING_MODEL), (config.vector_storage["provider"], VECTOR_STORAGE)
    return next((provider for provider, part in parts if provider != EMBEDDED[part]["provider"]), None)


async def _in_thread(
    services: Services, config: NamespaceConfig, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Call a part of a search in a thread; one that may ask a vendor keeps none from other namespaces."""
    if _vendor(config) is None:
        return await services.in_thread(function, *args, **kwargs)
    return await services.at_vendor(config.id, function, *args, **kwargs)


async def search_space(
    services: Services, space: Space, query: Query, values: Sequence[float] | None
) -> search.SearchResult:
    """Search one namespace, again if another model took over meanwhile. `values`: the query's vector, where known."""
    clock = Clock(step=TURN)
    return await in_time(services, space.config, clock, _find(services, space, query, values, clock))


async def _find(
    services: Services, space: Space, query: Query, values: Sequence[float] | None, clock: Clock
) -> search.SearchResult:

    def run(config: NamespaceConfig, values: Sequence[float] | None) -> search.SearchResult:
        by_meaning = query.semantic_weight > 0
        clock.step = ""  # its turn has come; the SDK of a vendor may have to be imported first
        with query_limits.limit_search(services, query.document_filter):
            return search.run_search(
                services.db,
                space.scope,
                query,
                viewer=space.viewer,
                embedder=registry.make_embedder(config) if by_meaning else None,
                vectors=registry.make_vector_store(config, services.db) if by_meaning else None,
                language=services.settings.keyword_language,
                texts=None if query.shape.expansion is None else _texts(config),
                values=values,
                clock=clock,
            )

    result = await _in_thread(services, space.config, run, space.config, values)
    if space.config.changing:  # another model may have taken over while this looked with the old one's numbers
        scope = space.scope
        current = await namespaces.get(services.db, services.ring, scope.organization, scope.namespace)
        if current.epoch != space.config.epoch:
            result = await _in_thread(services, current, run, current, None)
    return result


async def explain_search(request: ApiRequest, data: WhyRequest) -> WhyData:
    """Explain why a document is shown, or is not. Raises DOCUMENTS_NOT_FOUND, and whatever a search raises."""
    query, parts, services = data.to_values(), data.parts(), request.services
    (space,) = await open_spaces(request, Where(namespace_id=data.namespace_id, namespace_ids=None))
    by_meaning = query.semantic_weight > 0

    def run() -> WhyData:
        with query_limits.limit_search(services, query.document_filter):
            explanation = explain.explain_document(
                services.db,
                space.scope,
                query,
                document=data.document_id,
                external_id=data.external_id,
                parts=parts,
                embedder=registry.make_embedder(space.config) if by_meaning else None,
                vectors=registry.make_vector_store(space.config, services.db) if by_meaning else None,
                language=services.settings.keyword_language,
            )
        return WhyData.of(explanation)

    return await _in_thread(services, space.config, run)


async def _answer(
    services: Services, spaces: Sequence[Space], data: SearchBody, requested: Query, size: int | None
) -> SearchData:
    began = time.monotonic()
    first = spaces[0]
    reranker = _reranker(services, spaces, data)
    rerank = data.reranking(configured=reranker.reranker is not None)
    if rerank is not None and size is not None:
        requested, size = _grouped(data, requested, min(size, reranking.MAX_CANDIDATES // (data.top_k or TOP)))
    query = requested if rerank is None else rerank.widen_query(requested)
    values = None
    if len(spaces) > 1 and query.semantic_weight > 0:
        embedder = registry.make_embedder(first.config)
        embedding = _in_thread(services, first.config, search.embed_query, embedder, first.scope, query.text)
        values = await in_time(services, first.config, Clock(step="embed_ms"), embedding)
    parts = await asyncio.gather(*(search_space(services, space, query, values) for space in spaces))
    answerability = max((part.answerability for part in parts), key=lambda estimate: estimate.probability)
    _note_search(services, data, spaces, parts, answerability.probability)
    is_refused = data.min_probability is not None and answerability.probability < data.min_probability
    parts = [replace(part, hits=[]) for part in parts] if is_refused else parts
    placed = [Placed(hit, space.config.id) for space, part in zip(spaces, parts, strict=True) for hit in part.hits]
    if len(spaces) > 1:
        placed.sort(key=_order)
        if query.shape.per_document is None:
            placed = diversity.lead_documents(placed, lambda entry: (entry.hit.document_id, entry.hit.score))
        placed = sorted(placed[: query.top_k], key=_order)
    reranked = None
    if rerank is not None and not is_refused:
        placed, reranked = await _reread(services, reranker, requested, placed, rerank)
    mode = "hybrid" if isinstance(data, HybridSearchRequest) else "semantic"
    for space in spaces:
        services.times.record_search(space.scope, time.monotonic() - began, mode)
    result = SearchData(_results(data, placed[: requested.top_k], size), answerable=Answerable.of(answerability))
    if reranked is not None:
        result.reranked = reranked
    if data.explain:
        result.timings = SearchTimings.of(_summed(parts))
        if corrected := {correction.word: correction for part in parts for correction in part.corrections}:
            result.corrections = [CorrectedWord(word, list(corrected[word].words)) for word in corrected]
    if is_refused:
        result.note = (
            f"The documents probably do not answer this: the probability is {answerability.probability:g}, below"
            f" minProbability {data.min_probability:g}. Ask in other words, search more documents, or lower it."
        )
    elif notes := _list_notes(parts):
        result.note = " ".join(notes)
    elif not result.results and await _says_little(services, spaces, requested):
        result.note = f"Nothing was found: {explain.ONLY_STOP_WORDS}"
    return result


def _list_notes(parts: Sequence[search.SearchResult]) -> list[str]:
    """Return the sentences on syntax and corrections of the query, each once."""
    readings = [part.note for part in parts if part.note]
    corrections = [correction.note for part in parts for correction in part.corrections]
    return list(dict.fromkeys(readings + corrections))


def _note_search(
    services: Services,
    data: SearchBody,
    spaces: Sequence[Space],
    parts: Sequence[search.SearchResult],
    probability: float,
) -> None:
    """Note the search in each namespace, with the score of its best result there, if such searches are recorded."""
    if not services.settings.weak_search_days or data.explain:
        return
    for space, part in zip(spaces, parts, strict=True):
        best = max((hit.score for hit in part.hits), default=None)
        services.weak_searches.note_search(space.scope, data.query, best, probability)


def _reranker(services: Services, spaces: Sequence[Space], data: SearchBody) -> NamespaceConfig:
    """A configuration with the reranker of the request, or the one that all namespaces have."""
    config = spaces[0].config
    if data.rerank_config is None:
        same = all(space.config.reranker == config.reranker for space in spaces)
        return config if same else replace(config, reranker=None)
    validation.require_local_reranker(services.settings, INVALID, "rerankConfig")
    return replace(config, reranker={"provider": "LOCAL"})


async def _says_little(services: Services, spaces: Sequence[Space], query: Query) -> bool:
    """Tell whether nothing was found because the query consists of stop words, few of which are indexed.

    A search by meaning finds everything that the filter leaves, unless it is below a threshold.
    """
    if query.keyword_weight <= 0 or (query.semantic_weight > 0 and query.threshold <= 0):
        return False
    usual = services.settings.keyword_language

    def any_of_them() -> bool:
        return any(
            explain.has_only_stop_words(services.db, space.scope, query.text, usual, space.viewer) for space in spaces
        )

    return await services.in_thread(any_of_them)


async def _reread(
    services: Services, config: NamespaceConfig, query: Query, placed: Sequence[Placed], rerank: RerankRequest
) -> tuple[list[Placed], bool]:
    hits = [entry.hit for entry in placed]
    spaces = {(entry.hit.document_id, entry.hit.index): entry.namespace for entry in placed}
    rescored, reranked = await reranking.rerank_within_budget(
        services.reranking, lambda: registry.make_reranker(config), query, hits, rerank
    )
    return [Placed(hit, spaces[hit.document_id, hit.index]) for hit in rescored], reranked


def _order(entry: Placed) -> tuple[float, str, int]:
    return -entry.hit.score, entry.hit.document_id, entry.hit.index


def _widened(data: SearchBody, query: Query) -> tuple[Query, int | None]:
    """A search that finds enough of each document for groups, and how many results a group has; None without them.

    Of so many results, each document with a group's size at most, at least `topK` documents are among them.
    """
    if data.group_by is None:
        return query, None
    size = query.shape.per_document or GROUP
    if size > GROUP_MOST:
        message = f"perDocument: a group may have {GROUP_MOST} results at most."
        raise ServiceError(INVALID, message, field="perDocument", reason="out_of_bounds")
    return _grouped(data, query, size)


def _grouped(data: SearchBody, query: Query, size: int) -> tuple[Query, int]:
    """The search for groups of this size. What is reranked is bounded: then groups are smaller, and not fewer."""
    return replace(query, top_k=(data.top_k or TOP) * size, shape=replace(query.shape, per_document=size)), size


def _results(data: SearchBody, placed: Sequence[Placed], size: int | None) -> list[SearchResult]:
    results: list[SearchResult] = []
    groups: defaultdict[str, list[SearchResult]] = defaultdict(list)
    for entry in placed:
        result = SearchResult.of(entry.hit, explain=bool(data.explain))
        if data.namespace_ids is not None:
            result.namespace_id = entry.namespace
        results.append(result)
        groups[entry.hit.document_id].append(result)
    if size is None:
        return results
    for best, *rest_of_group in groups.values():
        best.more = rest_of_group
    return [group[0] for group in groups.values()][: data.top_k or TOP]


def _summed(parts: Sequence[search.SearchResult]) -> dict[str, float]:
    steps = dict.fromkeys(step for part in parts for step in part.timings)
    return {step: sum(part.timings.get(step, 0.0) for part in parts) for step in steps}


def _texts(config: NamespaceConfig) -> Texts:
    model, files = config.embedding_model, registry.make_file_store(config)

    def read(key: str) -> str | None:
        try:
            with files.open(key) as stream:
                return stream.read().decode()
        except (Skippable, Retryable, Fatal, OSError) as error:
            log.warning("search.text_not_read", error=type(error).__name__)
            return None

    return Texts(tokenizer_for(model["provider"], model["model"]), read)
