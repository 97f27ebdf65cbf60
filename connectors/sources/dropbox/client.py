"""Dropbox's SDK: one session a process, a client for each call, its errors as port errors.

The SDK's hosts are fixed, it would wait for a full rate without end, and it takes the machine's own proxies and
.netrc: the session here sends to the operator's endpoint if there is one, takes nothing from the environment and
follows no redirect, so a token goes to two hosts and no other; who waits and tries again is
`connectors.http.retries`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

from connectors.http import responses, sessions
from connectors.http.responses import reached_by_requests, transient_error, unreadable_answer
from connectors.http.retries import ServicePolicy, TransientError, Unauthorized
from retrieval.errors import Fatal, Skippable

if TYPE_CHECKING:
    import requests

    from retrieval.ports import TokenSource
    from retrieval.setting_values import Endpoint


T = TypeVar("T")
NAME = "Dropbox"
POLICY = ServicePolicy(NAME, per_minute=2400, burst=40)
"""Dropbox tells no limit: its 429 does."""
SECONDS = 30
"""Without a byte, after which an answer is given up."""
_HOSTS = ("https://api.dropboxapi.com/", "https://content.dropboxapi.com/")
_WORDS = 16 * 1024
"""Bytes of an error that are read."""


@dataclass(frozen=True, slots=True)
class DropboxSession:
    """Dropbox as the connections of one app see it. Safe in several threads."""

    endpoint: Endpoint | None
    _roots: dict[str, str | None] = field(default_factory=dict)
    _teams: dict[str, str | None] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def ask(self, tokens: TokenSource, request: Callable[[Any], T]) -> T:
        """Call `request(the SDK's client)`. A 409 is raised as the SDK's ApiError, for `request` to read."""
        return POLICY.call(tokens, lambda token: self._once(tokens.connection_id, token, request))

    def team(self, tokens: TokenSource) -> str | None:
        """Id of the account's team, None without one; known after the first request."""
        return self._teams.get(tokens.connection_id)

    def _once(self, connection_id: str, token: str, request: Callable[[Any], T]) -> T:
        import dropbox
        from dropbox.exceptions import PathRootError

        client = dropbox.Dropbox(
            token, max_retries_on_error=0, max_retries_on_rate_limit=0, session=_session(self.endpoint), timeout=SECONDS
        )
        with _understood():
            try:
                return request(self._rooted(connection_id, client))
            except PathRootError as error:
                self._roots[connection_id] = _root_now(error.error)
            return request(self._rooted(connection_id, client))

    def _rooted(self, connection_id: str, client: Any) -> Any:
        """Use the root of a team's space, from which the team's folders are visible beside a member's own."""
        from dropbox.common import PathRoot

        with self._lock:
            if connection_id not in self._roots:
                account = client.users_get_current_account()
                self._teams[connection_id] = account.team.id if account.team else None
                self._roots[connection_id] = _root(account.root_info)
            root = self._roots[connection_id]
        return client if root is None else client.with_path_root(PathRoot.root(root))


def _root(info: Any) -> str | None:
    return None if info.root_namespace_id == info.home_namespace_id else str(info.root_namespace_id)


def _root_now(error: Any) -> str | None:
    """The member moved to another team, or the app sees one folder only."""
    return _root(error.get_invalid_root()) if error.is_invalid_root() else None


@lru_cache(maxsize=8)
def _session(endpoint: Endpoint | None) -> requests.Session:
    """Shared by the threads and steps of a process: a connection is dear to make."""
    from requests.adapters import HTTPAdapter

    sessions.quiet_loggers("dropbox")
    base = urlsplit(endpoint.base_url) if endpoint and endpoint.base_url else None

    class Adapter(HTTPAdapter):
        def send(self, request: requests.PreparedRequest, *given: Any, **named: Any) -> requests.Response:
            if base is not None:
                target = urlsplit(request.url or "")
                path = base.path.rstrip("/") + str(target.path)
                request.url = urlunsplit((base.scheme, base.netloc, path, target.query, ""))
            return super().send(request, *given, **named)

    session = sessions.requests_session(endpoint, "DROPBOX")
    session.hooks["response"].append(_judge)
    session.adapters.clear()
    for host in _HOSTS:
        session.mount(host, Adapter(pool_connections=len(_HOSTS), pool_maxsize=sessions.CONNECTIONS))
    return session


def _judge(answer: requests.Response, **_: Any) -> None:
    """Raise for what means the same on every route, before the SDK takes a stranger's answer apart."""
    status, is_json = answer.status_code, answer.headers.get("content-type") == "application/json"
    content = "dropbox-api-arg" in answer.request.headers
    if status == 200 and content and "dropbox-api-result" in answer.headers:
        return
    if status in {200, 409, 422} and is_json and not (status == 200 and content):
        responses.buffer_body(answer, NAME)
        return
    with closing(answer):
        raise _refusal(status, answer.headers, _words(answer))


def _words(answer: requests.Response) -> bytes:
    body = b""
    for piece in responses.iter_within(responses.iter_raw(answer.raw), SECONDS, NAME):
        body += piece
        if len(body) > _WORDS:
            break
    return body


def _refusal(status: int, headers: Mapping[str, str], said: bytes) -> Exception:
    if status == 401 and b"missing_scope" in said:
        return MissingScope(_PERMISSIONS)
    if status == 401 or (status == 400 and b"access token" in said):
        return Unauthorized()
    if status == 400 and b"cursor" in said:
        return CursorExpired()
    errors: Mapping[int, Exception] = {
        400: Fatal(_PERMISSIONS),
        403: Skippable(f"{NAME} denies this account the access (403)."),
    }
    return errors.get(status) or transient_error(NAME, status, headers) or unreadable_answer(NAME)


_PERMISSIONS = (
    f"{NAME} does not take the request: allow account_info.read, files.metadata.read and files.content.read among the"
    " app's permissions there, and authorize the connection again."
)


class MissingScope(Fatal):
    """The authorization lacks the permission that a route needs."""


class CursorExpired(Exception):
    """Expired cursor: everything has to be listed again."""


@contextmanager
def _understood() -> Iterator[None]:
    """Errors of the SDK and its HTTP library as port errors."""
    from dropbox.exceptions import ApiError, DropboxException, PathRootError
    from dropbox.stone_validators import ValidationError

    try:
        with reached_by_requests(NAME, SECONDS):
            yield
    except ApiError:
        raise
    except PathRootError as error:
        raise TransientError(f"{NAME} does not let the team's folders be seen right now.") from error
    except (DropboxException, ValidationError, AssertionError, LookupError, TypeError, ValueError) as error:
        raise unreadable_answer(NAME) from error
