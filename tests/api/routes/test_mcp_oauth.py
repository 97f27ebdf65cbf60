"""OAuth sign-in of an MCP client, from the address of `/mcp` to the first hit."""

from __future__ import annotations

import asyncio
import html
import re
from urllib.parse import parse_qs, urlsplit

import httpx
import httpx2
import pytest
from mcp.client.auth import OAuthClientProvider
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata

from retrieval.accounts.queries import organizations
from retrieval.ports import Scope
from retrieval.setting_values import OidcRole
from tests.api.routes.test_mcp import modern, rpc
from tests.api.support import EMBEDDED, client_of, serve
from tests.library import Library
from tests.standins import oidc_provider
from tests.standins.oidc_provider import Provider

# Public address: a proxy in front terminates TLS and strips the path.
PUBLIC = "https://search.example.org/retrieval"
RESOURCE = f"{PUBLIC}/mcp"
BACK = "http://127.0.0.1:33418/callback"
KEYWORDS_ONLY = {"semanticWeight": 0, "keywordWeight": 1}
MOST_REQUESTS = 10


@pytest.fixture(scope="module")
def served(api_db, api_settings, api_database, ring):
    """Yield a provider, an organization with viewers, and the API behind a proxy."""
    organization = organizations.create_organization(api_db, "own", requests_per_minute=100_000)
    roles = [OidcRole(group=role, role=role, organization=organization.id) for role in ("viewer", "admin")]
    people = {"ada": {"groups": ["viewer"]}, "bob": {"groups": ["viewer"]}, "eve": {"groups": ["others"]}}
    with oidc_provider.serving(Provider(public_clients={"agent"}, redirect_uris={BACK}, people=people)) as provider:
        changes = {
            "oidc_issuer": provider.issuer,
            "oidc_audience": ["elsewhere"],
            "oidc_roles": roles,
            "public_url": PUBLIC,
        }
        with serve(api_settings.model_copy(update=changes), api_database, ring) as base:
            admin = client_of(base, provider.token("root", groups=["admin"], aud="elsewhere"))
            yield provider, organization, base, admin
            admin.close()


@pytest.fixture(scope="module")
def space(served, api_db):
    """Only namespace, with a document for each of two people."""
    _, organization, _, admin = served
    with pytest.MonkeyPatch.context():
        creation = admin.post("/v1/namespaces", json={"name": "space", **EMBEDDED})
    assert creation.status_code == 200, creation.text
    namespace = str(creation.json()["data"]["namespace"]["id"])
    library = Library(api_db, Scope(organization.id, namespace, ""), None)
    for person in ("ada", "bob"):
        document = library.put([f"seals of {person}"], name=f"{person}.md")
        change = {"access": {"users": [person]}}
        body = {"namespaceId": namespace, "filterConfig": {"documentIds": [document]}, "data": change}
        assert admin.patch("/v1/documents", json=body).status_code == 200
    return namespace


class Agent(httpx2.AsyncBaseTransport):
    """Public client with the address of `/mcp` and a client id; counts requests and acts as the proxy of the API."""

    def __init__(self, base: str, person: str) -> None:
        self.base, self.person, self.requests, self.tokens = base, person, 0, None
        self.network, self.back = httpx2.AsyncHTTPTransport(), ""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.requests += 1
        request.url = httpx2.URL(str(request.url).replace(PUBLIC, self.base))
        return await self.network.handle_async_request(request)

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return OAuthClientInformationFull(client_id="agent", redirect_uris=[BACK], token_endpoint_auth_method="none")

    async def set_client_info(self, client_info):
        raise AssertionError("the provider knows the client")

    async def open_page(self, address: str) -> None:
        """Sign in on the page of the provider."""
        async with httpx2.AsyncClient(transport=self) as browser:
            page = await browser.get(address)
            links = re.findall('href="([^"]+)"', page.text)
            link = next(link for link in links if f"subject={self.person}" in link)
            self.back = (await browser.get(page.url.join(html.unescape(link)))).headers["location"]

    async def read_code(self) -> AuthorizationCodeResult:
        answered = parse_qs(urlsplit(self.back).query)
        return AuthorizationCodeResult(code=answered["code"][0], state=answered["state"][0])

    async def search(self):
        metadata = OAuthClientMetadata(redirect_uris=[BACK], token_endpoint_auth_method="none")
        auth = OAuthClientProvider(RESOURCE, metadata, self, self.open_page, self.read_code)
        async with (
            self.network,
            httpx2.AsyncClient(auth=auth, transport=self) as http,
            Client(streamable_http_client(RESOURCE, http_client=http)) as client,
        ):
            return await client.call_tool("search", {"query": "seals", "hybridConfig": KEYWORDS_ONLY})


@pytest.mark.parametrize("person", ["ada", "bob"])
def test_the_official_client_comes_from_an_address_to_the_persons_first_hit(served, space, person):
    agent = Agent(served[2], person)
    answer = asyncio.run(agent.search())
    assert [hit["content"] for hit in answer.structured_content["results"]] == [f"seals of {person}"]
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
