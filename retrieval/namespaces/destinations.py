"""Addresses that a config's secrets are sent to, stored with them and compared when they are used.

RETRIEVAL_ENDPOINTS and RETRIEVAL_OAUTH_ENDPOINTS move a vendor's address for all namespaces at once. A secret that was
stored for one address is not sent to another: the client sends it again, or the operator sets which addresses the new
one `replaces`. Secrets of a namespace without a stored address go where the settings point.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from retrieval.errors import ErrorCode, ServiceError
from retrieval.namespaces.namespaces import EMBEDDING_MODEL, RERANKER, SECRET_FIELDS, WEB_SCRAPER, Config
from retrieval.settings import Settings
from retrieval.sources import APPS

Noted = Mapping[str, Sequence[str]]
"""By the config's name: the addresses that its secrets were stored for."""

PUBLIC = "public"
"""Stands for the vendor's own address, which no setting names."""

_CONNECTORS = {area: connector for connector, area in APPS.items()}
_SCRAPERS = {"JINA": "JINA_READER"}
"""The settings' name of a scraper where it is not its provider's."""


def destinations_of(settings: Settings, configs: Config) -> dict[str, list[str]]:
    """By the config's name: the addresses that the settings give to what it names. Only those that hold secrets."""
    return {
        area: [address for address, _ in _places(settings, area, config)]
        for area, config in configs.items()
        if config and SECRET_FIELDS & config.keys() and _vendor(area, config)
    }


def has_moved(settings: Settings, area: str, config: Config, noted: Noted) -> bool:
    """Tell if the config's secrets were stored for another address than the current settings have."""
    if area not in noted:
        return False
    current = list(_places(settings, area, config))
    return len(current) != len(noted[area]) or any(
        previous not in (address, *replaced) for previous, (address, replaced) in zip(noted[area], current, strict=True)
    )


def keep_destination(area: str, before: Noted, after: Noted) -> dict[str, Sequence[str]]:
    """`after` with the note of one config as it was before, or none."""
    unchanged = {name: noted for name, noted in after.items() if name != area}
    return {**unchanged, **({area: before[area]} if area in before else {})}


def require_unmoved(settings: Settings, area: str, config: Config, noted: Noted) -> None:
    """INVALID_NAMESPACE_CONFIG, `secret_required`, where they must not be sent."""
    if has_moved(settings, area, config, noted):
        raise ServiceError(
            ErrorCode.INVALID_NAMESPACE_CONFIG,
            f"The service's own address for {_vendor(area, config)} is another one than when the secrets of {area} were"
            " stored. Send them again with a PATCH of the namespace.",
            field=area,
            reason="secret_required",
        )


def _vendor(area: str, config: Config) -> str | None:
    """Return the settings' name of the vendor that gets the secrets; None where the config itself has the address."""
    if area == WEB_SCRAPER:
        return _SCRAPERS.get(config["provider"], str(config["provider"]))
    if area in {EMBEDDING_MODEL, RERANKER}:
        return None if config["provider"] == "ENDPOINT" else str(config["provider"])
    return _CONNECTORS.get(area)


def _places(settings: Settings, area: str, config: Config) -> Iterator[tuple[str, Sequence[str]]]:
    """Return each address with those that it replaces."""
    vendor = _vendor(area, config) or ""
    api = settings.endpoints.get(vendor)
    yield (api and api.base_url) or PUBLIC, api.replaces if api else ()
    if area in _CONNECTORS:
        oauth = settings.oauth_endpoints.get(vendor)
        replaced = oauth.replaces if oauth else ()
        yield (oauth and oauth.token) or PUBLIC, replaced
        yield (oauth and oauth.revoke) or PUBLIC, replaced
