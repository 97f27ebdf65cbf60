"""Client of Box's API through its own SDK, one request at a time, with a fresh access token.

The SDK would try again and renew tokens by itself. Box's refresh tokens are good for one use, so it is given none, and
its tries are set to one: a 401, 429 or 5xx is raised here and `connectors.http.retries` decides on the next try.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urljoin, urlsplit

import msgspec
import structlog

from connectors.http import responses, sessions
from connectors.http.responses import Cursors, connection_error, reached_by_requests, transient_error, unreadable_answer
from connectors.http.retries import RateLimited, ServicePolicy, TransientError, Unauthorized, retry_after
from retrieval.errors import Fatal, Retryable, Skippable
from retrieval.ports import TokenSource
from retrieval.setting_values import Endpoint

if TYPE_CHECKING:
    import requests
    from box_sdk_gen import BoxClient, NetworkSession


class Named(msgspec.Struct, frozen=True):
    """A folder of a path, or a person."""

    id: str
    name: str | None = None
    login: str | None = None


class PathCollection(msgspec.Struct, frozen=True):
    entries: Sequence[Named] = ()


class Watermark(msgspec.Struct, frozen=True):
    is_watermarked: bool | None = None


class BoxItem(msgspec.Struct, frozen=True):
    """File, folder or web link, as listed or requested."""

    type: str
    id: str
    name: str | None = None
    size: int | None = None
    sha1: str | None = None
    etag: str | None = None
    item_status: str | None = None
    path_collection: PathCollection | None = None
    owned_by: Named | None = None
    created_at: str | None = None
    modified_at: str | None = None
    content_created_at: str | None = None
    content_modified_at: str | None = None
    watermark_info: Watermark | None = None


class SharedLink(msgspec.Struct, frozen=True):
    """`effective_access`: after the folders' and the enterprise's rules; open, company or collaborators.
    `effective_permission`: what who has the link may do, `no_access` if nothing; `unshared_at`: when it ends.
    """

    effective_access: str | None = None
    effective_permission: str | None = None
    is_password_enabled: bool | None = None
    unshared_at: str | None = None


class SharedItem(msgspec.Struct, frozen=True):
    """Sharing state of a file. `is_externally_owned`: its owner is outside of the account's enterprise."""

    id: str
    owned_by: Named | None = None
    is_externally_owned: bool | None = None
    path_collection: PathCollection | None = None
    shared_link: SharedLink | None = None


class Collaborator(msgspec.Struct, frozen=True):
    """A user or a group."""

    type: str
    id: str
    login: str | None = None


class Collaboration(msgspec.Struct, frozen=True):
    """Collaboration. `accessible_by` is null for an invited person without an account; `expires_at`: its end."""

    role: str | None = None
    status: str | None = None
    expires_at: str | None = None
    accessible_by: Collaborator | None = None

    @classmethod
    def of(cls, entry: Any) -> Collaboration:
        """Parse an entry; one that is not as documented grants nothing, so that the others count."""
        try:
            return msgspec.convert(entry, cls)
        except msgspec.ValidationError:
            return cls()


class Collaborations(msgspec.Struct, frozen=True):
    entries: Sequence[Any]
    next_marker: str | None = None


class FolderPage(msgspec.Struct, frozen=True):
    """A page of a folder. `next_marker` is empty on its last."""

    entries: Sequence[BoxItem]
    next_marker: str | None = None


class Event(msgspec.Struct, frozen=True):
    """`source`: what it happened to, in one of several shapes, or nothing."""

    event_type: str | None = None
    source: Mapping[str, Any] | None = None


class Events(msgspec.Struct, frozen=True):
    entries: Sequence[Event]
    next_stream_position: str | int | None = None


log = structlog.get_logger(__name__)
BASE_URL = "https://api.box.com"
POLICY = ServicePolicy("Box", per_minute=900, burst=20)
"""Box allows 1000 requests a minute for a user; some are left to people and to token requests."""

LIMIT, EVENT_LIMIT = 1000, 500
"""Entries of one answer at most, by Box's description."""
FIELDS = ",".join(BoxItem.__struct_fields__)
CONNECT_SECONDS, READ_SECONDS, DOWNLOAD_SECONDS = 10, 60, 1800
_REDIRECTS = 5

T = TypeVar("T")


class NotFound(Exception):
    """There is nothing by this id, or nothing that the account can see (404)."""


class Forbidden(Exception):
    """Box refuses this one thing to the account (403)."""


class Unreadable(Exception):
    """Box's answer is an object, but not as it is described."""


class CursorExpired(Exception):
    """Box does not take the request's position or marker (400)."""


@dataclass(frozen=True, slots=True)
class Download:
    """Result of a download: `sha1` in hexadecimal, `size` in bytes."""

    sha1: str
    size: int
    media_type: str


