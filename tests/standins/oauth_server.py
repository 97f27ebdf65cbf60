"""A content service's OAuth2 endpoints on loopback: codes, PKCE, rotating refresh tokens, faults."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

from tests.standins.faults import Handler, served

if TYPE_CHECKING:
    from collections.abc import Iterator


class Vendor:
    """State and requests of the service; `trouble` is an answer (status, body, headers) for the next request."""

    def __init__(self, client_id: str = "client", client_secret: str = "canary-client-secret") -> None:
        self.client = (client_id, client_secret)
        self.codes: dict[str, dict[str, str]] = {}
        self.refresh_tokens: set[str] = set()
        self.revoked: list[str] = []
        self.calls: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        self.trouble: tuple[int, bytes, dict[str, str]] | None = None
        self.hold: threading.Event | None = None
        self.account: str | None = None
        self.tenant = "tenant"
        self.expires_in: Any = 3600
        self.unticked: set[str] = set()
        """Requested scopes refused by the person (Google: granular permissions)."""
        self.base = ""
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def visit(self, authorization_url: str) -> tuple[str, str]:
        """Allow the access as a person; return the redirect with code and state."""
        query = dict(parse_qsl(urlsplit(authorization_url).query))
        assert query["client_id"] == self.client[0]
        assert query["response_type"] == "code"
        code = f"code-{next(self._numbers)}"
        self.codes[code] = query
        return code, query["state"]

    def answer(self, path: str, fields: dict[str, Any], headers: dict[str, str]) -> tuple[int, bytes, dict[str, str]]:
        if self.hold is not None:
            self.hold.wait(10)
        with self._lock:
            self.calls.append((path, fields, headers))
            if self.trouble is not None:
                return self.trouble
            if path.endswith("/revoke"):
                bearer = headers.get("authorization", "").removeprefix("Bearer ")
                self.revoked.append(fields.get("token") or bearer)
                return 200, b"", {}
            if self._client(fields, headers) != self.client:
                return _refusal("invalid_client")
            return self._grant(fields)

    def _client(self, fields: dict[str, Any], headers: dict[str, str]) -> tuple[str, str]:
        basic = headers.get("authorization", "")
        if basic.startswith("Basic "):
            name, _, secret = base64.b64decode(basic[6:]).decode().partition(":")
            return name, secret
        return fields.get("client_id", ""), fields.get("client_secret", "")

    def _grant(self, fields: dict[str, Any]) -> tuple[int, bytes, dict[str, str]]:
        authorization: dict[str, str] | None = {}
        if fields.get("grant_type") == "refresh_token":
            if fields.get("refresh_token") not in self.refresh_tokens:
                return _refusal("invalid_grant")
            self.refresh_tokens.discard(fields["refresh_token"])
        elif fields.get("grant_type") != "client_credentials":
            authorization = self.codes.pop(fields.get("code", ""), None)
            if authorization is None or authorization["redirect_uri"] != fields.get("redirect_uri"):
                return _refusal("invalid_grant")
            challenge = authorization.get("code_challenge")
            digest = hashlib.sha256(fields.get("code_verifier", "").encode()).digest()
            if challenge is not None and base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != challenge:
                return _refusal("invalid_grant")
        number = next(self._numbers)
        refresh = f"canary-refresh-{number}"
        self.refresh_tokens.add(refresh)
        content = {"access_token": f"canary-access-{number}", "refresh_token": refresh, "expires_in": self.expires_in}
        if "openid" in authorization.get("scope", "").split():
            content["id_token"] = self._word(authorization.get("nonce", ""))
        if "scope" in authorization:
            content["scope"] = " ".join(scope for scope in authorization["scope"].split() if scope not in self.unticked)
        if self.account is not None:
            content |= {"account_id": self.account, "workspace_id": self.account}
        return 200, json.dumps(content).encode(), {}

    def _word(self, nonce: str) -> str:
        """Return an OpenID Connect id token with the subject in its payload."""
        claims = {
            "aud": self.client[0],
            "nonce": nonce,
            "sub": self.account or "s",
            "oid": self.account or "user",
            "tid": self.tenant,
        }
        parts = ({"alg": "none"}, claims, {})
        return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)


def _refusal(error: str) -> tuple[int, bytes, dict[str, str]]:
    return 400, json.dumps({"error": error, "error_description": "canary vendor text"}).encode(), {}


@contextmanager
def serving(vendor: Vendor) -> Iterator[Vendor]:
    """Serve the vendor on its own port at `vendor.base`."""

    class Serving(Handler):
        def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            kind = self.headers.get("content-type", "")
            fields = json.loads(body) if kind == "application/json" else _form(body)
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, content, extra_headers = vendor.answer(self.path, fields, headers)
            self.reply(status, content, extra_headers)

    with served(Serving) as port:
        vendor.base = f"http://127.0.0.1:{port}"
        yield vendor


def _form(body: bytes) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(body.decode(), keep_blank_values=True).items()}
