"""Servers with OpenAI's embeddings API, each with a path, limits and words of its own for what is beyond them.

What each refuses, and how, is taken from its documentation and from reports of its users:

Ollama      docs.ollama.com/api/openai-compatibility (floats whatever is asked for; too long texts are cut off silently)
vLLM        docs.vllm.ai, "OpenAI-Compatible Server"; vllm-project/vllm#5734, #16331 (base64, dimensions)
TEI         huggingface.github.io/text-embeddings-inference; issues #218, #227 (422 or 413, 32 texts, 512 tokens)
LiteLLM     docs.litellm.ai/docs/embedding/supported_embeddings (passes on what the server behind it says)
LM Studio   lmstudio.ai/docs/developer/openai-compat; lmstudio-bug-tracker#756 (floats whatever is asked for)
llama.cpp   tools/server/README.md; ggml-org/llama.cpp#7389, #12295 (500 for a text beyond the physical batch)
Infinity    michaelfeil.eu/infinity (no /v1 before the path; 422 of pydantic)
DashScope   help.aliyun.com/zh/model-studio/text-embedding-synchronous-api (10 texts)
Gemini      ai.google.dev/gemini-api/docs/openai (100 texts, /v1beta/openai)

Failures for one text, which has the word of `UNEMBEDDABLE`, are those of ollama/ollama#9639 (500, NaN is no JSON), of
text-embeddings-inference's OpenAPI description (424, "Inference failed"), of vLLM, which answers 500 or, in base64,
with numbers that are not finite, of ggml-org/llama.cpp#13854 (null) and of proxies (200 with an error, a vector left
out).
"""

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

from tests.standins.embedding_server import listed, tokens, vector
from tests.standins.faults import Fault, Handler, serving

KEY = "canary-model-key"
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
"""By name: status and body for a request with texts that the model cannot embed, from the right answer and their
positions."""


@dataclass
class ModelServer:
    """One server. `base64`: takes `encoding_format`, "ignores" it or "refuses" it; `always_base64`: answers in nothing
    else; `longest`: tokens of a text, beyond which it is `cut` silently or refused with `long_status`; `failure`: key
    of `FAILURES`; `failed`: requests that failed so; `broken_model`: a model whose process has ended."""

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
        made = vector(" ".join(words[: self.longest - 2]) if self.cut else text, size)
        return made / np.linalg.norm(made) if self.unit else made


def _encoded(values: Any, *, packed: bool) -> Any:
    return base64.b64encode(np.array(values, dtype="<f4").tobytes()).decode() if packed else listed(values)


def running(server: ModelServer) -> AbstractContextManager[ModelServer]:
    return serving(server, _Handler)


class _Handler(Handler):
    place: ModelServer

    def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
        body = json.loads(self.read_body())
        self.place.keys.add(self.headers.get("Authorization", ""))
        time.sleep(self.place.delay + self.place.seconds_per_text * len(body["input"]))
        if not any(fault(self) for fault in self.place.always):
            self.reply(*self.place.answer(self.path, body))
