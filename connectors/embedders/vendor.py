"""Embedding vendors: packed parallel requests, limits learnt from refusals and kept in the home, checked answers."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from connectors.http.responses import transient_error
from connectors.http.retries import TRIES, WAITING, Bucket, Retries
from retrieval import tracing
from retrieval.errors import Fatal, Retryable
from retrieval.ingestion.chunking.tokenizer import tokenizer_for

if TYPE_CHECKING:
    from connectors.embedders.server_limits import ServerLimits
    from retrieval.ports import Embeddings, TextKind

LESSON = 20_000
"""Tokens of a request whose count is worth learning from."""
USUAL = 1000
"""Tokens of a chunk, unless a client asks for others."""
ROOM = 1.01
BYTES_A_TOKEN = 4
"""No fewer tokens than this are assumed: the fallback tokenizer takes a word that it does not know for one token."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one request. `tokens`: of all its texts together, as the vendor counts; None without such a limit.

    `concurrent`: requests at once; `per_minute`: requests that are begun in a minute, or `by_text`: the texts in them.
    """

    texts: int
    tokens: int | None
    concurrent: int = 16
    per_minute: float = 3000
    by_text: bool = False

    @property
    def full(self) -> int:
        """About how many texts of a usual length fill a request."""
        return self.texts if self.tokens is None else min(self.texts, self.tokens // USUAL)


def estimate_tokens(provider: str, model: str, texts: Sequence[str]) -> list[int]:
    """Estimate the tokens that the vendor will count, by the tokenizer closest to the model's own."""
    spans = tokenizer_for(provider, model).spans(texts)
    return [
        max(len(text_spans), -(-len(text.encode("utf-8", "replace")) // BYTES_A_TOKEN))
        for text_spans, text in zip(spans, texts, strict=True)
    ]


class Meter:
    """Learns from a vendor's own counts how many tokens an estimated one is, so that requests are filled and fit."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._ratio = 1.0
        self.unsure = limits.tokens is not None
        """Nothing was learnt yet: the first of several requests goes alone."""

    def learn(self, estimated: int, counted: int) -> None:
        """Learn from the estimate and the vendor's count of one request. Small requests have little weight."""
        if estimated >= LESSON:
            self._ratio = min(4.0, max(0.25, counted / estimated))
            self.unsure = False

    def pack(self, sizes: Sequence[int], texts: int | None = None) -> list[list[int]]:
        """`pack` by what was learnt, with a little room left, and `texts` a request at most where that is known."""
        limits = self._limits if texts is None else replace(self._limits, texts=min(texts, self._limits.texts))
        if limits.tokens is None:
            return pack_texts(sizes, limits)
        return pack_texts(sizes, replace(limits, tokens=int(limits.tokens / (self._ratio * ROOM))))


def pack_texts(sizes: Sequence[int], limits: Limits) -> list[list[int]]:
    """The texts' numbers, in order, cut into requests. A text larger than a request travels alone."""
    requests: list[list[int]] = []
    room = 0
    for number, size in enumerate(sizes):
        if not requests or len(requests[-1]) >= limits.texts or (limits.tokens is not None and size > room):
            requests.append([])
            room = limits.tokens or 0
        requests[-1].append(number)
        room -= size
    return requests


Ask = Callable[[Sequence[str], "TextKind"], tuple["list[Any]", int]]
"""One request: vectors in order, and tokens counted (0: not said). RateLimited, TransientError, BadRequest or Fatal."""

SECONDS: Mapping[TextKind, float] = {"document": 60.0, "query": 7.0}
"""How long a vendor may take to answer one request: both tries of a query end before the search is given up."""
KEY_FIELD = "embeddingModelConfig.apiKey"
MODEL_FIELD = "embeddingModelConfig.model"
MOST_BYTES = 64 * 2**20
"""Of an answer: 512 vectors of 2,048 numbers have 23 MB as text, 2,048 of 3,072 have 34 MB in base64."""
_SHORTER, _CUTS = 0.75, 12
_SHORTEST = 200
"""Characters: a text below that is never too long."""
_OF_SIZE = ("token", "too long", "too large", "length", "exceed", "长", "超")
_MOST_WORDS = 300


class BadRequest(Exception):
    """The vendor refuses the texts of a request: too many, a too long one, or, where it holds a single one, `error`."""

    def __init__(self, error: Fatal, *, of_size: bool, of_tokens: bool) -> None:
        super().__init__(str(error))
        self.error, self.of_size, self.of_tokens = error, of_size, of_tokens


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
        server: ServerLimits,
        ask: Ask,
        close: Callable[[], None],
        prefixes: Mapping[TextKind, str] | None = None,
    ) -> None:
        self.provider = provider
        self.model = model
        self._prefixes = prefixes or {}
        self.passage_prefix = self._prefixes.get("document", "")
        self.batch_size = limits.full
        self.calls = limits.concurrent
        self._title = title
        self._known = dimensions
        self._limits = limits
        self._server = server
        self._trial = threading.Lock()
        self._ask = ask
        self._meter = Meter(limits)
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
            self._known = len(self._request(["dimensions"], "query")[0])
        return self._known

    def embed(self, texts: Sequence[str], kind: TextKind) -> Embeddings:
        """Vectors of length 1, one a text, in order; an empty text has the vector of a space, as vendors refuse it."""
        import numpy as np

        if not texts:
            return np.empty((0, self.dimensions), dtype=np.float32)
        prefixed = self._prefixed(texts, kind)
        sizes = estimate_tokens(self.provider, self.model, prefixed)
        requests = self._meter.pack(sizes, self._server.texts)
        parts: list[Embeddings] = []
        if self._meter.unsure and len(requests) > 1:
            parts.append(self._request(prefixed[: len(requests[0])], kind))
            prefixed = prefixed[len(requests[0]) :]
            requests = self._meter.pack(sizes[len(requests[0]) :], self._server.texts)
        with ThreadPoolExecutor(min(len(requests), self._limits.concurrent), thread_name_prefix="embed") as pool:
            batches = [[prefixed[number] for number in request] for request in requests]
            contexts = [copy_context() for _ in batches]
            parts += pool.map(lambda context, batch: context.run(self._request, batch, kind), contexts, batches)
        return self._unit(np.concatenate(parts))

    def _prefixed(self, texts: Sequence[str], kind: TextKind) -> list[str]:
        prefix = self._prefixes.get(kind, "")
        return [prefix + (text if text.strip() else " ") for text in texts]

    def requests(self, texts: Sequence[str]) -> int:
        """Number of requests that `embed` makes of these texts, estimated by their size."""
        sizes = estimate_tokens(self.provider, self.model, self._prefixed(texts, "document"))
        return len(self._meter.pack(sizes, self._server.texts))

    def check(self) -> None:
        """Raise Fatal or Retryable unless two words, the smallest batch, can be embedded now."""
        self.embed(["check", "batch"], "query")

    def _request(self, texts: list[str], kind: TextKind) -> Embeddings:
        """Send one request, or as many as the server takes. Documents try a new size one after another, so that one
        refusal serves all of them. Queries never wait for that."""
        if kind == "document" and self._server.is_untried(len(texts)):
            with self._trial:
                self._server.reload()
                if self._server.is_untried(len(texts)):
                    return self._sized(texts, kind)
        return self._sized(texts, kind)

    def _sized(self, texts: list[str], kind: TextKind) -> Embeddings:
        """Requests of half the size where one is refused, until they pass; that size is remembered.

        A text that is too long by itself is shortened, and no reason for smaller requests.
        """
        import numpy as np

        limit = min(len(texts), self._server.texts or len(texts))
        size, begun, largest, too_many = limit, 0, 0, False
        parts: list[Embeddings] = []
        while begun < len(texts):
            part = [self._clip(text) for text in texts[begun : begun + size]]
            try:
                vectors = self._retries(len(part), kind).ask(lambda part=part: self._metered(part, kind))  # type: ignore[misc]
                parts.append(self._checked(vectors, len(part)))
                largest = max(largest, len(part))
            except BadRequest as refusal:
                if len(part) > 1:
                    if refusal.of_size and self._learn_length(max(part, key=len), kind):
                        continue
                    size = len(part) // 2
                    too_many = too_many or not refusal.of_tokens
                    continue
                parts.append(self._shortened(part[0], kind, refusal))
                size, too_many = limit, False
            begun += len(part)
        if too_many:
            self._server.learn(texts=largest)
        self._server.note_passed(largest)
        return np.concatenate(parts)

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
            self._retries(1, kind).ask(lambda: self._metered([text], kind))
        except BadRequest as refusal:
            limit = self._limit_tokens()
            self._shortened(text, kind, refusal)
            return self._limit_tokens() < limit
        return False

    def _shortened(self, text: str, kind: TextKind, refusal: BadRequest) -> Embeddings:
        """A text above the model's limit is embedded by its beginning, as models that run here do.

        Its length is remembered, but for texts that are far below the limit and have more tokens than is estimated.
        """
        if not refusal.of_size or len(text) < _SHORTEST:
            raise refusal.error from refusal
        retries = self._retries(1, kind)
        for _ in range(_CUTS):
            text = text[: int(len(text) * _SHORTER)]
            if not text:
                break
            shorter = text
            try:
                vectors = self._checked(retries.ask(lambda shorter=shorter: self._metered([shorter], kind)), 1)  # type: ignore[misc]
            except BadRequest:
                continue
            tokens = estimate_tokens(self.provider, self.model, [text])[0]
            if self._limit_tokens() > tokens >= self._limit_tokens() // 2:
                self._server.learn(tokens=tokens)
            return vectors
        raise Fatal(f"{self._title} refuses a chunk as too long, however much it is shortened: lower the chunkSize.")

    def _retries(self, texts: int, kind: TextKind) -> Retries:
        cost = texts if self._limits.by_text else 1
        about = tracing.describe_embedding(self.provider, self.model)
        return Retries(self._title, self._bucket, WAITING[kind], TRIES[kind], cost, about)

    def _metered(self, texts: Sequence[str], kind: TextKind) -> list[Any]:
        vectors, counted = self._ask(texts, kind)
        if counted:
            self._meter.learn(sum(estimate_tokens(self.provider, self.model, texts)), counted)
        return vectors

    def _checked(self, vectors: Sequence[Any], count: int) -> Embeddings:
        """Convert to numbers; Fatal or Retryable for anything that is not `count` vectors of the model's size."""
        import numpy as np

        if len(vectors) != count:
            raise Retryable(f"{self._title} answered with {len(vectors)} vectors where {count} were due.")
        try:
            array = np.asarray(vectors, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise Retryable(f"{self._title} answered with vectors of different sizes, or with no numbers.") from error
        if array.ndim != 2 or (self._known is not None and array.shape[1] != self._known):
            size = array.shape[-1] if array.ndim == 2 else 0
            raise Fatal(
                f"{self._title} answered with vectors of {size} dimensions where its model {self.model} makes"
                f" {self._known}. Check the model, or the server that the endpoint leads to.",
                field=MODEL_FIELD,
            )
        if not np.isfinite(array).all():
            raise Retryable(f"{self._title} answered with numbers that are not finite.")
        self._known = array.shape[1]
        return array

    @staticmethod
    def _unit(vectors: Embeddings) -> Embeddings:
        import numpy as np

        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def error_of_refusal(title: str, status: int, body: Any, headers: Mapping[str, str], *, key: str) -> Exception:
    """Meaning of a refusal. `body`: its words are shown for 400, 413 and 422, without the `key`."""
    text = str(body)
    if "insufficient_quota" in text:
        status = 402
    if status == 500 and "too large" in text:  # llama.cpp's word for a text beyond its batch
        status = 413
    if passing := transient_error(title, status, headers, passing={409}):
        return passing
    message, field = _REFUSALS.get(status, _ODD)
    message = message.format(title=title, status=status, key=KEY_FIELD, model=MODEL_FIELD)
    if status not in _OF_TEXTS:
        return Fatal(message, field=field)
    words = " ".join(_words(body).replace(key, "…").split())[:_MOST_WORDS]
    error = Fatal(f"{message} It says: {words}" if words else message, field=field)
    lower = text.lower()
    of_size = status == 413 or any(word in lower for word in _OF_SIZE)
    return BadRequest(error, of_size=of_size, of_tokens="token" in lower)


def _words(body: Any) -> str:
    """Message in a vendor's error, however deeply it is nested."""
    if isinstance(body, str):
        try:
            return _words(msgspec.json.decode(body))
        except msgspec.DecodeError:
            return "" if "<html" in body.lower() else body
    if isinstance(body, list):
        return _words(body[0]) if body else ""
    if not isinstance(body, dict):
        return ""
    return next((_words(body[name]) for name in ("error", "message", "detail", "msg") if body.get(name)), "")


_OF_TEXTS = frozenset({400, 413, 422})
_REFUSALS: Mapping[int, tuple[str, str]] = {
    **dict.fromkeys(_OF_TEXTS, ("{title} does not take the request: check {model}, or the endpoint.", MODEL_FIELD)),
    **dict.fromkeys((401, 403), ("{title} refuses the key in {key}: check it, and what it may do.", KEY_FIELD)),
    402: ("The account at {title} has no credit left: add some there, or use another key.", KEY_FIELD),
    404: ("{title} has no such model for this key: check {model}.", MODEL_FIELD),
}
_ODD = ("{title} answered with the unexpected status {status}: check the endpoint.", MODEL_FIELD)
