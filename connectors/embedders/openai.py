"""OpenAI's embedding models by the vendor's SDK, or those of the server with its API that the operator has set.

Limits by the vendor's description of POST /embeddings: 2048 inputs, 8192 tokens each, 300,000 tokens a request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from connectors.embedders.openai_protocol import OPERATION, EmbeddingsApi
from connectors.embedders.request_sizing import RequestLimits
from connectors.embedders.server_limits import ServerLimits
from connectors.embedders.vendor_embedder import MOST_BYTES, SECONDS, VendorEmbedder
from connectors.http import sessions

if TYPE_CHECKING:
    from retrieval.ports import Embedder
    from retrieval.settings import Settings

PROVIDER: Final = "OPENAI"
TITLE: Final = "OpenAI"
BASE_URL: Final = "https://api.openai.com/v1"
DIMENSIONS: Final[Mapping[str, int]] = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
LIMITS: Final = RequestLimits(texts=2048, tokens=300_000)
MAX_TOKENS: Final = 8191


def make(config: Mapping[str, Any], settings: Settings) -> Embedder:
    """The model of an `embeddingModelConfig`, at the operator's endpoint or at OpenAI's own."""
    base, client = sessions.vendor_client(
        settings, PROVIDER, BASE_URL, config["apiKey"], seconds=SECONDS["document"], most=MOST_BYTES
    )
    model = config["model"]
    server = ServerLimits(settings.home, PROVIDER, base, model)
    api = EmbeddingsApi(TITLE, client, server, urls=[base + OPERATION], key=config["apiKey"], model=model)
    return VendorEmbedder(
        provider=PROVIDER,
        title=TITLE,
        model=model,
        dimensions=DIMENSIONS.get(model),
        max_tokens=MAX_TOKENS,
        limits=LIMITS,
        server=server,
        ask=api.ask,
        close=client.close,
        prefixes={"query": config.get("queryPrefix", ""), "document": config.get("passagePrefix", "")},
    )
