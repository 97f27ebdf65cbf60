"""Servers with OpenAI's embeddings API, each with limits and words of its own for what is beyond them."""

from __future__ import annotations

import base64
import json
import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.standins.embedding_server import listed, vector
from tests.standins.faults import Handler, serving


@dataclass
class ModelServer:
    """One server. `base64`: takes `encoding_format`, "ignores" it or "refuses" it; `always_base64`: answers in nothing
    else."""

    name: str
    most: int = 2048
    status: int = 400
    words: str = "batch size {count} > maximum allowed batch size {most}"
    base64: str = "takes"
    always_base64: bool = False
    dimensions: int = 64
    port: int = 0
    refused: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    lock: Any = field(default_factory=threading.Lock)

    def answer(self, body: Any) -> tuple[int, Any]:
        texts = body["input"]
        encoding = body.get("encoding_format", "float")
        with self.lock:
            if encoding == "base64" and self.base64 == "refuses":
                self.refused.append(len(texts))
                return 400, {"error": {"message": "encoding_format: only float is supported", "type": "BadRequest"}}
            if len(texts) > self.most or any("forbidden" in text for text in texts):
                self.refused.append(len(texts))
                words = self.words.format(count=len(texts), most=self.most)
                return self.status, {"error": {"message": words, "type": "invalid_request_error", "code": None}}
            self.texts += texts
            self.sizes.append(len(texts))
        packed = self.always_base64 or (encoding == "base64" and self.base64 == "takes")
        data = [
            {"object": "embedding", "index": index, "embedding": _encoded(vector(text, self.dimensions), packed=packed)}
            for index, text in enumerate(texts)
        ]
        usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
        return 200, {"object": "list", "model": body["model"], "data": data, "usage": usage}


def _encoded(values: Any, *, packed: bool) -> Any:
    return base64.b64encode(np.array(values, dtype="<f4").tobytes()).decode() if packed else listed(values)


def running(server: ModelServer) -> AbstractContextManager[ModelServer]:
    return serving(server, _Handler)


class _Handler(Handler):
    place: ModelServer

    def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
        self.reply(*self.place.answer(json.loads(self.read_body())))
