"""Classify an embedding vendor's refusal: rate limit, outage, configuration, or the texts of the request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from connectors.http.responses import transient_error
from connectors.http.retries import TransientError
from retrieval.errors import Fatal

KEY_FIELD: Final = "embeddingModelConfig.apiKey"
MODEL_FIELD: Final = "embeddingModelConfig.model"
MAX_MESSAGE_CHARACTERS: Final = 300
# text-embeddings-inference answers 424 if its model fails.
TRANSIENT_STATUSES: Final = frozenset({409, 424})
TEXT_STATUSES: Final = frozenset({400, 413, 422})
_SIZE_WORDS: Final = ("token", "too long", "too large", "length", "exceed", "长", "超")


class TextsRefused(Exception):
    """Refusal of the texts of a request: too many, one too long, or one with refused content.

    `error`: raised if a single text is refused; `is_size`: a text or the request is too large; `is_tokens`: the size
    is counted in tokens.
    """

    def __init__(self, error: Fatal, *, is_size: bool, is_tokens: bool) -> None:
        super().__init__(str(error))
        self.error, self.is_size, self.is_tokens = error, is_size, is_tokens


def classify_refusal(title: str, status: int, body: Any, headers: Mapping[str, str], *, key: str) -> Exception:
    """Return RateLimited, TransientError, TextsRefused or Fatal for a status other than 200, without the `key`."""
    text = str(body)
    if "insufficient_quota" in text:
        status = 402
    # llama.cpp answers 500 to a text beyond its physical batch.
    if status == 500 and "too large" in text:
        status = 413
    if error := transient_error(title, status, headers, passing=TRANSIENT_STATUSES):
        if isinstance(error, TransientError):
            error.vendor_message = read_vendor_message(body, key)
        return error
    message, field = _MESSAGES.get(status, _UNEXPECTED)
    message = message.format(title=title, status=status, key=KEY_FIELD, model=MODEL_FIELD)
    if status not in TEXT_STATUSES:
        return Fatal(message, field=field)
    vendor_message = read_vendor_message(body, key)
    fatal = Fatal(f"{message} It says: {vendor_message}" if vendor_message else message, field=field)
    lower = text.lower()
    is_size = status == 413 or any(word in lower for word in _SIZE_WORDS)
    return TextsRefused(fatal, is_size=is_size, is_tokens="token" in lower)


def read_vendor_message(body: Any, key: str) -> str:
    """Return the vendor's message in an error body, without the `key`, in at most 300 characters; "" without one."""
    message = _find_message(body)
    return " ".join((message.replace(key, "…") if key else message).split())[:MAX_MESSAGE_CHARACTERS]


def _find_message(body: Any) -> str:
    if isinstance(body, str):
        try:
            return _find_message(msgspec.json.decode(body))
        except msgspec.DecodeError:
            return "" if "<html" in body.lower() else body
    if isinstance(body, list):
        return _find_message(body[0]) if body else ""
    if not isinstance(body, dict):
        return ""
    return next((_find_message(body[name]) for name in ("error", "message", "detail", "msg") if body.get(name)), "")


_MESSAGES: Final[Mapping[int, tuple[str, str]]] = {
    **dict.fromkeys(
        TEXT_STATUSES, ("{title} does not accept the request: check {model}, or the endpoint.", MODEL_FIELD)
    ),
    **dict.fromkeys((401, 403), ("{title} refuses the key in {key}: check it and its permissions.", KEY_FIELD)),
    402: ("The account at {title} has no credit left: add credit, or use another key.", KEY_FIELD),
    404: ("{title} has no such model for this key: check {model}.", MODEL_FIELD),
}
_UNEXPECTED: Final = ("{title} answered with the unexpected status {status}: check the endpoint.", MODEL_FIELD)
