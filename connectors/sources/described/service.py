"""Requests to a described service: address, credentials, rate limit and errors."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from connectors.http import responses, retries, sessions
from connectors.http.retries import RateLimited, ServicePolicy, TransientError, Unauthorized
from connectors.sources.described.description import Description
from connectors.sources.described.editions import Edition, Limit, Rate
from connectors.sources.described.fields import fill_address, fill_text, read_field
from connectors.sources.described.paging import next_address
from connectors.sources.described.permission_layers import Paging
from retrieval.errors import Fatal, Retryable, Skippable
from retrieval.network import fetch_guard

if TYPE_CHECKING:
    import httpx

    from retrieval.ports import TokenSource
    from retrieval.settings import Settings

REQUEST_TIMEOUT_SECONDS: Final = 60.0
MAX_WORDS: Final = 200
"""Characters of a vendor's reason in an error message."""
_REASONS: Final = (
    "message",
    "errorMessages.0",
    "errors.0.detail",
    "errors.0.title",
    "errors.0",
    "error.message",
    "error",
    "err",
    "0.errorCode",
)
"""Fields in which services explain a refusal."""
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")
BUSY_SECONDS: Final = 60.0
"""Pause after a rate limit without an end time."""


class Refused(Fatal):
    """Request refused with `status`, for the reason `words`."""

    def __init__(self, message: str, *, title: str, status: int = 0, words: str = "") -> None:
        super().__init__(message)
        self.title, self.status, self.words = title, status, words

    def retire(self) -> Retired:
        """Return the error for an endpoint refused for every item."""
        reason = f"{self.status}: {self.words}" if self.words else str(self.status)
        return Retired(
            f"{self.title} no longer answers at an address that the connector requests, for items that exist as well"
            f" ({reason}). Nothing was removed. Update the retrieval service, or check what the credentials may read."
        )


class Retired(Fatal):
    """Endpoint removed by the service, or refused for every item; no statement about an item."""


