"""OpenAI's embedding models, through the vendor's SDK, or any server that speaks its protocol.

Limits by the vendor's description of POST /embeddings: 2048 inputs, 8192 tokens each, 300,000 tokens a request.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from connectors.embedders.vendor import (
    MOST_BYTES,
    SECONDS,
    BadRequest,
    Limits,
    ServerLimits,
    VendorEmbedder,
    error_of_refusal,
)
from connectors.http import sessions
from connectors.http.responses import connection_error, timeout_error
from connectors.http.retries import TransientError
from retrieval.network import bounded_answers

if TYPE_CHECKING:
    from httpx2 import Request

    from retrieval.ports import Embedder, TextKind
    from retrieval.settings import Settings

PROVIDER: Final = "OPENAI"
TITLE: Final = "OpenAI"
BASE_URL: Final = "https://api.openai.com/v1"
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

    sessions.quiet_loggers("openai", "httpx2", "httpcore2")
    endpoint = settings.endpoints.get(PROVIDER)
    base = sessions.base_url(endpoint, BASE_URL)
    verify = sessions.trusted_certificates(endpoint, PROVIDER)
    client = openai.OpenAI(
        api_key=config["apiKey"],
        base_url=base,
        organization="",
        project="",
        max_retries=0,
        http_client=httpx2.Client(
            trust_env=False,
            timeout=SECONDS["document"],
            transport=bounded_answers.bounded_transport(httpx2)(verify, most=MOST_BYTES),
            follow_redirects=False,
            event_hooks={"request": [_of_this_key_alone]},
        ),
    )
    model = config["model"]
    server = ServerLimits(settings.home, PROVIDER, base, model)

    def send(texts: Sequence[str], kind: TextKind, *, base64: bool) -> tuple[list[Any], int]:
        body = {"model": model, "input": list(texts), **({"encoding_format": "base64"} if base64 else {})}
        try:
            answer = client.post(
                "/embeddings",
                body=body,
                options={"timeout": SECONDS[kind]},
                cast_to=openai.types.CreateEmbeddingResponse,
            )
        except openai.APIStatusError as error:
            raise error_of_refusal(
                TITLE, error.status_code, error.body, error.response.headers, key=config["apiKey"]
            ) from error
        except openai.APITimeoutError as error:
            raise timeout_error(TITLE, SECONDS[kind]) from error
        except (openai.APIError, httpx2.HTTPError, ValueError) as error:
            raise connection_error(TITLE) from error
        return in_order(getattr(answer, "data", None)), getattr(getattr(answer, "usage", None), "total_tokens", 0) or 0

    def ask(texts: Sequence[str], kind: TextKind) -> tuple[list[Any], int]:
        if server.base64 is None:
            return _choose_encoding(texts, partial(send, kind=kind), server)
        try:
            return send(texts, kind, base64=server.base64)
        except BadRequest as refusal:
            if len(texts) > 1 or refusal.of_size:
                raise
        return _choose_encoding(
            texts, partial(send, kind=kind), server
        )  # another server may answer at the address by now

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
        prefixes={"query": config.get("queryPrefix", ""), "document": config.get("passagePrefix", "")},
    )


def _choose_encoding(
    texts: Sequence[str], send: Callable[..., tuple[list[Any], int]], server: ServerLimits
) -> tuple[list[Any], int]:
    """Send the first request to a server, in base64 if it accepts that. Refused if it accepts neither encoding.

    Where both are refused, the first text alone shows whether the encoding or the number of texts is at fault.
    """
    for encoded in (True, False):
        try:
            response = send(texts, base64=encoded)
        except BadRequest as error:
            if error.of_tokens:
                raise
            refusal = error
            continue
        server.learn(base64=encoded)
        return response
    if len(texts) > 1:
        try:
            _choose_encoding(texts[:1], send, server)
        except BadRequest as alone:
            if not alone.of_size:
                raise alone.error from alone
    raise refusal


def in_order(entries: Any) -> list[Any]:
    """The vectors by their index, whatever order they came in. TransientError for what is no list of vectors."""
    try:
        ordered = sorted(entries, key=lambda entry: entry.index)
        whole = [entry.index for entry in ordered] == list(range(len(ordered)))
        vectors = [_numbers(entry.embedding) for entry in ordered]
    except (TypeError, ValueError, AttributeError) as error:
        raise TransientError(f"{TITLE}'s answer was no list of vectors.") from error
    if not whole:
        raise TransientError(f"{TITLE}'s answer left out some of the vectors.")
    return vectors


def _numbers(embedding: Any) -> Any:
    """Decode base64 or a list: servers that speak the protocol send either."""
    if not isinstance(embedding, str):
        return embedding
    import numpy as np

    return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4")


def _of_this_key_alone(request: Request) -> None:
    """The SDK would name an organization and a project from the environment, or empty ones."""
    for name in ("openai-organization", "openai-project"):
        request.headers.pop(name, None)
