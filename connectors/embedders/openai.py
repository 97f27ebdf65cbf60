"""OpenAI's embedding models, through the vendor's SDK, or any server that speaks its protocol.

Limits by the vendor's description of POST /embeddings: 2048 inputs, 8192 tokens each, 300,000 tokens a request.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from connectors.embedders.packing import Limits
from connectors.embedders.vendor import MOST_BYTES, VendorEmbedder, understand
from connectors.http import sessions
from connectors.http.responses import late, unreached
from connectors.http.retries import Passing
from retrieval.network import bounded_answers

if TYPE_CHECKING:
    from httpx2 import Request

    from retrieval.ports import Embedder, TextKind
    from retrieval.settings import Settings

PROVIDER: Final = "OPENAI"
TITLE: Final = "OpenAI"
BASE_URL: Final = "https://api.openai.com/v1"
SECONDS: Final = 60.0
DIMENSIONS: Final[Mapping[str, int]] = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
LIMITS: Final = Limits(texts=2048, tokens=300_000)
MAX_TOKENS: Final = 8191


def make(config: Mapping[str, Any], settings: Settings) -> Embedder:
    """The model of an `embeddingModelConfig`, at the operator's endpoint or at OpenAI's own."""
    import httpx2
    import openai
    import openai.resources.embeddings  # the SDK loads its parts when they are first used

    sessions.quiet("openai", "httpx2", "httpcore2")
    endpoint = settings.endpoints.get(PROVIDER)
    verify = sessions.trust(endpoint, PROVIDER)
    client = openai.OpenAI(
        api_key=config["apiKey"],
        base_url=sessions.base_url(endpoint, BASE_URL),
        organization="",
        project="",
        max_retries=0,
        http_client=httpx2.Client(
            trust_env=False,
            timeout=SECONDS,
            transport=bounded_answers.transport(httpx2)(verify, most=MOST_BYTES),
            follow_redirects=False,
            event_hooks={"request": [_of_this_key_alone]},
        ),
    )
    model = config["model"]

    def ask(texts: Sequence[str], _kind: TextKind) -> tuple[list[Any], int]:
        try:
            answer = client.embeddings.create(model=model, input=list(texts), encoding_format="base64")
        except openai.APIStatusError as error:
            said = f"{error.code} {error.type} {error.message}"
            raise understand(TITLE, error.status_code, said, error.response.headers) from error
        except openai.APITimeoutError as error:
            raise late(TITLE, SECONDS) from error
        except (openai.APIError, httpx2.HTTPError, ValueError) as error:
            raise unreached(TITLE) from error
        return in_order(getattr(answer, "data", None)), getattr(getattr(answer, "usage", None), "total_tokens", 0) or 0

    return VendorEmbedder(
        provider=PROVIDER,
        title=TITLE,
        model=model,
        dimensions=DIMENSIONS.get(model),
        max_tokens=MAX_TOKENS,
        limits=LIMITS,
        ask=ask,
        close=client.close,
    )


def in_order(entries: Any) -> list[Any]:
    """The vectors by their index, whatever order they came in. Passing for what is no list of vectors."""
    try:
        found = sorted(entries, key=lambda entry: entry.index)
        whole = [entry.index for entry in found] == list(range(len(found)))
        vectors = [_numbers(entry.embedding) for entry in found]
    except (TypeError, ValueError, AttributeError) as error:
        raise Passing(f"{TITLE}'s answer was no list of vectors.") from error
    if not whole:
        raise Passing(f"{TITLE}'s answer left out some of the vectors.")
    return vectors


def _numbers(embedding: Any) -> Any:
    """Of base64 or of a list: servers that speak the protocol send either."""
    if not isinstance(embedding, str):
        return embedding
    import numpy as np

    return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4")


def _of_this_key_alone(request: Request) -> None:
    """The SDK would name an organization and a project from the environment, or empty ones."""
    for name in ("openai-organization", "openai-project"):
        request.headers.pop(name, None)
