"""Client of Box's API through the SDK: one request at a time, with a fresh access token."""

# The SDK would retry and renew tokens by itself, but Box's refresh tokens are single-use: it gets none, and one try. A
# 401, 429 or 5xx is raised here, and `connectors.http.retries` decides on the next try.

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urljoin, urlsplit

import msgspec
import structlog

from connectors.http import responses, sessions
from connectors.http.responses import Cursors, connection_error, reached_by_requests, transient_error, unreadable_answer
from connectors.http.retries import RateLimited, ServicePolicy, TransientError, Unauthorized, retry_after
from connectors.sources.box.answers import (
    BoxItem,
    Collaboration,
    Collaborations,
    Events,
    FolderPage,
    NamedEntity,
    Person,
    PersonPage,
    SharedItem,
)
from retrieval.errors import Fatal, Retryable, Skippable
from retrieval.ports import TokenSource
from retrieval.setting_values import Endpoint

if TYPE_CHECKING:
    import requests
    from box_sdk_gen import BoxClient, NetworkSession


logger = structlog.get_logger(__name__)
BASE_URL = "https://api.box.com"
# Box allows 1000 requests a minute for a user; the rest is for people and token requests.
SERVICE_POLICY = ServicePolicy("Box", per_minute=900, burst=20)

# Box's largest pages.
MAX_PAGE_ENTRIES, MAX_PAGE_EVENTS = 1000, 500
ITEM_FIELDS = ",".join(BoxItem.__struct_fields__)
PERSON_FIELDS = ",".join(Person.__struct_fields__)
CONNECT_SECONDS, READ_SECONDS, DOWNLOAD_SECONDS = 10, 60, 1800
MAX_REDIRECTS = 5

ResponseT = TypeVar("ResponseT")


class NotFound(Exception):
    """The item is missing or invisible to the account (404)."""


class Forbidden(Exception):
    """Box refuses the item to the account (403)."""


class Unreadable(Exception):
    """Box's answer is an object of another form than documented."""


class CursorExpired(Exception):
    """Box rejects the position or marker of the request (400)."""


@dataclass(frozen=True, slots=True)
class Download:
    """Result of a download: `sha1` in hexadecimal, `size` in bytes."""

    sha1: str
    size: int
    media_type: str


