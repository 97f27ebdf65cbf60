"""Embedding APIs of OpenAI, Cohere and Jina on loopback, with vectors, limits, keys and faults."""
# OpenAI's own API description checks requests and answers. Cohere and Jina publish no free description: the rules are
# from the reference pages. Cohere counts 2,000 inputs a minute (docs.cohere.com/docs/rate-limits) and refuses the
# request beyond; `minute` sets its length here.
# OpenAI's SDK always sends `encoding_format`, refused by Jina (github.com/QuantumNous/new-api/issues/1941,
# github.com/1Panel-dev/MaxKB/issues/2639).

from __future__ import annotations

import base64
import json
import re
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.standins.described import Described
from tests.standins.faults import Fault, Handler, serving

KEYS = {"OPENAI": "canary-openai-key", "COHERE": "canary-cohere-key", "JINA": "canary-jina-key"}
PATHS = {"OPENAI": "/v1/embeddings", "COHERE": "/v2/embed", "JINA": "/v1/embeddings"}
MODELS = {
    "OPENAI": {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072},
    "COHERE": {"embed-english-v3.0": 1024, "embed-english-light-v3.0": 384, "embed-v4.0": 1536},
    "JINA": {"jina-embeddings-v3": 1024, "jina-embeddings-v4": 2048},
}
MODEL = {name: next(iter(models)) for name, models in MODELS.items()}
INPUTS_PER_MINUTE = {"COHERE": 2000}
LONGEST_HOLD = 60.0
MAX_TEXTS = {"OPENAI": 2048, "COHERE": 96, "JINA": 512}
REQUEST_TOKENS, TEXT_TOKENS = 300_000, 8192
OPENAI = Described(Path(__file__).with_name("contracts") / "openai-embeddings.json")
_COHERE = {"model", "texts", "input_type", "embedding_types", "truncate", "output_dimension"}
_JINA = {"model", "task", "dimensions", "embedding_type", "truncate", "late_chunking", "input"}


class Refused(Exception):
    def __init__(self, status: int, message: str, code: str = "invalid_request_error") -> None:
        super().__init__(message)
        self.status, self.code = status, code


@dataclass
class Vendor:
    """One vendor's endpoint."""

    # `faults`: used once each; `always`: on every request; `change`: applied to the vectors; `holds`: predicate of
    # texts to block, counted in `held`; `unembeddable`: texts with this word get a 500.

    name: str
    port: int = 0
    delay: float = 0.0
    unembeddable: str = ""
    faults: list[Fault] = field(default_factory=list)
    always: list[Fault] = field(default_factory=list)
    change: Callable[[list[list[float]]], list[Any]] | None = None
    holds: Callable[[list[str]], bool] = lambda _texts: False
    held: int = 0
    seen: list[Any] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    minute: float = 60.0
    refused: int = 0
    """Requests beyond the rate."""
    counted: list[tuple[float, int]] = field(default_factory=list)
    lock: Any = field(default_factory=threading.RLock)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}" + ("" if self.name == "COHERE" else "/v1")

    def config(self, **overrides: str) -> dict[str, str]:
        """Return an embeddingModelConfig for this endpoint."""
        return {"provider": self.name, "model": MODEL[self.name], "apiKey": KEYS[self.name]} | overrides

    @property
    def inputs(self) -> list[list[str]]:
        """Texts of each accepted request."""
        return [body.get("texts") or body.get("input") for body in self.seen]


def running(name: str, **options: Any) -> AbstractContextManager[Vendor]:
    return serving(Vendor(name, **options), _Handler)


def vector(text: str, size: int) -> Any:
    """Return a unit direction of hashed words: texts with common words are near."""
    values = np.full(size, 1e-4, dtype="<f4")
    for word, count in Counter(re.findall(r"\w+", text.lower())).items():
        for index, sign in _places(word, size):
            values[index] += sign * count
    return values


@lru_cache(maxsize=100_000)
def _places(word: str, size: int) -> list[tuple[int, int]]:
    numbers = [zlib.crc32(f"{index} {word}".encode()) for index in range(4)]
    return [(number % size, 1 if number & 65536 else -1) for number in numbers]


