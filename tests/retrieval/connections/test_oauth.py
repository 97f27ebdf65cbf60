"""OAuth2 flows of the content services, and token refresh under a lock."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, urlsplit

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors import registry
from retrieval import sources
from retrieval.connections import connections
from retrieval.connections import tokens as authorizations
from retrieval.connections.tokens import ConnectionTokens
from retrieval.errors import AppRefused, Fatal, Retryable, ServiceError
from retrieval.network import service_urls
from retrieval.ports import Tokens
from retrieval.security.secrets import KeyRing, SecretError
from retrieval.setting_values import OAuthEndpoints
from retrieval.settings import Settings
from tests.standins.memory_authorizer import MemoryAuthorizer
from tests.standins.oauth_server import Vendor, serving

APP = {"clientId": "client", "clientSecret": "canary-client-secret"}
BACK = "https://here.example/v1/oauth/callback/x"


@pytest.fixture
def vendor():
    with serving(Vendor()) as server:
        yield server


def flow(vendor, connector="GOOGLE_DRIVE", **app):
    endpoints = OAuthEndpoints(token=vendor.base + "/token", revoke=vendor.base + "/revoke")
    options = Settings(_env_file=None, oauth_endpoints={connector: endpoints})
    return registry.make_authorizer(connector, {**APP, **app}, options)


def granted(flow, vendor):
    """Return tokens as after a user's authorization."""
    challenge = base64.urlsafe_b64encode(hashlib.sha256(b"v" * 43).digest()).rstrip(b"=").decode()
    pkce = flow.pkce
    url = flow.authorize_url(redirect_uri=BACK, state="s", challenge=challenge if pkce else None)
    code, _ = vendor.visit(url)
    return flow.exchange_code(code, redirect_uri=BACK, verifier="v" * 43 if pkce else None)


def test_every_connector_has_a_flow_with_https_endpoints():
    assert set(registry.CONNECTOR_FACTORIES) == set(sources.CONNECTED_SOURCES)
    for connector in sources.APP_CONFIGS:
        authorizer = registry.make_authorizer(connector, APP, Settings(_env_file=None))
        for url in (authorizer.authorize_at, authorizer.token_at, authorizer.revoke_at or authorizer.token_at):
            assert url.startswith("https://")


@pytest.mark.parametrize("connector", list(sources.APP_CONFIGS))
def test_exchange_and_refresh(vendor, connector):
    authorizer = flow(vendor, connector)
    first = granted(authorizer, vendor)
    lifetime = first.expires_at - datetime.now(UTC)
    assert timedelta(minutes=59) < lifetime <= timedelta(hours=1)
    second = authorizer.refresh(first)
    assert second.access_token != first.access_token
    assert second.refresh_token != first.refresh_token
    with pytest.raises(Fatal):
        authorizer.refresh(first)
    _, fields, headers = vendor.calls[0]
    if connector == "NOTION":
        assert headers["authorization"].startswith("Basic ")
        assert headers["content-type"] == "application/json"
        assert "client_secret" not in fields
    else:
        assert headers["content-type"] == "application/x-www-form-urlencoded"
        assert fields["client_secret"] == APP["clientSecret"]


def test_a_refresh_token_that_does_not_rotate_is_carried_over(vendor):
    vendor.trouble = (200, b'{"access_token": "fresh"}', {})
    fresh = flow(vendor).refresh(Tokens("old", "lasting", account="me"))
    assert fresh == Tokens("fresh", "lasting", None, "me")


