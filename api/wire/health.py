"""Health on the wire: a flat object, for probes that look no further than the status."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType


class Health(Struct):
    """The process answers."""

    status: Literal["ok"]


class Readiness(Struct):
    """Whether work goes on; `reason` says why not, a sentence for each cause; `warnings` do not make it unavailable."""

    status: Literal["ready", "unavailable"]
    reason: str | None = None
    warnings: list[str] | UnsetType = UNSET
