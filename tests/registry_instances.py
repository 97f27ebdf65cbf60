"""Clients and stores of the registry between tests."""

from __future__ import annotations

from connectors import registry
from retrieval import settings


def forget_instances() -> None:
    """Forget clients and stores made under other settings."""
    registry._instances.clear()


def close_instances() -> None:
    """Close clients of models and services; forget them and the settings."""
    for instance in list(registry._instances.values()):
        if hasattr(instance, "close") and (hasattr(instance, "provider") or hasattr(instance, "fetch")):
            instance.close()
    forget_instances()
    settings.load_settings.cache_clear()
