"""Health on the wire: a flat object, for probes that look no further than the status."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType


class Health(Struct):
    """The process answers."""

    status: Annotated[Literal["ok"], Meta(description="Always `ok`.")]


class Readiness(Struct):
    """Whether work goes on; `reason` says why not, a sentence for each cause; `warnings` do not make it unavailable."""

    status: Annotated[Literal["ready", "unavailable"], Meta(description="Whether requests can be served.")]
    reason: Annotated[str | None, Meta(description="Why requests cannot be served; null if they can.")] = None
    warnings: Annotated[
        list[str] | UnsetType,
        Meta(description="Protection that this machine does not offer; absent if there is none to name."),
    ] = UNSET
