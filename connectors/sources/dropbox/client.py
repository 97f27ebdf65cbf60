"""Client of Dropbox: a session per process, an SDK client per call, port errors."""

# The SDK's hosts are fixed, it would wait for a full rate without end, and it reads proxies and .netrc of the machine.
# This session sends to the operator's endpoint if there is one, ignores the environment and follows no redirect: a
# token reaches only two hosts. `connectors.http.retries` waits and retries.

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


ResultT = TypeVar("ResultT")
SERVICE_TITLE = "Dropbox"
# Dropbox documents no limit: a 429 reports it.
SERVICE_POLICY = ServicePolicy(SERVICE_TITLE, per_minute=2400, burst=40)
# Longest pause between two bytes of an answer.
READ_SECONDS = 30
_API_HOSTS = ("https://api.dropboxapi.com/", "https://content.dropboxapi.com/")
# Bytes of an error to read.
MAX_ERROR_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class TeamSpace:
    """Namespace of a team, read as a member or an administrator. `is_shared`: folder of several people."""

    namespace_id: str
    member_id: str
    team_id: str
    is_admin: bool
    is_shared: bool

    def select(self, team: Any) -> Any:
        """Return the SDK's client of the member, at the namespace's root."""
        from dropbox.common import PathRoot

        client = (team.as_admin if self.is_admin else team.as_user)(self.member_id)
        return client.with_path_root(PathRoot.namespace_id(self.namespace_id))


@dataclass(frozen=True, slots=True)
class DropboxSession:
    """Dropbox for the connections of one app, or for a namespace of a team. Thread-safe."""

    endpoint: Endpoint | None
    space: TeamSpace | None = None
    _roots: dict[str, str | None] = field(default_factory=dict)
    _teams: dict[str, str | None] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def call(self, tokens: TokenSource, request: Callable[[Any], ResultT]) -> ResultT:
        """Call `request` with the SDK's client."""
        # A 409 reaches `request` as the SDK's ApiError.
        return SERVICE_POLICY.call(tokens, lambda token: self._call_once(tokens.connection_id, token, request))

    def call_team(self, tokens: TokenSource, request: Callable[[Any], ResultT]) -> ResultT:
        """Call `request` with the SDK's client of a team."""

        def call(token: str) -> ResultT:
            with _translated_errors():
                return request(self._open(token, is_team=True))

        return SERVICE_POLICY.call(tokens, call)

    def team_id(self, tokens: TokenSource) -> str | None:
        """Return the id of the account's team, None without one; known after the first request."""
        return self.space.team_id if self.space else self._teams.get(tokens.connection_id)

    def holds(self, metadata: Any) -> bool:
        """Return True for a file of the namespace; its folders of several people are namespaces themselves."""
        if self.space is None:
            return True
        shared_id = metadata.sharing_info.parent_shared_folder_id if metadata.sharing_info else None
        return bool(shared_id == (self.space.namespace_id if self.space.is_shared else None))

    def _open(self, token: str, *, is_team: bool = False) -> Any:
        import dropbox

        return (dropbox.DropboxTeam if is_team else dropbox.Dropbox)(
            token,
            max_retries_on_error=0,
            max_retries_on_rate_limit=0,
            session=_session(self.endpoint),
            timeout=READ_SECONDS,
        )

    def _call_once(self, connection_id: str, token: str, request: Callable[[Any], ResultT]) -> ResultT:
        from dropbox.exceptions import PathRootError

        client = self._open(token, is_team=self.space is not None)
        with _translated_errors():
            try:
                return request(self.space.select(client) if self.space else self._with_root(connection_id, client))
            except PathRootError as error:
                if self.space:
                    raise SpaceClosed from error
                self._roots[connection_id] = _current_root(error.error)
            return request(self._with_root(connection_id, client))

    def _with_root(self, connection_id: str, client: Any) -> Any:
        """Select the root of a team's space."""
        # From there, folders of the team and of the member are visible.
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


def _current_root(error: Any) -> str | None:
    """Return the root of a moved member; None for an app limited to one folder."""
    return _root(error.get_invalid_root()) if error.is_invalid_root() else None


