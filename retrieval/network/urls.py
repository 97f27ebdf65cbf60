"""Validation and normalization of web page URLs."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

MOST_CHARACTERS = 2048
_UNUSABLE = re.compile(r"[\x00-\x20\x7f-\x9f\\]")


def tidy_url(address: str) -> str:
    """Return the address without its fragment. ValueError has the problem, without repeating the address."""
    if len(address) > MOST_CHARACTERS:
        raise ValueError(f"is longer than {MOST_CHARACTERS} characters")
    if _UNUSABLE.search(address):
        raise ValueError("holds spaces, control characters or backslashes; encode them with %")
    try:
        parts = urlsplit(address)
        port_is_wrong = parts.port == 0
    except ValueError as error:
        raise ValueError("is not a valid URL: its host or port cannot be read") from error
    if parts.scheme not in {"http", "https"}:
        raise ValueError("must be a whole URL that starts with http:// or https://")
    if not parts.hostname or port_is_wrong:
        raise ValueError("has no usable host")
    if "@" in parts.netloc:
        raise ValueError("must not hold a user name or password")
    return parts._replace(fragment="").geturl()
