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
from connectors.http.retries import TRIES, WAITING, Bucket, InputFault, Retries, Timeout, TransientError
from retrieval import tracing
from retrieval.errors import Fatal, NotEmbedded

if TYPE_CHECKING:
    from connectors.embedders.server_limits import ServerLimits
    from retrieval.ports import Embeddings, TextKind

Ask = Callable[[Sequence[str], "TextKind"], tuple["list[Any]", int]]
"""One request: vectors in order, tokens counted (0: unknown). RateLimited, TransientError, TextsRefused or Fatal."""

SECONDS: Mapping[TextKind, float] = {"document": 60.0, "query": 7.0}
"""How long a vendor may take to answer one request: both tries of a query end before the search is given up."""
MOST_BYTES = 64 * 2**20
"""Of an answer: 512 vectors of 2,048 numbers have 23 MB as text, 2,048 of 3,072 have 34 MB in base64."""
_SHORTER, _CUTS = 0.75, 12
_SHORTEST = 200
"""Characters: a text below that is never too long."""
KNOWN_GOOD_TEXT = "check"
"""Text that every model embeds: if it fails as well, the vendor is at fault and not the text of a request."""
MAX_FAULTS = 4
"""Texts of one request that are isolated as not embeddable, where no other text of it is embedded …"""
PASSED_PER_FAULT = 4
"""… and one more for so many embedded texts: what remains fails together, so that the number of requests is bounded."""


