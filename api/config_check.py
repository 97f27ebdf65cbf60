"""Live checks of a namespace's configs: can this storage, index and model be used right now?"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Collection

import structlog

from api.services import Services
from retrieval.errors import ErrorCode, Fatal, Retryable, ServiceError, StepError
from retrieval.namespaces.namespaces import (
    EMBEDDING_MODEL,
    FILE_STORAGE,
    PARSER,
    RERANKER,
    VECTOR_STORAGE,
    NamespaceConfig,
)

log = structlog.get_logger()

SECONDS = 5.0
"""How long a vendor may take to answer."""
PREPARING_SECONDS = 60.0
"""How long a port may take to be made: on a fresh process its vendor's SDK is imported."""
_OWN = {FILE_STORAGE: "LOCAL", VECTOR_STORAGE: "PGVECTOR", EMBEDDING_MODEL: "LOCAL", RERANKER: "LOCAL"}
"""By area, what is the service's own: no config is at fault where that is too busy."""


async def check_configs(services: Services, namespace: NamespaceConfig, changed: Collection[str]) -> NamespaceConfig:
    """Probe what has changed, all at once, and return the namespace with what was learnt of its model server. Raises
    the first failure, in the contract's order, under its area's own code."""
    from connectors import registry

    if not services.settings.check_configs:
        return namespace
    probes = _probes(services, namespace)
    areas = [area for area in probes if area in changed]
    if EMBEDDING_MODEL in areas and namespace.embedding_model["provider"] == "ENDPOINT":
        areas.remove(EMBEDDING_MODEL)  # first: it tells the dimensions that the index must have
        await _probe(services, EMBEDDING_MODEL, *probes[EMBEDDING_MODEL], is_own=False)
        namespace = registry.add_learned_model(namespace)
    outcomes = await asyncio.gather(
        *(_probe(services, area, *probes[area], is_own=_is_own(namespace, area)) for area in areas),
        return_exceptions=True,
    )
    for outcome in outcomes:
        if outcome is not None:
            raise outcome
    return namespace


_PREPARING = threading.Lock()
"""SDKs are imported one after another: some fail where two threads import what both need."""


async def _probe(
    services: Services, area: str, code: ErrorCode, prepare: Callable[[], Callable[[], None]], *, is_own: bool
) -> None:
    """Run one check. Its port is made first, which may import the vendor's SDK: that time does not count against the
    vendor."""
    loop = asyncio.get_running_loop()
    vendor_asked = False
    try:
        async with asyncio.timeout(SECONDS) as clock:

            def probe() -> None:
                nonlocal vendor_asked
                loop.call_soon_threadsafe(_give, clock, PREPARING_SECONDS)
                with _PREPARING:
                    check = prepare()
                vendor_asked = not is_own
                loop.call_soon_threadsafe(_give, clock, SECONDS)
                check()

            await services.probing.run(probe)
    except TimeoutError as error:
        if not vendor_asked:
            raise _too_busy(area) from error
        message = f"{area} could not be verified: no answer within {SECONDS:.0f} seconds. Correct it, or try again."
        raise _refused(code, area, message, "timeout") from error
    except StepError as error:
        if is_own and isinstance(error, Retryable):
            raise _too_busy(area) from error
        field = _field(area, error)
        raise _refused(code, field, f"{field} could not be verified: {error}", "check_failed") from error


def _is_own(namespace: NamespaceConfig, area: str) -> bool:
    config = namespace.configs().get(area) or {}
    return area in _OWN and config.get("provider", config.get("type")) == _OWN[area]


def _too_busy(area: str) -> ServiceError:
    log.warning("namespace.not_checked", field=area)
    message = f"The service is too busy to verify {area} right now. Nothing is wrong with it: try again in a moment."
    return ServiceError(ErrorCode.SERVICE_UNAVAILABLE, message, field=area, reason="check_postponed")


def _give(clock: asyncio.Timeout, seconds: float) -> None:
    """Set the timeout to so many seconds from now, unless nothing waits for it."""
    with contextlib.suppress(RuntimeError):
        clock.reschedule(asyncio.get_running_loop().time() + seconds)


def _refused(code: ErrorCode, field: str, message: str, reason: str) -> ServiceError:
    log.info("namespace.check_failed", field=field, reason=reason)
    return ServiceError(code, message, field=field, reason=reason)


def _field(area: str, error: StepError) -> str:
    """The path of what is at fault; a port names it within its config or in full."""
    path = error.field if isinstance(error, Fatal) else None
    if not path:
        return area
    return path if path.split(".")[0] == area else f"{area}.{path}"


def _probes(
    services: Services, namespace: NamespaceConfig
) -> dict[str, tuple[ErrorCode, Callable[[], Callable[[], None]]]]:
    """By area: the code of its failure, and what makes its port and answers the check."""
    from connectors import registry

    def vector_store() -> Callable[[], None]:
        try:
            registry.make_embedder(namespace)
        except StepError:
            return lambda: None  # the model's own probe says so, under its own code
        registry.prepare_vector_store(namespace)
        return lambda: registry.make_vector_store(
            namespace, services.db
        ).check()  # a model may have to say its dimensions

    def reranker() -> Callable[[], None]:
        return registry.make_reranker(namespace).check if namespace.reranker else lambda: None

    def parser() -> Callable[[], None]:
        external = registry.make_external_parser(namespace)
        return external.check if external is not None else lambda: None

    return {
        FILE_STORAGE: (ErrorCode.STORAGE_CONFIG_ERROR, lambda: registry.make_file_store(namespace).check),
        VECTOR_STORAGE: (ErrorCode.VECTOR_DB_CONFIG_ERROR, vector_store),
        EMBEDDING_MODEL: (ErrorCode.EMBEDDING_CONFIG_ERROR, lambda: registry.make_embedder(namespace).check),
        RERANKER: (ErrorCode.INVALID_NAMESPACE_CONFIG, reranker),
        PARSER: (ErrorCode.INVALID_NAMESPACE_CONFIG, parser),
    }