TROUBLES = [
    ((400, b'{"error": "invalid_grant", "error_description": "canary"}', {}), Fatal),
    ((401, b'{"error": "invalid_client"}', {}), Fatal),
    ((403, b'{"error": "access_denied"}', {}), Fatal),
    ((403, b"<html>canary", {}), Retryable),
    ((403, b'{"message": "canary gateway"}', {}), Retryable),
    ((401, b'{"error": {".tag": "canary"}}', {}), Retryable),
    ((400, b'{"error": {"code": 400, "status": "FAILED_PRECONDITION"}}', {}), Retryable),
    ((403, b'{"error": "rate_limit_exceeded"}', {}), Retryable),
    ((400, b'{"error": "temporarily_unavailable"}', {}), Retryable),
    ((400, b"", {}), Retryable),
    ((404, b"{}", {}), Retryable),
    ((407, b"{}", {}), Retryable),
    ((429, b"{}", {"Retry-After": "7"}), Retryable),
    ((429, b"{}", {"Retry-After": "\u00b2"}), Retryable),
    ((500, b"canary", {}), Retryable),
    ((302, b"", {"Location": "http://127.0.0.1:1/"}), Retryable),
    ((200, b"", {}), Retryable),
    ((200, b"[]", {}), Retryable),
    ((200, b'{"access_token": ""}', {}), Retryable),
    ((200, b"\xff\xfe", {}), Retryable),
    ((200, b"[" * 5000, {}), Retryable),
    ((200, b'{"access_token": "' + b"x" * 70_000 + b'"}', {}), Retryable),
]


@pytest.mark.parametrize("connector", ["GOOGLE_DRIVE", "NOTION"])
def test_only_a_refusal_is_a_refusal(vendor, connector, capfd):
    for trouble, kind in TROUBLES:
        vendor.trouble = trouble
        with pytest.raises((Fatal, Retryable)) as raised:
            flow(vendor, connector).refresh(Tokens("canary-a", "canary-r"))
        assert isinstance(raised.value, kind), trouble
        assert "canary" not in "".join(capfd.readouterr())
        assert "canary" not in str(raised.value)
        if "Retry-After" in trouble[2]:
            assert raised.value.after == (7 if trouble[2]["Retry-After"] == "7" else None)


REFUSALS = [
    (400, '{"error": "invalid_client"}', AppRefused),
    (401, '{"error": "invalid_client", "error_codes": [7000222]}', AppRefused),  # Entra: the secret has expired
    (400, '{"error": "unauthorized_client", "error_codes": [700016]}', AppRefused),
    (400, '{"error": "invalid_request", "error_codes": [90002]}', AppRefused),  # Entra: no such tenant
    (401, '{"error": "deleted_client"}', AppRefused),  # Google
    (401, '{"error": "disabled_client"}', AppRefused),
    (403, '{"error": "org_internal"}', AppRefused),
    (401, '{"object": "error", "status": 401, "code": "unauthorized"}', AppRefused),  # Notion
    (400, '{"error": "invalid_grant"}', Fatal),
    (401, '{"error": "invalid_grant"}', Fatal),
    (400, '{"error": "interaction_required"}', Fatal),
    (403, '{"error": "access_denied"}', Fatal),
]


@pytest.mark.parametrize("connector", list(sources.APP_CONFIGS))
def test_a_refusal_tells_the_app_from_the_authorization(vendor, connector):
    """Words of RFC 6749 (5.2), Microsoft's, Google's and Notion's documentation of their token endpoints."""
    for status, body, kind in REFUSALS:
        vendor.trouble = (status, body.encode(), {})
        with pytest.raises(Fatal) as raised:
            flow(vendor, connector).refresh(Tokens("a", "r"))
        assert type(raised.value) is kind, body


@pytest.mark.parametrize("connector", list(sources.APP_CONFIGS))
def test_a_right_that_was_withheld_is_named(vendor, connector):
    # Token answers of Google, Microsoft and Dropbox list granted scopes; Box's may, Notion's never do.
    authorizer = flow(vendor, connector)
    for right, alternatives in authorizer.service.rights.items():
        everything = " ".join(authorizer.service.rights)
        grants = {everything: True, everything + " more": True, everything.replace(right, ""): False, "": False}
        grants |= {everything.replace(right, alternative): True for alternative in alternatives}
        for scope, is_enough in grants.items():
            vendor.trouble = (200, json.dumps({"access_token": "a", "scope": scope}).encode(), {})
            if is_enough:
                assert exchanged(authorizer).access_token == "a"
                continue
            with pytest.raises(Fatal, match="authorize again") as raised:
                exchanged(authorizer)
            assert right in str(raised.value)
    vendor.trouble = (200, b'{"access_token": "a"}', {})
    assert exchanged(authorizer).access_token == "a"


