"""Size requests to an embedding vendor: tokens by estimate and by the vendor's counts, and packing by its limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from retrieval.ingestion.chunking.tokenizer import tokenizer_for

# Smaller requests do not correct the estimate.
MIN_CALIBRATION_TOKENS = 20_000
# As `retrieval.job_config.Ingestion.chunk_size`.
USUAL_TEXT_TOKENS = 1000
# Bounds of the vendor's count for each estimated token.
MIN_TOKENS_PER_ESTIMATE, MAX_TOKENS_PER_ESTIMATE = 0.25, 4.0
SAFETY_FACTOR = 1.01
# The fallback tokenizer counts an unknown word as one token.
MAX_BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits of a vendor: texts and tokens of a request, concurrent requests, and requests or texts per minute.

    `tokens`: of all texts together, as the vendor counts them; None without a limit. `by_text`: `per_minute` counts
    texts.
    """

    texts: int
    tokens: int | None
    concurrent: int = 16
    per_minute: float = 3000
    by_text: bool = False

    @property
    def usual_texts(self) -> int:
        """Number of texts of a usual length that fill a request."""
        return self.texts if self.tokens is None else min(self.texts, self.tokens // USUAL_TEXT_TOKENS)


def estimate_tokens(provider: str, model: str, texts: Sequence[str]) -> list[int]:
    """Estimate the tokens that the vendor will count, by the tokenizer closest to the model's own."""
    spans = tokenizer_for(provider, model).spans(texts)
    return [
        max(len(text_spans), -(-len(text.encode("utf-8", "replace")) // MAX_BYTES_PER_TOKEN))
        for text_spans, text in zip(spans, texts, strict=True)
    ]


class RequestPacker:
    """Pack texts into requests within the vendor's limits, by token estimates calibrated with the vendor's counts."""

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self._tokens_per_estimate = 1.0
        self.needs_calibration = limits.tokens is not None

    def calibrate(self, estimated: int, counted: int) -> None:
        """Correct later estimates by the vendor's token count of one request."""
        if estimated >= MIN_CALIBRATION_TOKENS:
            self._tokens_per_estimate = min(MAX_TOKENS_PER_ESTIMATE, max(MIN_TOKENS_PER_ESTIMATE, counted / estimated))
            self.needs_calibration = False

    def pack(self, sizes: Sequence[int], max_texts: int | None = None) -> list[list[int]]:
        """Return the positions of the texts, in order, by request; `sizes`: estimated tokens of each text."""
        limits = self._limits if max_texts is None else replace(self._limits, texts=min(max_texts, self._limits.texts))
        if limits.tokens is None:
            return pack_texts(sizes, limits)
        tokens = int(limits.tokens / (self._tokens_per_estimate * SAFETY_FACTOR))
        return pack_texts(sizes, replace(limits, tokens=tokens))


def pack_texts(sizes: Sequence[int], limits: RequestLimits) -> list[list[int]]:
    """Return the positions of the texts, in order, by request; a text above the limit has a request of its own."""
    requests: list[list[int]] = []
    tokens_left = 0
    for position, size in enumerate(sizes):
        is_full = not requests or len(requests[-1]) >= limits.texts
        if is_full or (limits.tokens is not None and size > tokens_left):
            requests.append([])
            tokens_left = limits.tokens or 0
        requests[-1].append(position)
        tokens_left -= size
    return requests