class BoxSession:
    """Safe to share between threads: one pool of connections, no cookies, a token of its own for each request."""

    def __init__(self, endpoint: Endpoint | None, most: int) -> None:
        self.most = most
        self._base = sessions.base_url(endpoint, BASE_URL)
        self._endpoint = endpoint

    def folder(self, tokens: TokenSource, folder_id: str, marker: str) -> FolderPage:
        """A page of what a folder holds."""
        wish = {"fields": FIELDS, "usemarker": "true", "limit": str(LIMIT), **({"marker": marker} if marker else {})}
        return self._asked(tokens, f"folders/{folder_id}/items", wish, FolderPage, (NotFound, Forbidden, CursorExpired))

    def file(self, tokens: TokenSource, file_id: str) -> BoxItem:
        """Current metadata of a file."""
        return self._asked(tokens, f"files/{file_id}", {"fields": FIELDS}, BoxItem, (NotFound, Forbidden))

    def shared(self, tokens: TokenSource, file_id: str) -> SharedItem:
        """A file with its owner, its folders and its shared link."""
        wish = {"fields": ",".join(SharedItem.__struct_fields__)}
        return self._asked(tokens, f"files/{file_id}", wish, SharedItem, (NotFound, Forbidden, Unreadable))

    def collaborations(self, tokens: TokenSource, kind: str, its: str) -> list[Collaboration]:
        """List all collaborations on a file (`files`) or a folder (`folders`)."""
        collaborations: list[Collaboration] = []
        cursors, marker = Cursors("Box's listing of collaborations"), ""
        while True:
            wish = {
                "fields": "role,status,expires_at,accessible_by",
                "limit": str(LIMIT),
                **({"marker": marker} if marker else {}),
            }
            expected = (NotFound, Forbidden, Unreadable)
            page = self._asked(tokens, f"{kind}/{its}/collaborations", wish, Collaborations, expected)
            collaborations += map(Collaboration.of, page.entries)
            marker = page.next_marker or ""
            if not marker:
                return collaborations
            cursors.follow(marker, brought=bool(page.entries))

    def events(self, tokens: TokenSource, position: str) -> Events:
        """List the events since a position; `now` gives no events and the current position."""
        wish = {"stream_type": "changes", "stream_position": position, "limit": str(EVENT_LIMIT)}
        return self._asked(tokens, "events", wish, Events, (CursorExpired,))

    def download(self, tokens: TokenSource, file_id: str, to: Path) -> Download:
        """The file's content. Box sends its clients on to another host for it, which is shown no token."""
        return POLICY.call(tokens, lambda token: self._download(token, file_id, to))

    def account(self, token: str) -> str | None:
        """Account of the token; None if Box does not answer at once: a person waits for it."""
        from box_sdk_gen.networking.timeout_config import TimeoutConfig

        soon = self._network.with_timeout_config(TimeoutConfig(connection_timeout_ms=5000, read_timeout_ms=5000))
        try:
            return self._got(self._sdk(token, soon), "users/me", {"fields": "id"}, Named, ()).id
        except (Unauthorized, RateLimited, TransientError, Fatal) as error:
            log.warning("box.account_unknown", error=str(error))
            return None

    def _asked(
        self, tokens: TokenSource, path: str, wish: dict[str, str], kind: type[T], expected: tuple[type[Exception], ...]
    ) -> T:
        return POLICY.call(tokens, lambda token: self._got(self._sdk(token), path, wish, kind, expected))

    def _got(
        self, sdk: BoxClient, path: str, wish: dict[str, str], kind: type[T], expected: tuple[type[Exception], ...]
    ) -> T:
        """The answer in our own types: the SDK takes any JSON, and anything else for an empty answer.

        (Its own types of a page of 1000 files take much longer to make than the page to decode.)
        """
        from box_sdk_gen import FetchOptions

        with _explained(expected):
            answer = sdk.make_request(FetchOptions(url=f"{self._base}/2.0/{path}", method="GET", params=wish))
        try:
            return msgspec.convert(answer.data, kind)
        except msgspec.ValidationError as error:
            is_meant = Unreadable in expected and isinstance(answer.data, Mapping) and answer.data
            raise (Unreadable() if is_meant else unreadable_answer("Box")) from error

    def _download(self, token: str, file_id: str, to: Path) -> Download:
        from box_sdk_gen import FetchOptions, ResponseFormat

        url = f"{self._base}/2.0/files/{file_id}/content"
        wish = FetchOptions(url=url, method="GET", response_format=ResponseFormat.BINARY, follow_redirects=False)
        with _explained((NotFound, Forbidden, Skippable)):
            answer = self._sdk(token).make_request(wish)
            content = answer.content or BytesIO()
            if answer.status == 200:
                return self._write(iter(lambda: content.read(responses.CHUNK_BYTES), b""), answer.headers, to)
            content.read(responses.CHUNK_BYTES)  # to its end: the connection serves again
            if answer.status == 202:
                delay = retry_after(answer.headers)
                raise Retryable("Box is still preparing the file (202): it can be had later.", after=delay)
            if not answer.headers.get("Location"):
                raise unreadable_answer("Box")
            return self._elsewhere(urljoin(url, answer.headers["Location"]), to)

    def _elsewhere(self, url: str, to: Path) -> Download:
        """Download from the address that Box signed, without a token, and only by TLS if Box is reached by TLS."""
        for _ in range(_REDIRECTS):
            if not url.startswith(("https:", self._base.partition("//")[0])):
                raise unreadable_answer("Box")
            with self._session.get(
                url, stream=True, timeout=(CONNECT_SECONDS, READ_SECONDS), allow_redirects=False
            ) as answer:
                if answer.status_code == 200:
                    return self._write(responses.iter_raw(answer.raw), answer.headers, to)
                if answer.status_code == 429:
                    raise RateLimited(retry_after(answer.headers))
                if not answer.is_redirect:
                    raise TransientError(f"The host that Box keeps content on answered with {answer.status_code}.")
                url = urljoin(url, answer.headers["Location"])
        raise unreadable_answer("Box")

    def _write(self, pieces: Iterable[bytes], headers: Mapping[str, str], to: Path) -> Download:
        digest = hashlib.sha1(usedforsecurity=False)
        size = responses.save_file(pieces, to, most=self.most, seconds=DOWNLOAD_SECONDS, service="Box", digest=digest)
        media_type = headers.get("Content-Type", "").partition(";")[0].strip()
        return Download(digest.hexdigest(), size, "" if media_type == "application/octet-stream" else media_type)

    def _sdk(self, token: str, network: NetworkSession | None = None) -> BoxClient:
        """It costs a third of a millisecond; the connections are shared."""
        from box_sdk_gen import BoxClient, BoxDeveloperTokenAuth

        return BoxClient(auth=BoxDeveloperTokenAuth(token=token), network_session=network or self._network)

    @cached_property
    def _session(self) -> requests.Session:
        session = sessions.requests_session(self._endpoint, "BOX")
        session.hooks["response"].append(_taken)
        return session

    @cached_property
    def _network(self) -> NetworkSession:
        from box_sdk_gen import BaseUrls, BoxNetworkClient, BoxRetryStrategy, NetworkSession
        from box_sdk_gen.networking.timeout_config import TimeoutConfig

        timeouts = TimeoutConfig(connection_timeout_ms=CONNECT_SECONDS * 1000, read_timeout_ms=READ_SECONDS * 1000)
        return NetworkSession(
            network_client=BoxNetworkClient(self._session),
            base_urls=BaseUrls(base_url=self._base, upload_url=self._base, oauth_2_url=self._base),
            retry_strategy=BoxRetryStrategy(max_attempts=1, max_retries_on_exception=0),
            timeout_config=timeouts,
        )


