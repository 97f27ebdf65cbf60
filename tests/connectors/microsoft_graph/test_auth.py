"""Microsoft's code flow through msal: requests, answers, refusals."""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import UTC, datetime
from urllib.parse import parse_qsl, urlsplit

import pytest

from connectors import registry
from retrieval.errors import Fatal, Retryable
from retrieval.ports import Tokens
from retrieval.setting_values import OAuthEndpoints
from retrieval.settings import Settings
from tests.standins.oauth_server import Vendor, serving

APP = {"clientId": "client", "clientSecret": "canary-client-secret"}
BACK = "https://here.example/v1/oauth/callback/onedrive"
VERIFIER = "v" * 43
TENANT = "72f988bf-86f1-41af-91ab-2d7cd011db47"
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()


@pytest.fixture
def vendor():
    with serving(Vendor()) as vendor_server:
        yield vendor_server


@pytest.fixture
def flow(vendor):
    endpoints = OAuthEndpoints(token=vendor.base + "/token")
    return registry.make_authorizer("ONEDRIVE", APP, Settings(_env_file=None, oauth_endpoints={"ONEDRIVE": endpoints}))


def granted(flow, vendor, verifier=VERIFIER):
    code, _ = vendor.visit(flow.authorize_url(redirect_uri=BACK, state="s", challenge=CHALLENGE))
    return flow.exchange_code(code, redirect_uri=BACK, verifier=verifier)


def test_the_consent_requests_files_and_identity(flow):
    query = dict(parse_qsl(urlsplit(flow.authorize_url(redirect_uri=BACK, state="s", challenge=CHALLENGE)).query))
    assert query["scope"].split() == ["Files.Read.All", "offline_access", "openid", "profile"]
    assert (query["code_challenge"], query["code_challenge_method"]) == (CHALLENGE, "S256")
    assert query["nonce"] == hashlib.sha256(CHALLENGE.encode()).hexdigest()


def test_tokens_say_whose_they_are_also_after_a_refresh(flow, vendor):
    vendor.account = "ada"
    first = granted(flow, vendor)
    assert first.account == "tenant.ada"
    assert flow.refresh(first).account == "tenant.ada"


@pytest.mark.parametrize(
    ("connector", "app", "tenant"),
    [
        ("ONEDRIVE", {}, "common"),
        ("SHAREPOINT", {}, "organizations"),
        ("ONEDRIVE", {"tenantId": "contoso.onmicrosoft.com"}, "contoso.onmicrosoft.com"),
        ("SHAREPOINT", {"tenantId": "contoso.com"}, "contoso.com"),
    ],
)
def test_an_app_of_one_tenant_signs_in_at_that_tenant(connector, app, tenant):
    # learn.microsoft.com/entra/identity-platform/v2-protocols: {tenant} is in every address; otherwise AADSTS50194.
    flow = registry.make_authorizer(connector, {**APP, **app}, Settings(_env_file=None))
    assert flow.authorize_at == f"https://login.microsoftonline.com/{tenant}/oauth2/v2.0/authorize"
    assert flow.token_at == f"https://login.microsoftonline.com/{tenant}/oauth2/v2.0/token"


def test_an_operators_address_for_all_tenants_is_that_of_the_apps_tenant(vendor):
    endpoints = OAuthEndpoints(
        authorize="https://login.microsoftonline.us/common/oauth2/v2.0/authorize",
        token=vendor.base + "/common/token",
    )
    settings = Settings(_env_file=None, oauth_endpoints={"ONEDRIVE": endpoints})
    flow = registry.make_authorizer("ONEDRIVE", {**APP, "tenantId": "contoso.com"}, settings)
    assert flow.authorize_at == "https://login.microsoftonline.us/contoso.com/oauth2/v2.0/authorize"
    assert flow.token_at == vendor.base + "/contoso.com/token"
    assert registry.make_authorizer("ONEDRIVE", APP, settings).token_at == vendor.base + "/common/token"


def test_sharepoint_asks_for_sites_and_its_app_of_one_tenant_gets_tokens(vendor):
    endpoints = OAuthEndpoints(token=vendor.base + "/token")
    settings = Settings(_env_file=None, oauth_endpoints={"SHAREPOINT": endpoints})
    flow = registry.make_authorizer("SHAREPOINT", {**APP, "tenantId": "contoso.com"}, settings)
    query = dict(parse_qsl(urlsplit(flow.authorize_url(redirect_uri=BACK, state="s", challenge=CHALLENGE)).query))
    assert query["scope"].split() == ["Sites.Read.All", "offline_access", "openid", "profile"]
    vendor.account = "ada"
    first = granted(flow, vendor)
    assert flow.refresh(first).account == first.account == "tenant.ada"


