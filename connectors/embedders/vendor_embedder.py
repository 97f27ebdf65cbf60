"""Embedding model of a vendor: packed parallel requests, learned limits, isolated texts, checked answers."""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from connectors.embedders.refusals import MODEL_FIELD, TextsRefused
from connectors.embedders.request_sizing import RequestLimits, RequestPacker, estimate_tokens
from connectors.http import retries
from connectors.http.retries import MAX_RETRY_SECONDS, MAX_TRIES, Bucket, InputFault, Retries, Timeout, TransientError
from retrieval import tracing
from retrieval.errors import Fatal, NotEmbedded

if TYPE_CHECKING:
    from connectors.embedders.server_limits import ServerLimits
    from retrieval.ports import Embeddings, TextKind

# One request: vectors in order and counted tokens (0: unknown). RateLimited, TransientError, TextsRefused or Fatal.
EmbeddingRequest = Callable[[Sequence[str], "TextKind"], tuple["list[Any]", int]]

# Both tries of a query end before the search times out.
REQUEST_SECONDS: Mapping[TextKind, float] = {"document": 60.0, "query": 7.0}
# 512 vectors of 2,048 numbers are 23 MB of text; 2,048 vectors of 3,072 numbers are 34 MB of base64.
MAX_RESPONSE_BYTES = 64 * 2**20
# A long text is cut to this share, at most so many times.
_CUT_SHARE, _MAX_CUTS = 0.75, 12
# Shorter texts, in characters, are never too long.
_MIN_CUT_CHARACTERS = 200
# Every model embeds this text: a failure is the vendor's.
KNOWN_GOOD_TEXT = "check"
# Texts of a request to isolate as faulty without an embedded one, and embedded texts per further faulty one. The rest
# fails together, to bound the number of requests.
MAX_FAULTS = 4
PASSED_PER_FAULT = 4


@dataclass(slots=True)
class _Result:
    """Vectors of embedded texts in order, and reasons of failed texts by position."""

    parts: list[Embeddings]
    faults: dict[int, str]

    @property
    def passed(self) -> int:
        return sum(len(part) for part in self.parts)

    def add_fault(self, start: int, count: int, reason: str) -> None:
        """Record `count` failed texts from position `start`."""
        if count > 1:
            reason = f"{reason} It was sent with others, after {len(self.faults)} texts had failed one by one."
        self.faults |= dict.fromkeys(range(start, start + count), reason)


