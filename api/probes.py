"""Live checks of a namespace's configs: can this storage, index and model be used right now? (D43)"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

import structlog

from api.services import Services
from retrieval.errors import ErrorCode, ServiceError, StepError
from retrieval.namespaces import EMBEDDING_MODEL, FILE_STORAGE, VECTOR_STORAGE, NamespaceConfig

log = structlog.get_logger()

SECONDS = 5.0


async def check(services: Services, namespace: NamespaceConfig, changed: Collection[str]) -> None:
    """Probe what has changed, all at once; the first failure, in the contract's order, under its area's own code."""
    if not services.settings.check_configs:
        return
    probes = _probes(services, namespace)
    outcomes = await asyncio.gather(
        *(_probe(services, name, *probes[name]) for name in probes if name in changed), return_exceptions=True
    )
    for outcome in outcomes:
        if outcome is not None:
            raise outcome


async def _probe(services: Services, field: str, code: ErrorCode, probe: Callable[[], None]) -> None:
    try:
        async with asyncio.timeout(SECONDS):
            await services.in_thread(probe)
    except TimeoutError as error:
        raise ServiceError(
            code,
            f"{field} could not be verified: no answer within {SECONDS:.0f} seconds.",
            field=field,
            reason="timeout",
        ) from error
    except StepError as error:
        raise ServiceError(
            code, f"{field} could not be verified: {error}", field=field, reason="check_failed"
        ) from error


def _probes(services: Services, namespace: NamespaceConfig) -> dict[str, tuple[ErrorCode, Callable[[], None]]]:
    from connectors import registry

    def vector_store() -> None:
        try:
            registry.embedder(namespace)
        except StepError:
            return  # the model's own probe says so, under its own code
        registry.vector_store(namespace, services.db).check()

    return {
        FILE_STORAGE: (ErrorCode.STORAGE_CONFIG_ERROR, lambda: registry.file_store(namespace).check()),
        VECTOR_STORAGE: (ErrorCode.VECTOR_DB_CONFIG_ERROR, vector_store),
        EMBEDDING_MODEL: (ErrorCode.EMBEDDING_CONFIG_ERROR, lambda: registry.embedder(namespace).check()),
    }
