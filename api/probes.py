"""Live checks of a namespace's configs: can this storage, index and model be used right now? (D43)"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

import structlog

from api.services import Services
from retrieval.errors import ErrorCode, Fatal, ServiceError, StepError
from retrieval.namespaces import EMBEDDING_MODEL, FILE_STORAGE, VECTOR_STORAGE, NamespaceConfig

log = structlog.get_logger()

SECONDS = 5.0


async def check(services: Services, namespace: NamespaceConfig, changed: Collection[str]) -> None:
    """Probe what has changed, all at once; the first failure, in the contract's order, under its area's own code."""
    if not services.settings.check_configs:
        return
    probes = _probes(services, namespace)
    outcomes = await asyncio.gather(
        *(_probe(services, area, *probes[area]) for area in probes if area in changed), return_exceptions=True
    )
    for outcome in outcomes:
        if outcome is not None:
            raise outcome


async def _probe(services: Services, area: str, code: ErrorCode, probe: Callable[[], None]) -> None:
    try:
        async with asyncio.timeout(SECONDS):
            await services.probing.run(probe)
    except TimeoutError as error:
        said = f"{area} could not be verified: no answer within {SECONDS:.0f} seconds. Correct it, or try again."
        raise _refused(code, area, said, "timeout") from error
    except StepError as error:
        field = _field(area, error)
        raise _refused(code, field, f"{field} could not be verified: {error}", "check_failed") from error


def _refused(code: ErrorCode, field: str, message: str, reason: str) -> ServiceError:
    log.info("namespace.check_failed", field=field, reason=reason)
    return ServiceError(code, message, field=field, reason=reason)


def _field(area: str, error: StepError) -> str:
    """The path of what is at fault; a port names it within its config or in full."""
    named = error.field if isinstance(error, Fatal) else None
    if not named:
        return area
    return named if named.split(".")[0] == area else f"{area}.{named}"


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