def exchanged(flow):
    """Exchange a code for the vendor's failing token answer."""
    return replace(flow, send=None).exchange_code("code", redirect_uri=BACK, verifier="v" * 43)


def test_dropbox_hears_of_the_end_even_with_an_old_token(vendor):
    authorizer = flow(vendor, "DROPBOX")
    first = granted(authorizer, vendor)
    authorizer.revoke(Tokens("old", first.refresh_token, datetime.now(UTC) - timedelta(hours=1)))
    assert vendor.revoked != ["old"]
    assert vendor.revoked[0].startswith("canary-access")


def test_no_secret_is_shown():
    authorizer = registry.make_authorizer("BOX", APP, Settings(_env_file=None))
    assert "canary" not in repr(authorizer) + repr(Tokens("canary", "canary"))


@pytest.fixture
def ring():
    return KeyRing.parse("1:" + base64.b64encode(os.urandom(32)).decode())


@pytest.fixture
def connected(db, ring, new_scope):
    """Return a function that creates an ACTIVE connection with these tokens."""

    def make(tokens):
        scope = new_scope()
        values = {"namespace": scope.namespace, "id": connections.ids.connection_id()}
        db.rows("insert into partitions (namespace_id) values (%(namespace)s)", values)
        db.rows(
            "insert into connections (id, partition_id, name, connector, status, credentials)"
            " select %(id)s, id, 'x', 'BOX', 'ACTIVE', %(sealed)s from partitions where namespace_id = %(namespace)s",
            {**values, "sealed": connections.seal_tokens(ring, values["id"], tokens)},
        )
        return values["id"]

    return make


def stored(db, connection):
    return db.row("select * from connections where id = %(id)s", {"id": connection})


def good(memory):
    return memory.exchange_code("good", redirect_uri=BACK, verifier="v")


def test_a_refused_token_is_renewed_once(db, ring, connected):
    memory = MemoryAuthorizer()
    source = ConnectionTokens(db, ring, connected(good(memory)), memory)
    first = source.token()
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(source.renew, [first] * 8)) == {"access-2"}
    assert (memory.refreshes, source.token()) == (1, "access-2")


def test_the_rotated_token_is_stored_before_it_is_used(db, ring, connected):
    memory = MemoryAuthorizer()
    connection = connected(good(memory))
    used = ConnectionTokens(db, ring, connection, memory).renew("access-1")
    tokens = connections.open_tokens(ring, connection, stored(db, connection)["credentials"], None)
    assert (tokens.access_token, tokens.refresh_token) == (used, "refresh-2")


@pytest.mark.parametrize("meanwhile", ["nothing", "another task was refused", "the person authorized anew"])
def test_a_rotated_token_outlives_a_database_that_dies(db, database_url, ring, connected, meanwhile):
    # The old refresh token is used up; losing the new token would require a new authorization.
    memory = MemoryAuthorizer()
    connection = connected(good(memory))
    refresh = memory.refresh

    def dying(tokens):
        fresh = refresh(tokens)
        with psycopg.connect(database_url, autocommit=True) as killer:
            killer.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where query ilike '%for update%'"
                " and state = 'idle in transaction'"
            )
            if meanwhile == "another task was refused":
                killer.execute("update connections set status = 'FAILED' where id = %s", [connection])
            if meanwhile == "the person authorized anew":
                sealed = connections.seal_tokens(ring, connection, Tokens("newest", "newest"))
                killer.execute("update connections set credentials = %s where id = %s", [sealed, connection])
        return fresh

    memory.refresh = dying
    used = ConnectionTokens(db, ring, connection, memory).renew("access-1")
    row = stored(db, connection)
    opened = connections.open_tokens(ring, connection, row["credentials"], None)
    expected = ("newest", "newest") if "person" in meanwhile else ("access-2", "refresh-2")
    assert (opened.access_token, opened.refresh_token, row["status"], row["status_reason"]) == (
        *expected,
        "ACTIVE",
        None,
    )
    assert used == opened.access_token


