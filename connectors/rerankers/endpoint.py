"""Reranker at a user's address: text-embeddings-inference, vLLM or Infinity."""

# text-embeddings-inference takes `texts` and answers a list of `{index, score}`; vLLM and Infinity take `model` and
# `documents` and answer `results` of `{index, relevance_score}`. Requests begin with the form of `documents` if the
# config has a model, else with that of `texts`; after a refusal the other form is tried once. The fetch guard opens
# connections: a private address needs RETRIEVAL_FETCH_ALLOW.

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import httpx

from connectors.http import sessions
from connectors.http.responses import translate_failures, unreadable_answer
from connectors.rerankers.vendor import MOST_BYTES, VendorReranker, error_of_refusal, read_scores
from retrieval.errors import Fatal
from retrieval.network import fetch_guard
from retrieval.network.fetch_guard import BlockedAddress, Guard
from retrieval.network.transport import Transport, limit_time

if TYPE_CHECKING:
    from retrieval.ports import Reranker
    from retrieval.settings import Settings

SERVER_TITLE: Final = "The reranker"
REQUEST_TIMEOUT_SECONDS: Final = 10.0
# Texts of a request: the default limit of text-embeddings-inference.
BATCH: Final = 32
_OTHER_FORM: Final = frozenset({400, 422})

Form = Literal["texts", "documents"]


def make(config: Mapping[str, Any], settings: Settings) -> Reranker:
    """Return the server at the `url` of a `rerankConfig`, a base URL or one with `/rerank`."""
    url = config["url"].rstrip("/")
    url = url if "://" in url else f"https://{url}"
    url = url if url.endswith("/rerank") else f"{url}/rerank"
    headers = {"Accept": "application/json"}
    if key := config.get("apiKey"):
        headers["Authorization"] = f"Bearer {key}"
    guarded = fetch_guard.make_guard(settings)
    transport = Transport(guarded, max_bytes=MOST_BYTES)
    client = sessions.httpx_client(
        sessions.trusted_certificates(None, "ENDPOINT"),
        seconds=REQUEST_TIMEOUT_SECONDS,
        transport=transport,
        headers=headers,
    )
    asker = _Asker(client, url, config.get("model"), guarded)
    return VendorReranker(title=SERVER_TITLE, ask=asker.ask, batch=BATCH, calls=4, logits=True, close=client.close)


class _Asker:
    """Client with the server's request form, learned from answers."""

    def __init__(self, client: httpx.Client, url: str, model: str | None, guarded: Guard) -> None:
        self._client = client
        self._url = url
        self._guard = guarded
        self._model = model
        self._form: Form = "documents" if model else "texts"
        self._settled = False

    def ask(self, query: str, texts: Sequence[str], seconds: float) -> list[tuple[int, float]]:
        if not self._settled:
            sessions.require_private_without_tls(self._guard, self._url, title="reranker", field="rerankConfig.url")
        form = self._form
        status, answer = self._post(form, query, texts, seconds)
        if status.status_code in _OTHER_FORM and not self._settled:
            form = "texts" if form == "documents" else "documents"
            other_form, answer = self._post(form, query, texts, seconds)
            status = other_form if other_form.status_code == 200 else status
        if status.status_code != 200:
            raise error_of_refusal(SERVER_TITLE, status.status_code, status.headers)
        self._form, self._settled = form, True
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
                answer = self._client.post(self._url, json=body, timeout=seconds)
        except BlockedAddress as error:
            raise Fatal(str(error), field="rerankConfig.url") from error
        if answer.status_code != 200:
            return answer, None
        try:
            return answer, json.loads(answer.content)
        except (ValueError, RecursionError) as error:
            raise unreadable_answer(SERVER_TITLE) from error