@dataclass(frozen=True, slots=True)
class BoxSession:
    """Shared connections to Box, without cookies, with a token for each request. Thread-safe.

    `user_id`: the user that the token's account acts for, itself by default.
    """

    endpoint: Endpoint | None
    max_file_bytes: int
    user_id: str = ""

    @property
    def _base(self) -> str:
        return sessions.base_url(self.endpoint, BASE_URL)

    def list_folder(self, tokens: TokenSource, folder_id: str, marker: str) -> FolderPage:
        """Return a page of a folder's entries."""
        params = {
            "fields": ITEM_FIELDS,
            "usemarker": "true",
            "limit": str(MAX_PAGE_ENTRIES),
            **({"marker": marker} if marker else {}),
        }
        return self._request(
            tokens, f"folders/{folder_id}/items", params, FolderPage, (NotFound, Forbidden, CursorExpired)
        )

    def read_file(self, tokens: TokenSource, file_id: str) -> BoxItem:
        """Return current metadata of a file."""
        return self._request(tokens, f"files/{file_id}", {"fields": ITEM_FIELDS}, BoxItem, (NotFound, Forbidden))

    def read_sharing(self, tokens: TokenSource, file_id: str) -> SharedItem:
        """Return a file's owner, folders and shared link."""
        params = {"fields": ",".join(SharedItem.__struct_fields__)}
        return self._request(tokens, f"files/{file_id}", params, SharedItem, (NotFound, Forbidden, Unreadable))

    def list_collaborations(self, tokens: TokenSource, kind: str, item_id: str) -> list[Collaboration]:
        """List all collaborations on a file (`files`) or a folder (`folders`)."""
        collaborations: list[Collaboration] = []
        cursors, marker = Cursors("Box's listing of collaborations"), ""
        while True:
            params = {
                "fields": "role,status,expires_at,accessible_by",
                "limit": str(MAX_PAGE_ENTRIES),
                **({"marker": marker} if marker else {}),
            }
            expected = (NotFound, Forbidden, Unreadable)
            page = self._request(tokens, f"{kind}/{item_id}/collaborations", params, Collaborations, expected)
            collaborations += map(Collaboration.parse, page.entries)
            marker = page.next_marker or ""
            if not marker:
                return collaborations
            cursors.follow(marker, brought=bool(page.entries))

    def list_events(self, tokens: TokenSource, position: str) -> Events:
        """List events after a position; `now` returns only the current position."""
        params = {"stream_type": "changes", "stream_position": position, "limit": str(MAX_PAGE_EVENTS)}
        return self._request(tokens, "events", params, Events, (CursorExpired, NotFound, Forbidden))

    def list_people(self, tokens: TokenSource, marker: str) -> PersonPage:
        """Return a page of the enterprise's managed users."""
        params = {
            "fields": PERSON_FIELDS,
            "user_type": "managed",
            "usemarker": "true",
            "limit": str(MAX_PAGE_ENTRIES),
            **({"marker": marker} if marker else {}),
        }
        return self._request(tokens, "users", params, PersonPage, (Forbidden, NotFound))

    def read_person(self, tokens: TokenSource, user_id: str) -> Person:
        """Return a user; one of another enterprise has no status."""
        return self._request(tokens, f"users/{user_id}", {"fields": PERSON_FIELDS}, Person, (Forbidden, NotFound))

    def download(self, tokens: TokenSource, file_id: str, to: Path) -> Download:
        """Download a file's content."""
        # Box redirects clients to another host, and that host gets no token.
        return SERVICE_POLICY.call(tokens, lambda token: self._download(token, file_id, to))

    def read_account_id(self, token: str) -> str | None:
        """Return the token's account id; None without a prompt answer."""
        # A person waits for this answer.
        from box_sdk_gen.networking.timeout_config import TimeoutConfig

        _, network = _open_network(self.endpoint)
        soon = network.with_timeout_config(TimeoutConfig(connection_timeout_ms=5000, read_timeout_ms=5000))
        try:
            return self._send(self._make_client(token, soon), "users/me", {"fields": "id"}, NamedEntity, ()).id
        except (Unauthorized, RateLimited, TransientError, Fatal) as error:
            logger.warning("box.account_unknown", error=str(error))
            return None

    def _request(
        self,
        tokens: TokenSource,
        path: str,
        params: dict[str, str],
        kind: type[ResponseT],
        expected: tuple[type[Exception], ...],
    ) -> ResponseT:
        return SERVICE_POLICY.call(
            tokens, lambda token: self._send(self._make_client(token), path, params, kind, expected)
        )

    def _send(
        self,
        sdk: BoxClient,
        path: str,
        params: dict[str, str],
        kind: type[ResponseT],
        expected: tuple[type[Exception], ...],
    ) -> ResponseT:
        """Return the answer converted to `kind`."""
        # The SDK accepts any JSON, and its own types of a page of 1000 files take longer to create than the page takes
        # to decode.
        from box_sdk_gen import FetchOptions

        with _translated_errors(expected):
            answer = sdk.make_request(FetchOptions(url=f"{self._base}/2.0/{path}", method="GET", params=params))
        try:
            return msgspec.convert(answer.data, kind)
        except msgspec.ValidationError as error:
            is_meant = Unreadable in expected and isinstance(answer.data, Mapping) and answer.data
            raise (Unreadable() if is_meant else unreadable_answer("Box")) from error

    def _download(self, token: str, file_id: str, to: Path) -> Download:
        from box_sdk_gen import FetchOptions, ResponseFormat

        url = f"{self._base}/2.0/files/{file_id}/content"
        params = FetchOptions(url=url, method="GET", response_format=ResponseFormat.BINARY, follow_redirects=False)
        with _translated_errors((NotFound, Forbidden, Skippable)):
            answer = self._make_client(token).make_request(params)
            content = answer.content or BytesIO()
            if answer.status == 200:
                return self._save(iter(lambda: content.read(responses.CHUNK_BYTES), b""), answer.headers, to)
            content.read(responses.CHUNK_BYTES)  # to its end: the connection serves again
            if answer.status == 202:
                delay = retry_after(answer.headers)
                raise Retryable("Box is still preparing the file (202): it can be had later.", after=delay)
            if not answer.headers.get("Location"):
                raise unreadable_answer("Box")
            return self._download_redirected(urljoin(url, answer.headers["Location"]), to)

    def _download_redirected(self, url: str, to: Path) -> Download:
        """Download from Box's signed address, without a token, and only by TLS if Box is reached by TLS."""
        for _ in range(MAX_REDIRECTS):
            if not url.startswith(("https:", self._base.partition("//")[0])):
                raise unreadable_answer("Box")
            http_session, _ = _open_network(self.endpoint)
            with http_session.get(
                url, stream=True, timeout=(CONNECT_SECONDS, READ_SECONDS), allow_redirects=False
            ) as answer:
                if answer.status_code == 200:
                    return self._save(responses.iter_raw(answer.raw), answer.headers, to)
                if answer.status_code == 429:
                    raise RateLimited(retry_after(answer.headers))
                if not answer.is_redirect:
                    raise TransientError(f"The host that Box keeps content on answered with {answer.status_code}.")
                url = urljoin(url, answer.headers["Location"])
        raise unreadable_answer("Box")

    def _save(self, pieces: Iterable[bytes], headers: Mapping[str, str], to: Path) -> Download:
        digest = hashlib.sha1(usedforsecurity=False)
        size = responses.save_file(
            pieces, to, max_bytes=self.max_file_bytes, seconds=DOWNLOAD_SECONDS, service="Box", digest=digest
        )
        media_type = headers.get("Content-Type", "").partition(";")[0].strip()
        return Download(digest.hexdigest(), size, "" if media_type == "application/octet-stream" else media_type)

    def _make_client(self, token: str, network: NetworkSession | None = None) -> BoxClient:
        """Return a client for a token, in about 0.3 ms; clients share connections."""
        from box_sdk_gen import BoxClient, BoxDeveloperTokenAuth

        auth = BoxDeveloperTokenAuth(token=token)
        client = BoxClient(auth=auth, network_session=network or _open_network(self.endpoint)[1])
        return client.with_as_user_header(self.user_id) if self.user_id else client


