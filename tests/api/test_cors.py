"""CORS requests from scripts of other websites."""

from __future__ import annotations

import httpx
import pytest

from tests.api.support import assert_error, client_of, serve

APP = "https://app.example.com"
ASKED = {
    "Access-Control-Request-Method": "DELETE",
    "Access-Control-Request-Headers": "authorization,content-type,idempotency-key,x-tenant-id",
}


@pytest.fixture(scope="module")
def open_base(api_settings, api_database, ring):
    """API with two allowed origins."""
    origins = [APP, "https://*.example.org"]
    with serve(api_settings.model_copy(update={"cors_origins": origins}), api_database, ring) as address:
        yield address


def preflight(base, origin, path="/v1/documents"):
    return httpx.options(base + path, headers={"Origin": origin, **ASKED}, trust_env=False)


@pytest.mark.parametrize("origin", [APP, "https://docs.example.org"])
def test_a_preflight_of_an_allowed_site_is_answered_without_a_key(open_base, origin):
    answer = preflight(open_base, origin)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == origin
    assert "DELETE" in answer.headers["access-control-allow-methods"].split(", ")
    assert set(ASKED["Access-Control-Request-Headers"].split(",")) <= set(
        answer.headers["access-control-allow-headers"].lower().replace(" ", "").split(",")
    )
    assert "Origin" in answer.headers["vary"]
    assert answer.headers["x-request-id"]


def test_answers_and_refusals_can_be_read_by_scripts_of_an_allowed_site(org, open_base):
    with client_of(open_base, org.api_key) as client:
        answers = [client.get("/v1/namespaces", headers={"Origin": APP})]
    answers.append(httpx.get(open_base + "/v1/namespaces", headers={"Origin": APP}, trust_env=False))
    assert [answer.status_code for answer in answers] == [200, 401]
    for answer in answers:
        assert answer.headers["access-control-allow-origin"] == APP
        exposed = answer.headers["access-control-expose-headers"].lower().split(", ")
        assert {"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "retry-after"} <= set(exposed)
        assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize(
    ("origin", "path"),
    [
        ("https://other.example.com", "/v1/documents"),
        ("https://example.org", "/v1/documents"),
        ("https://app.example.com.evil.net", "/v1/documents"),
        ("http://app.example.com", "/v1/documents"),
        ("null", "/v1/documents"),
        (APP, "/mcp"),
        (APP, "/metrics"),
    ],
)
def test_other_sites_and_other_paths_are_not_allowed(open_base, org, origin, path):
    answers = [preflight(open_base, origin, path)]
    with client_of(open_base, org.api_key) as client:
        answers.append(client.get("/v1/namespaces" if path.startswith("/v1") else path, headers={"Origin": origin}))
    for answer in answers:
        assert "access-control-allow-origin" not in answer.headers
    assert answers[0].status_code in {401, 403}


def test_without_the_setting_nothing_is_allowed(org, base):
    assert_error(preflight(base, APP), 401, "UNAUTHORIZED")
    answer = org.client.get("/v1/namespaces", headers={"Origin": APP})
    assert not {"access-control-allow-origin", "vary"} & set(answer.headers)
