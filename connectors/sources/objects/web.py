"""HTTP of storages at addresses that users name: guarded, bounded, without redirects."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

from connectors.http import responses, sessions
from retrieval.errors import Fatal, Skippable
from retrieval.network import fetch_guard
from retrieval.network.transport import Transport
from retrieval.settings import Settings

if TYPE_CHECKING:
    import httpx

# Seconds without a byte.
REQUEST_TIMEOUT_SECONDS: Final = 30.0
Sign = Callable[["httpx.Request"], "httpx.Request"]
UNAUTHORIZED: Final = "The server does not accept these credentials."


class NotReadable(Exception):
    """403: unreadable with these credentials."""


class Refused(Fatal):
    """400: refused request."""


class WebClient:
    """Client of one server; `title`: name in messages. Raises port errors, and the two of `send`."""

    def __init__(
        self,
        title: str,
        base_url: str,
        settings: Settings,
        auth: httpx.Auth | Sign | None,
        is_unauthorized: Callable[[httpx.Response], bool] = lambda _response: False,
    ) -> None:
        self.base_url = base_url
        self._is_unauthorized = is_unauthorized
        self._title = title
        self._guard = fetch_guard.make_guard(settings)
        self._private = False
        limit = max(settings.max_file_bytes + 1, responses.MAX_BODY_BYTES)
        verify = sessions.trusted_certificates(None, title)
        transport = Transport(self._guard, verify=verify, max_bytes=limit)
        self._client = sessions.httpx_client(verify, seconds=REQUEST_TIMEOUT_SECONDS, transport=transport, auth=auth)
        weakref.finalize(self, self._client.close)

    def send(
        self, method: str, path: str, *, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[httpx.Response, bytes]:
        """Return the response and its whole body. FileNotFoundError for 404 and 410, NotReadable for 403."""
        with self._open(method, path, body, headers) as response:
            return response, responses.read_body(response.iter_raw(), service=self._title)

    @contextmanager
    def stream(self, path: str, headers: Mapping[str, str] | None = None) -> Iterator[tuple[httpx.Response, BinaryIO]]:
        """Open a response as a stream. Skippable for a missing or unreadable resource."""
        try:
            with self._open("GET", path, None, headers) as response:
                yield response, cast("BinaryIO", _Body(response))
        except FileNotFoundError:
            raise Skippable("The file is no longer there.") from None
        except NotReadable:
            raise Skippable("The file may not be read with these credentials.") from None

    @contextmanager
    def _open(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str] | None
    ) -> Iterator[httpx.Response]:
        if not self._private:
            sessions.require_private_without_tls(self._guard, self.base_url, title="storage", field="url")
            self._private = True
        url = self.base_url + path
        with (
            responses.translate_failures(self._title, REQUEST_TIMEOUT_SECONDS),
            self._client.stream(method, url, content=body, headers=headers) as response,
        ):
            self._check(response)
            yield response

    def _check(self, response: httpx.Response) -> None:
        status = response.status_code
        if status in {404, 410}:
            raise FileNotFoundError
        if status == 401 or self._is_unauthorized(response):
            raise Fatal(UNAUTHORIZED)
        if status == 403:
            raise NotReadable
        if transient := responses.transient_error(self._title, status, response.headers):
            raise transient
        if not response.is_success:
            refusal = Refused if status == 400 else Fatal
            raise refusal(f"{self._title} refuses the request ({status}).")


class _Body:
    """Stream of a response's pieces."""

    def __init__(self, response: httpx.Response) -> None:
        self._pieces = response.iter_raw()

    def read(self, _size: int = -1) -> bytes:
        return next(self._pieces, b"")


def parse_xml(body: bytes, tag: str, title: str) -> Any:  # lxml has no public name for the type of an element
    """Return the root of an XML answer. TransientError for anything but a `tag`."""
    from lxml import etree

    try:
        root = etree.fromstring(body, etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True))
    except etree.XMLSyntaxError as error:
        raise responses.unreadable_answer(title) from error
    if root.tag != tag:
        raise responses.unreadable_answer(title)
    return root