@lru_cache(maxsize=8)
def _open_network(endpoint: Endpoint | None) -> tuple[requests.Session, NetworkSession]:
    """Return the connections of a process."""
    from box_sdk_gen import BaseUrls, BoxNetworkClient, BoxRetryStrategy, NetworkSession
    from box_sdk_gen.networking.timeout_config import TimeoutConfig

    session, base = sessions.requests_session(endpoint, "BOX"), sessions.base_url(endpoint, BASE_URL)
    session.hooks["response"].append(_buffer_body)
    network = NetworkSession(
        network_client=BoxNetworkClient(session),
        base_urls=BaseUrls(base_url=base, upload_url=base, oauth_2_url=base),
        retry_strategy=BoxRetryStrategy(max_attempts=1, max_retries_on_exception=0),
        timeout_config=TimeoutConfig(connection_timeout_ms=CONNECT_SECONDS * 1000, read_timeout_ms=READ_SECONDS * 1000),
    )
    return session, network


def _buffer_body(answer: requests.Response, **_: Any) -> None:
    """Read the body here, except content; the SDK then reads a buffer."""
    if "authorization" in answer.request.headers and not urlsplit(answer.url).path.endswith("/content"):
        responses.buffer_body(answer, "Box")


@contextmanager
def _translated_errors(expected: tuple[type[Exception], ...]) -> Iterator[None]:
    """Convert the SDK's errors to port errors; `expected` lists meaningful refusals."""
    # The cause is dropped from the traceback: it repeats Box's answer, or an address that opens a file.
    import requests
    from box_sdk_gen import BoxAPIError, BoxSDKError

    with reached_by_requests("Box", READ_SECONDS):
        try:
            yield
        except BoxAPIError as error:
            raise _port_error(error.response_info.status_code, error.response_info, expected) from None
        except RecursionError:
            raise unreadable_answer("Box") from None
        except BoxSDKError as error:
            cause = getattr(error, "error", None)
            raise cause if isinstance(cause, requests.RequestException) else connection_error("Box") from None


def _port_error(status: int, response: Any, expected: tuple[type[Exception], ...]) -> Exception:
    if status == 401:
        return Unauthorized()
    if status == 403 and response.code == "insufficient_scope":
        return Fatal(
            "The Box app may not read files: give it the scope 'Read all files and folders stored in Box', and "
            "authorize the connection again."
        )
    return transient_error("Box", status, response.headers) or _refusal(status, expected)


def _refusal(status: int, expected: tuple[type[Exception], ...]) -> Exception:
    kind = {400: CursorExpired, 403: Forbidden, 404: NotFound, 410: NotFound}.get(status)
    if kind and kind in expected:
        return kind()
    if Skippable in expected:
        return Skippable(f"Box refuses to send this file's content (status {status}).")
    return Fatal(f"Box answered with the unexpected status {status}: check RETRIEVAL_ENDPOINTS, if it names BOX.")
