"""Validate web page URLs."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

MAX_CHARACTERS = 2048
DEFAULT_PORTS = {"http": 80, "https": 443}
_INVALID_CHARACTERS = re.compile(r"[\x00-\x20\x7f-\x9f\\]")


def tidy_url(address: str) -> str:
    """Return the URL without fragment. ValueError has the problem, without the URL."""
    if len(address) > MAX_CHARACTERS:
        raise ValueError(f"is longer than {MAX_CHARACTERS} characters")
    if _INVALID_CHARACTERS.search(address):
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


def site_of(url: str) -> str:
    """Return host and port, such as `example.com:443`; "" if invalid."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").removesuffix("."), parts.port
    except ValueError:
        return ""
    port = DEFAULT_PORTS.get(parts.scheme, 443) if port is None else port
    bracketed = f"[{host}]" if ":" in host else host
    return f"{bracketed}:{port}" if host else ""


def site_name(url: str) -> str:
    """Return the host for display, with a non-default port."""
    default = DEFAULT_PORTS.get(url.partition(":")[0].lower(), 443)
    return site_of(url).removesuffix(f":{default}")
