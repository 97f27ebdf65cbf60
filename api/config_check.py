"""Live checks of a namespace's storage, index and models."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

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
# Reason of a check that was not made: nothing was observed.
POSTPONED = "check_postponed"
# A failure of the service's own provider is no fault of the config.
_OWN_PROVIDERS = {FILE_STORAGE: "LOCAL", VECTOR_STORAGE: "PGVECTOR", EMBEDDING_MODEL: "LOCAL", RERANKER_CONFIG: "LOCAL"}


async def check_configs(services: Services, namespace: NamespaceConfig, changed: Collection[str]) -> NamespaceConfig:
    """Check the changed configs concurrently; return the namespace with learned model properties or raise the first
    error."""
    from connectors import registry

    if not services.settings.check_configs:
        return namespace
    run_check = partial(_run_check, services, namespace.organization_id)
    probes = _build_checks(services, namespace)
    areas = [area for area in probes if area in changed]
    if EMBEDDING_MODEL in areas and namespace.embedding_model["provider"] == "ENDPOINT":
        areas.remove(EMBEDDING_MODEL)  # first: the index needs the model's dimensions
        await run_check(EMBEDDING_MODEL, *probes[EMBEDDING_MODEL], is_own=False)
        namespace = registry.add_learned_model(namespace)
    outcomes = await asyncio.gather(
        *(run_check(area, *probes[area], is_own=_is_own(namespace, area)) for area in areas),
        return_exceptions=True,
    )
    for outcome in outcomes:
        if outcome is not None:
            raise outcome
    return namespace


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of the check of one config: the observation, or the error."""

    field: str
    seconds: float
    observation: str
    error: ServiceError | None = None


async def test_configs(services: Services, namespace: NamespaceConfig, areas: Collection[str]) -> list[CheckResult]:
    """Test these configs of the namespace by a call to its service; store nothing."""
    from connectors import registry

    results: list[CheckResult] = []

    async def test_area(area: str) -> CheckResult:
        code, prepare = _build_checks(services, namespace)[area]
        begun, error, observation = time.monotonic(), None, ""
        try:
            await _run_check(services, namespace.organization_id, area, code, prepare, is_own=_is_own(namespace, area))
            observation = _describe_success(namespace, area)
        except ServiceError as refusal:
            error = refusal
        except StepError as failure:  # a stored model that cannot be used any more
            error = _untested(area, f"The model of its vectors cannot be used: {failure}")
        return CheckResult(area, time.monotonic() - begun, observation, error)

    if EMBEDDING_MODEL in areas:
        results.append(await test_area(EMBEDDING_MODEL))  # first: the index needs the model's dimensions
        namespace = namespace if results[0].error else registry.add_learned_model(namespace)
    parallel = [area for area in _build_checks(services, namespace) if area in areas and area != EMBEDDING_MODEL]
    if results and results[0].error and VECTOR_STORAGE in parallel:
        parallel.remove(VECTOR_STORAGE)
        error = _untested(VECTOR_STORAGE, "The test of the model failed, which decides the length of the vectors.")
        results.append(CheckResult(VECTOR_STORAGE, 0.0, "", error))
    results += await asyncio.gather(*map(test_area, parallel))
    tested = {result.field for result in results}
    untested = [_untested(area, "There is no test of this config; its fields are valid.") for area in areas]
    return results + [CheckResult(str(error.field), 0.0, "", error) for error in untested if error.field not in tested]


def _untested(area: str, message: str) -> ServiceError:
    return ServiceError(ErrorCode.SERVICE_UNAVAILABLE, message, field=area, reason=POSTPONED)


def _describe_success(namespace: NamespaceConfig, area: str) -> str:
    """Return what the passed check of a config observed."""
    from connectors import registry

    if area in (EMBEDDING_MODEL, VECTOR_STORAGE):
        dimensions = registry.make_embedder(namespace).dimensions
        subject = (
            "The model is available; its vectors have" if area == EMBEDDING_MODEL else "The index takes vectors of"
        )
        return f"{subject} {dimensions:,} dimensions."
    return _SUCCESS_TEXTS[area] if not _is_own(namespace, area) else _OWN_SUCCESS_TEXTS[area]


_SUCCESS_TEXTS = {
    FILE_STORAGE: "A small file was written, read and deleted.",
    RERANKER_CONFIG: "The reranker scored a text.",
    PARSER_CONFIG: "The parser converted a short text.",
}
_OWN_SUCCESS_TEXTS = {
    FILE_STORAGE: "The folder can be written to.",
    RERANKER_CONFIG: "The model's files are available.",
}


# Some SDKs fail if two threads import a shared module.
_IMPORT_LOCK = threading.Lock()


async def _run_check(
    services: Services,
    organization: str,
    area: str,
    code: ErrorCode,
    prepare: Callable[[], Callable[[], None]],
    *,
    is_own: bool,
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

            await services.probing.run_call(organization, run_probe)
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
    return ServiceError(ErrorCode.SERVICE_UNAVAILABLE, message, field=area, reason=POSTPONED)


def _extend_timeout(clock: asyncio.Timeout, seconds: float) -> None:
    """Set the timeout to `seconds` from now, unless the wait has ended."""
    with contextlib.suppress(RuntimeError):
        clock.reschedule(asyncio.get_running_loop().time() + seconds)


def _check_error(code: ErrorCode, field: str, message: str, reason: str) -> ServiceError:
    log.info("namespace.check_failed", field=field, reason=reason)
    return ServiceError(code, message, field=field, reason=reason)


def _field_path(area: str, error: StepError) -> str:
    """Return the full path of the invalid field; ports name fields in full or relative to the config."""
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
