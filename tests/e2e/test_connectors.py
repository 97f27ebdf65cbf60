"""Each content service through the real processes: authorization, ingestion, synchronization, revocation."""

import json

import httpx
import pytest

from retrieval.namespaces.namespaces import EMBEDDED_CONFIGS
from retrieval.sources import APP_CONFIGS
from tests.standins.place import APP

TEXTS = {
    "harbour.txt": "The harbour master counts ships at dawn.",
    "plans/2026/budget.txt": "The budget of the observatory is nearly spent.",
    "notes/bees.txt": "Bees dance to tell where the clover grows.",
    "notes/deep/er/tide.txt": "A spring tide follows the full moon.",
    "notes/owls.txt": "Owls hunt mice at night without a sound.",
}
APP_OF = {
    connector: {name: value for name, value in APP.items() if name != "apiKey" or connector == "GOOGLE_DRIVE"}
    for connector in APP_CONFIGS
}
CANARIES = ("canary-access", "canary-refresh", APP["clientSecret"])


def connect(service, namespace, connector, **fields):
    """Create a connection and follow its authorization URL until ACTIVE."""
    body = {"namespaceId": namespace, "name": "Team", "connector": connector, **fields}
    data = service.ok(service.client.post("/v1/connections", json=body))
    with httpx.Client(follow_redirects=True, timeout=90) as browser:
        page = browser.get(data["authorizationUrl"])
    assert page.status_code == 200, page.text
    assert "Connected" in page.text
    connection = data["connection"]["id"]
    state = service.ok(service.client.get(f"/v1/connections/{connection}"))["connection"]
    assert state["status"] == "ACTIVE"
    assert not [canary for canary in CANARIES if canary in json.dumps(state)]
    return connection


# In CI one service; the contract suite and the flows' tests cover all.
EACH_NIGHT = APP_CONFIGS.keys() - {"BOX"}


@pytest.mark.parametrize(
    "connector", [pytest.param(name, marks=pytest.mark.slow) if name in EACH_NIGHT else name for name in APP_CONFIGS]
)
def test_a_connection_is_authorized_ingested_kept_in_step_and_revoked(service, accounts, connector):
    account = accounts[connector]
    body = {"name": connector, **EMBEDDED_CONFIGS, APP_CONFIGS[connector]: APP_OF[connector]}
    data = service.ok(service.client.post("/v1/namespaces", json=body))
    namespace = data["namespace"]["id"]
    files = {path: account.put(path, text) for path, text in TEXTS.items()}
    connection = connect(service, namespace, connector)
    path = f"/v1/ingest/{connector.lower().replace('_', '-')}"
    body = {"namespaceId": namespace, "ingestConfig": {"source": connector, "config": {"connectionId": connection}}}

    def ingest():
        run = service.ok(service.client.post(path, json=body))["ingestJobRunId"]
        return service.wait(run, namespace=namespace)[0]

    def search_contents(query):
        body = {"namespaceId": namespace, "query": query, "topK": 9}
        return [hit["content"] for hit in service.ok(service.client.post("/v1/search", json=body))["results"]]

    first = ingest()
    assert first["documents"]["failed"] == []
    assert len(first["documents"]["completed"]) == len(TEXTS)
    assert "spring tide" in search_contents("moon and tide")[0]

    account.change(files["notes/owls.txt"], "Owls have moved into the old church tower.")
    fetched = len(account.requests)
    second = ingest()
    assert second["documents"]["failed"] == []
    assert second["progress"]["embedded"] == 1
    assert "church tower" in search_contents("the old church tower")[0]
    assert len(account.requests) - fetched < 20

    account.delete(files["notes/bees.txt"])
    third = ingest()
    assert third["progress"]["removed"] == 1
    assert not [text for text in search_contents("bees dance where the clover grows") if "Bees" in text]

    revoked = service.ok(service.client.post(f"/v1/connections/{connection}/revoke", json={"namespaceId": namespace}))
    assert (revoked["connection"]["status"], revoked["connection"]["config"]["credentials"]) == ("REVOKED", None)
    refused = service.client.post(path, json=body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "INVALID_INGEST_CONFIG")


@pytest.mark.slow
def test_a_schedule_that_prefect_fires_ingests_a_changed_file(service, accounts):
    # Prefect's scheduler makes the runs; the shortest interval is a minute.
    account = accounts["BOX"]
    response = service.ok(
        service.client.post(
            "/v1/namespaces", json={"name": "nightly", **EMBEDDED_CONFIGS, APP_CONFIGS["BOX"]: APP_OF["BOX"]}
        )
    )
    namespace = response["namespace"]["id"]
    file = account.put("rounds/watch.txt", "The night watch begins at the western gate.")
    connection = connect(service, namespace, "BOX", syncIntervalMinutes=1)

    def search_contents(text):
        body = {"namespaceId": namespace, "query": "where does the night watch begin?", "topK": 5}
        hits = service.ok(service.client.post("/v1/search", json=body))["results"]
        return [hit for hit in hits if text in hit["content"]]

    service.until(lambda: search_contents("western gate"))
    account.change(file, "The night watch begins at the eastern gate.")
    service.until(lambda: search_contents("eastern gate"))
    assert search_contents("western gate") == []
    service.ok(service.client.post(f"/v1/connections/{connection}/revoke", json={"namespaceId": namespace}))


def test_no_token_and_no_secret_lies_in_the_open(service, accounts):
    """After all of the above: not in Prefect's database, not in a log, not in a plain file of the home."""
    spoken = [token.removesuffix(" expired") for account in accounts.values() for token in account.good]
    assert spoken
    for file in sorted(service.home.rglob("*")):
        if file.is_file() and "postgres" not in file.parts:
            content = file.read_bytes()
            assert not [canary for canary in (*CANARIES, *spoken) if canary.encode() in content], file
