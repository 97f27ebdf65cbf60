"""Embedding model at a user's address, behind OpenAI's protocol: Ollama, vLLM, text-embeddings-inference and others.

Servers differ in the path, in base64, in the texts of a request and in the tokens of a text. `check` learns these by
about 15 requests, of which a server refuses four at most; the namespace stores them. Connections are dialled by the
fetch guard: a private address needs RETRIEVAL_FETCH_ALLOW.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from connectors.embedders import server_probe
from connectors.embedders.openai_protocol import OPERATION, URL_FIELD, EmbeddingsApi
from connectors.embedders.refusals import TextsRefused
from connectors.embedders.request_sizing import RequestLimits
from connectors.embedders.server_limits import ServerLimits
from connectors.embedders.vendor_embedder import MOST_BYTES, SECONDS, VendorEmbedder
from connectors.http import sessions
from connectors.http.retries import RateLimited, Timeout, TransientError
from retrieval.errors import Retryable
from retrieval.network import fetch_guard
from retrieval.network.transport import Transport

if TYPE_CHECKING:
    from retrieval.network.fetch_guard import Guard
    from retrieval.ports import Embedder, Embeddings, TextKind
    from retrieval.settings import Settings

PROVIDER: Final = "ENDPOINT"
TITLE: Final = "The model server"
LIMITS: Final = RequestLimits(texts=64, tokens=100_000, concurrent=4)
"""As many texts as keep a processor busy for seconds and not for the minute that a request may take."""
UNKNOWN_TOKENS: Final = 512
"""Tokens of a text where the check was switched off."""
MOST_DIMENSIONS: Final = 4_000
"""Most dimensions that pgvector indexes. Longer vectors are cut to it, as nested (Matryoshka) models allow."""
CHECK_SECONDS: Final = 4.0
_SHARE: Final = 7 / 8
"""Share of the measured limit that is used: the server's tokenizer counts more tokens than ours in some texts."""
_UNIT: Final = 1e-3


def make(config: Mapping[str, Any], settings: Settings) -> Embedder:
    """The server at the `url` of an `embeddingModelConfig`: its base URL, or the URL that ends in `/embeddings`."""
    url = config["url"].rstrip("/")
    url = url if "://" in url else f"https://{url}"
    guard = fetch_guard.make_guard(settings)
    client = sessions.httpx_client(
        sessions.trusted_certificates(None, PROVIDER),
        seconds=SECONDS["document"],
        transport=Transport(guard, max_bytes=MOST_BYTES),
    )
    model, key = config["model"], config.get("apiKey")
    server = ServerLimits(settings.home, PROVIDER, url, model, config.get("learned"))
    api = EmbeddingsApi(
        TITLE, client, server, urls=list_urls(url), key=key, model=model, dimensions=config.get("dimensions")
    )
    return EndpointEmbedder(config, url, guard, api, server, client.close)


def list_urls(url: str) -> list[str]:
    """Candidates for the URL of the operation, the likeliest first."""
    if url.endswith(OPERATION):
        return [url]
    paths = [OPERATION, f"/v1{OPERATION}"]
    return [url + path for path in (paths if url.count("/") > 2 else reversed(paths))]


class EndpointEmbedder(VendorEmbedder):
    """Model at a user's server. `url`: a part of the model's identity, as names of models mean little there."""

    def __init__(
        self, config: Mapping[str, Any], url: str, guard: Guard, api: EmbeddingsApi, server: ServerLimits, close: Any
    ) -> None:
        self.url = url
        self._private = url.startswith("https://")
        self._guard, self._api, self._most = guard, api, config.get("dimensions", MOST_DIMENSIONS)
        super().__init__(
            provider=PROVIDER,
            title=TITLE,
            model=config["model"],
            dimensions=server.learned.dimensions,
            max_tokens=UNKNOWN_TOKENS,
            limits=LIMITS,
            server=server,
            ask=self._ask_cut,
            close=close,
            prefixes={"query": config.get("queryPrefix", ""), "document": config.get("passagePrefix", "")},
        )

    def _ask_cut(self, texts: Sequence[str], kind: TextKind) -> tuple[list[Any], int]:
        self._require_private()
        vectors, counted = self._api.ask(texts, kind)
        return self._cut(vectors), counted

    def _require_private(self) -> None:
        """Fatal where texts and key would be readable on the public internet."""
        if not self._private:
            sessions.require_private_without_tls(self._guard, self.url, title="model server", field=URL_FIELD)
            self._private = True

    def _cut(self, vectors: Sequence[Any]) -> list[Any]:
        return [vector[: self._most] for vector in vectors]

    def _limit_tokens(self) -> int:
        tokens = self._server.learned.tokens
        return int(tokens * _SHARE) if tokens else UNKNOWN_TOKENS

    @property
    def learned(self) -> dict[str, Any]:
        """Form and limits of the server, as the namespace stores them."""
        return dict(msgspec.to_builtins(self._server.learned))

    def check(self) -> None:
        """Learn the server's form and limits. Fatal or Retryable unless one text can be embedded now."""
        try:
            self._require_private()
            self._learn(time.monotonic() + CHECK_SECONDS)
        except TextsRefused as refusal:
            raise refusal.error from refusal
        except RateLimited as limited:
            raise Retryable(f"{TITLE} takes no more requests for now (429).", after=limited.after) from limited
        except Timeout as late:
            raise Retryable(f"{late} It may be loading the model: try again in a moment.") from late
        except TransientError as trouble:
            raise Retryable(str(trouble)) from trouble

    def _learn(self, end: float) -> None:
        self._server.start_over()
        self._known = None
        try:
            vectors, _ = self._api.send(["check"], end - time.monotonic(), encoded=True)
            encoded = isinstance(vectors[0], np.ndarray)
        except TextsRefused:
            vectors, _ = self._api.send(["check"], end - time.monotonic())
            encoded = False
        length = float(np.linalg.norm(self._checked(vectors, 1)))
        self._known = None

        def embed(texts: Sequence[str], seconds: float) -> Embeddings:
            vectors, _ = self._api.send(texts, seconds, encoded=encoded)
            return self._unit(self._checked(self._cut(vectors), len(texts)))

        texts = server_probe.count_texts(embed, LIMITS.texts, end)
        tokens = server_probe.measure_text(embed, end)
        self._server.learn(
            texts=texts,
            tokens=tokens,
            dimensions=self.dimensions,
            base64=encoded,
            normalized=abs(length - 1) < _UNIT,
        )
