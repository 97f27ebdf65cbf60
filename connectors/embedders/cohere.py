"""Embedding models of Cohere by the vendor's SDK (v2 API)."""

# POST /v2/embed takes 96 texts and truncates long ones itself (truncate END). docs.cohere.com/docs/rate-limits: 2,000
# texts a minute, in any number of requests.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from connectors import cohere_sdk
from connectors.cohere_sdk import COHERE_PROVIDER, COHERE_TITLE
from connectors.embedders.refusals import classify_refusal
from connectors.embedders.request_sizing import RequestLimits
from connectors.embedders.server_limits import ServerLimits
from connectors.embedders.vendor_embedder import MAX_RESPONSE_BYTES, REQUEST_SECONDS, VendorEmbedder
from connectors.http.responses import connection_error, timeout_error
from connectors.http.retries import TransientError

if TYPE_CHECKING:
    from retrieval.ports import Embedder, TextKind
    from retrieval.settings import Settings

MODEL_DIMENSIONS: Final[Mapping[str, int]] = {
    "embed-v4.0": 1536,
    "embed-english-v3.0": 1024,
    "embed-multilingual-v3.0": 1024,
    "embed-english-light-v3.0": 384,
    "embed-multilingual-light-v3.0": 384,
    "embed-english-v2.0": 4096,
    "embed-english-light-v2.0": 1024,
    "embed-multilingual-v2.0": 768,
}
MAX_TOKENS: Final[Mapping[str, int]] = {"embed-v4.0": 8191, "embed-multilingual-v2.0": 256}
# A full request at once and the rate stay below 2,000 texts a minute.
REQUEST_LIMITS: Final = RequestLimits(texts=96, tokens=None, concurrent=4, per_minute=2000 - 96, by_text=True)
INPUT_TYPES: Final[Mapping[TextKind, str]] = {"document": "search_document", "query": "search_query"}


def make(config: Mapping[str, Any], settings: Settings) -> Embedder:
    """Return the model of an `embeddingModelConfig`."""
    import httpx
    from cohere.core.api_error import ApiError

    client, web = cohere_sdk.open_client(
        config["apiKey"], settings, seconds=REQUEST_SECONDS["document"], max_bytes=MAX_RESPONSE_BYTES
    )
    model = config["model"]

    def send(texts: Sequence[str], kind: TextKind) -> tuple[list[Any], int]:
        try:
            answer = client.embed(
                model=model,
                texts=list(texts),
                input_type=INPUT_TYPES[kind],
                embedding_types=["float"],
                truncate="END",
                request_options={"max_retries": 0, "timeout_in_seconds": round(REQUEST_SECONDS[kind])},
            )
        except ApiError as error:
            raise _port_error(error, config["apiKey"]) from error
        except httpx.TimeoutException as error:
            raise timeout_error(COHERE_TITLE, REQUEST_SECONDS[kind]) from error
        except (httpx.HTTPError, ValueError) as error:
            raise connection_error(COHERE_TITLE) from error
        vectors = getattr(getattr(answer, "embeddings", None), "float_", None)
        if not isinstance(vectors, list):
            raise TransientError(f"{COHERE_TITLE}'s answer was no list of vectors.")
        return vectors, 0

    return VendorEmbedder(
        provider=COHERE_PROVIDER,
        title=COHERE_TITLE,
        model=model,
        dimensions=MODEL_DIMENSIONS.get(model),
        max_tokens=MAX_TOKENS.get(model, 512),
        limits=REQUEST_LIMITS,
        server=ServerLimits(settings.home, COHERE_PROVIDER, cohere_sdk.base_url(settings), model),
        send=send,
        close=web.close,
    )


def _port_error(error: Any, key: str) -> Exception:
    status = error.status_code
    if status is None or 200 <= status < 300:
        return TransientError(f"{COHERE_TITLE}'s answer was not what its API gives.")
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    return classify_refusal(COHERE_TITLE, status, error.body, headers, key=key)
