"""From the address of `/mcp` alone to a person's first hit: sign-in by OAuth, as clients of the protocol do it."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from retrieval.accounts.queries import organizations
from retrieval.ports import Scope
from retrieval.setting_values import OidcRole
from tests.api.routes.test_mcp import modern, rpc
from tests.api.support import EMBEDDED, client_of, serve
from tests.library import Library
from tests.standins import oidc_provider
from tests.standins.oidc_provider import Provider

PUBLIC = "https://search.example.org/retrieval"
"""Where clients reach the service: TLS and a path end at a proxy before it."""
RESOURCE = f"{PUBLIC}/mcp"
BACK = "http://127.0.0.1:33418/callback"
WORDS = {"semanticWeight": 0, "keywordWeight": 1}
MOST_REQUESTS = 10


@pytest.fixture(scope="module")
def served(api_db, api_settings, api_database, ring):
    """A provider, an organization whose staff are viewers, and the API as it is behind a proxy."""
    own = organizations.create(api_db, "own", requests_per_minute=100_000)
    roles = [OidcRole(group=role, role=role, organization=own.id) for role in ("viewer", "admin")]
    people = {"ada": {"groups": ["viewer"]}, "bob": {"groups": ["viewer"]}, "eve": {"groups": ["others"]}}
    with oidc_provider.serving(Provider(public_clients={"agent"}, redirect_uris={BACK}, people=people)) as provider:
        said = {
            "oidc_issuer": provider.issuer,
            "oidc_audience": ["elsewhere"],
            "oidc_roles": roles,
            "public_url": PUBLIC,
        }
        with serve(api_settings.model_copy(update=said), api_database, ring) as base:
            admin = client_of(base, provider.token("root", groups=["admin"], aud="elsewhere"))
            yield provider, own, base, admin
            admin.close()


@pytest.fixture(scope="module")
def space(served, api_db):
    """The only namespace, with one document for each of two people."""
    _, own, _, admin = served
    with pytest.MonkeyPatch.context():
        made = admin.post("/v1/namespaces", json={"name": "space", **EMBEDDED})
    assert made.status_code == 200, made.text
    found = str(made.json()["data"]["namespace"]["id"])
    library = Library(api_db, Scope(own.id, found, ""), None)
    for person in ("ada", "bob"):
        document = library.put([f"seals of {person}"], name=f"{person}.md")
        change = {"access": {"users": [person]}}
        body = {"namespaceId": found, "filterConfig": {"documentIds": [document]}, "data": change}
        assert admin.patch("/v1/documents", json=body).status_code == 200
    return found


class Agent:
    """A scripted OAuth client. It knows the address of `/mcp` and is a public client of the provider; no secret."""

    def __init__(self, base: str, http: httpx.Client) -> None:
        self.base, self.http, self.requests = base, http, 0

    def send(self, method: str, url: str, **options):
        """A request, counted; the proxy leads addresses of the service to the API."""
        self.requests += 1
        return self.http.request(method, url.replace(PUBLIC, self.base), **options)

    def sign_in(self, person: str) -> str:
        refused = self.send("POST", RESOURCE, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert refused.status_code == 401
        location = re.search('resource_metadata="([^"]+)"', refused.headers["www-authenticate"])[1]
        resource = self.send("GET", location).json()
        assert resource["resource"] == RESOURCE
        issuer = resource["authorization_servers"][0]
        server = self.send("GET", f"{issuer}/.well-known/openid-configuration").json()
        verifier = secrets.token_urlsafe(32)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        client = {"client_id": "agent", "redirect_uri": BACK, "resource": resource["resource"]}
        asked = {"response_type": "code", "state": "s", "code_challenge": challenge, "code_challenge_method": "S256"}
        asked |= {"scope": " ".join(resource["scopes_supported"])}
        page = self.send("GET", server["authorization_endpoint"], params={**client, **asked})
        assert person in page.text
        consent = self.send("GET", f"{issuer}/consent", params={**client, **asked, "subject": person})
        code = parse_qs(urlsplit(consent.headers["location"]).query)["code"][0]
        form = {**client, "grant_type": "authorization_code", "code": code, "code_verifier": verifier}
        return str(self.send("POST", server["token_endpoint"], data=form).json()["access_token"])

    def search(self, token: str):
        arguments = {"query": "seals", "hybridConfig": WORDS}
        self.http.base_url, self.http.headers["Authorization"] = self.base, f"Bearer {token}"
        self.requests += 1
        return modern(self.http, "tools/call", {"name": "search", "arguments": arguments}, **{"Mcp-Name": "search"})


@pytest.mark.parametrize("person", ["ada", "bob"])
def test_an_address_leads_to_the_persons_first_hit(served, space, person):
    with httpx.Client(trust_env=False, timeout=30) as http:
        agent = Agent(served[2], http)
        answer = agent.search(agent.sign_in(person))
    assert answer.status_code == 200, answer.text
    results = answer.json()["result"]["structuredContent"]["results"]
    assert [hit["content"] for hit in results] == [f"seals of {person}"]
    assert agent.requests <= MOST_REQUESTS


def test_the_metadata_are_at_both_places_and_need_no_key(served):
    provider, _, base, _ = served
    for path in ("", "/mcp"):
        answer = httpx.get(f"{base}/.well-known/oauth-protected-resource{path}", trust_env=False)
        assert answer.status_code == 200
        assert answer.json() == {
            "resource": RESOURCE,
            "resource_name": "Retrieval Service",
            "authorization_servers": [provider.issuer],
            "scopes_supported": ["openid", "email", "profile"],
            "bearer_methods_supported": ["header"],
        }


def test_a_token_for_the_resource_opens_mcp_alone(served, space):
    provider, _, base, _ = served
    token = provider.token("ada", aud=RESOURCE)
    with client_of(base, token) as client:
        assert rpc(client, "tools/list").status_code == 200
        refused = client.get("/v1/namespaces")
    assert (refused.status_code, refused.json()["error"]["details"]["reason"]) == (401, "wrong_audience")
    with client_of(base, provider.token("ada", aud="https://search.example.org/other")) as client:
        refused = rpc(client, "tools/list")
    header = refused.headers["www-authenticate"]
    assert refused.status_code == 401
    assert header.startswith('Bearer error="invalid_token", ')
    assert f'resource_metadata="{PUBLIC}/.well-known/oauth-protected-resource/mcp"' in header


@pytest.mark.parametrize(("person", "tool"), [("ada", "ingest_text"), ("eve", "search")])
def test_what_a_role_does_not_allow_is_an_insufficient_scope(served, space, person, tool):
    provider, _, base, _ = served
    with client_of(base, provider.token(person, aud=RESOURCE)) as client:
        answer = modern(client, "tools/call", {"name": tool, "arguments": {"query": "a"}}, **{"Mcp-Name": tool})
    assert answer.status_code == 403, answer.text
    assert answer.headers["www-authenticate"].startswith('Bearer error="insufficient_scope", resource_metadata=')


def test_without_a_provider_nothing_is_offered(base, anonymous):
    assert anonymous.get("/.well-known/oauth-protected-resource/mcp").status_code == 404
    refused = anonymous.post("/mcp", json={})
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
