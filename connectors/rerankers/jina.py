"""Jina AI's rerankers over plain HTTP (POST /v1/rerank of its API reference); the vendor has no SDK."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from connectors.http import sessions
from connectors.http.responses import translate_failures, unreadable_answer
from connectors.rerankers.vendor import MAX_ANSWER_BYTES, VendorReranker, error_of_refusal, read_scores

if TYPE_CHECKING:
    from retrieval.ports import Reranker
    from retrieval.settings import Settings

PROVIDER_NAME: Final = "JINA"
VENDOR_TITLE: Final = "Jina AI"
BASE_URL: Final = "https://api.jina.ai/v1"
REQUEST_TIMEOUT_SECONDS: Final = 10.0


def make(config: Mapping[str, Any], settings: Settings) -> Reranker:
    """Return the model of a `rerankConfig`."""
    base, client = sessions.vendor_client(
        settings, PROVIDER_NAME, BASE_URL, config["apiKey"], seconds=REQUEST_TIMEOUT_SECONDS, max_bytes=MAX_ANSWER_BYTES
    )

    def ask(query: str, texts: Sequence[str], seconds: float) -> list[tuple[int, float]]:
        body = {"model": config["model"], "query": query, "documents": list(texts), "return_documents": False}
        with translate_failures(VENDOR_TITLE, seconds):
            answer = client.post(f"{base}/rerank", json=body, timeout=seconds)
        if answer.status_code != 200:
            raise error_of_refusal(VENDOR_TITLE, answer.status_code, answer.headers)
        try:
            results = answer.json()["results"]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise unreadable_answer(VENDOR_TITLE) from error
        return read_scores(VENDOR_TITLE, results, "relevance_score")

    return VendorReranker(title=VENDOR_TITLE, ask=ask, batch=512, calls=2, logits=False, close=client.close)
