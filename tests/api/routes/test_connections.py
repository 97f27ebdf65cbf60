"""Connections over HTTP with a content service on loopback: states, callback, sealed tokens."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from retrieval.ports import Scope
from retrieval.setting_values import OAuthEndpoints
from tests.api.support import assert_error, client_of, serve
from tests.library import Library
from tests.standins.google_workspace import GoogleWorkspace, make_key
from tests.standins.oauth_server import Vendor, serving

APP = {"clientId": "client", "clientSecret": "canary-client-secret"}
APPS = {
    "notionConfig": APP,
    "googleDriveConfig": {**APP, "apiKey": "canary-api-key"},
    "dropboxConfig": APP,
    "onedriveConfig": APP,
    "sharepointConfig": APP,
    "boxConfig": APP,
    "outlookMailConfig": APP,
    "gmailConfig": APP,
}
NAMES = ("NOTION", "GOOGLE_DRIVE", "DROPBOX", "ONEDRIVE", "SHAREPOINT", "BOX", "OUTLOOK_MAIL", "GMAIL")
CLIENT_URL = "https://app.example.com/done?tab=2"


@pytest.fixture(scope="module")
def endpoint():
    with serving(Vendor()) as vendor:
        yield vendor


@pytest.fixture
def vendor(endpoint):
    """Content service without injected faults."""
    endpoint.trouble = endpoint.hold = endpoint.account = None
    endpoint.calls.clear()
    endpoint.revoked.clear()
    return endpoint


@pytest.fixture(scope="module")
def base(api_settings, api_database, ring, endpoint):
    """API with loopback addresses of the content services."""
    endpoints = {
        name: OAuthEndpoints(
            token=f"{endpoint.base}/{name}/token",
            revoke=None if name in {"ONEDRIVE", "OUTLOOK_MAIL", "SHAREPOINT"} else f"{endpoint.base}/{name}/revoke",
        )
        for name in NAMES
    }
    with serve(api_settings.model_copy(update={"oauth_endpoints": endpoints}), api_database, ring) as address:
        yield address


@pytest.fixture
def space(org):
    return org.namespace(**APPS)


def create(org, space, connector="GOOGLE_DRIVE", tenant=None, **options):
    body = {"namespaceId": space, "name": "Drive", "connector": connector, **options}
    answer = org.client.post("/v1/connections", json=body, headers={"X-Tenant-ID": tenant} if tenant else {})
    assert answer.status_code == 200, answer.text
    data = answer.json()["data"]
    return data["connection"]["id"], data["authorizationUrl"]


def call_back(org, connector="GOOGLE_DRIVE", accept="text/html", **query):
    # A browser sends no key.
    with httpx.Client(base_url=org.base, trust_env=False, verify=False, timeout=30) as browser:
        return browser.get(f"/v1/oauth/callback/{connector}", params=query, headers={"Accept": accept})


def read(org, connection, **options):
    answer = org.client.get(f"/v1/connections/{connection}", **options)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]["connection"]


def connect(org, space, vendor, connector="GOOGLE_DRIVE", **options):
    """Return the id of an ACTIVE connection."""
    connection, url = create(org, space, connector, **options)
    code, state = vendor.visit(url)
    assert call_back(org, connector, code=code, state=state).status_code in {200, 302}
    return connection


def change(org, space, connection, **options):
    return org.client.patch(f"/v1/connections/{connection}", json={"namespaceId": space, **options})


def revoke(org, space, connection):
    return org.client.post(f"/v1/connections/{connection}/revoke", json={"namespaceId": space})


@pytest.mark.parametrize("connector", NAMES)
def test_a_connection_becomes_active_after_the_callback(org, space, vendor, connector):
    connection, url = create(org, space, connector)
    assert re.fullmatch("conn_[0-9a-z]{36}", connection)
    pending = read(org, connection)
    assert (pending["status"], pending["config"]) == ("PENDING", {"authType": "OAUTH2", "credentials": None})
    assert (pending["statusReason"], pending["clientRedirectUrl"], pending["tenantId"]) == (None, None, None)
    code, state = vendor.visit(url)
    answer = call_back(org, connector, code=code, state=state)
    assert answer.status_code == 200
    assert "<h1>Connected</h1>" in answer.text
    active = read(org, connection)
    assert active["status"] == "ACTIVE"
    credentials = active["config"]["credentials"]
    assert credentials["accessToken"].startswith("••••")
    assert credentials["refreshToken"].startswith("••••")
    assert "canary" not in str(active)
    assert active["namespace"] == {"identifier": space}
    assert active["organization"] == {"id": org.id}


def test_the_browser_goes_home_with_two_parameters(org, space, vendor):
    connection, url = create(org, space, clientRedirectUrl=CLIENT_URL)
    code, state = vendor.visit(url)
    answer = call_back(org, code=code, state=state, scope="a b", session_state="x")
    assert answer.status_code == 302
    parts = urlsplit(answer.headers["location"])
    assert (parts.scheme, parts.netloc, parts.path) == ("https", "app.example.com", "/done")
    assert parse_qsl(parts.query) == [("tab", "2"), ("connectionId", connection), ("status", "ACTIVE")]
    connection, url = create(org, space, clientRedirectUrl="http://localhost:3000/x?status=mine&connectionId=mine")
    answer = call_back(org, error="access_denied", error_description="<b>", state=vendor.visit(url)[1])
    assert answer.headers["location"] == f"http://localhost:3000/x?connectionId={connection}&status=FAILED"


def test_the_page_is_our_own_and_holds_nothing_foreign(org, space, vendor):
    code, state = vendor.visit(create(org, space)[1])
    pages = [call_back(org, code=code, state=state), call_back(org, code="<script>", state="<script>alert(1)")]
    for page in pages:
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert not re.search(r"https?://|//\w|<script", page.text)
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert page.headers["referrer-policy"] == "no-referrer"
        assert page.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "//app.example.com/x",
        "http://app.example.com/x",
        "http://localhost@evil.example/x",
        "https://user:pw@app.example.com/",
        "https://app.example.com\\@evil.example/",
        "https://app.example.com/x\r\nSet-Cookie: a=b",
    ],
)
def test_no_open_redirect(org, space, url):
    body = {"namespaceId": space, "name": "Drive", "connector": "GOOGLE_DRIVE", "clientRedirectUrl": url}
    answer = org.client.post("/v1/connections", json=body)
    error = assert_error(answer, 400, "INVALID_REQUEST")
    assert error["error"]["details"]["field"] == "clientRedirectUrl"
    assert not url or url not in answer.text
    connection, _ = create(org, space)
    assert_error(change(org, space, connection, clientRedirectUrl=url), 400, "INVALID_REQUEST")


def test_a_state_that_is_no_authority(org, space, vendor):
    # Missing, unknown, foreign, late and reused states get the same answer.
    connection, url = create(org, space)
    code, state = vendor.visit(url)
    pages = set()
    for connector, query in (
        ("google-drive", {"code": code}),
        ("google-drive", {"code": code, "state": ""}),
        ("google-drive", {"code": code, "state": "A" * 43}),
        ("google-drive", {"code": code, "state": "\x00" + state}),
        ("google-drive", {"code": code, "state": "s" * 5000}),
        ("google-drive", {"error": "access_denied", "state": "x"}),
        ("box", {"code": code, "state": state}),
        ("nonsense", {"code": code, "state": state}),
        ("%00", {"code": code, "state": state}),
    ):
        answer = call_back(org, connector, accept="application/json", **query)
        assert_error(answer, 400, "INVALID_REQUEST")
        pages.add(answer.text)
        assert call_back(org, connector, **query).status_code == 400
    assert read(org, connection)["status"] == "PENDING"
    assert call_back(org, code=code, state=state).status_code == 200
    answer = call_back(org, accept="*/*", code=code, state=state)
    assert_error(answer, 400, "INVALID_REQUEST")
    assert pages == {answer.text}
    assert read(org, connection)["status"] == "ACTIVE"
    assert not vendor.codes.get(code)


def test_an_expired_state_is_refused(org, space, vendor):
    connection, url = create(org, space)
    code, state = vendor.visit(url)
    org.db.rows(
        "update oauth_states set expires_at = expires_at - interval '10 minutes' where connection_id = %(id)s",
        {"id": connection},
    )
    assert call_back(org, code=code, state=state).status_code == 400
    assert read(org, connection)["status"] == "PENDING"


def test_of_parallel_callbacks_one_counts(org, space, vendor):
    connection, url = create(org, space)
    code, state = vendor.visit(url)
    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda _: call_back(org, code=code, state=state).status_code, range(8)))
    assert sorted(statuses) == [200] + [400] * 7
    assert read(org, connection)["status"] == "ACTIVE"


def test_only_the_hash_of_a_state_is_stored_and_tokens_are_sealed(org, space, vendor):
    connection, url = create(org, space)
    _, state = vendor.visit(url)
    stored = str(org.db.rows("select * from oauth_states where connection_id = %(id)s", {"id": connection}))
    assert state not in stored
    sealed = connect(org, space, vendor)
    assert "canary" not in str(org.db.rows("select * from connections where id = %(id)s", {"id": sealed}))


def test_refusals_say_why_in_our_words(org, space, vendor):
    refusals = (
        ({"error": "access_denied", "error_description": "canary vendor text"}, None, "declined"),
        ({}, None, "did not grant"),
        ({"code": "unknown-code"}, None, "refused"),
        ({"code": "c"}, (401, b'{"error": "invalid_client"}', {}), "client id"),
        ({"code": "c"}, (200, b"<html>canary vendor text", {}), "without an access token"),
        ({"code": "c"}, (500, b"canary vendor text", {}), "500"),
        ({"code": "c"}, (302, b"", {"Location": "http://127.0.0.1:1/"}), "302"),
    )
    for query, trouble, why in refusals:
        connection, url = create(org, space)
        state = vendor.visit(url)[1]
        vendor.trouble = trouble
        assert "Not connected" in call_back(org, state=state, **query).text
        vendor.trouble = None
        failed = read(org, connection)
        assert failed["status"] == "FAILED"
        assert why in failed["statusReason"]
        assert "canary" not in str(failed)
        assert failed["config"]["credentials"] is None


def test_a_missing_scope_fails_the_callback(org, space, vendor):
    connection, url = create(org, space)
    right = "https://www.googleapis.com/auth/drive.readonly"
    vendor.unticked = {right}
    code, state = vendor.visit(url)
    assert "Not connected" in call_back(org, code=code, state=state).text
    failed = read(org, connection)
    assert (failed["status"], right in failed["statusReason"]) == ("FAILED", True)
    assert failed["config"]["credentials"] is None
    vendor.unticked = set()
    code, state = vendor.visit(change(org, space, connection).json()["data"]["authorizationUrl"])
    call_back(org, code=code, state=state)
    active = read(org, connection)
    assert (active["status"], active["statusReason"]) == ("ACTIVE", None)


def test_a_failed_connection_can_be_authorized_again(org, space, vendor):
    connection, url = create(org, space)
    call_back(org, error="access_denied", state=vendor.visit(url)[1])
    change_data = change(org, space, connection).json()["data"]
    assert change_data["connection"]["status"] == "FAILED"
    code, state = vendor.visit(change_data["authorizationUrl"])
    call_back(org, code=code, state=state)
    active = read(org, connection)
    assert (active["status"], active["statusReason"]) == ("ACTIVE", None)
    url = change(org, space, connection).json()["data"]["authorizationUrl"]
    page = call_back(org, error="access_denied", state=vendor.visit(url)[1])
    assert "Not changed" in page.text
    after_decline = read(org, connection)
    assert after_decline["status"] == "ACTIVE"
    assert "declined" in after_decline["statusReason"]
    assert after_decline["config"] == active["config"]


def test_revoking_wipes_tells_the_vendor_and_is_final(org, space, vendor):
    tellers = {
        "GOOGLE_DRIVE": ["refresh"],
        "GMAIL": ["refresh"],
        "DROPBOX": ["access"],
        "BOX": ["refresh"],
        "NOTION": ["access"],
    }
    for connector in NAMES:
        connection = connect(org, space, vendor, connector, clientRedirectUrl=CLIENT_URL)
        vendor.revoked.clear()
        answer = revoke(org, space, connection)
        revoked = answer.json()["data"]["connection"]
        assert (revoked["status"], revoked["config"]["credentials"], revoked["clientRedirectUrl"]) == (
            "REVOKED",
            None,
            None,
        )
        assert revoked["statusReason"]
        assert [token.split("-")[1] for token in vendor.revoked] == tellers.get(connector, [])
        row = org.db.row("select credentials from connections where id = %(id)s", {"id": connection})
        assert row["credentials"] is None
        assert revoke(org, space, connection).json()["data"]["connection"] == revoked
        assert len(vendor.revoked) == (connector in tellers)


def test_an_organizations_credentials_are_sealed_and_in_no_answer(org, vendor):
    space, secret = org.namespace(), make_key()[0].splitlines()[1]
    config = GoogleWorkspace().config
    connection, url = create(org, space, permissions="SOURCE", config=config)
    active = read(org, connection)
    assert (url, active["status"], active["permissions"]) == (None, "ACTIVE", "SOURCE")
    account = {"authType": "CONFIG", "credentials": None, "url": "https://drive.google.com/a/example.com"}
    assert active["config"] == account
    changed = change(org, space, connection, name="All drives")
    assert changed.json()["data"]["authorizationUrl"] is None
    assert change(org, space, connection, config=config).status_code == 200
    vendor.revoked.clear()
    revoked = revoke(org, space, connection)
    assert vendor.revoked == []
    rows = org.db.rows("select * from connections where id = %(id)s", {"id": connection})
    assert not any(secret in str(text) for text in (active, changed.text, revoked.text, rows))
    assert revoked.json()["data"]["connection"]["config"] == account


def test_a_persons_connection_takes_no_credentials_of_an_organization(org, space, vendor):
    connection = connect(org, space, vendor)
    answer = change(org, space, connection, config=GoogleWorkspace().config)
    assert_error(answer, 400, "INVALID_REQUEST")
    assert "authorize it instead" in answer.text
    assert vendor.revoked == []


@pytest.mark.parametrize(
    ("choice", "fate"), [({}, "kept"), ({"documents": "KEEP"}, "kept"), ({"documents": "DELETE"}, "deleted")]
)
def test_revoking_says_what_becomes_of_the_documents(org, space, vendor, choice, fate):
    connection, second_connection = connect(org, space, vendor), connect(org, space, vendor)
    library = Library(org.db, Scope(org.id, space, ""), None)
    only_here = [
        library.put([f"Only {number}."], source="GOOGLE_DRIVE", connection_id=connection) for number in range(3)
    ]
    both = library.put(["Both have it."], source="GOOGLE_DRIVE", connection_id=connection)
    org.db.rows(
        "insert into connection_documents (document_id, connection_id) values (%(document)s, %(other)s)",
        {"document": both, "other": second_connection},
    )
    path = f"/v1/connections/{connection}"
    assert org.client.get(path).json()["data"]["documents"] == {"own": 3, "shared": 1}
    assert_error(
        org.client.post(f"{path}/revoke", json={"namespaceId": space, "documents": "DROP"}), 400, "INVALID_REQUEST"
    )
    answer = org.client.post(f"{path}/revoke", json={"namespaceId": space, **choice}).json()["data"]
    assert answer["documents"] == {"kept": 0, "deleted": 0, "shared": 1} | {fate: 3}
    assert answer["connection"]["status"] == "REVOKED"
    documents = org.client.post("/v1/documents", json={"namespaceId": space, "filterConfig": {}}).json()["data"][
        "documents"
    ]
    connections = {document["id"]: (document["connection"], document["connectionIds"]) for document in documents}
    assert connections == {both: ({"id": second_connection}, [second_connection])} | (
        {document: (None, []) for document in only_here} if fate == "kept" else {}
    )
    repeated = org.client.post(f"{path}/revoke", json={"namespaceId": space, "documents": "DELETE"}).json()["data"]
    assert repeated["documents"] == {"kept": 0, "deleted": 0, "shared": 0}
    assert len(
        org.client.post("/v1/documents", json={"namespaceId": space, "filterConfig": {}}).json()["data"]["documents"]
    ) == len(connections)


def test_revoking_does_not_depend_on_the_vendor(org, space, vendor):
    dropbox = b'{"error_summary": "invalid_access_token/...", "error": {".tag": "invalid_access_token"}}'
    for trouble in ((500, b"", {}), (400, b'{"error": "invalid_token"}', {}), (401, dropbox, {})):
        connection = connect(org, space, vendor, "DROPBOX")
        vendor.trouble = trouble
        assert revoke(org, space, connection).json()["data"]["connection"]["status"] == "REVOKED"
        vendor.trouble = None


def test_a_revoked_connection_cannot_be_authorized(org, space, vendor):
    connection, url = create(org, space)
    code, state = vendor.visit(url)
    revoke(org, space, connection)
    assert call_back(org, code=code, state=state).status_code == 400
    assert read(org, connection)["status"] == "REVOKED"


def test_a_revocation_during_the_exchange_wins(org, space, vendor):
    connection, url = create(org, space)
    code, state = vendor.visit(url)
    vendor.hold = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        browser = pool.submit(call_back, org, code=code, state=state)
        while not org.db.row("select used_at from oauth_states where connection_id = %(id)s", {"id": connection})[
            "used_at"
        ]:
            pass
        revoke(org, space, connection)
        vendor.hold.set()
        assert "<h1>Revoked</h1>" in browser.result(20).text
    assert read(org, connection)["config"]["credentials"] is None
    assert len(vendor.revoked) == 1


def test_changes_of_a_revoked_connection_are_refused(org, space):
    connection, _ = create(org, space)
    assert revoke(org, space, connection).status_code == 200
    assert_error(change(org, space, connection, name="x"), 400, "INVALID_REQUEST")


def test_a_listing_filters_by_connector_and_a_connection_stays_in_its_namespace(org, space):
    connections = [create(org, space, connector)[0] for connector in ("BOX", "NOTION", "BOX")]
    other_space = org.namespace(**APPS)

    def list_ids(**query):
        answer = org.client.get("/v1/connections", params={"namespaceId": space, **query})
        assert answer.status_code == 200, answer.text
        return [item["id"] for item in answer.json()["data"]["connections"]]

    assert list_ids() == list_ids(connector="") == connections[::-1]
    assert list_ids(connector="BOX") == [connections[2], connections[0]]
    assert list_ids(connector="DROPBOX") == []
    for answer in (change(org, other_space, connections[0]), revoke(org, other_space, connections[0])):
        assert_error(answer, 404, "CONNECTION_NOT_FOUND")


def test_the_vendor_sends_the_browser_to_the_public_address(api_settings, api_database, ring, org, space):
    public = api_settings.model_copy(update={"public_url": "https://retrieval.example.com/base/"})
    body = {"namespaceId": space, "name": "Drive", "connector": "GOOGLE_DRIVE"}
    with serve(public, api_database, ring) as address, client_of(address, org.api_key) as client:
        url = client.post("/v1/connections", json=body).json()["data"]["authorizationUrl"]
    query = dict(parse_qsl(urlsplit(url).query))
    assert query["redirect_uri"] == "https://retrieval.example.com/base/v1/oauth/callback/google-drive"
