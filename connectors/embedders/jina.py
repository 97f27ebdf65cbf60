"""Jina AI's embedding models by OpenAI's SDK: the vendor has none, and its API is OpenAI's with fields of its own.

Limits by the vendor's page of POST /v1/embeddings: 512 inputs a request; it cuts longer texts off itself (truncate).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from connectors.embedders.openai_protocol import OPERATION, EmbeddingsApi
from connectors.embedders.request_sizing import RequestLimits
from connectors.embedders.server_limits import ServerLimits
from connectors.embedders.vendor_embedder import MOST_BYTES, SECONDS, VendorEmbedder
from connectors.http import sessions

if TYPE_CHECKING:
    from retrieval.ports import Embedder, TextKind
    from retrieval.settings import Settings

PROVIDER: Final = "JINA"
TITLE: Final = "Jina AI"
BASE_URL: Final = "https://api.jina.ai/v1"
DIMENSIONS: Final[Mapping[str, int]] = {"jina-embeddings-v3": 1024, "jina-embeddings-v4": 2048}
LIMITS: Final = RequestLimits(texts=512, tokens=100_000, concurrent=4, per_minute=500)
"""A paid key's requests a minute; the tokens keep a request well below what the smallest key may send in a minute."""
MAX_TOKENS: Final = 8191
TASKS: Final[Mapping[TextKind, str]] = {"document": "retrieval.passage", "query": "retrieval.query"}


def make(config: Mapping[str, Any], settings: Settings) -> Embedder:
    """The model of an `embeddingModelConfig`, at the operator's endpoint or at Jina's own."""
    base, client = sessions.vendor_client(
        settings, PROVIDER, BASE_URL, config["apiKey"], seconds=SECONDS["document"], most=MOST_BYTES
    )
    model = config["model"]
    server = ServerLimits(settings.home, PROVIDER, base, model)
    api = EmbeddingsApi(TITLE, client, server, urls=[base + OPERATION], key=config["apiKey"], model=model)

    def ask(texts: Sequence[str], kind: TextKind) -> tuple[list[Any], int]:
        from openai import omit

        # The SDK always sends `encoding_format`, which Jina refuses: "Extra inputs are not permitted".
        extra_fields = {"encoding_format": omit, "embedding_type": "float", "truncate": True, "task": TASKS[kind]}
        return api.send(texts, SECONDS[kind], extra_fields=extra_fields)

    return VendorEmbedder(
        provider=PROVIDER,
        title=TITLE,
        model=model,
        dimensions=DIMENSIONS.get(model),
        max_tokens=MAX_TOKENS,
        limits=LIMITS,
        server=server,
        ask=ask,
        close=client.close,
    )
