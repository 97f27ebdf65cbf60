"""Base of the content services' stand-ins: server, OAuth2 with a consent page, bearers, faults."""
# A stand-in subclasses `Served`, answers its vendor's requests in `answer` and implements
# `tests.standins.place.Account`.

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from retrieval.setting_values import Endpoint, OAuthEndpoints
from retrieval.settings import Settings
from tests.standins import faults
from tests.standins.oauth_server import Vendor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

AUTHORIZE, TOKEN, REVOKE = "/consent", "/oauth/token", "/oauth/revoke"


class Served:
    """An account on its own port; `open` paths need no bearer."""

    connector = ""
    unauthorized: ClassVar[Any] = {"error": "SECRET VENDOR WORDS"}
    """The body of the vendor's 401."""
    page = 100

    def __init__(self) -> None:
        self.vendor = Vendor()
        self.vendor.account = "account-1"
        self.requests: list[str] = []
        self.fault: Callable[[str], faults.Fault | None] = lambda _request: None
        self.good: set[str] = set()
        self.lock = threading.RLock()
        self.base = ""

    @property
    def settings(self) -> Settings:
        """Settings with this account's endpoints; a stand-in may add more."""
        endpoints = OAuthEndpoints(authorize=self.base + AUTHORIZE, token=self.base + TOKEN, revoke=self.base + REVOKE)
        return Settings(
            _env_file=None,
            endpoints={self.connector: Endpoint(base_url=self.base)},
            oauth_endpoints={self.connector: endpoints},
        )

    def answer(self, handler: faults.Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        """The vendor's own request, with a good bearer: reply by `handler.reply`."""
        raise NotImplementedError

    def is_open(self, path: str) -> bool:
        """Return True for paths without a bearer, for example a signed download address."""
        return False

    def token(self) -> str:
        with self.lock:
            token = f"canary-access-direct-{len(self.good)}"
            self.good.add(token)
        return token

    def expire(self) -> None:
        with self.lock:
            self.good = {token + " expired" for token in self.good}

    def visit(self, authorization_url: str) -> str:
        query = dict(parse_qsl(urlsplit(authorization_url).query))
        code, state = self.vendor.visit(authorization_url)
        return query["redirect_uri"] + "?" + urlencode({"code": code, "state": state})

    def handle(self, handler: faults.Handler, method: str) -> None:
        """Record the request, apply a pending fault, then answer OAuth2 or the vendor's API."""
        parts = urlsplit(handler.path)
        body = handler.rfile.read(int(handler.headers.get("content-length") or 0))
        request = f"{method} {parts.path}"
        with self.lock:
            self.requests.append(request)
            fault = self.fault(request)
        if fault is not None and fault(handler):
            return
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        if parts.path == AUTHORIZE:
            handler.reply(302, b"", {"Location": self.visit(handler.path)})
        elif parts.path in {TOKEN, REVOKE} or parts.path.endswith("/oauth2/v2.0/token"):
            self._oauth(handler, parts.path, body)
        elif self.is_open(parts.path) or self._bearer(handler) in self.good:
            self.answer(handler, method, parts.path, query, body)
        else:
            handler.reply(401, self.unauthorized)

    def _bearer(self, handler: faults.Handler) -> str:
        return (handler.headers.get("authorization") or "").removeprefix("Bearer ")

    def _oauth(self, handler: faults.Handler, path: str, body: bytes) -> None:
        is_json = "json" in (handler.headers.get("content-type") or "")
        form = {name: values[0] for name, values in parse_qs(body.decode(), keep_blank_values=True).items()}
        headers = {name.lower(): value for name, value in handler.headers.items()}
        status, content, extra_headers = self.vendor.answer(path, json.loads(body) if is_json else form, headers)
        if path == TOKEN and status == 200 and (token := json.loads(content).get("access_token")):
            with self.lock:
                self.good.add(token)
        handler.reply(status, content, extra_headers)


@contextmanager
def serving(account: Served) -> Iterator[Served]:
    """Serve the account on loopback at `account.base`."""

    class Handler(faults.Handler):
        def any_request(self) -> None:
            account.handle(self, self.command)

    for method in ("GET", "POST", "PATCH", "DELETE", "OPTIONS"):
        setattr(Handler, f"do_{method}", Handler.any_request)
    with faults.served(Handler) as port:
        account.base = f"http://127.0.0.1:{port}"
        yield account
