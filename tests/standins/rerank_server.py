"""Rerankers on loopback: Cohere, Jina and self-hosted servers."""
# docs.cohere.com/reference/rerank, jina.ai/reranker (POST /v1/rerank), the OpenAPI description of text-embeddings-
# inference (POST /rerank: at most 32 texts, `max_client_batch_size`) and vLLM's score API (POST /rerank). A text with
# the word of `UNSCORABLE` fails with TEI's 424 ("Inference failed") or 500.
# A text's score is its share of the query's words; `logits` sends raw logits of self-hosted servers.

from __future__ import annotations

import json
import math
import re
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from tests.standins.faults import Fault, Handler, serving

API_KEY = "canary-rerank-key"
UNSCORABLE = "unscorable"
PATHS = {"COHERE": "/v2/rerank", "JINA": "/v1/rerank", "TEI": "/rerank", "VLLM": "/rerank"}
MODELS = {"COHERE": "rerank-v3.5", "JINA": "jina-reranker-v2-base-multilingual", "VLLM": "BAAI/bge-reranker-v2-m3"}
_MOST = {"COHERE": 1000, "JINA": 2048, "TEI": 32, "VLLM": 10_000}
_FIELDS = {
    "COHERE": {"model", "query", "documents", "top_n", "max_tokens_per_doc"},
    "JINA": {"model", "query", "documents", "top_n", "return_documents"},
    "TEI": {"query", "texts", "truncate", "raw_scores", "return_text", "truncation_direction"},
    "VLLM": {"model", "query", "documents", "top_n", "return_documents"},
}


@dataclass
class Place:
    """A server; `faults`: used once each; `always`: on every request; `delay`: seconds before each answer."""

    name: str
    port: int = 0
    delay: float = 0.0
    logits: bool = False
    key: str | None = API_KEY
    faults: list[Fault] = field(default_factory=list)
    always: list[Fault] = field(default_factory=list)
    seen: list[Any] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def config(self) -> dict[str, str]:
        """Return a `rerankConfig` for this server."""
        if self.name in {"TEI", "VLLM"}:
            model = {"model": MODELS[self.name]} if self.name in MODELS else {}
            return {"provider": "ENDPOINT", "url": self.url, "apiKey": API_KEY, **model}
        return {"provider": self.name, "model": MODELS[self.name], "apiKey": API_KEY}


def share(query: str, text: str) -> float:
    """Return the share of the query's words in the text."""
    words = set(re.findall(r"\w+", query.lower()))
    return len(words & set(re.findall(r"\w+", text.lower()))) / max(len(words), 1)


def running(name: str, **options: Any) -> AbstractContextManager[Place]:
    return serving(Place(name, **options), _Handler)


class _Handler(Handler):
    standin: Place

    def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
        standin = self.standin
        body = json.loads(self.read_body())
        time.sleep(standin.delay)
        fault = standin.faults.pop(0) if standin.faults else next(iter(standin.always), None)
        if fault is not None and fault(self):
            return
        if standin.key and self.headers.get("Authorization") != f"Bearer {standin.key}":
            self.reply(401, {"message": "SECRET VENDOR WORDS"})
        elif self.path != PATHS[standin.name]:
            self.reply(404, {"message": "SECRET VENDOR WORDS"})
        else:
            self._answer(standin, body)

    def _answer(self, standin: Place, body: Any) -> None:
        texts = body.get("texts" if standin.name == "TEI" else "documents")
        if not isinstance(texts, list) or not texts or not isinstance(body.get("query"), str):
            self.reply(422, {"message": "SECRET VENDOR WORDS"})
            return
        if len(texts) > _MOST[standin.name] or set(body) - _FIELDS[standin.name]:
            standin.violations.append(f"{len(texts)} texts, {sorted(body)}")
            self.reply(422, {"message": "SECRET VENDOR WORDS"})
            return
        if standin.name in MODELS and body.get("model") != MODELS[standin.name]:
            self.reply(404, {"message": "SECRET VENDOR WORDS"})
            return
        if any(UNSCORABLE in text for text in texts):
            self.reply(424 if standin.name == "TEI" else 500, {"error": "Inference failed", "error_type": "Backend"})
            return
        standin.seen.append(body)
        scored = sorted(((_score(standin, body["query"], text), at) for at, text in enumerate(texts)), reverse=True)
        if standin.name == "TEI":
            self.reply(200, [{"index": at, "score": score} for score, at in scored])
        else:
            self.reply(200, {"id": "1", "results": [{"index": at, "relevance_score": score} for score, at in scored]})


def _score(standin: Place, query: str, text: str) -> float:
    overlap = share(query, text)
    return math.log((overlap + 0.01) / (1.01 - overlap)) if standin.logits else overlap
