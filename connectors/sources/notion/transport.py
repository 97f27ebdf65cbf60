"""Notion's SDK on the wire: one place for its requests, its errors, and answers that are too large or too slow."""

from __future__ import annotations

import functools
import json
import logging
import ssl
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

import httpx

from connectors.http import oauth, responses, sessions
from connectors.http.responses import connection_error, transient_error, unreadable_answer
from connectors.http.retries import ServicePolicy, TransientError, Unauthorized, retry_after
from retrieval.errors import Fatal, Retryable, Skippable
from retrieval.network import fetch_guard
from retrieval.network.transport import Transport, VendorTransport
from retrieval.ports import TokenSource

if TYPE_CHECKING:
    from notion_client import Client

    from connectors.http.oauth import OAuth
    from retrieval.settings import Settings

API = "https://api.notion.com"
VERSION = "2026-03-11"
"""Of Notion's API: the first one with databases of several sources, pages as Markdown and `in_trash` alone."""
SECONDS = 60.0
DOWNLOAD_SECONDS = 900.0
TOKEN_BYTES = 64 * 1024
ESCAPED = 6
"""How many bytes a byte of text is in JSON, at most."""
POLICY = ServicePolicy("Notion", per_minute=180, burst=20)

Answer = Mapping[str, Any]
Request = Callable[["Client", str], Any]
"""A request of the SDK, to be made with an access token."""


class NotFound(Exception):
    """There is no such thing, or it is not shared with the integration (404)."""


class BadRequest(Exception):
    """Notion does not take the request for this thing (400), such as a place in a listing that it has forgotten."""


class Forbidden(Exception):
    """The integration may not do this (403)."""


class Wire:
    """Client of Notion for all connections. Safe to use from several threads."""

    def __init__(self, settings: Settings) -> None:
        endpoint = settings.endpoints.get("NOTION")
        self._settings = settings
        self.largest = settings.max_file_bytes
        self._endpoint = endpoint
        self._base = sessions.base_url(endpoint, API)

    def ask(self, tokens: TokenSource, request: Request) -> Answer:
        """The answer's JSON object. It raises NotFound, BadRequest, Forbidden, or one of the port's errors."""
        return POLICY.call(tokens, lambda token: _asked(self._client, request, token))

    def download(self, address: str, to: Path) -> int:
        """Download the file at an address that Notion signed to `to`; return its size. Sent without a token, by https
        alone, and only to addresses that this service may dial. Skippable if the file is not available, Retryable
        for trouble that passes."""
        is_own_host = address.startswith(self._base + "/")
        if not is_own_host and not address.startswith("https://"):
            raise Skippable("Notion offers the file at a URL that is not https; it is not fetched.")
        transport = VendorTransport(self._verify) if is_own_host else Transport(fetch_guard.make_guard(self._settings))
        try:
            with (
                sessions.httpx_client(self._verify, seconds=SECONDS, transport=transport) as client,
                client.stream("GET", address, headers={"Accept-Encoding": "identity"}) as answer,
            ):
                if answer.status_code != 200:
                    raise Retryable(f"Notion did not give out the file (status {answer.status_code}).")
                pieces = answer.iter_bytes()
                return responses.save_file(pieces, to, most=self.largest, seconds=DOWNLOAD_SECONDS, service="Notion")
        except fetch_guard.BlockedAddress as error:
            raise Skippable("Notion offers the file at an address that this service does not dial.") from error
        except (TransientError, httpx.HTTPError, httpx.InvalidURL) as error:
            raise Retryable("Notion's file could not be reached, broke off, or did not come in time.") from error

    @functools.cached_property
    def _client(self) -> Client:
        client, plain = _sdk(self._base, self._verify, ESCAPED * self.largest, seconds=SECONDS)
        weakref.finalize(self, plain.close)
        return client

    @functools.cached_property
    def _verify(self) -> ssl.SSLContext:
        return sessions.trusted_certificates(self._endpoint, "NOTION")


