"""OAuth2 of described services: authorization, rotated tokens, ended access, and apps that need no person."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from connectors import registry
from retrieval.connections.tokens import ConnectionTokens
from retrieval.database.database import Database
from retrieval.errors import AppRefused, Fatal
from retrieval.ports import Tokens
from retrieval.setting_values import OAuthApp, OAuthEndpoints
from tests.api.support import assert_error, serve
from tests.standins.account import Served, serving

DESCRIPTION = r"""
title: Notes
account: A notebook
documents: Notes
example: https://notes.example.com/handbook
editions:
  - url: (?P<site>https?://[^/?#]+)/(?P<notebook>[\w-]+)
    api: "{site}/api"
    headers: {Authorization: "Bearer {token}"}
    oauth2:
      authorization_url: "{site}/consent"
      token_url: "{site}/oauth/token"
      revoke_url: "{site}/oauth/revoke"
      scopes: [notes.read, offline]
      required_scopes: [notes.read]
      grants: [authorization_code%s]
      client_scopes: [notes.all]
streams:
  - name: notes
    list: /notebooks/{notebook}/notes
    items: notes
    id: "{site}/{notebook}/{id}"
    fields: {id: id}
    item_name: title
    path: notes/{id}
    content: {get: "/notes/{id}", media_type: text/markdown, title: title, in_list: true, text: "{{ text }}"}
    exists: {get: "/notes/{id}"}
"""
OWN_APP = {"clientId": "client", "clientSecret": "canary-client-secret"}


class Notes(Served):
    connector = "CUSTOM"

    def answer(self, handler, method, path, query, body):
        assert path == "/api/notebooks/handbook/notes"
        return handler.reply(200, {"notes": [{"id": "1", "title": "Owls", "text": "Owls hunt at night."}]})


def move_to_path(description, name):
    """Return the description of a service whose addresses begin with a path."""
    return description.replace("[^/?#]+)/", f"[^/?#]+)/{name}/").replace("example.com/", f"example.com/{name}/")


@pytest.fixture(scope="module")
def endpoint():
    with serving(Notes()) as account:
        yield account


@pytest.fixture
def notes(endpoint):
    endpoint.vendor.trouble, endpoint.vendor.unticked = None, set()
    endpoint.vendor.calls.clear()
    return endpoint


@pytest.fixture(scope="module")
def options(api_settings, endpoint, tmp_path_factory):
    """Settings with descriptions, one of them with a fixed token address, and the operator's apps."""
    folder = tmp_path_factory.mktemp("descriptions")
    fixed = DESCRIPTION.replace("{site}/oauth/token", f"{endpoint.base}/oauth/token")
    (folder / "apps.yaml").write_text(move_to_path(DESCRIPTION, "apps") % ", client_credentials")
    (folder / "fixed.yaml").write_text(move_to_path(fixed, "fixed") % "")
    machine = move_to_path(fixed, "machine").replace("authorization_code%s", "client_credentials")
    (folder / "machine.yaml").write_text(machine)
    (folder / "notes.yaml").write_text(DESCRIPTION % "")
    app = OAuthApp(client_id="client", client_secret="canary-client-secret")
    return api_settings.model_copy(
        update={
            "source_descriptions": folder,
            "fetch_allow": type(api_settings)(_env_file=None, fetch_allow="127.0.0.0/8").fetch_allow,
            "oauth_apps": dict.fromkeys(["NOTES", "FIXED", "MACHINE", "GITLAB", "SALESFORCE", "TEAMS"], app),
            "oauth_endpoints": {
                "GITLAB": OAuthEndpoints(authorize=f"{endpoint.base}/consent", token=f"{endpoint.base}/oauth/token")
            },
        }
    )


@pytest.fixture(scope="module")
def base(options, api_database, ring):
    with serve(options, api_database, ring) as address:
        yield address


def create_connection(org, space, url, connector="CUSTOM", credentials=None):
    config = {"url": url} | ({"credentials": credentials} if credentials else {})
    body = {"namespaceId": space, "name": "Notes", "connector": connector, "config": config}
    return org.client.post("/v1/connections", json=body)


def authorize(org, url):
    """Visit an authorization URL as a person, and follow the redirect to the API."""
    with httpx.Client(trust_env=False, timeout=30) as browser:
        query = parse_qsl(urlsplit(browser.get(url).headers["location"]).query)
        return browser.get(f"{org.base}/v1/oauth/callback/custom", params=query, headers={"Accept": "text/html"})


def authorize_new_connection(org, space, notes, credentials=OWN_APP):
    data = create_connection(org, space, f"{notes.base}/handbook", credentials=credentials).json()["data"]
    assert "<h1>Connected</h1>" in authorize(org, data["authorizationUrl"]).text
    return data["connection"]["id"]


def read_connection(org, connection):
    return org.client.get(f"/v1/connections/{connection}").json()["data"]["connection"]


def open_source(org, options, connection, database=None):
    """Return the connector and the tokens of a connection, as a worker has them."""
    connector = registry.make_connector("CUSTOM", {}, options)
    return connector, ConnectionTokens(database or org.db, org.ring, connection, connector.authorizer)


def list_names(org, options, connection):
    connector, tokens = open_source(org, options, connection)
    return [item.name for page in connector.iter_changes(tokens, None) for item in page.items]


def test_a_person_authorizes_an_address_with_the_app_of_the_connection(org, space, notes, options):
    response = create_connection(org, space, f"{notes.base}/handbook?view=1", credentials=OWN_APP)
    data = response.json()["data"]
    connection, url = data["connection"]["id"], data["authorizationUrl"]
    query = dict(parse_qsl(urlsplit(url).query))
    assert (query["scope"], query["client_id"]) == ("notes.read offline", "client")
    assert query["redirect_uri"].endswith("/v1/oauth/callback/custom")
    assert query["code_challenge_method"] == "S256"
    pending = read_connection(org, connection)
    config = {"authType": "OAUTH2", "credentials": None, "url": f"{notes.base}/handbook"}
    assert (pending["status"], pending["config"]) == ("PENDING", config)
    with pytest.raises(Fatal, match="no longer ACTIVE"):
        list_names(org, options, connection)
    assert "<h1>Connected</h1>" in authorize(org, url).text
    active = read_connection(org, connection)
    assert (active["status"], active["config"]) == ("ACTIVE", config)
    assert "canary" not in response.text + json.dumps(active)
    assert list_names(org, options, connection) == ["Owls"]


def test_two_workers_use_a_refresh_token_once(org, space, notes, options, api_database):
    connection = authorize_new_connection(org, space, notes)
    notes.expire()
    notes.vendor.calls.clear()
    databases = [Database(api_database, size=2) for _ in range(2)]

    def list_all(database):
        connector, tokens = open_source(org, options, connection, database)
        return [item.name for page in connector.iter_changes(tokens, None) for item in page.items]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(list_all, databases * 4)) == [["Owls"]] * 8
    for database in databases:
        database.close()
    grants = [fields["grant_type"] for _, fields, _ in notes.vendor.calls]
    assert grants == ["refresh_token"]
    notes.expire()
    assert list_names(org, options, connection) == ["Owls"]  # by the rotated token
    assert read_connection(org, connection)["status"] == "ACTIVE"