def test_tokens_of_another_tenant_than_the_apps_are_refused(vendor):
    vendor.account, vendor.tenant = "eve", TENANT.replace("7", "8")
    settings = Settings(_env_file=None, oauth_endpoints={"ONEDRIVE": OAuthEndpoints(token=vendor.base + "/token")})
    flow = registry.make_authorizer("ONEDRIVE", {**APP, "tenantId": TENANT.upper()}, settings)
    with pytest.raises(Fatal, match="another Microsoft Entra tenant") as raised:
        granted(flow, vendor)
    assert "canary" not in str(raised.value)
    vendor.tenant = TENANT
    first = granted(flow, vendor)
    assert first.account == f"{TENANT}.eve"
    claims = json.dumps({"sub": "eve", "oid": "eve", "tid": TENANT.replace("7", "8")}).encode()
    word = f"e30.{base64.urlsafe_b64encode(claims).decode()}.e30"
    vendor.trouble = (200, json.dumps({"access_token": "canary", "expires_in": 60, "id_token": word}).encode(), {})
    with pytest.raises(Fatal, match="another Microsoft Entra tenant"):
        flow.refresh(first)


def test_a_code_without_its_verifier_is_worth_nothing(flow, vendor):
    with pytest.raises(Fatal, match="Authorize the connection again"):
        granted(flow, vendor, verifier="x" * 43)


def test_a_word_for_another_authorization_is_not_taken(flow, vendor):
    claims = json.dumps({"nonce": "of another", "sub": "s", "oid": "eve", "tid": "t"}).encode()
    word = f"e30.{base64.urlsafe_b64encode(claims).decode()}.e30"
    answer = {"access_token": "canary", "refresh_token": "canary", "expires_in": 3600, "id_token": word}
    vendor.trouble = (200, json.dumps(answer).encode(), {})
    with pytest.raises(Fatal, match="another authorization") as raised:
        granted(flow, vendor)
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize(
    ("trouble", "kind"),
    [
        ((400, b'{"error": "invalid_grant", "error_description": "AADSTS70008 canary"}', {}), Fatal),
        ((400, b'{"error": "interaction_required"}', {}), Fatal),
        ((401, b'{"error": "invalid_client"}', {}), Fatal),
        ((400, b'{"error": "temporarily_unavailable"}', {}), Retryable),
        ((403, b"<html>canary", {}), Retryable),
        ((429, b'{"error": "canary"}', {"Retry-After": "7"}), Retryable),
        ((500, b"canary", {}), Retryable),
        ((302, b"", {"Location": "http://127.0.0.1:1/"}), Retryable),
        ((200, b"", {}), Retryable),
        ((200, b"[]", {}), Retryable),
        ((200, b'{"error": "canary"}', {}), Retryable),
        ((200, b'{"access_token": ""}', {}), Retryable),
        ((200, b'{"access_token": 5}', {}), Retryable),
        ((200, b'{"access_token": "a", "id_token": "canary"}', {}), Retryable),
        ((200, b'{"access_token": "a", "id_token": 5}', {}), Retryable),
        ((200, b'{"access_token": "a", "scope": 5}', {}), Retryable),
        ((200, b"[" * 5000, {}), Retryable),
    ],
)
def test_only_a_refusal_is_a_refusal(flow, vendor, trouble, kind):
    vendor.trouble = trouble
    with pytest.raises(kind) as raised:
        flow.refresh(Tokens("canary-a", "canary-r"))
    assert "canary" not in str(raised.value)
    if "Retry-After" in trouble[2]:
        assert raised.value.after == 7


def test_what_does_not_rotate_is_carried_over(flow, vendor):
    vendor.trouble = (200, b'{"access_token": "fresh", "expires_in": 60}', {})
    fresh = flow.refresh(Tokens("old", "lasting", account="me"))
    assert (fresh.access_token, fresh.refresh_token, fresh.account) == ("fresh", "lasting", "me")
    assert fresh.expires_at > datetime.now(UTC)


def test_only_the_token_endpoint_is_requested(flow, vendor, monkeypatch):
    # No request for Microsoft's metadata or for a region from the environment; revocation sends no request.
    monkeypatch.setenv("MSAL_FORCE_REGION", "westeurope")
    flow.revoke(granted(flow, vendor))
    assert [path for path, _, _ in vendor.calls] == ["/token"]
    fields = vendor.calls[0][1]
    assert (fields["client_id"], fields["client_secret"]) == ("client", "canary-client-secret")