def tokens(text: str) -> int:
    """Approximate the vendor's token count: pieces of at most six characters, single marks."""
    return sum(-(-len(piece) // 6) for piece in re.findall(r"\w+|[^\w\s]", text)) or 1


class _Handler(Handler):
    standin: Vendor

    def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
        vendor = self.standin
        body = json.loads(self.read_body())
        with vendor.lock:
            vendor.times.append(time.monotonic())
            vendor.headers.append({name.lower(): value for name, value in self.headers.items()})
            fault = vendor.faults.pop(0) if vendor.faults else next(iter(vendor.always), None)
        time.sleep(vendor.delay)
        self._hold(vendor, body)
        if fault is None or not fault(self):
            self._answer(vendor, body)

    def _hold(self, vendor: Vendor, body: Any) -> None:
        texts, until = body.get("texts") or body.get("input") or [], time.monotonic() + LONGEST_HOLD
        if not vendor.holds(texts):
            return
        with vendor.lock:
            vendor.held += 1
        while vendor.holds(texts) and time.monotonic() < until:
            time.sleep(0.05)

    def _answer(self, vendor: Vendor, body: Any) -> None:
        try:
            self._admit(vendor, body)
            answer = _ANSWERS[vendor.name](vendor, body)
        except Refused as error:
            problem = {"message": str(error), "type": error.code, "code": error.code, "param": None}
            self.reply(error.status, {"error": problem, "message": str(error), "detail": str(error)})
            return
        with vendor.lock:
            vendor.seen.append(body)
        self.reply(200, answer)

    def _admit(self, vendor: Vendor, body: Any) -> None:
        if self.headers.get("Authorization") != f"Bearer {KEYS[vendor.name]}":
            raise Refused(401, "Incorrect API key provided: SECRET VENDOR WORDS", "invalid_api_key")
        if self.path != PATHS[vendor.name] or body.get("model") not in MODELS[vendor.name]:
            raise Refused(404, "The model does not exist SECRET VENDOR WORDS", "model_not_found")
        texts = body.get("texts") or body.get("input")
        if vendor.unembeddable and any(vendor.unembeddable in text for text in texts):
            raise Refused(500, "The server had an error while processing your request", "server_error")
        if vendor.name in INPUTS_PER_MINUTE:
            self._count(vendor, len(body.get("texts") or ()))

    def _count(self, vendor: Vendor, inputs: int) -> None:
        with vendor.lock:
            since = time.monotonic() - vendor.minute
            vendor.counted = [entry for entry in vendor.counted if entry[0] > since]
            if sum(count for _, count in vendor.counted) + inputs > INPUTS_PER_MINUTE[vendor.name]:
                vendor.refused += 1
                raise Refused(429, "SECRET VENDOR WORDS", "too_many_requests")
            vendor.counted.append((time.monotonic(), inputs))


def _vectors(vendor: Vendor, texts: list[str], model: str) -> list[Any]:
    if not texts or len(texts) > MAX_TEXTS[vendor.name]:
        vendor.violations.append(f"{len(texts)} texts in a request")
        raise Refused(400, "array has the wrong length")
    values = [vector(text, MODELS[vendor.name][model]) for text in texts]
    return vendor.change(values) if vendor.change else values


def _openai(vendor: Vendor, body: Any) -> Any:
    if complaint := OPENAI.complaint_on_request("/v1/embeddings", "post", body):
        vendor.violations.append(complaint)
        raise Refused(400, complaint)
    sizes = [tokens(text) for text in body["input"]]
    if max(sizes) > TEXT_TOKENS:
        raise Refused(400, "This model's maximum context length is 8192 tokens SECRET VENDOR WORDS")
    if sum(sizes) > REQUEST_TOKENS:
        raise Refused(400, "Requested too many tokens, max 300000 tokens per request", "max_tokens_per_request")
    vectors = _vectors(vendor, body["input"], body["model"])
    base = body.get("encoding_format") == "base64"
    encoded = [
        base64.b64encode(np.array(row, dtype="<f4").tobytes()).decode() if base else float_list(row) for row in vectors
    ]
    entries = [{"object": "embedding", "index": at, "embedding": row} for at, row in enumerate(encoded)]
    usage = {"prompt_tokens": sum(sizes), "total_tokens": sum(sizes)}
    answer = {"object": "list", "model": body["model"], "data": entries[::-1], "usage": usage}
    judged = answer | {
        "data": [entry | {"embedding": float_list(row)} for entry, row in zip(entries[:3], vectors, strict=False)]
    }
    if vendor.change is None and (complaint := OPENAI.complaint_on_answer("/v1/embeddings", "post", judged)):
        vendor.violations.append(f"answer: {complaint}")
    return answer


def float_list(row: Any) -> list[float]:
    return [float(value) for value in row]


def _cohere(vendor: Vendor, body: Any) -> Any:
    wrong = set(body) - _COHERE or body.get("input_type") not in {"search_document", "search_query"}
    if wrong or body.get("embedding_types") != ["float"]:
        vendor.violations.append(f"a request of {sorted(body)}")
        raise Refused(422, "invalid request")
    vectors = _vectors(vendor, body["texts"], body["model"])
    return {
        "id": "one",
        "texts": body["texts"],
        "embeddings": {"float": [float_list(row) for row in vectors]},
        "meta": {"api_version": {"version": "2"}, "billed_units": {"input_tokens": 1}},
        "response_type": "embeddings_by_type",
    }


def _jina(vendor: Vendor, body: Any) -> Any:
    wrong = set(body) - _JINA or body.get("task") not in {"retrieval.passage", "retrieval.query"}
    if wrong or not isinstance(body.get("input"), list):
        vendor.violations.append(f"a request of {sorted(body)}")
        raise Refused(422, "invalid request")
    vectors = _vectors(vendor, body["input"], body["model"])
    data = [{"object": "embedding", "index": at, "embedding": float_list(row)} for at, row in enumerate(vectors)]
    return {"model": body["model"], "object": "list", "usage": {"total_tokens": 1}, "data": data[::-1]}


_ANSWERS = {"OPENAI": _openai, "COHERE": _cohere, "JINA": _jina}