@dataclass(frozen=True, slots=True)
class Site:
    """Edition of a connection, with the URL's values and the base of requests; `guarded` for a host from the URL."""

    edition: Edition
    location: dict[str, str]
    base: str
    guarded: bool
    # Longest time between listings of everything.
    full_listing: timedelta = timedelta(days=1)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Service:
    """Client of a described service with the credentials of a connection."""

    name: str
    about: Description
    settings: Settings
    policy: ServicePolicy
    clients: dict[bool, httpx.Client] = field(default_factory=dict, repr=False)

    def find_site(self, token: str) -> Site:
        """Return the site of a connection. Fatal for an unreadable URL."""
        config = json.loads(token)
        if (site := open_site(self.name, self.about, config["url"], self.settings)) is None:
            raise Fatal("The connection's URL cannot be read: send its config again.")
        minutes = config.get("fullListingMinutes")
        return replace(site, full_listing=timedelta(minutes=minutes)) if minutes else site

    def get(
        self,
        tokens: TokenSource,
        url: str,
        *,
        passing: Iterable[int] = (),
        headers: Mapping[str, str] | None = None,
        is_file: bool = False,
    ) -> httpx.Response:
        """Send a request. Fatal for statuses except 200 and `passing`, Skippable for a large answer."""
        # Lines of `url` after the first are the body of a POST. A file at another host gets no credentials.

        def ask(token: str) -> httpx.Response:
            site, secrets = self.find_site(token), json.loads(token).get("credentials") or {}
            client = self._client(site)
            signed = {**self.about.headers, **(headers or {}), **_sign(site.edition, secrets)}
            try:
                with responses.translate_failures(self.about.title, REQUEST_TIMEOUT_SECONDS):
                    address, _, body = url.partition("\n")
                    kind = {"Content-Type": "application/json"} if body else {}
                    method = "POST" if body else "GET"
                    answer = client.request(method, address, headers={**signed, **kind}, content=body or None)
                    if secrets and _is_refused(self.about, answer):
                        raise Unauthorized
                    if is_file and answer.has_redirect_location:
                        return self._download(str(answer.url.join(answer.headers["location"])))
            except responses.AnswerTooLarge as error:
                limit = f"{responses.MAX_BODY_BYTES / 2**20:,.1f} MiB".replace(".0 ", " ")
                raise Skippable(
                    f"{self.about.title}'s answer is larger than {limit}, the most that is read at once: split it at"
                    " the service, or exclude it."
                ) from error
            self._check(answer, codes)
            return self._read_error(answer) if self.about.errors and not is_file else answer

        codes = frozenset(passing)
        answer = self.policy.call(tokens, ask, _find_bucket_name(json.loads(tokens.token())))
        if answer.status_code != 200 and answer.status_code not in codes:
            raise self.refusal(answer)
        return answer

    def download(self, tokens: TokenSource, site: Site, url: str, hosts: Sequence[str] = ()) -> httpx.Response:
        """Request a file; only the service and `hosts` get the credentials. Skippable for a refusal."""
        if not url.startswith(tuple(f"{host}/" for host in (site.base, *hosts))):
            return self._download(url)
        answer = self.get(tokens, url, passing=(400, 403, 404, 410, 422), is_file=True)
        if answer.status_code != 200:
            raise Skippable(f"{self.about.title} answers {answer.status_code}.")
        return answer

    def refusal(self, answer: httpx.Response) -> Refused:
        """Return the error for a status other than 200."""
        title, status = self.about.title, answer.status_code
        words = _read_words(answer)
        reason = f" It says: {words}" if status == 410 and words else ""
        if remedy := self.about.remedies.get(words) or self.about.remedies.get(str(status)):
            reason = words if words in self.about.remedies else f"{status} {words}".strip()
            message = f"{title} refuses the request: {reason.rstrip('.')}. {remedy}"
            return Refused(message, title=title, status=status, words=words)
        message = f"{title} answers {status}: the address does not exist, or the credentials may not read it.{reason}"
        return Refused(message, title=title, status=status, words=words)

    def read_json(self, answer: httpx.Response) -> Any:
        """Parse the answer as JSON. Retryable for other content."""
        try:
            document = answer.json()
            if _SURROGATE.search(answer.content):
                text = json.dumps(document, ensure_ascii=False)
                document = json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
        except (ValueError, RecursionError):
            raise self.unreadable() from None
        return document

    def read_list(self, answer: httpx.Response, name: str) -> list[Any]:
        """Return the objects in a field of the answer. Retryable without a list of objects."""
        document = self.read_json(answer)
        entries = read_field(document, name) if name else document
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise self.unreadable()
        return entries

    def next_page(self, paging: Paging, site: Site, answer: httpx.Response, entries: Sequence[Any]) -> str:
        """Return the URL of the next page, or ""; credentials go only to the service's address."""
        import httpx

        if answer.status_code != 200 or paging == Paging():
            return ""
        try:
            following = next_address(paging, site.base, answer, entries, self.read_json)
        except (httpx.InvalidURL, ValueError):
            raise self.unreadable() from None
        if following and not following.startswith((f"{site.base}/", f"{site.base}?")):
            raise Retryable(f"{self.about.title}'s list leads to another address.")
        return following

    def unreadable(self) -> Retryable:
        """Return the error for an unexpected answer."""
        return Retryable(str(responses.unreadable_answer(self.about.title)))

    def _download(self, url: str) -> httpx.Response:
        """Request a file at another address without credentials. Skippable for a refusal."""
        import httpx

        try:
            if not url.startswith(("https://", "http://")):
                raise Skippable(f"{self.about.title} has the file at an address that is not requested.")
            file = self._client_of(guarded=True).get(url)
        except (fetch_guard.BlockedAddress, httpx.InvalidURL) as error:
            raise Skippable(f"{self.about.title} has the file at an address that is not requested.") from error
        if trouble := responses.transient_error(self.about.title, file.status_code, file.headers):
            raise trouble
        if file.status_code != 200:  # another host says nothing about the credentials
            raise Skippable(f"The address at which {self.about.title} has the file answers {file.status_code}.")
        return file

    def _client(self, site: Site) -> httpx.Client:
        """Return the client for a site. Fatal for credentials in clear text on the public internet."""
        if site.guarded:
            guard = fetch_guard.make_guard(self.settings)
            sessions.require_private_without_tls(guard, site.base, title=self.about.title, field="config.url")
        return self._client_of(guarded=site.guarded)

    def _client_of(self, *, guarded: bool) -> httpx.Client:
        if guarded not in self.clients:
            client = self.clients[guarded] = self._make_client(guarded=guarded)
            weakref.finalize(self, client.close)
        return self.clients[guarded]

    def _make_client(self, *, guarded: bool) -> httpx.Client:
        from retrieval.network.transport import BoundedTransport, Transport

        endpoint = self.settings.endpoints.get(self.name)
        certificates = sessions.trusted_certificates(endpoint, self.name)
        transport = (
            Transport(fetch_guard.make_guard(self.settings), verify=certificates, max_bytes=responses.MAX_BODY_BYTES)
            if guarded
            else BoundedTransport(certificates, max_bytes=responses.MAX_BODY_BYTES)
        )
        return sessions.httpx_client(certificates, seconds=REQUEST_TIMEOUT_SECONDS, transport=transport)

    def _read_error(self, answer: httpx.Response) -> httpx.Response:
        """Return the answer, with 404 for a missing item. Raises as `_check` for named errors."""
        import httpx

        names, title = self.about.errors, self.about.title
        error = str(read_field(self.read_json(answer), names.field)) if names else ""
        if not names or not error:
            return answer
        if error in names.unauthorized:
            raise Unauthorized
        if error in names.busy:
            raise RateLimited(BUSY_SECONDS)
        if error in names.retired:
            raise Refused("", title=title, status=answer.status_code, words=error).retire()
        if error in (*names.missing, *names.expired):
            status = 404 if error in names.missing else 410
            return httpx.Response(status, request=answer.request, json={"error": error})
        reason = error if error.isidentifier() else "it names no reason"
        message = f"{title} refuses the request: {reason}. {self.about.remedies.get(error, '')}".rstrip()
        raise Refused(message, title=title, words=error)

    def _check(self, answer: httpx.Response, passing: frozenset[int]) -> None:
        status = answer.status_code
        if status == 401 and status not in passing:
            raise Unauthorized
        if (seconds := find_wait(self.about.rate, answer)) is not None:
            raise RateLimited(seconds)
        if error := responses.transient_error(self.about.title, status, answer.headers):
            raise error


