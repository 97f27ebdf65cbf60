"""An OpenID Connect provider on loopback: discovery, keys, authorization code flow with PKCE."""
# OpenID Connect Discovery 1.0 (sections 3 and 4), Core 1.0 (3.1.2 authorization request, 3.1.3 token request and ID
# token), RP-Initiated Logout 1.0, RFC 7636 (PKCE, S256), RFC 7517 (key sets), RFC 9068 (access tokens).
# joserfc makes the tokens; the service reads with another library.

from __future__ import annotations

import base64
import hashlib
import hmac
import html
import itertools
import json
import secrets
import threading
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from joserfc import jwt
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, OKPKey, RSAKey

from tests.standins.faults import Handler, served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_numbers = itertools.count(1)


@dataclass(frozen=True)
class SigningKey:
    """A key of the provider with its signing algorithm."""

    kid: str
    algorithm: str
    key: Any

    def public(self, **extra: Any) -> dict[str, Any]:
        """Return the public key as a member of the key set."""
        return {**self.key.as_dict(private=False), "kid": self.kid, "alg": self.algorithm, "use": "sig", **extra}


def signing_key(algorithm: str = "RS256", kid: str = "") -> SigningKey:
    """A new key."""
    key: Any
    if algorithm.startswith("RS"):
        key = RSAKey.generate_key(2048, private=True)
    elif algorithm == "EdDSA":
        key = OKPKey.generate_key("Ed25519", private=True)
    else:
        key = ECKey.generate_key("P-256", private=True)
    return SigningKey(kid or f"key-{next(_numbers)}", algorithm, key)