class VendorEmbedder:
    """Embedding model of a vendor. Thread-safe, with one rate limit."""

    def __init__(
        self,
        *,
        provider: str,
        title: str,
        model: str,
        dimensions: int | None,
        max_tokens: int,
        limits: RequestLimits,
        server: ServerLimits,
        send: EmbeddingRequest,
        close: Callable[[], None],
        prefixes: Mapping[TextKind, str] | None = None,
    ) -> None:
        self.provider = provider
        self.model = model
        self._prefixes = prefixes or {}
        self.passage_prefix = self._prefixes.get("document", "")
        self.batch_size = limits.usual_texts
        self.calls = limits.concurrent
        self._title = title
        self._dimensions = dimensions
        self._limits = limits
        self._server = server
        self._size_trial = threading.Lock()
        self._send_request = send
        self._packer = RequestPacker(limits)
        self.close = close
        importlib.import_module("numpy")
        # Estimating loads the tokenizer now, outside of the first request's time.
        prefix_tokens = estimate_tokens(provider, model, [self.passage_prefix or " "])[0]
        self._prefix_tokens = prefix_tokens if self.passage_prefix else 0
        self._max_model_tokens = max_tokens
        self._bucket = Bucket(limits.per_minute, limits.texts if limits.by_text else limits.concurrent)

    def __repr__(self) -> str:
        return f"<{self._title} {self.model}>"

    @property
    def max_tokens(self) -> int:
        """Tokens of a text without the prefix."""
        return self._token_limit() - self._prefix_tokens

    def _token_limit(self) -> int:
        return min(self._max_model_tokens, self._server.learned.tokens or self._max_model_tokens)

    @property
    def dimensions(self) -> int:
        """Dimensions of the model; an unknown model is probed once."""
        if self._dimensions is None:
            self._dimensions = self.embed(["dimensions"], "query").shape[1]
        return self._dimensions

    def embed(self, texts: Sequence[str], kind: TextKind) -> Embeddings:
        """Return a vector of length 1 per text. NotEmbedded, with the other vectors, for faulty texts; Retryable or
        Fatal for the vendor."""
        import numpy as np

        if not texts:
            return np.empty((0, self.dimensions), dtype=np.float32)
        prefixed = self._prefixed(texts, kind)
        sizes = estimate_tokens(self.provider, self.model, prefixed)
        requests = self._packer.pack(sizes, self._server.texts)
        results: list[_Result] = []
        lengths: list[int] = []
        if self._packer.needs_calibration and len(requests) > 1:
            lengths.append(len(requests[0]))
            results.append(self._embed_batch(prefixed[: lengths[0]], kind))
            prefixed = prefixed[lengths[0] :]
            requests = self._packer.pack(sizes[lengths[0] :], self._server.texts)
        with ThreadPoolExecutor(min(len(requests), self._limits.concurrent), thread_name_prefix="embed") as pool:
            batches = [[prefixed[number] for number in request] for request in requests]
            lengths += map(len, batches)
            contexts = [copy_context() for _ in batches]
            results += pool.map(lambda context, batch: context.run(self._embed_batch, batch, kind), contexts, batches)
        parts = [part for result in results for part in result.parts]
        vectors = self._unit(np.concatenate(parts)) if parts else np.empty((0, self._dimensions or 0), dtype=np.float32)
        starts = accumulate(lengths, initial=0)
        faults = {
            start + position: reason
            for start, result in zip(starts, results, strict=False)
            for position, reason in result.faults.items()
        }
        if faults:
            raise NotEmbedded(faults, vectors)
        return vectors

    def _prefixed(self, texts: Sequence[str], kind: TextKind) -> list[str]:
        prefix = self._prefixes.get(kind, "")
        # Vendors refuse empty texts.
        return [prefix + (text if text.strip() else " ") for text in texts]

    def count_requests(self, texts: Sequence[str]) -> int:
        """Estimate the number of requests of `embed` for these texts."""
        sizes = estimate_tokens(self.provider, self.model, self._prefixed(texts, "document"))
        return len(self._packer.pack(sizes, self._server.texts))

    def check(self) -> None:
        """Embed two words, the smallest batch. Fatal or Retryable."""
        self.embed(["check", "batch"], "query")

    def _embed_batch(self, texts: list[str], kind: TextKind) -> _Result:
        # Batches of documents try a new size one by one: all learn from one refusal. Queries never wait.
        if kind == "document" and self._server.is_untried(len(texts)):
            with self._size_trial:
                self._server.reload()
                if self._server.is_untried(len(texts)):
                    return self._embed_in_parts(texts, kind)
        return self._embed_in_parts(texts, kind)

    def _embed_in_parts(self, texts: list[str], kind: TextKind) -> _Result:
        """Send requests, and halve the size after a refusal or failure until success."""
        limit = min(len(texts), self._server.texts or len(texts))
        size, start, largest, too_many, is_isolating = limit, 0, 0, False, False
        result = _Result([], {})
        while start < len(texts):
            part = [self._clip(text) for text in texts[start : start + size]]
            is_bounded = len(result.faults) < MAX_FAULTS + result.passed // PASSED_PER_FAULT
            try:
                result.parts.append(self._send(part, kind))
                largest = max(largest, len(part))
                size = min(limit, size * 2) if is_isolating else size
            except TextsRefused as refusal:
                if len(part) > 1 and (is_bounded or refusal.is_size):
                    if refusal.is_size and self._learn_length(max(part, key=len), kind):
                        continue
                    size = len(part) // 2
                    too_many = too_many or not refusal.is_tokens
                    continue
                size, too_many = limit, False
                if not self._embed_shortened(result, part, start, kind, refusal):
                    size, is_isolating = 2, True
            except InputFault as fault:
                if len(part) > 1 and is_bounded:
                    size = len(part) // 2
                    # A slow server answers half as many texts in time.
                    too_many = too_many or isinstance(fault.__cause__, Timeout)
                    continue
                if len(part) == 1:
                    self._retry_text(part[0], kind, result, start)
                else:
                    result.add_fault(start, len(part), str(fault))
                # Neighbours often fail for the same reason: requests grow again from two texts.
                size, too_many, is_isolating = 2, False, True
            size = size if is_bounded else limit
            start += len(part)
        # Not for a single long text, which is cut, nor for a single faulty one, which is skipped.
        if too_many:
            self._server.learn(texts=largest)
        self._server.note_passed(largest)
        return result

    def _embed_shortened(
        self, result: _Result, part: Sequence[str], start: int, kind: TextKind, refusal: TextsRefused
    ) -> bool:
        """Embed the beginning of a refused text, or record the reason and return False."""
        try:
            if len(part) == 1:
                result.parts.append(self._shorten(part[0], kind, refusal))
                return True
            reason = str(refusal.error)
        except InputFault as fault:
            reason = str(fault)
        result.add_fault(start, len(part), reason)
        return False

    def _retry_text(self, text: str, kind: TextKind, result: _Result, position: int) -> None:
        """Embed a failed text after a pause, or record the reason."""
        time.sleep(retries.FIRST_PAUSE_SECONDS)
        try:
            result.parts.append(self._send([text], kind))
        except TextsRefused as refusal:
            result.add_fault(position, 1, str(refusal.error))
        except InputFault as fault:
            result.add_fault(position, 1, str(fault))

    def _send(self, texts: Sequence[str], kind: TextKind) -> Embeddings:
        """Send one request with retries. TextsRefused, InputFault, Retryable or Fatal."""
        return self._retries(len(texts), kind).call(
            lambda: self._check_vectors(self._send_and_calibrate(texts, kind), len(texts)), self._embed_known_good
        )

    def _embed_known_good(self) -> None:
        try:
            vectors, _ = self._send_request(self._prefixed([KNOWN_GOOD_TEXT], "query"), "query")
        except TextsRefused as refusal:
            raise refusal.error from refusal
        self._check_vectors(vectors, 1)

    def _clip(self, text: str) -> str:
        """Cut a text to the learned token limit of the server."""
        limit = self._server.learned.tokens
        if limit is None or len(text) <= limit:
            return text
        tokens = estimate_tokens(self.provider, self.model, [text])[0]
        return text if tokens <= limit else text[: len(text) * limit // tokens]

    def _learn_length(self, text: str, kind: TextKind) -> bool:
        """Return True if the longest text of a refused request lowered the token limit."""
        try:
            self._send([text], kind)
        except TextsRefused as refusal:
            limit = self._token_limit()
            with suppress(InputFault):
                self._shorten(text, kind, refusal)
            return self._token_limit() < limit
        except InputFault:
            return False
        return False

    def _shorten(self, text: str, kind: TextKind, refusal: TextsRefused) -> Embeddings:
        """Embed the beginning of a text above the model's limit, as local models do. InputFault."""
        if not refusal.is_size or len(text) < _MIN_CUT_CHARACTERS:
            # Without an embedded known good text, the configuration is wrong.
            self._retries(1, "query").call(self._embed_known_good)
            raise InputFault(str(refusal.error)) from refusal
        for _ in range(_MAX_CUTS):
            text = text[: int(len(text) * _CUT_SHARE)]
            if not text:
                break
            try:
                vectors = self._send([text], kind)
            except TextsRefused:
                continue
            tokens = estimate_tokens(self.provider, self.model, [text])[0]
            # Far below the limit, the estimate of this text is wrong and teaches nothing.
            if self._token_limit() > tokens >= self._token_limit() // 2:
                self._server.learn(tokens=tokens)
            return vectors
        raise InputFault(f"{self._title} refuses it as too long, however much it is shortened: lower the chunkSize.")

    def _retries(self, texts: int, kind: TextKind) -> Retries:
        cost = texts if self._limits.by_text else 1
        about = tracing.describe_embedding(self.provider, self.model)
        return Retries(self._title, self._bucket, MAX_RETRY_SECONDS[kind], MAX_TRIES[kind], cost, about)

    def _send_and_calibrate(self, texts: Sequence[str], kind: TextKind) -> list[Any]:
        vectors, counted = self._send_request(texts, kind)
        if counted:
            self._packer.calibrate(sum(estimate_tokens(self.provider, self.model, texts)), counted)
        return vectors

    def _check_vectors(self, vectors: Sequence[Any], count: int) -> Embeddings:
        """Convert `count` vectors of the model's dimensions to numbers. Fatal or TransientError."""
        import numpy as np

        if len(vectors) != count:
            raise TransientError(f"{self._title} answered with {len(vectors)} vectors where {count} were due.")
        try:
            array = np.asarray(vectors, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise TransientError(
                f"{self._title} answered with vectors of different sizes, or with no numbers."
            ) from error
        if array.ndim != 2 or not array.shape[1] or not np.isfinite(array).all():
            raise TransientError(f"{self._title} answered with numbers that are not finite.")
        if self._dimensions is not None and array.shape[1] != self._dimensions:
            raise Fatal(
                f"{self._title} answered with vectors of {array.shape[1]} dimensions where its model {self.model} makes"
                f" {self._dimensions}. Check the model, or the server that the endpoint leads to.",
                field=MODEL_FIELD,
            )
        self._dimensions = array.shape[1]
        return array

    @staticmethod
    def _unit(vectors: Embeddings) -> Embeddings:
        import numpy as np

        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.where(lengths > 0, lengths, 1), dtype=np.float32)
