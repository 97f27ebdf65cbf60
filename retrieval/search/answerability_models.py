"""Feature weights by side, fitted by `python -m bench.answerable --write`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SIDE_MODELS: Final[Mapping[str, Mapping[str, float]]] = {
    "semantic": {"nearest": 9.7120, "lead": 3.7280, "constant": -5.7286},
    "keyword": {"share": 17.0368, "constant": -3.9903},
    "hybrid": {"nearest": 6.0159, "share": 13.4567, "constant": -6.4011},
}