@dataclass
class Provider:
    """An OpenID provider; `people` has claims by subject."""

    # `instead` gets the path before each answer and may return another status and content.

    client_id: str = "admin-app"
    client_secret: str = "canary-oidc-client-secret"
    redirect_uris: set[str] = field(default_factory=set)
    public_clients: set[str] = field(default_factory=set)
    """Clients without a secret, such as programs on people's machines; their tokens are for the `resource` named."""
    keys: list[SigningKey] = field(default_factory=lambda: [signing_key()])
    people: dict[str, dict[str, Any]] = field(default_factory=dict)
    seconds: int = 300
    """Lifetime of the tokens."""
    instead: Callable[[str], tuple[int, Any] | None] = lambda _path: None
    requests: list[str] = field(default_factory=list)
    """"METHOD /path" of every request."""
    base: str = ""
    extra_keys: list[dict[str, Any]] = field(default_factory=list)
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def issuer(self) -> str:
        return self.base

    def discovery(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.base}/authorize",
            "token_endpoint": f"{self.base}/token",
            "userinfo_endpoint": f"{self.base}/userinfo",
            "end_session_endpoint": f"{self.base}/logout",
            "jwks_uri": f"{self.base}/keys",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": sorted({key.algorithm for key in self.keys}),
            "code_challenge_methods_supported": ["S256"],
            "scopes_supported": ["openid", "email", "profile"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
        }

    def key_set(self) -> dict[str, Any]:
        return {"keys": [*(key.public() for key in self.keys), *self.extra_keys]}

    def claims(self, subject: str, **extra: Any) -> dict[str, Any]:
        """Return current claims of a person, without claims set to None."""
        issued_at = int(time.time())
        defaults = {
            "iss": self.issuer,
            "sub": subject,
            "aud": self.client_id,
            "iat": issued_at,
            "exp": issued_at + self.seconds,
        }
        return {
            name: value
            for name, value in (defaults | self.people.get(subject, {}) | extra).items()
            if value is not None
        }

    def token(
        self, subject: str, *, key: SigningKey | None = None, header: dict[str, Any] | None = None, **extra: Any
    ) -> str:
        """Return a signed token; `header` overrides header members, None removes a member."""
        signer = key or self.keys[0]
        usual = {"alg": signer.algorithm, "kid": signer.kid, "typ": "JWT"} | (header or {})
        header_fields = {name: value for name, value in usual.items() if value is not None}
        return signed(header_fields, self.claims(subject, **extra), signer)

    def id_token(self, subject: str, nonce: str | None = None) -> str:
        return self.token(subject, nonce=nonce, auth_time=int(time.time()))

    def redeem(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        """Exchange a code once for tokens, for the same client and verifier."""
        client = (form.get("client_id", ""), form.get("client_secret", ""))
        if authorization.startswith("Basic "):
            name, _, secret = base64.b64decode(authorization[6:]).decode().partition(":")
            client = name, secret
        is_public = client[0] in self.public_clients and not client[1]
        if not is_public and client != (self.client_id, self.client_secret):
            return 401, {"error": "invalid_client"}
        with self._lock:
            grant = self._codes.pop(form.get("code", ""), None)
        if grant is None or form.get("grant_type") != "authorization_code":
            return 400, {"error": "invalid_grant"}
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if grant["redirect_uri"] != form.get("redirect_uri") or grant.get("code_challenge") != challenge:
            return 400, {"error": "invalid_grant"}
        if grant["client_id"] != client[0] or grant.get("resource") != form.get("resource"):
            return 400, {"error": "invalid_target"}
        subject, audience = grant["subject"], grant.get("resource", self.client_id)
        return 200, {
            "access_token": self.token(subject, header={"typ": "at+jwt"}, azp=client[0], aud=audience),
            "id_token": self.id_token(subject, grant.get("nonce")),
            "token_type": "Bearer",
            "expires_in": self.seconds,
            "scope": grant.get("scope", "openid"),
        }

    def authorize(self, query: dict[str, str]) -> str:
        """Return the page to choose a person; raise AssertionError for an invalid request."""
        assert query.get("client_id") in {self.client_id, *self.public_clients}, query
        assert query.get("redirect_uri") in self.redirect_uris, query
        assert query.get("response_type") == "code", query
        assert "openid" in query.get("scope", "").split(), query
        assert query.get("code_challenge_method") == "S256", query
        assert query.get("code_challenge"), query
        assert query.get("state"), query
        links = ""
        for subject in self.people:
            address = html.escape(urlencode({**query, "subject": subject}))
            links += f'<p><a href="/consent?{address}">Continue as {html.escape(subject)}</a></p>'
        return f"<!doctype html><html lang=en><title>Provider</title><h1>Who are you?</h1>{links}"

    def consent(self, query: dict[str, str]) -> str:
        """Return the redirect with the code."""
        code = secrets.token_urlsafe(16)
        with self._lock:
            self._codes[code] = query
        return f"{query['redirect_uri']}?code={code}&state={quote(query['state'])}"


def signed(header: dict[str, Any], claims: dict[str, Any], signer: SigningKey) -> str:
    """A token with exactly this header and these claims."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", SecurityWarning
        )  # RFC 9864 gives EdDSA another name; issuers still use this one
        return str(jwt.encode(header, claims, signer.key, algorithms=[str(header.get("alg"))]))


def unsigned(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    """Return the token without a signature, as anybody can write."""
    parts = (json.dumps(header).encode(), json.dumps(claims).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


def by_public_key(header: dict[str, Any], claims: dict[str, Any], signer: SigningKey) -> str:
    """Sign by HMAC with the public key as PEM."""
    unfinished = unsigned({**header, "alg": "HS256"}, claims).rstrip(".")
    digest = hmac.new(signer.key.as_pem(private=False), unfinished.encode(), hashlib.sha256).digest()
    return f"{unfinished}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


@contextmanager
def serving(provider: Provider) -> Iterator[Provider]:
    """Serve the provider on its own port at `provider.base`."""

    class Serving(Handler):
        def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
            url = urlsplit(self.path)
            provider.requests.append(f"GET {url.path}")
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            replacement = provider.instead(url.path)
            if replacement is not None:
                self.reply(*replacement)
            elif url.path == "/.well-known/openid-configuration":
                self.reply(200, provider.discovery())
            elif url.path == "/keys":
                self.reply(200, provider.key_set())
            elif url.path == "/authorize":
                self.reply(200, provider.authorize(query).encode(), {"Content-Type": "text/html; charset=utf-8"})
            elif url.path == "/consent":
                self.reply(302, b"", {"Location": provider.consent(query)})
            elif url.path == "/logout":
                self.reply(302, b"", {"Location": query["post_logout_redirect_uri"]})
            else:
                self.reply(404, {"error": "not_found"})

        def do_POST(self) -> None:  # noqa: N802
            provider.requests.append(f"POST {self.path}")
            body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            self.reply(*provider.redeem(form, self.headers.get("authorization", "")))

    with served(Serving) as port:
        provider.base = f"http://127.0.0.1:{port}"
        yield provider
