"""Live checks of a namespace's storage, index and models."""

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
    PARSER_CONFIG,
    RERANKER_CONFIG,
    VECTOR_STORAGE,
    NamespaceConfig,
)

log = structlog.get_logger()

CHECK_SECONDS = 5.0
# A fresh process imports the vendor's SDK.
PREPARATION_SECONDS = 60.0
# A failure of the service's own provider is no fault of the config.
_OWN_PROVIDERS = {FILE_STORAGE: "LOCAL", VECTOR_STORAGE: "PGVECTOR", EMBEDDING_MODEL: "LOCAL", RERANKER_CONFIG: "LOCAL"}


async def check_configs(services: Services, namespace: NamespaceConfig, changed: Collection[str]) -> NamespaceConfig:
    """Check the changed configs concurrently; return the namespace with learned model properties or raise the first
    error."""
    from connectors import registry

    if not services.settings.check_configs:
        return namespace
    probes = _build_checks(services, namespace)
    areas = [area for area in probes if area in changed]
    if EMBEDDING_MODEL in areas and namespace.embedding_model["provider"] == "ENDPOINT":
        areas.remove(EMBEDDING_MODEL)  # first: the index needs the model's dimensions
        await _run_check(services, EMBEDDING_MODEL, *probes[EMBEDDING_MODEL], is_own=False)
        namespace = registry.add_learned_model(namespace)
    outcomes = await asyncio.gather(
        *(_run_check(services, area, *probes[area], is_own=_is_own(namespace, area)) for area in areas),
        return_exceptions=True,
    )
    for outcome in outcomes:
        if outcome is not None:
            raise outcome
    return namespace


# Some SDKs fail if two threads import a shared module.
_IMPORT_LOCK = threading.Lock()


async def _run_check(
    services: Services, area: str, code: ErrorCode, prepare: Callable[[], Callable[[], None]], *, is_own: bool
) -> None:
    """Run a check; preparation, such as an SDK import, has a separate time limit."""
    loop = asyncio.get_running_loop()
    vendor_called = False
    try:
        async with asyncio.timeout(CHECK_SECONDS) as clock:

            def run_probe() -> None:
                nonlocal vendor_called
                loop.call_soon_threadsafe(_extend_timeout, clock, PREPARATION_SECONDS)
                with _IMPORT_LOCK:
                    check = prepare()
                vendor_called = not is_own
                loop.call_soon_threadsafe(_extend_timeout, clock, CHECK_SECONDS)
                check()

            await services.probing.run_call(run_probe)
    except TimeoutError as error:
        if not vendor_called:
            raise _busy_error(area) from error
        message = (
            f"{area} could not be verified: no answer within {CHECK_SECONDS:.0f} seconds. Correct it, or try again."
        )
        raise _check_error(code, area, message, "timeout") from error
    except StepError as error:
        if is_own and isinstance(error, Retryable):
            raise _busy_error(area) from error
        field = _field_path(area, error)
        raise _check_error(code, field, f"{field} could not be verified: {error}", "check_failed") from error


def _is_own(namespace: NamespaceConfig, area: str) -> bool:
    config = namespace.configs().get(area) or {}
    return area in _OWN_PROVIDERS and config.get("provider", config.get("type")) == _OWN_PROVIDERS[area]


def _busy_error(area: str) -> ServiceError:
    log.warning("namespace.not_checked", field=area)
    message = f"The service is too busy to verify {area} right now. Nothing is wrong with it: try again in a moment."
    return ServiceError(ErrorCode.SERVICE_UNAVAILABLE, message, field=area, reason="check_postponed")


def _extend_timeout(clock: asyncio.Timeout, seconds: float) -> None:
    """Set the timeout to `seconds` from now, unless the wait has ended."""
    with contextlib.suppress(RuntimeError):
        clock.reschedule(asyncio.get_running_loop().time() + seconds)


def _check_error(code: ErrorCode, field: str, message: str, reason: str) -> ServiceError:
    log.info("namespace.check_failed", field=field, reason=reason)
    return ServiceError(code, message, field=field, reason=reason)


def _field_path(area: str, error: StepError) -> str:
    """Return the path of the invalid field, which a port names relative to its config or in full."""
    path = error.field if isinstance(error, Fatal) else None
    if not path:
        return area
    return path if path.split(".")[0] == area else f"{area}.{path}"


def _build_checks(
    services: Services, namespace: NamespaceConfig
) -> dict[str, tuple[ErrorCode, Callable[[], Callable[[], None]]]]:
    """Return the error code and the preparation of the check, by area."""
    from connectors import registry

    def prepare_vector_store() -> Callable[[], None]:
        try:
            registry.make_embedder(namespace)
        except StepError:
            return lambda: None  # reported by the check of the model
        registry.prepare_vector_store(namespace)
        return lambda: registry.make_vector_store(
            namespace, services.db
        ).check()  # the model may have to report its dimensions

    def prepare_reranker() -> Callable[[], None]:
        return registry.make_reranker(namespace).check if namespace.reranker else lambda: None

    def prepare_parser() -> Callable[[], None]:
        external = registry.make_external_parser(namespace)
        return external.check if external is not None else lambda: None

    return {
        FILE_STORAGE: (ErrorCode.STORAGE_CONFIG_ERROR, lambda: registry.make_file_store(namespace).check),
        VECTOR_STORAGE: (ErrorCode.VECTOR_DB_CONFIG_ERROR, prepare_vector_store),
        EMBEDDING_MODEL: (ErrorCode.EMBEDDING_CONFIG_ERROR, lambda: registry.make_embedder(namespace).check),
        RERANKER_CONFIG: (ErrorCode.INVALID_NAMESPACE_CONFIG, prepare_reranker),
        PARSER_CONFIG: (ErrorCode.INVALID_NAMESPACE_CONFIG, prepare_parser),
    }
