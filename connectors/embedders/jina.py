"""Embedding models of Jina AI by OpenAI's SDK."""

# Jina AI has no SDK, and OpenAI's API with additional fields. POST /v1/embeddings takes 512 texts and truncates long
# ones itself (truncate).

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from connectors.embedders.openai_protocol import open_vendor_api
from connectors.embedders.request_sizing import RequestLimits
from connectors.embedders.vendor_embedder import REQUEST_SECONDS, VendorEmbedder

if TYPE_CHECKING:
    from retrieval.ports import Embedder, TextKind
    from retrieval.settings import Settings

PROVIDER_NAME: Final = "JINA"
VENDOR_TITLE: Final = "Jina AI"
BASE_URL: Final = "https://api.jina.ai/v1"
MODEL_DIMENSIONS: Final[Mapping[str, int]] = {"jina-embeddings-v3": 1024, "jina-embeddings-v4": 2048}
# Requests a minute of a paid key. The tokens are well below the limit per minute of the smallest key.
REQUEST_LIMITS: Final = RequestLimits(texts=512, tokens=100_000, concurrent=4, per_minute=500)
MAX_TOKENS: Final = 8191
TASK_NAMES: Final[Mapping[TextKind, str]] = {"document": "retrieval.passage", "query": "retrieval.query"}


def make(config: Mapping[str, Any], settings: Settings) -> Embedder:
    """Return the model of an `embeddingModelConfig`."""
    api, server, client = open_vendor_api(PROVIDER_NAME, VENDOR_TITLE, BASE_URL, config, settings)
    model = config["model"]

    def send(texts: Sequence[str], kind: TextKind) -> tuple[list[Any], int]:
        from openai import omit

        # The SDK always sends `encoding_format`, which Jina refuses: "Extra inputs are not permitted".
        extra_fields = {"encoding_format": omit, "embedding_type": "float", "truncate": True, "task": TASK_NAMES[kind]}
        return api.send(texts, REQUEST_SECONDS[kind], extra_fields=extra_fields)

    return VendorEmbedder(
        provider=PROVIDER_NAME,
        title=VENDOR_TITLE,
        model=model,
        dimensions=MODEL_DIMENSIONS.get(model),
        max_tokens=MAX_TOKENS,
        limits=REQUEST_LIMITS,
        server=server,
        send=send,
        close=client.close,
    )
