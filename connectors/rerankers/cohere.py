"""Cohere's rerankers, through the vendor's SDK (its v2 API, docs.cohere.com/reference/rerank)."""

# Cohere advises at most 1,000 documents a request and cuts each off at 4,096 tokens.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from connectors import cohere_sdk
from connectors.cohere_sdk import COHERE_TITLE
from connectors.http.responses import connection_error, timeout_error, unreadable_answer
from connectors.rerankers.vendor import MAX_ANSWER_BYTES, VendorReranker, error_of_refusal, read_scores

if TYPE_CHECKING:
    from retrieval.ports import Reranker
    from retrieval.settings import Settings

REQUEST_TIMEOUT_SECONDS: Final = 10.0


def make(config: Mapping[str, Any], settings: Settings) -> Reranker:
    """Return the model of a `rerankConfig`."""
    import httpx
    from cohere.core.api_error import ApiError

    client, web = cohere_sdk.open_client(
        config["apiKey"], settings, seconds=REQUEST_TIMEOUT_SECONDS, max_bytes=MAX_ANSWER_BYTES
    )

    def ask(query: str, texts: Sequence[str], seconds: float) -> list[tuple[int, float]]:
        try:
            answer = client.rerank(
                model=config["model"],
                query=query,
                documents=list(texts),
                request_options={"max_retries": 0, "timeout_in_seconds": max(1, round(seconds))},
            )
        except ApiError as error:
            headers = {name.lower(): value for name, value in (error.headers or {}).items()}
            raise error_of_refusal(COHERE_TITLE, error.status_code or 500, headers) from error
        except httpx.TimeoutException as error:
            raise timeout_error(COHERE_TITLE, seconds) from error
        except (httpx.HTTPError, ValueError) as error:
            raise connection_error(COHERE_TITLE) from error
        except (
            AttributeError,
            TypeError,
            OverflowError,
            RecursionError,
        ) as error:  # the SDK on JSON that is not its vendor's
            raise unreadable_answer(COHERE_TITLE) from error
        return read_scores(COHERE_TITLE, _entries(answer), "relevance_score")

    return VendorReranker(title=COHERE_TITLE, ask=ask, batch=1000, calls=1, logits=False, close=web.close)


def _entries(answer: Any) -> list[Any]:
    results = getattr(answer, "results", None)
    return [getattr(entry, "__dict__", entry) for entry in results] if isinstance(results, list) else []
