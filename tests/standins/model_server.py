"""Servers with OpenAI's embeddings API, each with its own path, limits and errors."""
# Limits and errors, from documentation and users' reports:
#
# Ollama      docs.ollama.com/api/openai-compatibility (always floats; cuts long texts silently)
# vLLM        docs.vllm.ai, "OpenAI-Compatible Server"; vllm-project/vllm#5734, #16331 (base64, dimensions)
# TEI         huggingface.github.io/text-embeddings-inference; issues #218, #227 (422 or 413, 32 texts, 512 tokens)
# LiteLLM     docs.litellm.ai/docs/embedding/supported_embeddings (passes on the answers of the server behind)
# LM Studio   lmstudio.ai/docs/developer/openai-compat; lmstudio-bug-tracker#756 (always floats)
# llama.cpp   tools/server/README.md; ggml-org/llama.cpp#7389, #12295 (500 for a text beyond the physical batch)
# Infinity    michaelfeil.eu/infinity (no /v1 in the path; 422 of pydantic)
# DashScope   help.aliyun.com/zh/model-studio/text-embedding-synchronous-api (10 texts)
# Gemini      ai.google.dev/gemini-api/docs/openai (100 texts, /v1beta/openai)
#
# Failures of a text with `UNEMBEDDABLE`: ollama/ollama#9639 (500, NaN is no JSON), TEI's OpenAPI description (424,
# "Inference failed"), vLLM (500 or, in base64, infinite numbers), ggml-org/llama.cpp#13854 (null), proxies (200 with an
# error, a missing vector).

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.standins.embedding_server import float_list, tokens, vector
from tests.standins.faults import Fault, Handler, serving

API_KEY = "canary-model-key"
UNEMBEDDABLE = "unembeddable"
OLLAMA_NAN = "failed to encode response: json: unsupported value: NaN"
TEI_ERROR = "Inference failed"


def _error(status: int, message: str, kind: str) -> Callable[[Any, list[int]], tuple[int, Any]]:
    return lambda _answer, _bad: (status, {"error": {"message": message, "type": kind, "param": None, "code": None}})


def _with_vectors(change: Callable[[Any], Any]) -> Callable[[Any, list[int]], tuple[int, Any]]:
    def fail(answer: Any, bad: list[int]) -> tuple[int, Any]:
        for index in bad:
            answer["data"][index]["embedding"] = change(answer["data"][index]["embedding"])
        return 200, answer

    return fail


def _with_entries(change: Callable[[list[Any]], list[Any]]) -> Callable[[Any, list[int]], tuple[int, Any]]:
    return lambda answer, _bad: (200, answer | {"data": change(answer["data"])})


FAILURES: Mapping[str, Callable[[Any, list[int]], tuple[int, Any]]] = {
    "Ollama": _error(500, OLLAMA_NAN, "api_error"),
    "TEI": lambda _answer, _bad: (424, {"error": TEI_ERROR, "error_type": "Backend"}),
    "vLLM": _error(500, "Internal Server Error", "InternalServerError"),
    "a proxy's 502": _error(502, "Bad Gateway", "upstream"),
    "200 with an error": _error(200, "upstream failed", "api_error"),
    "null": _with_vectors(lambda _vector: None),
    "NaN": _with_vectors(lambda vector: [float("nan")] * (len(vector) if isinstance(vector, list) else 64)),
    "too few": _with_entries(lambda data: data[:-1]),
    "too many": _with_entries(lambda data: [*data, data[0] | {"index": len(data)}]),
    "400": _error(400, "Content policy: this text is refused", "invalid_request_error"),
}
"""By name: function of the right answer and the failing positions to status and body."""


@dataclass
class ModelServer:
    """An embedding server."""

    # `base64`: takes `encoding_format`, "ignores" or "refuses"; `always_base64`: answers only in base64; `longest`:
    # tokens per text, then `cut` silently or refused with `long_status`; `failure`: key of `FAILURES`; `failed`: failed
    # requests; `broken_model`: a model with a dead process.

    name: str
    most: int = 2048
    status: int = 400
    words: str = "batch size {count} > maximum allowed batch size {most}"
    base64: str = "takes"
    always_base64: bool = False
    dimensions: int = 64
    longest: int = 8192
    cut: bool = False
    long_status: int = 400
    long_words: str = "This model's maximum context length is {longest} tokens. However, you requested {tokens} tokens."
    path: str = "/v1/embeddings"
    unit: bool = True
    delay: float = 0.0
    seconds_per_text: float = 0.0
    port: int = 0
    failure: str = "Ollama"
    broken_model: str = ""
    failed: int = 0
    always: list[Fault] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    lock: Any = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, path: str, body: Any) -> tuple[int, Any]:
        texts = body["input"]
        if body["model"] == self.broken_model:
            return 500, {"error": {"message": "llama runner process has terminated", "type": "api_error"}}
        with self.lock:
            refusal = self._refusal(path, body, texts)
            if refusal is not None:
                status, words = refusal
                self.refused.append(f"{status} to {len(texts)} texts: {words}")
                return status, {"error": {"message": words, "type": "invalid_request_error", "code": None}}
            self.texts += texts
            self.sizes.append(len(texts))
        packed = self.always_base64 or (body.get("encoding_format") == "base64" and self.base64 == "takes")
        size = body.get("dimensions", self.dimensions)
        data = [
            {"object": "embedding", "index": index, "embedding": _encoded(self._vector(text, size), packed=packed)}
            for index, text in enumerate(texts)
        ]
        usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
        answer = {"object": "list", "model": body["model"], "data": data, "usage": usage}
        if bad := [index for index, text in enumerate(texts) if UNEMBEDDABLE in text]:
            with self.lock:
                self.failed += 1
            return FAILURES[self.failure](answer, bad)
        return 200, answer

    def _refusal(self, path: str, body: Any, texts: list[str]) -> tuple[int, str] | None:
        if path != self.path:
            return 404, "404 page not found"
        if body.get("encoding_format") == "base64" and self.base64 == "refuses":
            return 400, "base64 encoding is not currently supported"
        if len(texts) > self.most or any("forbidden" in text for text in texts):
            return self.status, self.words.format(count=len(texts), most=self.most)
        longest = max(tokens(text) + 2 for text in texts)
        if longest > self.longest and not self.cut:
            return self.long_status, self.long_words.format(longest=self.longest, tokens=longest)
        return None

    def _vector(self, text: str, size: int) -> Any:
        words = text.split()
        embedding = vector(" ".join(words[: self.longest - 2]) if self.cut else text, size)
        return embedding / np.linalg.norm(embedding) if self.unit else embedding


def _encoded(values: Any, *, packed: bool) -> Any:
    return base64.b64encode(np.array(values, dtype="<f4").tobytes()).decode() if packed else float_list(values)


def running(server: ModelServer) -> AbstractContextManager[ModelServer]:
    return serving(server, _Handler)


class _Handler(Handler):
    standin: ModelServer

    def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
        body = json.loads(self.read_body())
        self.standin.keys.add(self.headers.get("Authorization", ""))
        time.sleep(self.standin.delay + self.standin.seconds_per_text * len(body["input"]))
        if not any(fault(self) for fault in self.standin.always):
            self.reply(*self.standin.answer(self.path, body))
