"""Folders of a connected account over HTTP, with the current selection."""

from __future__ import annotations

import httpx
import pytest

from tests.api.support import assert_error, serve
from tests.standins import box, faults
from tests.standins.account import TOKEN
from tests.standins.place import APP

CONFIG = {name: value for name, value in APP.items() if name != "apiKey"}


@pytest.fixture(scope="module")
def account():
    with box.serving() as served_account:
        yield served_account


@pytest.fixture(scope="module")
def base(api_settings, api_database, ring, account):
    """API with the loopback address of Box."""
    addresses = {"endpoints": account.settings.endpoints, "oauth_endpoints": account.settings.oauth_endpoints}
    with serve(api_settings.model_copy(update=addresses), api_database, ring) as address:
        yield address


@pytest.fixture(scope="module")
def files(account):
    paths = ("top.txt", "plans/launch.docx", "plans/2026/budget.pdf", "plans/drafts/tower.txt")
    return {path: account.put(path, "some text") for path in paths}


@pytest.fixture
def space(org):
    return org.namespace(boxConfig=CONFIG)


@pytest.fixture
def connection(org, space, account, files):
    account.fault = lambda _request: None
    return connected(org, space, account)


def connected(org, space, account, tenant=None):
    """Return the id of an ACTIVE connection."""
    connecting = org.client.post(
        "/v1/connections",
        json={"namespaceId": space, "name": "x", "connector": "BOX"},
        headers={"X-Tenant-ID": tenant} if tenant else {},
    ).json()["data"]
    back = httpx.URL(account.visit(connecting["authorizationUrl"]))
    with httpx.Client(base_url=org.base, trust_env=False, verify=False) as browser:
        browser.get("/v1/oauth/callback/box", params=dict(back.params))
    return connecting["connection"]["id"]


def browse(org, space, connection, tenant=None, **body):
    headers = {"X-Tenant-ID": tenant} if tenant else {}
    return org.client.post(f"/v1/connections/{connection}/browse", json={"namespaceId": space, **body}, headers=headers)


def items(answer):
    assert answer.status_code == 200, answer.text
    return {item["name"]: item for item in answer.json()["data"]["items"]}


def test_one_folder_is_listed_with_what_is_in_it(org, space, connection, account, files):
    top = items(browse(org, space, connection))
    assert set(top) == {"plans", "top.txt"}
    assert top["top.txt"] == {
        "id": files["top.txt"],
        "name": "top.txt",
        "path": "top.txt",
        "kind": "FILE",
        "mimeType": "text/plain",
        "size": 9,
        "modifiedAt": top["top.txt"]["modifiedAt"],
        "hasChildren": False,
        "selected": False,
    }
    assert (top["plans"]["kind"], top["plans"]["hasChildren"]) == ("FOLDER", True)
    below = items(browse(org, space, connection, parentId=top["plans"]["id"]))
    assert {name: item["path"] for name, item in below.items()} == {
        "launch.docx": "plans/launch.docx",
        "2026": "plans/2026",
        "drafts": "plans/drafts",
    }
    assert below["launch.docx"]["mimeType"].endswith("wordprocessingml.document")
    assert not [request for request in account.requests if "content" in request]


def test_what_the_newest_request_takes_is_selected(org, space, connection, files, account):
    def ask(**config):
        ingestion = {"source": "BOX", "config": {"connectionId": connection, **config}}
        answer = org.client.post("/v1/ingest/box", json={"namespaceId": space, "ingestConfig": ingestion})
        assert answer.status_code == 200, answer.text

    def selected(parent=None):
        body = {"parentId": parent} if parent else {}
        return {name for name, item in items(browse(org, space, connection, **body)).items() if item["selected"]}

    plans = account.folder("plans")
    ask()
    assert selected() == {"plans", "top.txt"}
    ask(include=[{"path": "plans"}], exclude=[{"id": account.folder("plans/drafts")}, {"mimeType": "image/*"}])
    assert selected() == {"plans"}
    assert selected(plans) == {"launch.docx", "2026"}
    ask(include=[{"id": account.folder("plans/2026")}])
    assert selected() == set()
    assert selected(plans) == {"2026"}
    assert selected(account.folder("plans/2026")) == {"budget.pdf"}


def test_what_cannot_be_browsed_is_told(org, organization, space, connection, account, files):
    error = assert_error(browse(org, space, connection, parentId=files["top.txt"]), 404, "NOT_FOUND")["error"]
    assert error["details"]["field"] == "parentId"
    hers = connected(org, space, account, tenant="alice")
    assert set(items(browse(org, space, hers, tenant="alice"))) == {"plans", "top.txt"}
    assert browse(org, space, hers).json()["error"] == browse(org, space, "conn_none").json()["error"]
    account.fault = lambda _request: faults.status(503)
    answer = browse(org, space, connection)
    assert_error(answer, 503, "SERVICE_UNAVAILABLE")
    assert "SECRET" not in answer.text
    account.fault = lambda request: None if TOKEN in request else faults.status(401)
    answer = browse(org, space, connection)
    assert_error(answer, 400, "INVALID_REQUEST")
    account.fault = lambda _request: None
    pending = org.client.post("/v1/connections", json={"namespaceId": space, "name": "x", "connector": "BOX"}).json()[
        "data"
    ]["connection"]["id"]
    assert (
        assert_error(browse(org, space, pending), 400, "INVALID_REQUEST")["error"]["details"]["reason"] == "not_active"
    )