def send_token_request(flow: OAuth, url: str, content: dict[str, str]) -> Any:
    """A token request of the SDK, to the flow's own addresses (`connectors.http.oauth.Send`)."""
    name = flow.service.name
    client, plain = _sdk(
        API, sessions.trusted_certificates(None, "NOTION"), TOKEN_BYTES, seconds=oauth.SECONDS, route=lambda _path: url
    )
    ask = client.oauth.token if "grant_type" in content else client.oauth.revoke
    with plain:
        try:
            return ask(flow.client_id, flow.client_secret, **content)
        except _errors() as error:
            headers = getattr(error, "headers", None) or {}
            status, body = getattr(error, "status", 504), _json(getattr(error, "body", ""))
            raise oauth.error_of_refusal(name, status, body, retry_after(headers)) from error
        except httpx.HTTPError as error:
            raise Retryable(f"{name} cannot be reached right now.") from error
        except (ValueError, RecursionError):
            return None


def _asked(client: Client, request: Request, token: str) -> Answer:
    try:
        answer = request(client, token)
    except _errors() as error:
        raise _understood(error) from error
    except (httpx.HTTPError, ValueError, RecursionError) as error:
        raise connection_error("Notion") from error
    if not isinstance(answer, dict):
        raise unreadable_answer("Notion")
    return answer


def _understood(error: Any) -> Exception:
    """Port error for the SDK's error, by its status; without one it timed out."""
    status = getattr(error, "status", None)
    if status is None:
        return TransientError("Notion did not answer in time, or the request was none.")
    plain: dict[int, type[Exception]] = {400: BadRequest, 401: Unauthorized, 403: Forbidden, 404: NotFound}
    if status in plain:
        return plain[status]()
    if error := transient_error("Notion", status, error.headers, passing={409}, busy_if_asked={529}):
        return error
    if 400 <= status < 500:
        return Fatal(f"Notion refuses the request (status {status}): check the endpoint that the settings name.")
    return unreadable_answer("Notion")


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _errors() -> type[Exception]:
    from notion_client.errors import NotionClientErrorBase

    return NotionClientErrorBase


def _sdk(
    base: str,
    verify: ssl.SSLContext,
    largest: int,
    *,
    seconds: float,
    route: Callable[[str], str] = lambda path: path,
) -> tuple[Client, httpx.Client]:
    """The SDK's client without retries or words of its own, and what to close. `route`: paths to other addresses."""
    import notion_client

    class Routed(notion_client.Client):
        def request(self, path: str, *args: Any, **named: Any) -> Any:
            return super().request(route(path), *args, **named)

    plain = sessions.httpx_client(verify, seconds=seconds, transport=_Bounded(verify, largest, seconds))
    options = {"base_url": base, "notion_version": VERSION, "retry": False, "timeout_ms": int(seconds * 1000)}
    client = Routed({**options, "logger": _silent(), "log_level": logging.CRITICAL}, client=plain)
    return cast("Client", client), plain


def _silent() -> logging.Logger:
    """The SDK would write what it was answered to standard error."""
    logger = logging.getLogger("notion_client.silent")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


class _Bounded(VendorTransport):
    """Breaks off an answer of more than `largest` bytes, or one that takes longer than `seconds` in all."""

    def __init__(self, verify: ssl.SSLContext, largest: int, seconds: float) -> None:
        super().__init__(verify)
        self._largest = largest
        self._seconds = seconds

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        until = monotonic() + self._seconds
        answer = super().handle_request(request)
        answer.stream = _Measured(cast("httpx.SyncByteStream", answer.stream), self._largest, until)
        return answer


class _Measured(httpx.SyncByteStream):
    def __init__(self, stream: httpx.SyncByteStream, left: int, until: float) -> None:
        self._stream = stream
        self._left = left
        self._until = until

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._stream:
            self._left -= len(piece)
            if self._left < 0 or monotonic() > self._until:
                raise httpx.ReadError("The answer is too large, or came too slowly.")
            yield piece

    def close(self) -> None:
        self._stream.close()
