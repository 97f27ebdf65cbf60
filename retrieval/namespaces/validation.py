"""Validation of namespace configurations: known models, embedded services that can be switched off."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from retrieval.errors import ErrorCode, ServiceError
from retrieval.namespaces.namespaces import (
    CONNECTORS,
    EMBEDDING_MODEL,
    FILE_STORAGE,
    PARSER,
    RERANKER,
    VECTOR_STORAGE,
    WEB_SCRAPER,
    Config,
)
from retrieval.network import service_urls
from retrieval.settings import Settings


def check_allowed(settings: Settings, configs: Config) -> None:
    """INVALID_NAMESPACE_CONFIG for an embedded value that is switched off, or a model that is not on the list.

    An address that cannot be one is refused with the code of its area.
    """
    switches = (
        (FILE_STORAGE, "type", "LOCAL", settings.allow_local_files),
        (VECTOR_STORAGE, "provider", "PGVECTOR", settings.allow_pgvector),
        (EMBEDDING_MODEL, "provider", "LOCAL", settings.allow_local_embeddings),
        (WEB_SCRAPER, "provider", "BUILTIN", settings.allow_builtin_scraper),
        (RERANKER, "provider", "LOCAL", settings.allow_local_rerankers),
    )
    for area, key, code, check in _ADDRESSES:
        address = (configs.get(area) or {}).get(key)
        if address is None:
            continue
        try:
            check(address)
        except ValueError as error:
            raise ServiceError(code, f"{area}.{key} {error}.", field=f"{area}.{key}", reason="bad_address") from error
    for name, key, value, allowed in switches:
        if not allowed and (configs.get(name) or {}).get(key) == value:
            raise invalid(f"{name}.{key}", f"{name}.{key} {value} is switched off on this service.", "switched_off")
    model = configs.get(EMBEDDING_MODEL) or {}
    known = models(settings).get(model.get("provider", ""), [])
    if model and model["model"] not in known:
        raise invalid(
            f"{EMBEDDING_MODEL}.model",
            f"{EMBEDDING_MODEL}.model is not a known model of this provider. Known: {', '.join(known)}.",
            "unknown_model",
        )


def models(settings: Settings) -> Mapping[str, list[str]]:
    """The embedding models of each provider."""
    return {
        "OPENAI": settings.openai_models,
        "COHERE": settings.cohere_models,
        "JINA": settings.jina_models,
        "LOCAL": LOCAL_MODELS,
    }


_ADDRESSES: Sequence[tuple[str, str, ErrorCode, Callable[[str], object]]] = (
    (FILE_STORAGE, "endpoint", ErrorCode.STORAGE_CONFIG_ERROR, service_urls.require_service),
    (VECTOR_STORAGE, "indexHost", ErrorCode.VECTOR_DB_CONFIG_ERROR, service_urls.require_service),
    (PARSER, "url", ErrorCode.INVALID_NAMESPACE_CONFIG, service_urls.require_service),
    (RERANKER, "url", ErrorCode.INVALID_NAMESPACE_CONFIG, service_urls.require_service),
    *((app, "authorizationUrl", ErrorCode.INVALID_NAMESPACE_CONFIG, service_urls.require) for app in CONNECTORS),
)
"""Every address of a config: where it stands, the code of its area, what it must be."""

LOCAL_MODELS = ["all-MiniLM-L6-v2", "wordllama-l2-supercat-256"]

MODELS: Mapping[str, list[str]] = {
    **{name.upper(): Settings.model_fields[f"{name}_models"].default for name in ("openai", "cohere", "jina")},
    "LOCAL": LOCAL_MODELS,
}
"""The models of a service whose settings name no others."""


def invalid(field: str, message: str, reason: str) -> ServiceError:
    return ServiceError(ErrorCode.INVALID_NAMESPACE_CONFIG, message, field=field, reason=reason)
