"""Jina AI's embedding models over plain HTTP; the vendor has no SDK.

Limits by the vendor's page of POST /v1/embeddings: 512 inputs a request; it cuts longer texts off itself (truncate).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from connectors.embedders.vendor import MOST_BYTES, SECONDS, Limits, ServerLimits, VendorEmbedder, error_of_refusal
from connectors.http import sessions
from connectors.http.responses import connection_error, timeout_error
from connectors.http.retries import TransientError

if TYPE_CHECKING:
    from retrieval.ports import Embedder, TextKind
    from retrieval.settings import Settings

PROVIDER: Final = "JINA"
TITLE: Final = "Jina AI"
BASE_URL: Final = "https://api.jina.ai/v1"
DIMENSIONS: Final[Mapping[str, int]] = {"jina-embeddings-v3": 1024, "jina-embeddings-v4": 2048}
LIMITS: Final = Limits(texts=512, tokens=100_000, concurrent=4, per_minute=500)
"""A paid key's requests a minute; the tokens keep a request well below what the smallest key may send in a minute."""
MAX_TOKENS: Final = 8191
TASKS: Final[Mapping[TextKind, str]] = {"document": "retrieval.passage", "query": "retrieval.query"}


def make(config: Mapping[str, Any], settings: Settings) -> Embedder:
    """The model of an `embeddingModelConfig`, at the operator's endpoint or at Jina's own."""
    import httpx

    endpoint = settings.endpoints.get(PROVIDER)
    base = sessions.base_url(endpoint, BASE_URL)
    headers = {"Authorization": f"Bearer {config['apiKey']}", "Accept": "application/json"}
    verify = sessions.trusted_certificates(endpoint, PROVIDER)
    client = sessions.httpx_client(verify, seconds=SECONDS["document"], most=MOST_BYTES, headers=headers)
    model = config["model"]

    def ask(texts: Sequence[str], kind: TextKind) -> tuple[list[Any], int]:
        body = {
            "model": model,
            "task": TASKS[kind],
            "embedding_type": "float",
            "truncate": True,
            "input": list(texts),
        }
        try:
            answer = client.post(f"{base}/embeddings", json=body, timeout=SECONDS[kind])
            if answer.status_code != 200:
                raise error_of_refusal(
                    TITLE, answer.status_code, answer.text[:2000], answer.headers, key=config["apiKey"]
                )
            payload = answer.json()
            return _in_order(payload), _counted(payload)
        except httpx.TimeoutException as error:
            raise timeout_error(TITLE, SECONDS[kind]) from error
        except (httpx.HTTPError, ValueError) as error:
            raise connection_error(TITLE) from error

    return VendorEmbedder(
        provider=PROVIDER,
        title=TITLE,
        model=model,
        dimensions=DIMENSIONS.get(model),
        max_tokens=MAX_TOKENS,
        limits=LIMITS,
        server=ServerLimits(settings.home, PROVIDER, base, model),
        ask=ask,
        close=client.close,
    )


def _counted(answer: Any) -> int:
    usage = answer.get("usage")
    counted = usage.get("total_tokens") if isinstance(usage, dict) else None
    return counted if isinstance(counted, int) else 0


def _in_order(answer: Any) -> list[Any]:
    """The vectors by their index, whatever order they came in. TransientError for what is no list of vectors."""
    try:
        entries = sorted(answer["data"], key=lambda entry: entry["index"])
        whole = [entry["index"] for entry in entries] == list(range(len(entries)))
        vectors = [entry["embedding"] for entry in entries]
    except (TypeError, KeyError) as error:
        raise TransientError(f"{TITLE}'s answer was no list of vectors.") from error
    if not whole:
        raise TransientError(f"{TITLE}'s answer left out some of the vectors.")
    return vectors