def test_a_refusal_of_a_token_that_was_replaced_ends_nothing(db, ring, connected):
    # A user authorized again during a task with the old token.
    memory = MemoryAuthorizer()
    connection = connected(good(memory))
    source = ConnectionTokens(db, ring, connection, memory)
    assert isinstance(source.end_authorization("no longer accepted", "some older token"), Retryable)
    assert stored(db, connection)["status"] == "ACTIVE"
    assert isinstance(source.end_authorization("no longer accepted", source.token()), Fatal)
    row = stored(db, connection)
    assert (row["status"], row["status_reason"]) == ("FAILED", "no longer accepted")


def test_a_refused_refresh_fails_the_connection(db, ring, connected):
    memory = MemoryAuthorizer()
    connection = connected(Tokens("a", "withdrawn", datetime.now(UTC)))
    source = ConnectionTokens(db, ring, connection, memory)
    with pytest.raises(Fatal, match="refused"):
        source.token()
    row = stored(db, connection)
    assert (row["status"], row["status_reason"]) == ("FAILED", "Memory refused the refresh token.")
    with pytest.raises(Fatal, match="no longer ACTIVE"):
        source.token()
    assert memory.refreshes == 1


def test_a_network_error_does_not(db, ring, connected):
    memory = MemoryAuthorizer(lasts=timedelta(seconds=1))
    connection = connected(good(memory))
    memory.trouble = Retryable("away")
    with pytest.raises(Retryable):
        ConnectionTokens(db, ring, connection, memory).token()
    assert stored(db, connection)["status"] == "ACTIVE"
    memory.trouble, memory.lasts = None, timedelta(hours=1)
    assert ConnectionTokens(db, ring, connection, memory).token() == "access-2"


def test_without_a_refresh_token_a_refused_access_is_the_end(db, ring, connected, vendor):
    connection = connected(Tokens("a"))
    source = ConnectionTokens(db, ring, connection, flow(vendor))
    assert source.token() == "a"
    with pytest.raises(Fatal, match="authorize"):
        source.renew("a")
    assert stored(db, connection)["status"] == "FAILED"


def test_a_deleted_namespace_ends_its_authorizations(db, ring, connected):
    """The sweep wipes tokens first and notifies each vendor once, also if a vendor fails."""
    memory = MemoryAuthorizer()
    first_connection, two = connected(good(memory)), connected(good(memory))
    partition = stored(db, first_connection)["partition_id"]
    for _ in range(2):
        authorizations.revoke_all(db, ring, partition, lambda _: memory)
    assert [tokens.access_token for tokens in memory.revoked] == ["access-1"]
    revoked = stored(db, first_connection)
    assert (revoked["status"], revoked["credentials"]) == ("REVOKED", None)
    assert stored(db, two)["status"] == "ACTIVE"
    memory.trouble = Retryable("away")
    authorizations.revoke_all(db, ring, stored(db, two)["partition_id"], lambda _: memory)
    assert stored(db, two)["credentials"] is None


def test_tokens_open_in_their_own_row_only(ring):
    sealed = connections.seal_tokens(ring, "conn_1", Tokens("canary", "canary"))
    assert b"canary" not in sealed
    with pytest.raises(SecretError):
        connections.open_tokens(ring, "conn_2", sealed, None)


@given(st.text(max_size=60), st.sampled_from(["", "https://", "http://", "https://app.example.com", "//"]))
def test_what_passes_leads_to_where_it_seems_to(text, start):
    """The URL parser and the redirect agree on the host, and the scheme is safe."""
    url = start + text
    try:
        service_urls.require_client_redirect(url)
    except ServiceError:
        return
    parts = urlsplit(service_urls.add_outcome(url, "conn_1", "ACTIVE"))
    assert (parts.scheme, parts.netloc) == (urlsplit(url).scheme, urlsplit(url).netloc)
    assert parts.scheme == "https" or parts.hostname in {"localhost", "127.0.0.1", "::1"}
    assert "@" not in parts.netloc
    assert dict(parse_qsl(parts.query))["status"] == "ACTIVE"