def test_a_withdrawn_authorization_names_its_remedy_and_is_given_again(org, space, notes, options):
    connection = authorize_new_connection(org, space, notes)
    notes.expire()
    notes.vendor.refresh_tokens.clear()
    with pytest.raises(Fatal, match=r"used, expired or withdrawn\. Authorize the connection again"):
        list_names(org, options, connection)
    failed = read_connection(org, connection)
    assert (failed["status"], "Authorize the connection again" in failed["statusReason"]) == ("FAILED", True)
    answer = org.client.patch(f"/v1/connections/{connection}", json={"namespaceId": space})
    authorize(org, answer.json()["data"]["authorizationUrl"])
    assert (read_connection(org, connection)["status"], read_connection(org, connection)["statusReason"]) == (
        "ACTIVE",
        None,
    )
    assert list_names(org, options, connection) == ["Owls"]


def test_an_authorization_link_is_renewed_without_the_config(org, space, notes, options):
    data = create_connection(org, space, f"{notes.base}/handbook", credentials=OWN_APP).json()["data"]
    connection = data["connection"]["id"]
    answer = org.client.patch(f"/v1/connections/{connection}", json={"namespaceId": space})
    authorize(org, answer.json()["data"]["authorizationUrl"])
    assert list_names(org, options, connection) == ["Owls"]


