"""What all embedding vendors have in common: packed parallel requests, checked answers, errors."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import structlog

from connectors.embedders.packing import Limits, Meter, estimate
from connectors.http.responses import transient_error
from connectors.http.retries import TRIES, WAITING, Bucket, Retries
from retrieval.errors import Fatal, Retryable

if TYPE_CHECKING:
    from retrieval.ports import Embeddings, TextKind

log = structlog.get_logger()

Ask = Callable[[Sequence[str], "TextKind"], tuple["list[Any]", int]]
"""One request of one vendor: the vectors of the texts, in order, and the tokens that it counted (0: it does not say).

Raises Busy, Passing, TooMuch or Fatal.
"""

KEY_FIELD = "embeddingModelConfig.apiKey"
MODEL_FIELD = "embeddingModelConfig.model"
MOST_BYTES = 64 * 2**20
"""Of an answer: 512 vectors of 2,048 numbers have 23 MB as text, 2,048 of 3,072 have 34 MB in base64."""
_SHORTER = 0.75
_CUTS = 12
_OF_SIZE = ("token", "too long", "too large", "length", "exceed")


class TooMuch(Exception):
    """The vendor takes no request of this size: fewer texts, or a shorter one."""


class VendorEmbedder:
    """An embedding model of a vendor. Safe to use from several threads, which share its rate."""

    def __init__(
        self,
        *,
        provider: str,
        title: str,
        model: str,
        dimensions: int | None,
        max_tokens: int,
        limits: Limits,
        ask: Ask,
        close: Callable[[], None],
    ) -> None:
        self.provider = provider
        self.model = model
        self.max_tokens = max_tokens
        self.batch_size = limits.full
        self.calls = limits.concurrent
        self._title = title
        self._known = dimensions
        self._limits = limits
        self._ask = ask
        self._meter = Meter(limits)
        self.close = close
        importlib.import_module("numpy")
        estimate(provider, model, [" "])  # what is loaded here is not loaded within the first request's time
        self._bucket = Bucket(limits.per_minute, limits.texts if limits.by_text else limits.concurrent)

    def __repr__(self) -> str:
        return f"<{self._title} {self.model}>"

    @property
    def dimensions(self) -> int:
        """Of the model; one that is not in our table is asked once."""
        if self._known is None:
            self._known = len(self._request(["dimensions"], "query")[0])
        return self._known

    def embed(self, texts: Sequence[str], kind: TextKind) -> Embeddings:
        """Vectors of length 1, one a text, in order; an empty text has the vector of a space, as vendors refuse it."""
        import numpy as np

        if not texts:
            return np.empty((0, self.dimensions), dtype=np.float32)
        sent = [text if text.strip() else " " for text in texts]
        sizes = estimate(self.provider, self.model, sent)
        requests = self._meter.pack(sizes)
        parts: list[Embeddings] = []
        if self._meter.unsure and len(requests) > 1:
            parts.append(self._request(sent[: len(requests[0])], kind))
            sent = sent[len(requests[0]) :]
            requests = self._meter.pack(sizes[len(requests[0]) :])
        with ThreadPoolExecutor(min(len(requests), self._limits.concurrent), thread_name_prefix="embed") as pool:
            texts_of = [[sent[number] for number in request] for request in requests]
            parts += pool.map(
                lambda own, part: own.run(self._request, part, kind), [copy_context() for _ in texts_of], texts_of
            )
        return self._unit(np.concatenate(parts))

    def requests(self, texts: Sequence[str]) -> int:
        """How many requests `embed` makes of these texts, by what is known of their size."""
        return len(self._meter.pack(estimate(self.provider, self.model, texts)))

    def check(self) -> None:
        """Raise Fatal or Retryable unless one word can be embedded now."""
        self.embed(["check"], "query")

    def _request(self, texts: list[str], kind: TextKind) -> Embeddings:
        """One request; halved, or its only text shortened, where the vendor finds it too large."""
        import numpy as np

        retries = self._retries(len(texts), kind)
        try:
            return self._checked(retries.ask(lambda: self._metered(texts, kind)), len(texts))
        except TooMuch:
            if len(texts) == 1:
                return self._shortened(texts[0], kind)
        half = len(texts) // 2
        return np.concatenate([self._request(texts[:half], kind), self._request(texts[half:], kind)])

    def _shortened(self, text: str, kind: TextKind) -> Embeddings:
        """A text above the model's limit is embedded by its beginning, as models that run here do."""
        retries = self._retries(1, kind)
        for _ in range(_CUTS):
            text = text[: int(len(text) * _SHORTER)]
            if not text:
                break
            shorter = text
            try:
                return self._checked(retries.ask(lambda shorter=shorter: self._metered([shorter], kind)), 1)  # type: ignore[misc]
            except TooMuch:
                continue
        raise Fatal(f"{self._title} refuses a chunk as too long, however much it is shortened: lower the chunkSize.")

    def _retries(self, texts: int, kind: TextKind) -> Retries:
        cost = texts if self._limits.by_text else 1
        return Retries(self._title, self._bucket, WAITING[kind], TRIES[kind], cost)

    def _metered(self, texts: Sequence[str], kind: TextKind) -> list[Any]:
        vectors, counted = self._ask(texts, kind)
        if counted:
            self._meter.learn(sum(estimate(self.provider, self.model, texts)), counted)
        return vectors

    def _checked(self, vectors: Sequence[Any], count: int) -> Embeddings:
        """As numbers; Fatal or Retryable for anything that is not `count` vectors of the model's size."""
        import numpy as np

        if len(vectors) != count:
            raise Retryable(f"{self._title} answered with {len(vectors)} vectors where {count} were due.")
        try:
            made = np.asarray(vectors, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise Retryable(f"{self._title} answered with vectors of different sizes, or with no numbers.") from error
        if made.ndim != 2 or (self._known is not None and made.shape[1] != self._known):
            size = made.shape[-1] if made.ndim == 2 else 0
            raise Fatal(
                f"{self._title} answered with vectors of {size} dimensions where its model {self.model} makes"
                f" {self._known}. Check the model, or the server that the endpoint leads to.",
                field=MODEL_FIELD,
            )
        if not np.isfinite(made).all():
            raise Retryable(f"{self._title} answered with numbers that are not finite.")
        return made

    @staticmethod
    def _unit(vectors: Embeddings) -> Embeddings:
        import numpy as np

        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def understand(title: str, status: int, said: str, headers: Mapping[str, str]) -> Exception:
    """What a refusal means. `said`: the vendor's own code and text, looked through for a few words and never shown."""
    if "insufficient_quota" in said:
        status = 402
    if status == 413 or (status in {400, 422} and any(word in said.lower() for word in _OF_SIZE)):
        return TooMuch()
    if error := transient_error(title, status, headers, passing={409}):
        return error
    message, field = _REFUSALS.get(status, _ODD)
    return Fatal(message.format(title=title, status=status, key=KEY_FIELD, model=MODEL_FIELD), field=field)


_REFUSALS: Mapping[int, tuple[str, str]] = {
    400: ("{title} does not take the request: check {model}, or the endpoint.", MODEL_FIELD),
    401: ("{title} refuses the key in {key}: check it, and what it may do.", KEY_FIELD),
    402: ("The account at {title} has no credit left: add some there, or use another key.", KEY_FIELD),
    403: ("{title} refuses the key in {key}: check it, and what it may do.", KEY_FIELD),
    404: ("{title} has no such model for this key: check {model}.", MODEL_FIELD),
    422: ("{title} does not take the request: check {model}, or the endpoint.", MODEL_FIELD),
}
_ODD = ("{title} answered with the unexpected status {status}: check the endpoint.", MODEL_FIELD)
