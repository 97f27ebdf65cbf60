"""Requests to `POST /embeddings` by OpenAI's SDK, for OpenAI, Jina AI and users' model servers."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import httpx

from connectors.embedders.refusals import TextsRefused, classify_refusal, read_vendor_message
from connectors.embedders.server_limits import ServerLimits
from connectors.embedders.vendor_embedder import MAX_RESPONSE_BYTES, REQUEST_SECONDS
from connectors.http import sessions
from connectors.http.responses import translate_failures
from connectors.http.retries import TransientError
from retrieval.errors import Fatal
from retrieval.network.fetch_guard import BlockedAddress
from retrieval.network.transport import limit_time

if TYPE_CHECKING:
    from retrieval.ports import TextKind
    from retrieval.settings import Settings

URL_FIELD: Final = "embeddingModelConfig.url"
OPERATION_PATH: Final = "/embeddings"
MAX_REFUSAL_CHARACTERS: Final = 2000
# Headers to send. The SDK adds others of the environment (OPENAI_ORG_ID, OPENAI_CUSTOM_HEADERS) and the machine.
ALLOWED_HEADERS: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "host",
        "user-agent",
        "x-stainless-raw-response",
    }
)


def open_vendor_api(
    provider: str, title: str, default_url: str, config: Mapping[str, Any], settings: Settings
) -> tuple[EmbeddingsApi, ServerLimits, httpx.Client]:
    """Return the API of a vendor's model with its limits, and the HTTP client to close."""
    base, client = sessions.vendor_client(
        settings,
        provider,
        default_url,
        config["apiKey"],
        seconds=REQUEST_SECONDS["document"],
        max_bytes=MAX_RESPONSE_BYTES,
    )
    model = config["model"]
    limits = ServerLimits(settings.home, provider, base, model)
    api = EmbeddingsApi(title, client, limits, urls=[base + OPERATION_PATH], key=config["apiKey"], model=model)
    return api, limits, client


class PathNotFound(Fatal):
    """The path or the model does not exist on the server."""