@dataclass(slots=True)
class _Result:
    """Vectors of the embedded texts, in order, and the reason for each other text, by its position."""

    parts: list[Embeddings]
    faults: dict[int, str]

    @property
    def passed(self) -> int:
        return sum(len(part) for part in self.parts)

    def add_fault(self, begun: int, count: int, reason: str) -> None:
        """Record texts that are not embedded, from position `begun` on."""
        if count > 1:
            reason = f"{reason} It was sent with others, after {len(self.faults)} texts had failed one by one."
        self.faults |= dict.fromkeys(range(begun, begun + count), reason)


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
        limits: RequestLimits,
        server: ServerLimits,
        ask: Ask,
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
        self._known = dimensions
        self._limits = limits
        self._server = server
        self._trial = threading.Lock()
        self._ask = ask
        self._packer = RequestPacker(limits)
        self.close = close
        importlib.import_module("numpy")
        # What this loads is not loaded within the first request's time.
        prefix_tokens = estimate_tokens(provider, model, [self.passage_prefix or " "])[0]
        self._prefix_tokens = prefix_tokens if self.passage_prefix else 0
        self._most_tokens = max_tokens
        self._bucket = Bucket(limits.per_minute, limits.texts if limits.by_text else limits.concurrent)

    def __repr__(self) -> str:
        return f"<{self._title} {self.model}>"

    @property
    def max_tokens(self) -> int:
        """Tokens that fit into a text beside its prefix."""
        return self._limit_tokens() - self._prefix_tokens

    def _limit_tokens(self) -> int:
        return min(self._most_tokens, self._server.learned.tokens or self._most_tokens)

    @property
    def dimensions(self) -> int:
        """Dimensions of the model; a model that is not in our table is probed once."""
        if self._known is None:
            self._known = self.embed(["dimensions"], "query").shape[1]
        return self._known

    def embed(self, texts: Sequence[str], kind: TextKind) -> Embeddings:
        """Vectors of length 1, one a text, in order; an empty text has the vector of a space, as vendors refuse it.

        NotEmbedded, with the vectors of the others, if the vendor fails some texts and answers others.
        """
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
            results.append(self._request(prefixed[: lengths[0]], kind))
            prefixed = prefixed[lengths[0] :]
            requests = self._packer.pack(sizes[lengths[0] :], self._server.texts)
        with ThreadPoolExecutor(min(len(requests), self._limits.concurrent), thread_name_prefix="embed") as pool:
            batches = [[prefixed[number] for number in request] for request in requests]
            lengths += map(len, batches)
            contexts = [copy_context() for _ in batches]
            results += pool.map(lambda context, batch: context.run(self._request, batch, kind), contexts, batches)
        parts = [part for result in results for part in result.parts]
        vectors = self._unit(np.concatenate(parts)) if parts else np.empty((0, self._known or 0), dtype=np.float32)
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
        return [prefix + (text if text.strip() else " ") for text in texts]

    def count_requests(self, texts: Sequence[str]) -> int:
        """Number of requests that `embed` makes of these texts, estimated by their size."""
        sizes = estimate_tokens(self.provider, self.model, self._prefixed(texts, "document"))
        return len(self._packer.pack(sizes, self._server.texts))

    def check(self) -> None:
        """Raise Fatal or Retryable unless two words, the smallest batch, can be embedded now."""
        self.embed(["check", "batch"], "query")

    def _request(self, texts: list[str], kind: TextKind) -> _Result:
        """Send one request, or as many as the server takes. Documents try a new size one after another, so that one
        refusal serves all of them. Queries never wait for that."""
        if kind == "document" and self._server.is_untried(len(texts)):
            with self._trial:
                self._server.reload()
                if self._server.is_untried(len(texts)):
                    return self._sized(texts, kind)
        return self._sized(texts, kind)

    def _sized(self, texts: list[str], kind: TextKind) -> _Result:
        """Send requests of half the size where one is refused or fails, until they pass.

        A size that the server refuses is remembered. A text that is too long by itself is shortened, and one that
        fails by itself is left out: both are no reason for smaller requests.
        """
        limit = min(len(texts), self._server.texts or len(texts))
        size, begun, largest, too_many, is_isolating = limit, 0, 0, False, False
        result = _Result([], {})
        while begun < len(texts):
            part = [self._clip(text) for text in texts[begun : begun + size]]
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
                if not self._shorten_into(result, part, begun, kind, refusal):
                    size, is_isolating = 2, True
            except InputFault as fault:
                if len(part) > 1 and is_bounded:
                    size = len(part) // 2
                    # A slow server answers half as many texts in time.
                    too_many = too_many or isinstance(fault.__cause__, Timeout)
                    continue
                if len(part) == 1:
                    self._send_again(part[0], kind, result, begun)
                else:
                    result.add_fault(begun, len(part), str(fault))
                # Neighbours often fail for the same reason: requests grow again from two texts.
                size, too_many, is_isolating = 2, False, True
            size = size if is_bounded else limit
            begun += len(part)
        if too_many:
            self._server.learn(texts=largest)
        self._server.note_passed(largest)
        return result

    def _shorten_into(
        self, result: _Result, part: Sequence[str], begun: int, kind: TextKind, refusal: TextsRefused
    ) -> bool:
        """Embed a refused text by its beginning, or record why it cannot be embedded; False for the latter."""
        try:
            if len(part) == 1:
                result.parts.append(self._shortened(part[0], kind, refusal))
                return True
            reason = str(refusal.error)
        except InputFault as fault:
            reason = str(fault)
        result.add_fault(begun, len(part), reason)
        return False

    def _send_again(self, text: str, kind: TextKind, result: _Result, position: int) -> None:
        """Embed a text that has failed by itself, or record why it cannot be embedded."""
        time.sleep(retries.FIRST_PAUSE)
        try:
            result.parts.append(self._send([text], kind))
        except TextsRefused as refusal:
            result.add_fault(position, 1, str(refusal.error))
        except InputFault as fault:
            result.add_fault(position, 1, str(fault))

    def _send(self, texts: Sequence[str], kind: TextKind) -> Embeddings:
        """Send one request, repeated during an outage. TextsRefused, InputFault, Retryable or Fatal."""
        return self._retries(len(texts), kind).ask(
            lambda: self._checked(self._metered(texts, kind), len(texts)), self._embed_known_good
        )

    def _embed_known_good(self) -> None:
        try:
            vectors, _ = self._ask(self._prefixed([KNOWN_GOOD_TEXT], "query"), "query")
        except TextsRefused as refusal:
            raise refusal.error from refusal
        self._checked(vectors, 1)

    def _clip(self, text: str) -> str:
        """The beginning of a text that has more tokens than the server has been seen to accept."""
        limit = self._server.learned.tokens
        if limit is None or len(text) <= limit:
            return text
        tokens = estimate_tokens(self.provider, self.model, [text])[0]
        return text if tokens <= limit else text[: len(text) * limit // tokens]

    def _learn_length(self, text: str, kind: TextKind) -> bool:
        """Tell whether the longest text of a refused request is too long by itself, and is clipped from now on."""
        try:
            self._send([text], kind)
        except TextsRefused as refusal:
            limit = self._limit_tokens()
            with suppress(InputFault):
                self._shortened(text, kind, refusal)
            return self._limit_tokens() < limit
        except InputFault:
            return False
        return False

    def _shortened(self, text: str, kind: TextKind, refusal: TextsRefused) -> Embeddings:
        """A text above the model's limit is embedded by its beginning, as models that run here do; else InputFault.

        Its length is remembered, but for texts that are far below the limit and have more tokens than is estimated.
        """
        if not refusal.is_size or len(text) < _SHORTEST:
            # The vendor refuses every text, and the configuration is wrong, unless it embeds a known good one.
            self._retries(1, "query").ask(self._embed_known_good)
            raise InputFault(str(refusal.error)) from refusal
        for _ in range(_CUTS):
            text = text[: int(len(text) * _SHORTER)]
            if not text:
                break
            try:
                vectors = self._send([text], kind)
            except TextsRefused:
                continue
            tokens = estimate_tokens(self.provider, self.model, [text])[0]
            if self._limit_tokens() > tokens >= self._limit_tokens() // 2:
                self._server.learn(tokens=tokens)
            return vectors
        raise InputFault(f"{self._title} refuses it as too long, however much it is shortened: lower the chunkSize.")

    def _retries(self, texts: int, kind: TextKind) -> Retries:
        cost = texts if self._limits.by_text else 1
        about = tracing.describe_embedding(self.provider, self.model)
        return Retries(self._title, self._bucket, WAITING[kind], TRIES[kind], cost, about)

    def _metered(self, texts: Sequence[str], kind: TextKind) -> list[Any]:
        vectors, counted = self._ask(texts, kind)
        if counted:
            self._packer.calibrate(sum(estimate_tokens(self.provider, self.model, texts)), counted)
        return vectors

    def _checked(self, vectors: Sequence[Any], count: int) -> Embeddings:
        """Convert to numbers; Fatal or TransientError for anything that is not `count` vectors of the model's size."""
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
        if self._known is not None and array.shape[1] != self._known:
            raise Fatal(
                f"{self._title} answered with vectors of {array.shape[1]} dimensions where its model {self.model} makes"
                f" {self._known}. Check the model, or the server that the endpoint leads to.",
                field=MODEL_FIELD,
            )
        self._known = array.shape[1]
        return array

    @staticmethod
    def _unit(vectors: Embeddings) -> Embeddings:
        import numpy as np

        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.where(lengths > 0, lengths, 1), dtype=np.float32)