@lru_cache(maxsize=8)
def _session(endpoint: Endpoint | None) -> requests.Session:
    """Return the session of a process."""
    # Connections are slow to open.
    from requests.adapters import HTTPAdapter

    sessions.quiet_loggers("dropbox")
    base = urlsplit(endpoint.base_url) if endpoint and endpoint.base_url else None

    class Adapter(HTTPAdapter):
        def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
            if base is not None:
                target = urlsplit(request.url or "")
                path = base.path.rstrip("/") + str(target.path)
                request.url = urlunsplit((base.scheme, base.netloc, path, target.query, ""))
            return super().send(request, *args, **options)

    session = sessions.requests_session(endpoint, "DROPBOX")
    session.hooks["response"].append(_check_response)
    session.adapters.clear()
    for host in _API_HOSTS:
        session.mount(host, Adapter(pool_connections=len(_API_HOSTS), pool_maxsize=sessions.MAX_CONNECTIONS))
    return session


def _check_response(answer: requests.Response, **_: Any) -> None:
    """Raise errors common to all routes, before the SDK parses a foreign answer."""
    status, is_json = answer.status_code, answer.headers.get("content-type") == "application/json"
    content = "dropbox-api-arg" in answer.request.headers
    if status == 200 and content and "dropbox-api-result" in answer.headers:
        return
    if status in {200, 409, 422} and is_json and not (status == 200 and content):
        responses.buffer_body(answer, SERVICE_TITLE)
        return
    with closing(answer):
        raise _error_of_status(status, answer.headers, _read_error(answer))


def _read_error(answer: requests.Response) -> bytes:
    body = b""
    for piece in responses.iter_within(responses.iter_raw(answer.raw), READ_SECONDS, SERVICE_TITLE):
        body += piece
        if len(body) > MAX_ERROR_BYTES:
            break
    return body


def _error_of_status(status: int, headers: Mapping[str, str], body: bytes) -> Exception:
    if status == 401 and b"missing_scope" in body:
        return MissingScope(_PERMISSIONS_MESSAGE)
    if (status == 401 and any(tag in body for tag in _SELECTION_TAGS)) or (status == 400 and b"select_" in body):
        return SpaceClosed()
    if status == 401 or (status == 400 and b"access token" in body):
        return Unauthorized()
    if status == 400 and b"cursor" in body:
        return CursorExpired()
    errors: Mapping[int, Exception] = {
        400: Fatal(_PERMISSIONS_MESSAGE),
        403: Skippable(f"{SERVICE_TITLE} denies this account the access (403)."),
    }
    return errors.get(status) or transient_error(SERVICE_TITLE, status, headers) or unreadable_answer(SERVICE_TITLE)


_PERMISSIONS_MESSAGE = (
    f"{SERVICE_TITLE} does not accept the request: allow account_info.read, files.metadata.read and files.content.read"
    " among the app's permissions there, and authorize the connection again."
)


class MissingScope(Fatal):
    """The authorization lacks a permission of a route."""


class SpaceClosed(Skippable):
    """Dropbox does not let the app act for the member, or read the namespace."""

    def __init__(self) -> None:
        super().__init__(f"{SERVICE_TITLE} does not open this folder of the team now.")


# The token is good, the selected member is not.
_SELECTION_TAGS = (b"invalid_select_user", b"invalid_select_admin", b"user_suspended")


class CursorExpired(Exception):
    """Expired cursor: list everything again."""


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Convert errors of the SDK and its HTTP library to port errors."""
    from dropbox.exceptions import ApiError, DropboxException, PathRootError
    from dropbox.stone_validators import ValidationError

    try:
        with reached_by_requests(SERVICE_TITLE, READ_SECONDS):
            yield
    except ApiError:
        raise
    except PathRootError as error:
        raise TransientError(f"{SERVICE_TITLE} does not let the team's folders be seen right now.") from error
    except (DropboxException, ValidationError, AssertionError, LookupError, TypeError, ValueError) as error:
        raise unreadable_answer(SERVICE_TITLE) from error
