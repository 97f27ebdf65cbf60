"""Keys of the issuer: fetched once, rotated, withdrawn; and an absent, hanging or lying issuer."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from jwt import api_jwk, jwk_set_cache, jwks_client

from api.oidc import issuer_keys
from api.oidc.issuer_keys import IssuerKeys
from api.oidc.tokens import TokenRules, TokenVerifier
from retrieval.errors import ServiceError
from tests.standins import oidc_provider
from tests.standins.oidc_provider import Provider, signing_key

ALGORITHMS = ("RS256", "ES256", "EdDSA")


class Clock:
    """Manual clock."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def provider():
    with oidc_provider.serving(Provider(keys=[signing_key("ES256")])) as served:
        yield served


@pytest.fixture
def clock(monkeypatch):
    fake_clock = Clock()
    for module in (issuer_keys, api_jwk, jwk_set_cache, jwks_client):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=fake_clock))
    return fake_clock


def run(provider, steps):
    """Run `steps`, a coroutine function of a verifier, in a new event loop."""

    async def main():
        keys = IssuerKeys(provider.issuer)
        verifier = TokenVerifier(TokenRules(provider.issuer, frozenset({provider.client_id})), keys)
        try:
            return await steps(verifier)
        finally:
            await verifier.close()

    return asyncio.run(main())


async def reason(verifier, token):
    """Return the reason of a refusal, None if accepted."""
    try:
        await verifier.verify_token(token)
    except ServiceError as error:
        return error.reason
    return None


def test_both_documents_are_fetched_once_for_many_tokens(provider, clock):
    async def steps(verifier):
        tokens = [provider.token(f"person-{n}") for n in range(50)]
        assert await asyncio.gather(*(reason(verifier, token) for token in tokens)) == [None] * 50

    run(provider, steps)
    assert provider.requests == ["GET /.well-known/openid-configuration", "GET /keys"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_accepted_signature_is_read(provider, clock, algorithm):
    provider.keys = [signing_key(algorithm)]

    async def steps(verifier):
        person = await verifier.verify_token(provider.token("somebody", groups="one"))
        assert (person.subject, person.principal, person.groups) == ("somebody", "somebody", ("one",))

    run(provider, steps)


def test_a_new_key_is_found_and_a_withdrawn_one_ends(provider, clock):
    async def steps(verifier):
        old, new = provider.keys[0], signing_key("ES256")
        token = provider.token("somebody")
        assert await reason(verifier, token) is None
        clock.now += issuer_keys.REQUEST_PAUSE_SECONDS
        provider.keys = [new, old]
        assert await reason(verifier, provider.token("somebody")) is None
        provider.keys = [new]
        clock.now += issuer_keys.KEYS_FRESH_SECONDS - 1
        assert await reason(verifier, token) is None
        clock.now += 2
        assert await reason(verifier, token) == "unknown_key"

    run(provider, steps)


def test_unknown_keys_do_not_increase_fetches(provider, clock):
    async def steps(verifier):
        for _ in range(100):
            strange = provider.token("somebody", key=signing_key("EdDSA"))
            assert await reason(verifier, strange) == "unknown_key"
        assert await reason(verifier, provider.token("somebody")) is None

    run(provider, steps)
    assert provider.requests.count("GET /keys") == 2, "the set of the first token, and once more for the unknown keys"


def test_known_keys_work_during_an_issuer_outage(provider, clock):
    async def steps(verifier):
        token = provider.token("somebody")
        assert await reason(verifier, token) is None
        provider.instead = lambda _path: (500, {})
        clock.now += issuer_keys.KEYS_FRESH_SECONDS + 1
        assert await reason(verifier, token) is None
        assert await reason(verifier, provider.token("x", key=signing_key("ES256"))) == "issuer_away"
        clock.now += issuer_keys.KEYS_STALE_SECONDS
        assert await reason(verifier, token) == "issuer_away", "not for ever"
        provider.instead = lambda _path: None
        clock.now += issuer_keys.REQUEST_PAUSE_SECONDS
        assert await reason(verifier, token) is None

    run(provider, steps)


ODD_DISCOVERIES = {
    "not JSON": (200, b"<html>It works!</html>"),
    "too deep": (200, b"[" * 100_000),
    "too large": (200, b" " * (issuer_keys.MAX_DOCUMENT_BYTES + 1)),
    "of another issuer": (200, {"issuer": "https://elsewhere.example", "jwks_uri": "https://elsewhere.example/keys"}),
}


@pytest.mark.parametrize("case", ODD_DISCOVERIES)
def test_an_odd_discovery_document_is_not_believed(provider, clock, case):
    provider.instead = lambda path: ODD_DISCOVERIES[case] if path.startswith("/.well-known") else None

    async def steps(verifier):
        assert await reason(verifier, provider.token("somebody")) == "issuer_away"

    run(provider, steps)
    assert "GET /keys" not in provider.requests


@pytest.mark.parametrize("address", ["file:///etc/passwd", "//keys", None])
def test_keys_are_read_by_https_alone(provider, clock, address):
    document = {**provider.discovery(), "jwks_uri": address}
    provider.instead = lambda path: (200, document) if path.startswith("/.well-known") else None

    async def steps(verifier):
        assert await reason(verifier, provider.token("somebody")) == "issuer_away"

    run(provider, steps)


def test_unusable_keys_are_skipped(provider, clock):
    # An odd key must not affect the others.
    good, foreign_key = provider.keys[0], signing_key("RS256")
    public = foreign_key.public()
    provider.extra_keys = [
        {"kty": "oct", "kid": "secret", "k": "AAAA", "alg": "HS256"},
        {**public, "kid": "enc", "use": "enc"},
        {**public, "kid": "no-n", "n": None},
        "text",
        None,
    ]

    async def steps(verifier):
        assert await reason(verifier, provider.token("somebody")) is None
        for kid in ("secret", "enc", "no-n"):
            token = provider.token("somebody", key=foreign_key, header={"kid": kid})
            assert await reason(verifier, token) == "unknown_key"
        assert good.kid

    run(provider, steps)
