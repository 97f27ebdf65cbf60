"""Embedding model of a user's server with OpenAI's protocol, such as Ollama, vLLM or text-embeddings-inference."""

# Servers differ in path, base64, texts per request and tokens per text. `check` measures these by about 15 requests,
# at most four of them refused, and the namespace stores them. The fetch guard opens connections: a private address
# needs RETRIEVAL_FETCH_ALLOW.

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from connectors.embedders import server_probe
from connectors.embedders.openai_protocol import OPERATION_PATH, URL_FIELD, EmbeddingsApi
from connectors.embedders.refusals import TextsRefused
from connectors.embedders.request_sizing import RequestLimits
from connectors.embedders.server_limits import ServerLimits
from connectors.embedders.vendor_embedder import MAX_RESPONSE_BYTES, REQUEST_SECONDS, VendorEmbedder
from connectors.http import sessions
from connectors.http.retries import RateLimited, Timeout, TransientError
from retrieval.errors import Retryable
from retrieval.network import fetch_guard
from retrieval.network.transport import Transport

if TYPE_CHECKING:
    from retrieval.network.fetch_guard import Guard
    from retrieval.ports import Embedder, Embeddings, TextKind
    from retrieval.settings import Settings

PROVIDER_NAME: Final = "ENDPOINT"
SERVER_TITLE: Final = "The model server"
# 64 texts keep a processor busy for seconds, far below the minute of a request.
REQUEST_LIMITS: Final = RequestLimits(texts=64, tokens=100_000, concurrent=4)
# Tokens of a text without a check.
DEFAULT_MAX_TOKENS: Final = 512
# Limit of pgvector's indexes. Nested (Matryoshka) models permit to cut longer vectors.
MAX_DIMENSIONS: Final = 4_000
CHECK_SECONDS: Final = 4.0
# The server's tokenizer counts more tokens in some texts: use this share of the measured limit.
_TOKEN_LIMIT_SHARE: Final = 7 / 8
_UNIT_TOLERANCE: Final = 1e-3


def make(config: Mapping[str, Any], settings: Settings) -> Embedder:
    """Return the model at the `url` of an `embeddingModelConfig`, a base URL or one with `/embeddings`."""
    url = config["url"].rstrip("/")
    url = url if "://" in url else f"https://{url}"
    guard = fetch_guard.make_guard(settings)
    client = sessions.httpx_client(
        sessions.trusted_certificates(None, PROVIDER_NAME),
        seconds=REQUEST_SECONDS["document"],
        transport=Transport(guard, max_bytes=MAX_RESPONSE_BYTES),
    )
    model, key = config["model"], config.get("apiKey")
    server = ServerLimits(settings.home, PROVIDER_NAME, url, model, config.get("learned"))
    api = EmbeddingsApi(
        SERVER_TITLE, client, server, urls=list_urls(url), key=key, model=model, dimensions=config.get("dimensions")
    )
    return EndpointEmbedder(config, url, guard, api, server, client.close)


def list_urls(url: str) -> list[str]:
    """Return candidates for the URL of the operation, the likeliest first."""
    if url.endswith(OPERATION_PATH):
        return [url]
    paths = [OPERATION_PATH, f"/v1{OPERATION_PATH}"]
    return [url + path for path in (paths if url.count("/") > 2 else reversed(paths))]


class EndpointEmbedder(VendorEmbedder):
    """Model of a user's server; `url` is part of the model's identity."""

    def __init__(
        self, config: Mapping[str, Any], url: str, guard: Guard, api: EmbeddingsApi, server: ServerLimits, close: Any
    ) -> None:
        self.url = url
        self._is_private = url.startswith("https://")
        self._guard, self._api, self._max_dimensions = guard, api, config.get("dimensions", MAX_DIMENSIONS)
        super().__init__(
            provider=PROVIDER_NAME,
            title=SERVER_TITLE,
            model=config["model"],
            dimensions=server.learned.dimensions,
            max_tokens=DEFAULT_MAX_TOKENS,
            limits=REQUEST_LIMITS,
            server=server,
            send=self._embed_cut,
            close=close,
            prefixes={"query": config.get("queryPrefix", ""), "document": config.get("passagePrefix", "")},
        )

    def _embed_cut(self, texts: Sequence[str], kind: TextKind) -> tuple[list[Any], int]:
        self._require_private()
        vectors, counted = self._api.embed(texts, kind)
        return self._cut(vectors), counted

    def _require_private(self) -> None:
        """Raise Fatal for an unencrypted address on the public internet."""
        if not self._is_private:
            sessions.require_private_without_tls(self._guard, self.url, title="model server", field=URL_FIELD)
            self._is_private = True

    def _cut(self, vectors: Sequence[Any]) -> list[Any]:
        return [vector[: self._max_dimensions] for vector in vectors]

    def _token_limit(self) -> int:
        tokens = self._server.learned.tokens
        return int(tokens * _TOKEN_LIMIT_SHARE) if tokens else DEFAULT_MAX_TOKENS

    @property
    def learned(self) -> dict[str, Any]:
        """Measured form and limits of the server, stored by the namespace."""
        return dict(msgspec.to_builtins(self._server.learned))

    def check(self) -> None:
        """Measure the server's form and limits. Fatal or Retryable."""
        try:
            self._require_private()
            self._measure(time.monotonic() + CHECK_SECONDS)
        except TextsRefused as refusal:
            raise refusal.error from refusal
        except RateLimited as limited:
            raise Retryable(f"{SERVER_TITLE} takes no more requests for now (429).", after=limited.after) from limited
        except Timeout as late:
            raise Retryable(f"{late} It may be loading the model: try again in a moment.") from late
        except TransientError as trouble:
            raise Retryable(str(trouble)) from trouble

    def _measure(self, end: float) -> None:
        self._server.start_over()
        self._dimensions = None
        try:
            vectors, _ = self._api.send(["check"], end - time.monotonic(), encoded=True)
            encoded = isinstance(vectors[0], np.ndarray)
        except TextsRefused:
            vectors, _ = self._api.send(["check"], end - time.monotonic())
            encoded = False
        length = float(np.linalg.norm(self._check_vectors(vectors, 1)))
        self._dimensions = None

        def embed(texts: Sequence[str], seconds: float) -> Embeddings:
            vectors, _ = self._api.send(texts, seconds, encoded=encoded)
            return self._unit(self._check_vectors(self._cut(vectors), len(texts)))

        texts = server_probe.count_texts(embed, REQUEST_LIMITS.texts, end)
        tokens = server_probe.measure_text(embed, end)
        self._server.learn(
            texts=texts,
            tokens=tokens,
            dimensions=self.dimensions,
            base64=encoded,
            normalized=abs(length - 1) < _UNIT_TOLERANCE,
        )
