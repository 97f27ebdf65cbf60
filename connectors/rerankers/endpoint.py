"""Reranker on a user's own server: text-embeddings-inference, vLLM or Infinity."""

# text-embeddings-inference takes `texts` and returns a list of `{index, score}`; vLLM and Infinity take `model` and
# `documents` and return `results` of `{index, relevance_score}`. The first request has `documents` if the config has a
# model, else `texts`; if the server refuses it, the next request has the other field. The fetch guard opens the
# connections: a private address needs RETRIEVAL_FETCH_ALLOW.

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import httpx

from connectors.http import sessions
from connectors.http.responses import translate_failures, unreadable_answer
from connectors.rerankers.vendor import MAX_ANSWER_BYTES, VendorReranker, error_of_refusal, read_scores
from retrieval.errors import Fatal
from retrieval.network import fetch_guard
from retrieval.network.fetch_guard import BlockedAddress, Guard
from retrieval.network.transport import Transport, limit_time

if TYPE_CHECKING:
    from retrieval.ports import Reranker
    from retrieval.settings import Settings

SERVER_TITLE: Final = "The reranker"
REQUEST_TIMEOUT_SECONDS: Final = 10.0
# The default limit of text-embeddings-inference.
TEXTS_PER_REQUEST: Final = 32
_WRONG_FORM_STATUSES: Final = frozenset({400, 422})

Form = Literal["texts", "documents"]


def make(config: Mapping[str, Any], settings: Settings) -> Reranker:
    """Return the server at the `url` of a `rerankConfig`, a base URL or one with `/rerank`."""
    url = config["url"].rstrip("/")
    url = url if "://" in url else f"https://{url}"
    url = url if url.endswith("/rerank") else f"{url}/rerank"
    headers = {"Accept": "application/json"}
    if key := config.get("apiKey"):
        headers["Authorization"] = f"Bearer {key}"
    guard = fetch_guard.make_guard(settings)
    transport = Transport(guard, max_bytes=MAX_ANSWER_BYTES)
    client = sessions.httpx_client(
        sessions.trusted_certificates(None, "ENDPOINT"),
        seconds=REQUEST_TIMEOUT_SECONDS,
        transport=transport,
        headers=headers,
    )
    server = _RerankServer(client, url, config.get("model"), guard)
    return VendorReranker(
        title=SERVER_TITLE, ask=server.rerank, batch=TEXTS_PER_REQUEST, calls=4, logits=True, close=client.close
    )


class _RerankServer:
    """Client of a rerank server; the first answers show the accepted request form."""

    def __init__(self, client: httpx.Client, url: str, model: str | None, guard: Guard) -> None:
        self._client = client
        self._url = url
        self._guard = guard
        self._model = model
        self._form: Form = "documents" if model else "texts"
        self._is_form_known = False

    def rerank(self, query: str, texts: Sequence[str], seconds: float) -> list[tuple[int, float]]:
        if not self._is_form_known:
            sessions.require_private_without_tls(self._guard, self._url, title="reranker", field="rerankConfig.url")
        form = self._form
        response, answer = self._post(form, query, texts, seconds)
        if response.status_code in _WRONG_FORM_STATUSES and not self._is_form_known:
            form = "texts" if form == "documents" else "documents"
            second_response, answer = self._post(form, query, texts, seconds)
            response = second_response if second_response.status_code == 200 else response
        if response.status_code != 200:
            raise error_of_refusal(SERVER_TITLE, response.status_code, response.headers)
        self._form, self._is_form_known = form, True
        entries = answer.get("results") if isinstance(answer, dict) else answer
        return read_scores(SERVER_TITLE, entries, "relevance_score" if isinstance(answer, dict) else "score")

    def _post(self, form: Form, query: str, texts: Sequence[str], seconds: float) -> tuple[httpx.Response, Any]:
        body: dict[str, Any] = {"query": query, form: list(texts)}
        if form == "texts":
            body |= {"truncate": True, "raw_scores": False}
        else:
            body |= {"return_documents": False, **({"model": self._model} if self._model else {})}
        try:
            with translate_failures(SERVER_TITLE, seconds), limit_time(seconds):
                response = self._client.post(self._url, json=body, timeout=seconds)
        except BlockedAddress as error:
            raise Fatal(str(error), field="rerankConfig.url") from error
        if response.status_code != 200:
            return response, None
        try:
            return response, json.loads(response.content)
        except (ValueError, RecursionError) as error:
            raise unreadable_answer(SERVER_TITLE) from error
