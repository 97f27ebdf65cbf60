"""Masked secrets in a PATCH: a mask stands for the stored secret while its address is unchanged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from retrieval.errors import ErrorCode, ServiceError
from retrieval.namespaces.namespaces import CONNECTORS, PARSER, RERANKER, WEB_SCRAPER, Config
from retrieval.namespaces.secret_fields import NAMES
from retrieval.security.secrets import HIDDEN, is_mask, mask

SHOWN = frozenset({WEB_SCRAPER, RERANKER, PARSER, *CONNECTORS})
"""The configs whose secrets answers show masked; those of the others they leave out."""
FREE = frozenset({"model", "region", "clientId", "tenantId", "queryPrefix", "passagePrefix"})
"""Fields beside the secrets that may change under a mask: they do not decide who is sent the secret. A new field of a
config does, until it is named here."""


def unmask(sent: Config, stored: Config, area: str, *, moved: bool = False) -> dict[str, Any]:
    """`sent` with each masked secret replaced by the stored one; INVALID_NAMESPACE_CONFIG, `secret_required`, where the
    mask is not the one that was shown, or the secret would go elsewhere. `moved`: the operator's settings say so."""
    before = dict(_leaves(stored))
    elsewhere = moved or _destination(sent) != _destination(stored)

    def plain(config: Config, path: str) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in config.items():
            here = f"{path}{key}"
            if isinstance(value, Mapping):
                result[key] = plain(value, f"{here}.")
            elif key in NAMES and isinstance(value, str) and is_mask(value):
                if elsewhere or not _stands(value, before.get(here), area):
                    raise _required(f"{area}.{here}", elsewhere=elsewhere and here in before)
                result[key] = before[here]
            else:
                result[key] = value
        return result

    return plain(sent, "")


def _stands(sent: str, stored: Any, area: str) -> bool:
    """Whether this is the mask that answers show; of a secret that they leave out the bare bullets do as well."""
    return stored is not None and (sent == mask(stored) or (sent == HIDDEN and area not in SHOWN))


def _destination(config: Config) -> dict[str, Any]:
    """All that decides where the secrets go: the provider, addresses, and whatever is not known to be free."""
    return {path: value for path, value in _leaves(config) if not {path.rpartition(".")[2]} & (NAMES | FREE)}


def _leaves(config: Config, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value by its dotted path."""
    for key, value in config.items():
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