class EmbeddingsApi:
    """Client of a model on a server. Thread-safe.

    `urls`: candidates for the operation; the first without a 404 is used. `limits`: encoding and path learned by former
    requests.
    """

    def __init__(
        self,
        title: str,
        client: httpx.Client,
        limits: ServerLimits,
        *,
        urls: Sequence[str],
        key: str | None,
        model: str,
        dimensions: int | None = None,
    ) -> None:
        import openai

        sessions.quiet_loggers("openai")
        client.event_hooks = {"request": [partial(_replace_sdk_headers, key=key)]}
        # Without a key, the SDK would take that of the environment; `_replace_sdk_headers` removes the placeholder.
        # Raw responses, because parsing into the SDK's models takes longer than the request, and checks nothing.
        self._operations = {
            url: openai.OpenAI(
                api_key=key or "none", base_url=url.removesuffix(OPERATION_PATH), http_client=client, max_retries=0
            ).embeddings.with_raw_response
            for url in urls
        }
        self._title, self._limits, self._key = title, limits, key
        self._fields = {"model": model, **({} if dimensions is None else {"dimensions": dimensions})}

    def embed(self, texts: Sequence[str], kind: TextKind) -> tuple[list[Any], int]:
        """Send one request; return the vectors, and the server's count of tokens."""
        supports_base64 = self._limits.learned.base64
        if supports_base64 is not None:
            try:
                return self.send(texts, REQUEST_SECONDS[kind], encoded=supports_base64)
            except TextsRefused as refusal:
                if len(texts) > 1 or refusal.is_size:
                    raise
        # The first request, or the server at the address was replaced.
        return self._choose_encoding(texts, REQUEST_SECONDS[kind])

    def _choose_encoding(self, texts: Sequence[str], seconds: float) -> tuple[list[Any], int]:
        """Send in base64, else as numbers, and remember which. TextsRefused if the server refuses both."""
        for encoded in (True, False):
            try:
                response = self.send(texts, seconds, encoded=encoded)
            except TextsRefused as error:
                if error.is_tokens:
                    raise
                refusal = error
                continue
            self._limits.learn(base64=encoded)
            return response
        # Both are refused: a request of one text shows whether the number of texts is the cause.
        if len(texts) > 1:
            try:
                self._choose_encoding(texts[:1], seconds)
            except TextsRefused as single_refusal:
                if not single_refusal.is_size:
                    raise single_refusal.error from single_refusal
        raise refusal

    def send(
        self,
        texts: Sequence[str],
        seconds: float,
        *,
        encoded: bool = False,
        extra_fields: Mapping[str, Any] | None = None,
    ) -> tuple[list[Any], int]:
        """Send one request, for base64 if `encoded`; return the vectors, and the server's count of tokens."""
        fields = {**self._fields, "input": list(texts), "encoding_format": "base64" if encoded else "float"}
        learned_path = self._limits.learned.path
        learned_urls = [url for url in self._operations if httpx.URL(url).path == learned_path]
        urls = learned_urls or list(self._operations)
        for url in urls:
            try:
                answer = self._create(url, seconds, {**fields, "extra_body": extra_fields})
            except PathNotFound:
                if url == urls[-1]:
                    raise
                continue
            if len(urls) > 1:
                self._limits.learn(path=httpx.URL(url).path)
            break
        return self._read_vectors(answer), _read_token_count(answer)

    def _create(self, url: str, seconds: float, fields: Mapping[str, Any]) -> Any:
        import openai

        try:
            with translate_failures(self._title, seconds), limit_time(seconds), _unwrap_connection_errors():
                response = self._operations[url].create(**fields, timeout=seconds)
        except BlockedAddress as error:
            raise Fatal(str(error), field=URL_FIELD) from error
        except openai.APIStatusError as error:
            raise self._refusal(error.response) from error
        try:
            return json.loads(response.content)
        except (ValueError, RecursionError) as error:
            raise self._invalid_answer(None) from error

    def _refusal(self, response: httpx.Response) -> Exception:
        """Return the error for a status other than 200."""
        text = response.text[:MAX_REFUSAL_CHARACTERS]
        refusal = classify_refusal(self._title, response.status_code, text, response.headers, key=self._key or "")
        if response.status_code in {404, 405} and isinstance(refusal, Fatal):
            return PathNotFound(str(refusal), field=refusal.field)
        return refusal

    def _read_vectors(self, answer: Any) -> list[Any]:
        """Return the vectors in order of index. TransientError for an invalid answer."""
        try:
            entries = sorted(answer["data"], key=lambda entry: entry["index"])
            is_complete = [entry["index"] for entry in entries] == list(range(len(entries)))
            vectors = [_decode_vector(entry["embedding"]) for entry in entries]
        except (TypeError, KeyError, ValueError) as error:
            raise self._invalid_answer(answer) from error
        if not is_complete:
            raise TransientError(f"{self._title}'s answer left out some of the vectors.")
        return vectors

    def _invalid_answer(self, answer: Any) -> TransientError:
        """Return the error for an answer other than vectors, with the vendor's message, if any."""
        # Gateways answer 200 with an error in the body.
        message = read_vendor_message(answer, self._key or "")
        return TransientError(f"{self._title}'s answer was no list of vectors.", vendor_message=message)


@contextmanager
def _unwrap_connection_errors() -> Iterator[None]:
    """Raise the error of httpx or the fetch guard that the SDK's APIConnectionError wraps."""
    import openai

    try:
        yield
    except openai.APIConnectionError as error:
        raise (error.__cause__ or error) from None


def _replace_sdk_headers(request: httpx.Request, *, key: str | None) -> None:
    """Remove headers that the SDK adds, and authorize by `key`, None for a server without keys."""
    for name in set(request.headers) - ALLOWED_HEADERS:
        del request.headers[name]
    request.headers.pop("Authorization", None)
    if key:
        request.headers["Authorization"] = f"Bearer {key}"


def _read_token_count(answer: Any) -> int:
    usage = answer.get("usage")
    counted = usage.get("total_tokens") if isinstance(usage, dict) else None
    return counted if isinstance(counted, int) else 0


def _decode_vector(embedding: Any) -> Any:
    """Return a vector from base64 or a list; servers choose regardless of the request."""
    if isinstance(embedding, list):
        return embedding
    import numpy as np

    return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4")
