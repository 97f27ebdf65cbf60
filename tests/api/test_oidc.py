"""Bearer tokens of an OpenID Connect issuer: access, refusals, and recorded names."""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import ExitStack
from datetime import timedelta
from urllib.parse import quote

import httpx
import pytest
from pydantic import ValidationError

from retrieval.accounts import api_keys
from retrieval.accounts.queries import organizations
from retrieval.ports import Scope
from retrieval.setting_values import OidcRole
from tests.api.routes.test_files import path, upload
from tests.api.support import Organization, assert_error, client_of, serve
from tests.library import Library
from tests.standins import oidc_provider
from tests.standins.oidc_provider import Provider

EDITOR_TEXT = "What an editor ingests."
PEOPLE = {
    "sub-ada": {"name": "Ada", "email": "Ada@Example.com", "email_verified": True, "groups": ["staff", "auditors"]},
    "sub-eve": {"name": "Eve", "email": "eve@example.com", "email_verified": True, "groups": ["editors"]},
    "sub-root": {"name": "Root", "email": "root@example.com", "email_verified": True, "groups": ["admins"]},
    "sub-tia": {"name": "Tia", "email": "tia@example.com", "email_verified": True, "groups": ["acme"]},
    "sub-nil": {"name": "Nil", "email": "nil@example.com", "email_verified": True, "groups": ["elsewhere"]},
    "sub-for": {"name": "For", "email": "ada@example.com", "email_verified": True, "groups": ["strangers"]},
}


@pytest.fixture(scope="module")
def provider():
    with oidc_provider.serving(Provider(people=PEOPLE)) as served:
        yield served


@pytest.fixture(scope="module")
def people_organization(api_db):
    """Organization of the signed-in people."""
    return organizations.create_organization(api_db, "people")


@pytest.fixture(scope="module")
def address(provider, people_organization, api_db, api_settings, api_database, ring):
    """API with a short list of roles, the last in a separate organization."""
    foreign = organizations.create_organization(api_db, "others")
    roles = [
        OidcRole(group="admins", role="admin", organization=people_organization.id),
        OidcRole(group="editors", role="editor", organization=people_organization.id),
        OidcRole(group="acme", role="editor", organization=people_organization.id, tenant="acme"),
        OidcRole(group="staff", role="viewer", organization=people_organization.id),
        OidcRole(group="strangers", role="admin", organization=foreign.id),
        OidcRole(group="lost", role="admin", organization="org_missing"),
    ]
    changes = {"oidc_issuer": provider.issuer, "oidc_client_id": provider.client_id, "oidc_principal_claim": "email"}
    roles.append(OidcRole(group="first", role="admin"))
    few = organizations.create_organization(api_db, "few", requests_per_minute=3)
    roles.append(OidcRole(group="few", role="viewer", organization=few.id))
    with serve(api_settings.model_copy(update=changes | {"oidc_roles": roles}), api_database, ring) as base:
        yield base


@pytest.fixture(scope="module")
def stack():
    with ExitStack() as opened:
        yield opened


@pytest.fixture(scope="module")
def org(people_organization, address, api_db, ring, stack):
    """Same organization with a key."""
    key = api_keys.create_key(api_db, ring, people_organization.id, "the application's").api_key
    client = stack.enter_context(client_of(address, key))
    return Organization(people_organization.id, client, key, api_db, ring, address)


@pytest.fixture(scope="module")
def space(org):
    return org.namespace()


@pytest.fixture(scope="module")
def library(org, space):
    """A document for each kind of reader."""
    filled_library = Library(org.db, Scope(org.id, space), None)
    for name, access in (
        ("open", None),
        ("adas", {"users": ["ada@example.com"]}),
        ("staffs", {"groups": ["staff"]}),
        ("stored", {"groups": ["nested"]}),
        ("not-for-auditors", {"public": True, "denied": {"groups": ["auditors"]}}),
        ("nobodys", {}),
    ):
        filled_library.put([f"{name} seals dive"], external_id=name)
        if access is not None:
            body = {"namespaceId": space, "filterConfig": {"documentExternalIds": [name]}, "data": {"access": access}}
            assert org.client.patch("/v1/documents", json=body).status_code == 200
    members = {"namespaceId": space, "members": {"users": [], "groups": ["auditors"]}}
    assert org.client.put("/v1/groups/nested", json=members).status_code == 200
    return filled_library


