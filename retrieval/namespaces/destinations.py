"""Addresses for a config's secrets, stored with the config and compared at each use.

RETRIEVAL_ENDPOINTS and RETRIEVAL_OAUTH_ENDPOINTS move a vendor's address for all namespaces. A stored secret is not
sent to another address unless the new one `replaces` the former. Without a stored address, secrets follow the settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from retrieval.errors import ErrorCode, ServiceError
from retrieval.namespaces.namespaces import EMBEDDING_MODEL, RERANKER_CONFIG, SECRET_FIELDS, WEB_SCRAPER, Config
from retrieval.settings import Settings
from retrieval.sources import APP_CONFIGS

# Addresses of the stored secrets, by config name.
StoredDestinations = Mapping[str, Sequence[str]]

# The vendor's public address.
PUBLIC_ADDRESS = "public"

_CONNECTORS_BY_CONFIG = {area: connector for connector, area in APP_CONFIGS.items()}
# Settings name by provider, where they differ.
_SCRAPER_NAMES = {"JINA": "JINA_READER"}


def list_destinations(settings: Settings, configs: Config) -> dict[str, list[str]]:
    """Return the current addresses of configs with secrets, by config name."""
    return {
        area: [address for address, _ in _current_addresses(settings, area, config)]
        for area, config in configs.items()
        if config and SECRET_FIELDS & config.keys() and _vendor(area, config)
    }


def has_moved(settings: Settings, area: str, config: Config, stored: StoredDestinations) -> bool:
    """Return True if the settings have another address than at the time of the secrets' storage."""
    if area not in stored:
        return False
    current = list(_current_addresses(settings, area, config))
    return len(current) != len(stored[area]) or any(
        previous not in (address, *replaced)
        for previous, (address, replaced) in zip(stored[area], current, strict=True)
    )


def keep_destination(area: str, current: StoredDestinations, updated: StoredDestinations) -> dict[str, Sequence[str]]:
    """Return `updated` with one config's addresses from `current`."""
    unchanged = {name: addresses for name, addresses in updated.items() if name != area}
    return {**unchanged, **({area: current[area]} if area in current else {})}


def require_unmoved(settings: Settings, area: str, config: Config, stored: StoredDestinations) -> None:
    """Raise INVALID_NAMESPACE_CONFIG, `secret_required`, if the address has moved."""
    if has_moved(settings, area, config, stored):
        raise ServiceError(
            ErrorCode.INVALID_NAMESPACE_CONFIG,
            f"The service's own address for {_vendor(area, config)} is another one than when the secrets of {area} were"
            " stored. Send them again with a PATCH of the namespace.",
            field=area,
            reason="secret_required",
        )


def _vendor(area: str, config: Config) -> str | None:
    """Return the settings name of the secrets' recipient; None if the config itself has the address."""
    if area == WEB_SCRAPER and config["provider"] != "ENDPOINT":
        return _SCRAPER_NAMES.get(config["provider"], str(config["provider"]))
    if area in {EMBEDDING_MODEL, RERANKER_CONFIG, WEB_SCRAPER}:
        return None if config["provider"] == "ENDPOINT" else str(config["provider"])
    return _CONNECTORS_BY_CONFIG.get(area)


def _current_addresses(settings: Settings, area: str, config: Config) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield each address with its replaced addresses."""
    vendor = _vendor(area, config) or ""
    api = settings.endpoints.get(vendor)
    yield (api and api.base_url) or PUBLIC_ADDRESS, api.replaces if api else ()
    if area in _CONNECTORS_BY_CONFIG:
        oauth = settings.oauth_endpoints.get(vendor)
        replaced = oauth.replaces if oauth else ()
        yield (oauth and oauth.token) or PUBLIC_ADDRESS, replaced
        yield (oauth and oauth.revoke) or PUBLIC_ADDRESS, replaced