def _taken(answer: requests.Response, **_: Any) -> None:
    """Disable the SDK's own reading of the body; we read content ourselves."""
    if "authorization" in answer.request.headers and not urlsplit(answer.url).path.endswith("/content"):
        responses.buffer_body(answer, "Box")


@contextmanager
def _explained(expected: tuple[type[Exception], ...]) -> Iterator[None]:
    """Convert the SDK's errors to port errors. `expected`: refusals that carry meaning.

    The cause is dropped, also from the traceback: it repeats Box's answer, or an address that opens a file.
    """
    import requests
    from box_sdk_gen import BoxAPIError, BoxSDKError

    with reached_by_requests("Box", READ_SECONDS):
        try:
            yield
        except BoxAPIError as error:
            raise _meaning(error.response_info.status_code, error.response_info, expected) from None
        except RecursionError:
            raise unreadable_answer("Box") from None
        except BoxSDKError as error:
            cause = getattr(error, "error", None)
            raise cause if isinstance(cause, requests.RequestException) else connection_error("Box") from None


def _meaning(status: int, said: Any, expected: tuple[type[Exception], ...]) -> Exception:
    if status == 401:
        return Unauthorized()
    if status == 403 and said.code == "insufficient_scope":
        return Fatal(
            "The Box app may not read files: give it the scope 'Read all files and folders stored in Box', and "
            "authorize the connection again."
        )
    return transient_error("Box", status, said.headers) or _refusal(status, expected)


def _refusal(status: int, expected: tuple[type[Exception], ...]) -> Exception:
    kind = {400: CursorExpired, 403: Forbidden, 404: NotFound, 410: NotFound}.get(status)
    if kind and kind in expected:
        return kind()
    if Skippable in expected:
        return Skippable(f"Box refuses to send this file's content (status {status}).")
    return Fatal(f"Box answered with the unexpected status {status}: check RETRIEVAL_ENDPOINTS, if it names BOX.")