def test_a_missing_scope_or_wrong_secret_says_what_to_do(org, space, notes, options):
    data = create_connection(org, space, f"{notes.base}/handbook", credentials=OWN_APP).json()["data"]
    notes.vendor.unticked = {"notes.read"}
    authorize(org, data["authorizationUrl"])
    failed = read_connection(org, data["connection"]["id"])
    assert failed["status"] == "FAILED"
    assert "authorize again and grant notes.read too" in failed["statusReason"]
    notes.vendor.unticked = set()
    connection = authorize_new_connection(org, space, notes)
    notes.expire()
    notes.vendor.trouble = (401, b'{"error": "invalid_client"}', {})
    with pytest.raises(AppRefused, match="does not accept the app"):
        list_names(org, options, connection)
    assert read_connection(org, connection)["status"] == "ACTIVE"
    notes.vendor.trouble = (200, b'{"error": "bad_refresh_token"}', {})  # as GitHub
    with pytest.raises(Fatal, match="Authorize the connection again"):
        list_names(org, options, connection)


def test_the_secret_of_the_operator_goes_to_a_fixed_address_only(org, space, notes):
    data = create_connection(org, space, f"{notes.base}/fixed/handbook").json()["data"]
    assert "<h1>Connected</h1>" in authorize(org, data["authorizationUrl"]).text
    answer = create_connection(org, space, f"{notes.base}/handbook")
    assert_error(answer, 400, "INVALID_REQUEST")
    assert "clientId and clientSecret of an app" in answer.json()["error"]["message"]
    answer = create_connection(org, space, "https://gitlab.com/acme/handbook", "GITLAB")
    assert answer.json()["data"]["authorizationUrl"].startswith(f"{notes.base}/consent?scope=read_api")
    answer = create_connection(org, space, f"{notes.base}/acme/handbook", "GITLAB")
    assert answer.json()["data"]["authorizationUrl"] is None  # a public project


@pytest.mark.parametrize(
    ("connector", "url"),
    [
        ("CUSTOM", "{base}/machine/handbook"),
        ("SALESFORCE", "https://acme.my.salesforce.com"),
        ("TEAMS", "https://teams.microsoft.com/?tenantId=2432b57b-0abd-43db-aa7b-16eadd115d34"),
    ],
)
def test_the_operators_app_opens_no_account_without_a_person(org, space, notes, options, connector, url):
    """Another organization may have allowed the operator's app to read this account."""
    address = url.format(base=notes.base)
    answer = create_connection(org, space, address, connector)
    assert_error(answer, 400, "INVALID_REQUEST")
    assert answer.json()["error"]["message"].endswith("clientId and clientSecret of an app.")
    assert notes.vendor.calls == []
    config = {"url": address, "credentials": {}, "grant": "client_credentials"}
    stored = Tokens(json.dumps(config))
    with pytest.raises(AppRefused, match="send the connection's config"):
        registry.make_connector(connector, {}, options).authorizer.refresh(stored)


def test_an_app_reads_without_a_person(org, space, notes, options):
    answer = create_connection(org, space, f"{notes.base}/apps/handbook", credentials=OWN_APP).json()["data"]
    connection = answer["connection"]["id"]
    assert answer["authorizationUrl"] is None
    assert (read_connection(org, connection)["status"], read_connection(org, connection)["config"]["authType"]) == (
        "ACTIVE",
        "CONFIG",
    )
    for _ in range(2):
        assert list_names(org, options, connection) == ["Owls"]
        notes.expire()
    assert list_names(org, options, connection) == ["Owls"]
    grants = [(fields["grant_type"], fields["scope"]) for _, fields, _ in notes.vendor.calls]
    assert grants == [("client_credentials", "notes.all")] * 3
    notes.expire()
    notes.vendor.trouble = (401, b'{"error": "invalid_client"}', {})
    with pytest.raises(AppRefused, match="correct the client id and secret"):
        list_names(org, options, connection)


def test_revoking_a_connection_revokes_its_token_at_the_service(org, space, notes):
    connection = authorize_new_connection(org, space, notes)
    newest_token = max(notes.vendor.refresh_tokens, key=lambda token: int(token.rpartition("-")[2]))
    org.client.post(f"/v1/connections/{connection}/revoke", json={"namespaceId": space})
    assert newest_token in notes.vendor.revoked
