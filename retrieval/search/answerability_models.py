"""Feature weights by side, fitted by `python -m bench.answerable --write`, with measured shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SIDE_MODELS: Final[Mapping[str, Mapping[str, float]]] = {
    "semantic": {"nearest": 9.7120, "lead": 3.7280, "constant": -5.7286},
    "keyword": {"share": 17.0368, "constant": -3.9903},
    "hybrid": {"nearest": 6.0159, "share": 13.4567, "constant": -6.4011},
}
# Share of held-out questions with an answer, by side and verdict.
ANSWERED_SHARES: Final[Mapping[str, Mapping[str, float]]] = {
    "semantic": {"likely": 0.73, "unclear": 0.48, "unlikely": 0.18},
    "keyword": {"likely": 0.84, "unclear": 0.63, "unlikely": 0.11},
    "hybrid": {"likely": 0.83, "unclear": 0.67, "unlikely": 0.14},
}
