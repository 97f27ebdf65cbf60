"""Requests to Notion through its SDK, with limits of size and time."""

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

BASE_URL = "https://api.notion.com"
# Version of Notion's API: the first with databases of several sources, pages as Markdown and only `in_trash`.
API_VERSION = "2026-03-11"
REQUEST_SECONDS = 60.0
DOWNLOAD_SECONDS = 900.0
TOKEN_BYTES = 64 * 1024
# Largest growth of text by JSON escapes, in bytes per byte.
MAX_ESCAPE_GROWTH = 6
SERVICE_POLICY = ServicePolicy("Notion", per_minute=180, burst=20)

Answer = Mapping[str, Any]
# Request of the SDK with an access token.
Request = Callable[["Client", str], Any]
RequestSender = Callable[[Request], Answer]


class NotFound(Exception):
    """The object is missing or not shared with the integration (404)."""


class BadRequest(Exception):
    """Notion rejects the request for this object (400), such as an expired cursor."""


class Forbidden(Exception):
    """The integration lacks the permission (403)."""


class NotionClient:
    """Client of Notion for all connections. Thread-safe."""

    def __init__(self, settings: Settings) -> None:
        endpoint = settings.endpoints.get("NOTION")
        self._settings = settings
        self.max_file_bytes = settings.max_file_bytes
        self._endpoint = endpoint
        self._base = sessions.base_url(endpoint, BASE_URL)

    def send(self, tokens: TokenSource, request: Request) -> Answer:
        """Return the JSON object of the answer. NotFound, BadRequest, Forbidden, or a port error."""
        return SERVICE_POLICY.call(tokens, lambda token: _send(self._client, request, token))

    def download(self, address: str, target: Path) -> int:
        """Download a file to `target` and return the size in bytes. Skippable for a refused address, Retryable for a
        temporary failure."""
        # Notion signs addresses of files: they need no token, only https and a permitted host.
        is_own_host = address.startswith(self._base + "/")
        if not is_own_host and not address.startswith("https://"):
            raise Skippable("Notion offers the file at a URL that is not https; it is not fetched.")
        transport = VendorTransport(self._verify) if is_own_host else Transport(fetch_guard.make_guard(self._settings))
        try:
            with (
                sessions.httpx_client(self._verify, seconds=REQUEST_SECONDS, transport=transport) as client,
                client.stream("GET", address, headers={"Accept-Encoding": "identity"}) as answer,
            ):
                if answer.status_code != 200:
                    raise Retryable(f"Notion did not give out the file (status {answer.status_code}).")
                pieces = answer.iter_bytes()
                return responses.save_file(
                    pieces, target, max_bytes=self.max_file_bytes, seconds=DOWNLOAD_SECONDS, service="Notion"
                )
        except fetch_guard.BlockedAddress as error:
            raise Skippable("Notion offers the file at an address that this service does not dial.") from error
        except (TransientError, httpx.HTTPError, httpx.InvalidURL) as error:
            raise Retryable("Notion's file could not be reached, broke off, or did not come in time.") from error

    @functools.cached_property
    def _client(self) -> Client:
        client, plain = _make_sdk_client(
            self._base, self._verify, MAX_ESCAPE_GROWTH * self.max_file_bytes, seconds=REQUEST_SECONDS
        )
        weakref.finalize(self, plain.close)
        return client

    @functools.cached_property
    def _verify(self) -> ssl.SSLContext:
        return sessions.trusted_certificates(self._endpoint, "NOTION")


def send_token_request(flow: OAuth, url: str, content: dict[str, str]) -> Any:
    """Send a token request by the SDK to the flow's own address."""
    name = flow.service.name
    client, plain = _make_sdk_client(
        BASE_URL,
        sessions.trusted_certificates(None, "NOTION"),
        TOKEN_BYTES,
        seconds=oauth.TOKEN_TIMEOUT_SECONDS,
        route=lambda _path: url,
    )
    send = client.oauth.token if "grant_type" in content else client.oauth.revoke
    with plain:
        try:
            return send(flow.client_id, flow.client_secret, **content)
        except _sdk_error() as error:
            headers = getattr(error, "headers", None) or {}
            status, body = getattr(error, "status", 504), _parse_json(getattr(error, "body", ""))
            raise oauth.error_of_refusal(name, status, body, retry_after(headers)) from error
        except httpx.HTTPError as error:
            raise Retryable(f"{name} cannot be reached right now.") from error
        except (ValueError, RecursionError):
            return None


def _send(client: Client, request: Request, token: str) -> Answer:
    try:
        answer = request(client, token)
    except _sdk_error() as error:
        raise _port_error(error) from error
    except (httpx.HTTPError, ValueError, RecursionError) as error:
        raise connection_error("Notion") from error
    if not isinstance(answer, dict):
        raise unreadable_answer("Notion")
    return answer


def _port_error(error: Any) -> Exception:
    """Return the port error for the SDK's error, by its status; a timeout has none."""
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


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _sdk_error() -> type[Exception]:
    from notion_client.errors import NotionClientErrorBase

    return NotionClientErrorBase


def _make_sdk_client(
    base: str,
    verify: ssl.SSLContext,
    max_bytes: int,
    *,
    seconds: float,
    route: Callable[[str], str] = lambda path: path,
) -> tuple[Client, httpx.Client]:
    """Return the SDK's client without retries, and its HTTP client to close. `route` maps paths to other addresses."""
    import notion_client

    class Routed(notion_client.Client):
        def request(self, path: str, *args: Any, **named: Any) -> Any:
            return super().request(route(path), *args, **named)

    plain = sessions.httpx_client(verify, seconds=seconds, transport=_BoundedTransport(verify, max_bytes, seconds))
    options = {"base_url": base, "notion_version": API_VERSION, "retry": False, "timeout_ms": int(seconds * 1000)}
    client = Routed({**options, "logger": _silent_logger(), "log_level": logging.CRITICAL}, client=plain)
    return cast("Client", client), plain


def _silent_logger() -> logging.Logger:
    """Return a logger that drops everything."""
    # The SDK would write answers to standard error.
    logger = logging.getLogger("notion_client.silent")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


class _BoundedTransport(VendorTransport):
    """Transport with a limit of bytes and of seconds for an answer."""

    def __init__(self, verify: ssl.SSLContext, largest: int, seconds: float) -> None:
        super().__init__(verify)
        self._max_bytes = largest
        self._seconds = seconds

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        until = monotonic() + self._seconds
        answer = super().handle_request(request)
        answer.stream = _BoundedStream(cast("httpx.SyncByteStream", answer.stream), self._max_bytes, until)
        return answer


class _BoundedStream(httpx.SyncByteStream):
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