def _find_bucket_name(config: Mapping[str, Any]) -> str:
    """Return the name of a credential's bucket of requests; "" for a connection's own."""
    # Vendors count requests by credential; the tokens of a person's authorization change.
    credentials = {} if "grant" in config else config.get("credentials") or {}
    return hashlib.sha256(json.dumps(credentials, sort_keys=True).encode()).hexdigest() if credentials else ""


def _is_refused(about: Description, answer: httpx.Response) -> bool:
    return any(re.search(pattern, answer.headers.get(name, "")) for name, pattern in about.refused.items())


def _read_words(answer: httpx.Response) -> str:
    """Return the reason of a refusal, at most MAX_WORDS printable characters, or ""."""
    try:
        document = answer.json()
    except (ValueError, RecursionError):
        return ""
    reasons = (read_field(document, name) for name in _REASONS)
    words = next((reason for reason in reasons if isinstance(reason, str) and reason), "")
    return "".join(character for character in " ".join(words.split()) if character.isprintable())[:MAX_WORDS]


def find_wait(rate: Rate, answer: httpx.Response) -> float | None:
    """Return the wait after an answer of a declared limit, by default BUSY_SECONDS; None for other answers."""
    limits = [limit for limit in rate.limits if limit.status == answer.status_code and _is_reached(limit, answer)]
    if not limits:
        return None
    if (delay := retries.retry_after(answer.headers)) is not None:
        return delay
    for limit in limits:
        if limit.until and (end := _read_moment(answer.headers.get(limit.until, ""))):
            return min(max(1.0, end - time.time()), retries.MAX_RETRY_AFTER_SECONDS)
        if limit.seconds and (seconds := _read_seconds(answer, limit.seconds)):
            return min(seconds, retries.MAX_RETRY_AFTER_SECONDS)
    return BUSY_SECONDS


def _is_reached(limit: Limit, answer: httpx.Response) -> bool:
    value = answer.headers.get(limit.header) if limit.header else ""
    return value is not None and bool(re.fullmatch(limit.value, value) and re.search(limit.body, answer.text))


def _read_moment(text: str) -> float:
    """Parse Unix time or ISO 8601; 0 for other text."""
    try:
        return float(text) if text.isdecimal() else datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


def _read_seconds(answer: httpx.Response, name: str) -> float:
    """Return the number of a header or field, or 0."""
    try:
        number = float(answer.headers.get(name) or read_field(answer.json(), name))
    except (ValueError, TypeError, RecursionError):
        return 0.0
    return number if number > 0 else 0.0


def open_site(name: str, about: Description, url: str, settings: Settings) -> Site | None:
    """Read a connection's URL; None for no edition of the service."""
    if (parsed := about.find_edition(url)) is None:
        return None
    edition, location = parsed[0], {**about.queries, **parsed[1]}
    base, endpoint = fill_address(edition.api, location), settings.endpoints.get(name)
    configured = sessions.base_url(endpoint, "")
    if edition.api.startswith("{"):
        return Site(edition, location, base, guarded=not (configured and f"{base}/".startswith(f"{configured}/")))
    return Site(edition, location, configured or base, guarded=False)


def check_address(site: Site, settings: Settings) -> None:
    """Raise ValueError for a refused address; a failed lookup is no reason."""
    if not site.guarded:
        return
    guard = fetch_guard.make_guard(settings)
    try:
        guard.check_url(site.base)
        sessions.require_private_without_tls(guard, site.base, title="service", field="url")
    except Fatal as error:
        raise ValueError("url", f"cannot be used: {error}".rstrip(".")) from error
    except (Retryable, TransientError):
        return


def _sign(edition: Edition, secrets: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with the credentials, empty for a connection without credentials."""
    if not secrets:
        return {}
    headers = {name: fill_text(text, secrets) for name, text in edition.headers.items()}
    if edition.basic:
        encoded = base64.b64encode(fill_text(edition.basic, secrets).encode()).decode()
        headers["Authorization"] = f"Basic {encoded}"
    return headers