@pytest.fixture
def ask(address, provider):
    """Return a client with a token of a person or the given token; `more` are claims, timedeltas relative to now."""
    with ExitStack() as opened:

        def make(subject: str = "sub-ada", token: str | None = None, **claims) -> httpx.Client:
            issued_at = int(time.time())
            for name, value in claims.items():
                claims[name] = issued_at + int(value.total_seconds()) if isinstance(value, timedelta) else value
            bearer = provider.token(subject, **claims) if token is None else token
            return opened.enter_context(client_of(address, bearer))

        yield make


def names(client, space, **headers):
    answer = client.post("/v1/documents", json={"namespaceId": space, "filterConfig": {}}, headers=headers)
    assert answer.status_code == 200, answer.text
    return {document["externalId"] for document in answer.json()["data"]["documents"]} - {
        digest(EDITOR_TEXT),
        digest("Once."),
    }


def digest(text):
    """Return the default external id of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def find_words(client, space, **headers):
    body = {"namespaceId": space, "query": "seals", "hybridConfig": {"semanticWeight": 0, "keywordWeight": 1}}
    answer = client.post("/v1/search/hybrid", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return {result["content"].split()[0] for result in answer.json()["data"]["results"]}


def refused(answer, reason, status=401, code="UNAUTHORIZED"):
    details = assert_error(answer, status, code)["error"]
    assert details["details"]["reason"] == reason
    if status == 401:
        assert answer.headers["www-authenticate"].startswith('Bearer error="invalid_token", error_description="')
    return details["message"]


def test_a_person_finds_what_is_for_them_and_their_groups(ask, org, space, library):
    # Groups of the token join the stored groups; denied groups of the token count, too.
    ada = ask()
    assert names(ada, space) == find_words(ada, space) == {"open", "adas", "staffs", "stored"}
    by_key = {"X-On-Behalf-Of": "ADA@example.com"}
    assert names(org.client, space, **by_key) == {"open", "adas", "not-for-auditors"}, "the token's groups are its own"
    assert names(ada, space, **by_key) == {"open", "adas", "staffs", "stored"}, "herself, said twice"
    assert names(ask("sub-eve"), space) == names(org.client, space), "editors act as the application"
    as_eve = {"X-On-Behalf-Of": "eve@example.com"}
    assert names(ask("sub-eve"), space, **as_eve) == {"open", "not-for-auditors"}


def test_only_an_admin_asks_for_somebody_else(ask, space, library):
    for subject in ("sub-ada", "sub-eve"):
        answer = ask(subject).post(
            "/v1/documents", json={"namespaceId": space, "filterConfig": {}}, headers={"X-On-Behalf-Of": "bob"}
        )
        refused(answer, "other_principal", 403, "FORBIDDEN")
    assert names(ask("sub-root"), space, **{"X-On-Behalf-Of": "ada@example.com"}) == {
        "open",
        "adas",
        "not-for-auditors",
    }


def test_a_person_of_a_tenant_stays_in_it(ask, org, space, library):
    tia = ask("sub-tia")
    org.text(space, "of acme", tenant="acme", externalId="acmes")
    org.text(space, "of other", tenant="other", externalId="others")
    assert names(tia, space) == {"acmes"}
    assert names(tia, space, **{"X-Tenant-ID": "acme"}) == {"acmes"}
    answer = tia.post(
        "/v1/documents", json={"namespaceId": space, "filterConfig": {}}, headers={"X-Tenant-ID": "other"}
    )
    refused(answer, "other_tenant", 403, "FORBIDDEN")


def test_a_person_without_a_role_gets_a_clear_refusal(ask):
    assert "administrator" in refused(ask("sub-nil").get("/v1/namespaces"), "no_role", 403, "FORBIDDEN")
    refused(ask(groups=["lost"]).get("/v1/namespaces"), "no_organization", 403, "FORBIDDEN")
    refused(ask(groups=None).get("/v1/namespaces"), "no_role", 403, "FORBIDDEN")


def test_a_link_opens_by_the_groups_that_the_token_had(ask, org, space, library, api_settings, anonymous):
    # Changed groups invalidate the signature.
    document = upload(org, space, "staff.pdf", b"For the staff.", "application/pdf")
    body = {"namespaceId": space, "filterConfig": {"documentIds": [document]}}
    access = {**body, "data": {"access": {"groups": ["staff"]}}}
    assert org.client.patch("/v1/documents", json=access).status_code == 200
    links_body = {**body, "includeConfig": {"rawFileUrl": True}}
    (listed_document,) = ask().post("/v1/documents", json=links_body).json()["data"]["documents"]
    link = path(api_settings, listed_document["rawFileUrl"])
    assert anonymous.get(link).content == b"For the staff."
    without, _, held_groups = link.partition("&groups=")
    foreign_groups = quote(json.dumps(["admins", "staff"]), safe="")
    for wrong in (
        without,
        f"{without}&groups={foreign_groups}",
        f"{without}&groups=[",
        f"{without}&groups={held_groups}x",
    ):
        assert_error(anonymous.get(wrong), 404, "NOT_FOUND")
    org.client.patch("/v1/documents", json={**body, "data": {"access": {"denied": {"groups": ["auditors"]}}}})
    assert_error(anonymous.get(link), 404, "NOT_FOUND")
    org.client.request("DELETE", "/v1/documents", json=body)


def test_language_models_get_the_tools_of_the_role(ask, address, space, library):
    # At /mcp with the person's token; a request without a valid token gets 401.
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Accept": "application/json, text/event-stream"}
    tools = {}
    for subject in ("sub-ada", "sub-eve"):
        answer = ask(subject).post("/mcp", json=call, headers=headers)
        assert answer.status_code == 200, answer.text
        tools[subject] = {tool["name"] for tool in answer.json()["result"]["tools"]}
    assert tools["sub-ada"] == {"list_namespaces", "search", "list_documents", "read_document"}
    assert tools["sub-eve"] - tools["sub-ada"] == {
        "ingest_text",
        "ingest_urls",
        "delete_documents",
        "get_job_run",
    }
    arguments = {"name": "list_documents", "arguments": {"namespaceId": space}}
    listing = ask().post("/mcp", json={**call, "method": "tools/call", "params": arguments}, headers=headers).text
    assert "staffs" in listing
    assert "not-for-auditors" not in listing
    refused(ask(exp=1).post("/mcp", json=call, headers=headers), "expired_token")


WRONG = {
    "expired_token": {"exp": timedelta(seconds=-60)},
    "token_not_yet_valid": {"nbf": timedelta(seconds=3600)},
    "wrong_audience": {"aud": "another-service"},
    "wrong_client": {"aud": ["admin-app", "another"], "azp": "another"},
    "unverified_email": {"email_verified": False},
    "groups_left_out": {"_claim_names": {"groups": "src1"}, "groups": None},
    "wrong_groups": {"groups": {"staff": True}},
    "missing_claim": {"exp": None},
    "wrong_token_type": {"events": {"http://schemas.openid.net/event/backchannel-logout": {}}},
    "unknown_issuer": {"iss": "http://127.0.0.1:9"},
}


@pytest.mark.parametrize("reason", WRONG)
def test_a_token_is_refused_with_what_is_wrong(ask, reason):
    refused(ask(**WRONG[reason]).get("/v1/namespaces"), reason)


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"sub": ""}, "malformed_token"),
        ({"aud": ["admin-app", "another"], "azp": ["admin-app"]}, "wrong_client"),
        ({"exp": float("inf")}, "malformed_token"),
        ({"email": "a\0b"}, "wrong_claim"),
        ({"email": "\u24d0da@example.com"}, "wrong_claim"),
        ({"groups": ["staff", "\uff41dmins"]}, "wrong_claim"),
        ({"groups": ["g"] * 1001}, "wrong_groups"),
        ({"typ": "Logout"}, "wrong_token_type"),
    ],
)
def test_claims_that_cannot_be_trusted_are_refused(ask, claims, reason):
    refused(ask(**claims).get("/v1/namespaces"), reason)


@pytest.mark.parametrize("claims", [{"exp": timedelta(seconds=-5)}, {"nbf": timedelta(seconds=5)}])
def test_clocks_may_differ_a_little(ask, claims):
    assert ask(**claims).get("/v1/keys/current").status_code == 200


def test_a_signature_by_anybody_else_is_refused(ask, provider):
    claims, signer = provider.claims("sub-root"), provider.keys[0]
    usual = {"alg": "RS256", "kid": signer.kid, "typ": "JWT"}
    own_key = oidc_provider.signing_key("RS256", kid=signer.kid)
    true = provider.token("sub-root")
    body = true.split(".")[1]
    for token, reason in (
        (oidc_provider.unsigned({**usual, "alg": "none"}, claims), "algorithm_not_allowed"),
        (oidc_provider.unsigned({**usual, "alg": "None"}, claims), "algorithm_not_allowed"),
        (oidc_provider.by_public_key(usual, claims, signer), "algorithm_not_allowed"),
        (oidc_provider.unsigned(usual, claims), "bad_signature"),
        (oidc_provider.unsigned(usual, claims, b"x" * 256), "bad_signature"),
        (oidc_provider.signed(usual, claims, own_key), "bad_signature"),
        (provider.token("sub-root", key=oidc_provider.signing_key("RS256", kid="mine")), "unknown_key"),
        (
            provider.token("sub-root", header={"alg": "ES256"}, key=oidc_provider.signing_key("ES256", signer.kid)),
            "unknown_key",
        ),
        (f"{true.split('.')[0]}.{provider.token('sub-ada').split('.')[1]}.{true.split('.')[2]}", "bad_signature"),
        (oidc_provider.unsigned({**usual, "crit": ["exp"], "exp": 1}, claims), "malformed_token"),
        (oidc_provider.unsigned({**usual, "typ": "logout+jwt"}, claims), "wrong_token_type"),
        (oidc_provider.unsigned({**usual, "kid": 5}, claims), "malformed_token"),
        (f"e30.{body}.e30", "algorithm_not_allowed"),
        ("..", "malformed_token"),
        ("a.b.c", "malformed_token"),
        (f"{'W1t' * 3000}.{body}.x", "malformed_token"),
        ("x" * 9000 + "." + body + "." + "y" * 9000, "token_too_long"),
    ):
        refused(ask(token=token).get("/v1/namespaces"), reason)


@pytest.mark.parametrize("kid", ["../../../../etc/passwd", "http://127.0.0.1/key"])
def test_a_keys_id_is_looked_up_and_nothing_else(ask, provider, kid):
    key = oidc_provider.signing_key("EdDSA", kid=kid)
    refused(ask(token=provider.token("sub-root", key=key)).get("/v1/namespaces"), "unknown_key")


def test_addresses_and_keys_in_a_header_are_not_looked_at(ask, provider):
    # The header points to a key of the attacker.
    with oidc_provider.serving(Provider()) as attacker:
        mine = attacker.keys[0]
        header = {"jku": f"{attacker.base}/keys", "x5u": f"{attacker.base}/keys", "jwk": mine.public()}
        refused(ask(token=provider.token("sub-root", key=mine, header=header)).get("/v1/namespaces"), "unknown_key")
        assert attacker.requests == []


def test_a_token_counts_in_the_header_alone_and_two_headers_are_refused(ask, org, provider, address):
    token = provider.token("sub-root")
    with httpx.Client(base_url=address, trust_env=False) as nobody:
        for options in (
            {"params": {"access_token": token}},
            {"headers": {"Cookie": f"Authorization=Bearer {token}; access_token={token}"}},
            {"headers": {"Authorization": f"Basic {token}"}},
            {"headers": {"X-Authorization": f"Bearer {token}"}},
            {"headers": {"Authorization": f"Bearer {org.api_key}, Bearer {token}"}},
        ):
            assert nobody.get("/v1/keys/current", **options).status_code == 401
        both = [("Authorization", f"Bearer {credential}") for credential in (org.api_key, token)]
        for headers in (both, both[::-1]):
            assert nobody.get("/v1/keys/current", headers=headers).status_code == 401


def test_keys_go_on_working_and_tokens_need_an_issuer(org, base, provider):
    assert org.client.get("/v1/keys/current").json()["data"]["key"].keys().isdisjoint({"role", "expiresAt"})
    with client_of(base, provider.token("sub-root")) as without:
        body = assert_error(without.get("/v1/namespaces"), 401, "UNAUTHORIZED")
        assert body["message"].startswith("The API key is missing, wrong or revoked.")


def test_a_role_is_of_the_group_that_it_names_byte_for_byte(ask):
    for imitation in ("Admins", "ADMINS", "admins ", "adm\u0131ns"):
        refused(ask(groups=[imitation]).get("/v1/namespaces"), "no_role", 403, "FORBIDDEN")
    with pytest.raises(ValidationError, match="NFKC"):
        OidcRole(group="\uff53earch-admins", role="admin")
