"""HTTP client for users' URLs: guarded, limited and polite."""

from __future__ import annotations

import random
import re
import ssl
import threading
import time
import weakref
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from http.cookiejar import CookieJar
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import urljoin

import structlog

from connectors.http.responses import too_large
from connectors.http.retries import retry_after
from retrieval import settings
from retrieval.errors import Retryable, Skippable
from retrieval.failure_causes import GONE_PAGE, MISSING_PAGE
from retrieval.network import fetch_guard, urls
from retrieval.network.fetch_guard import BlockedAddress, Guard
from retrieval.network.transport import Transport
from retrieval.settings import Settings

if TYPE_CHECKING:
    import httpx


ACCEPTED = "gzip, deflate"
_CHUNK = 256 * 1024
_WINDOWS = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}


def iter_unpacked(parts: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Unpack content in pieces of at most 256 KiB. Skippable for an unrequested or broken encoding, Retryable for an
    early end."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        yield from parts
        return
    if name not in _WINDOWS:
        raise Skippable("The page uses a Content-Encoding that was not requested.")
    try:
        yield from _inflated(parts, _WINDOWS[name])
    except zlib.error as error:
        raise Skippable("The page's compressed content cannot be decompressed.") from error


def _inflated(parts: Iterable[bytes], window: int) -> Iterator[bytes]:
    unpacker, begun = zlib.decompressobj(window), False
    for part in parts:
        remaining = part
        if window == zlib.MAX_WBITS and not begun and not _has_zlib_header(remaining):
            unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        begun = begun or bool(remaining)
        while remaining and not (unpacker.eof and window <= zlib.MAX_WBITS):
            if unpacker.eof:  # gzip may hold several members, one after the other
                unpacker = zlib.decompressobj(window)
            if piece := unpacker.decompress(remaining, _CHUNK):
                yield piece
            remaining = unpacker.unconsumed_tail or unpacker.unused_data
            if unpacker.eof and not remaining.strip(b"\0"):
                break
    if begun and not unpacker.eof:
        raise Retryable("The page broke off before its end.")


def _has_zlib_header(data: bytes) -> bool:
    """Detect the zlib header, omitted by some servers."""
    return len(data) > 1 and data[0] & 15 == 8 and int.from_bytes(data[:2], "big") % 31 == 0


LONGEST_WAIT = 60.0
_HOSTS = 2000


@dataclass
class _Host:
    room: threading.Semaphore
    lock: threading.Lock = field(default_factory=threading.Lock)
    # Start of the next request by the delays of earlier ones, and the end of a pause that the site requested.
    free_at: float = 0.0
    paused_until: float = 0.0


class Throttle:
    """Limit of requests per host, for all threads of a process."""

    def __init__(self, at_once: int, delay: float) -> None:
        self._at_once = at_once
        self._delay = delay
        self._hosts: OrderedDict[str, _Host] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def turn(self, host: str, delay: float = 0.0) -> Iterator[float]:
        """Hold a request slot of a host and port, and delay its next request; yield the seconds of waiting.

        Raises Retryable for a requested pause above LONGEST_WAIT.
        """
        started = time.monotonic()
        entry = self._host(host)
        with entry.room:
            with entry.lock:
                current = time.monotonic()
                starts = max(current, entry.free_at, entry.paused_until)
                if entry.paused_until - current > LONGEST_WAIT:
                    raise Retryable("The site asked for a pause (Retry-After).", after=starts - current)
                entry.free_at = starts + max(self._delay, delay)
            time.sleep(starts - current)
            yield time.monotonic() - started

    def pause_host(self, host: str, seconds: float) -> None:
        """Pause requests to a host, as in a Retry-After."""
        entry = self._host(host)
        with entry.lock:
            entry.paused_until = max(entry.paused_until, time.monotonic() + seconds)

    def _host(self, name: str) -> _Host:
        with self._lock:
            entry = self._hosts.pop(name, None) or _Host(threading.Semaphore(self._at_once))
            self._hosts[name] = entry
            while len(self._hosts) > _HOSTS:
                self._hosts.popitem(last=False)
            return entry


log = structlog.get_logger(__name__)
ANYTHING = "text/html,application/xhtml+xml,application/pdf;q=0.9,*/*;q=0.8"
MAX_ATTEMPTS = 3
# Limit of a wait or try in seconds for a retry here; longer waits are the caller's.
SHORT_WAIT = 10.0
_LATER = frozenset({408, 421, 425, 429})
_MOVED = frozenset({301, 302, 303, 307, 308})
_TEMPORARILY_MOVED = frozenset({302, 303, 307})
# Characters that some redirects leave unencoded.
_UNWRITTEN = re.compile(r"[\x00-\x20\x7f]")
MAX_COOKIES = 50
_NO_REST = frozenset({204, 205, 304})

Check = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Fetched:
    """Answer with the final URL, unpacked size in bytes, and headers by lower-case name."""

    url: str
    status: int
    headers: Mapping[str, str]
    size: int
    cut: bool = False
    # After a redirect that may end (302, 303, 307).
    is_temporary: bool = False

    @property
    def media_type(self) -> str:
        """Return the Content-Type with parameters."""
        return self.headers.get("content-type", "").strip()


@dataclass(frozen=True, slots=True)
class _Redirect:
    status: int
    target: str


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of a fetch: unpacked bytes, seconds without waiting, redirects."""

    bytes: int
    seconds: float
    redirects: int = 10


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """Options of a fetch; `check` runs before each address and redirect, and may raise Skippable."""

    # `delay`: the host's seconds between requests; `cut`: truncate long content.

    headers: Mapping[str, str] = field(default_factory=dict)
    bounds: Bounds | None = None
    check: Check | None = None
    delay: float = 0.0
    cut: bool = False
    # Cookies of a crawl; None for new cookies in each fetch.
    cookies: CookieJar | None = None


class WebClient:
    """Thread-safe client for pages."""

    def __init__(self, guarded: Guard, manners: Throttle, *, user_agent: str, bounds: Bounds) -> None:
        self.user_agent = user_agent
        self._guard = guarded
        self._manners = manners
        self._bounds = bounds
        self._transport = Transport(guarded)
        weakref.finalize(self, self._transport.close)

    def get(self, url: str, into: BinaryIO, wish: FetchRequest | None = None) -> Fetched:
        """Fetch `url` into an empty file. Skippable for a permanent, Retryable for a temporary failure."""
        request = wish or FetchRequest()
        for attempt in range(1, MAX_ATTEMPTS):
            begun = time.monotonic()
            try:
                return self._follow(url, into, request)
            except Retryable as error:
                if (error.after or 0) > SHORT_WAIT or time.monotonic() - begun > SHORT_WAIT:
                    raise
                into.seek(0)
                into.truncate()
                time.sleep(0 if error.after is not None else random.uniform(0.5, 1) * attempt)  # noqa: S311 - jitter
        return self._follow(url, into, request)

    def close(self) -> None:
        self._transport.close()

    def _follow(self, url: str, into: BinaryIO, wish: FetchRequest) -> Fetched:
        bounds = wish.bounds or self._bounds
        if wish.cookies is None:
            wish = replace(wish, cookies=CookieJar())
        ends = time.monotonic() + bounds.seconds
        is_temporary = False
        for _ in range(bounds.redirects + 1):
            url = _tidy(url)
            if wish.check:
                wish.check(url)
            with self._manners.turn(urls.site_of(url), wish.delay) as waited:
                ends += waited
                answer = self._one(url, into, wish, bounds.bytes, ends - time.monotonic())
            if isinstance(answer, Fetched):
                return replace(answer, is_temporary=is_temporary)
            is_temporary = is_temporary or answer.status in _TEMPORARILY_MOVED
            url = _joined_url(url, answer.target)
        raise Skippable(f"The address leads to more than {bounds.redirects} redirects.")

    def _one(self, url: str, into: BinaryIO, wish: FetchRequest, max_bytes: int, seconds: float) -> Fetched | _Redirect:
        """Return the answer, or a redirect."""
        with _explained(), self._answer(url, wish, seconds) as answer:
            headers = _joined(answer)
            if answer.status_code in _MOVED and "location" in headers:
                return _Redirect(answer.status_code, headers["location"])
            self._refuse(answer.status_code, headers, urls.site_of(url))
            if answer.status_code in _NO_REST:
                return Fetched(url, answer.status_code, headers, 0)
            if not wish.cut and int(headers.get("content-length") or 0) > max_bytes:
                raise too_large(max_bytes, "The content at the address")
            size = _write(
                iter_unpacked(answer.iter_raw(), headers.get("content-encoding", "")), into, max_bytes, wish.cut
            )
        return Fetched(url, answer.status_code, headers, min(size, max_bytes), cut=size > max_bytes)

    @contextmanager
    def _answer(self, url: str, wish: FetchRequest, seconds: float) -> Iterator[httpx.Response]:
        """Send a request without redirects, proxies or .netrc."""
        import httpx

        from retrieval.network.transport import limit_time

        headers = {"User-Agent": self.user_agent, "Accept": ANYTHING, "Accept-Encoding": ACCEPTED, **wish.headers}
        step_timeout = min(10.0, max(seconds, 0.1))
        timeouts = dict.fromkeys(("connect", "read", "write", "pool"), step_timeout)
        request = httpx.Request("GET", url, headers=headers, extensions={"timeout": timeouts})
        cookies = httpx.Cookies(wish.cookies)
        if len(cookies.jar) > MAX_COOKIES:
            cookies.jar.clear()
        cookies.set_cookie_header(request)
        with limit_time(seconds):
            answer = self._transport.handle_request(request)
            answer.request = request
            cookies.extract_cookies(answer)
            try:
                yield answer
            finally:
                answer.close()

    def _refuse(self, status: int, headers: Mapping[str, str], host: str) -> None:
        if status < 300 or status == 304:
            return
        if status in _LATER or status >= 500:
            delay = retry_after(headers)
            if delay:
                self._manners.pause_host(host, delay)
            raise Retryable(f"The site answers {status}.", after=delay)
        raise Skippable(_REASONS.get(status, f"The site answers {status}; there is no page to ingest."))


_REASONS = {
    401: "The site answers 401: the page wants a password, and pages are fetched without one.",
    403: "The site answers 403: it does not let this service fetch the page.",
    404: MISSING_PAGE,
    410: GONE_PAGE,
}


def make_client(options: Settings) -> WebClient:
    """Build a client from the settings."""
    return WebClient(
        fetch_guard.make_guard(options),
        Throttle(options.fetch_host_limit, options.fetch_host_delay),
        user_agent=options.fetch_user_agent,
        bounds=Bounds(options.max_file_bytes, options.fetch_seconds),
    )


@lru_cache(maxsize=1)
def shared_client() -> WebClient:
    """Return the client of this process."""
    # One client, so that the limits per host hold for all fetches.
    return make_client(settings.load_settings())


def _tidy(url: str) -> str:
    try:
        return urls.tidy_url(url)
    except ValueError as error:
        raise Skippable(f"The address {error}.") from error


def _joined_url(base: str, link: str) -> str:
    try:
        return urljoin(base, _UNWRITTEN.sub(lambda found: f"%{ord(found[0]):02X}", link.strip()))
    except ValueError as error:
        raise Skippable("The site redirects to an address that cannot be read.") from error


def _joined(answer: httpx.Response) -> dict[str, str]:
    return {name.lower(): value for name, value in answer.headers.items()}


def _write(parts: Iterator[bytes], into: BinaryIO, max_bytes: int, cut: bool) -> int:  # noqa: FBT001
    size = 0
    for part in parts:
        size += len(part)
        if size > max_bytes:
            if not cut:
                raise too_large(max_bytes, "The content at the address")
            into.write(part[: len(part) - (size - max_bytes)])
            break
        into.write(part)
    return size


@contextmanager
def _explained() -> Iterator[None]:
    """Translate errors of the transport to port errors."""
    # Messages of the transport may repeat content of the site.
    import httpx

    try:
        yield
    except BlockedAddress as error:
        raise Skippable(str(error)) from error
    except (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeError) as error:
        raise Skippable("The address cannot be read.") from error
    except httpx.TimeoutException as error:
        raise Retryable("The site did not answer in time.") from error
    except httpx.ConnectError as error:
        if _is_certificate(error):
            raise Skippable("The site's certificate is not valid.") from error
        raise Retryable("The site cannot be reached.") from error
    except httpx.TransportError as error:
        raise Retryable("The site broke off its answer.") from error


def _is_certificate(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False
