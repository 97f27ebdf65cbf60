"""Embedding models of OpenAI, or of a compatible server, by OpenAI's SDK."""

# POST /embeddings takes 2048 texts of 8192 tokens, and 300,000 tokens per request.

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from connectors.embedders.openai_protocol import open_vendor_api
from connectors.embedders.request_sizing import RequestLimits
from connectors.embedders.vendor_embedder import VendorEmbedder

if TYPE_CHECKING:
    from retrieval.ports import Embedder
    from retrieval.settings import Settings

PROVIDER_NAME: Final = "OPENAI"
VENDOR_TITLE: Final = "OpenAI"
BASE_URL: Final = "https://api.openai.com/v1"
MODEL_DIMENSIONS: Final[Mapping[str, int]] = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
REQUEST_LIMITS: Final = RequestLimits(texts=2048, tokens=300_000)
MAX_TOKENS: Final = 8191


def make(config: Mapping[str, Any], settings: Settings) -> Embedder:
    """Return the model of an `embeddingModelConfig`."""
    api, server, client = open_vendor_api(PROVIDER_NAME, VENDOR_TITLE, BASE_URL, config, settings)
    model = config["model"]
    return VendorEmbedder(
        provider=PROVIDER_NAME,
        title=VENDOR_TITLE,
        model=model,
        dimensions=MODEL_DIMENSIONS.get(model),
        max_tokens=MAX_TOKENS,
        limits=REQUEST_LIMITS,
        server=server,
        send=api.embed,
        close=client.close,
        prefixes={"query": config.get("queryPrefix", ""), "document": config.get("passagePrefix", "")},
    )
