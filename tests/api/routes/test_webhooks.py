"""Webhooks over HTTP: creation, lists, changes, rotation, permissions."""

from __future__ import annotations

from retrieval.webhooks import endpoints, queries
from tests.api.support import assert_error

HOOK = {"url": "https://1.1.1.1/hook", "events": ["DOCUMENTS_READY"]}
FIELDS = {
    "id",
    "url",
    "events",
    "namespaceId",
    "tenantId",
    "description",
    "status",
    "statusReason",
    "createdAt",
    "health",
    "deliveredLastDay",
    "failedLastDay",
}


def make(client, **settings):
    answer = client.post("/v1/webhooks", json={**HOOK, **settings})
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def test_the_health_of_a_webhook_knows_no_delivery_of_another(org, organization):
    other = make(organization().client)["webhook"]
    own = make(org.client)["webhook"]
    path = f"/v1/webhooks/{own['id']}"
    assert own["health"]["nextAttemptAt"] is None
    queued = org.client.post(f"{path}/test").json()["data"]["delivery"]
    assert org.client.get(path).json()["data"]["webhook"]["health"]["nextAttemptAt"] == queued["nextAttemptAt"]
    for answer in (
        organization().client.post("/v1/webhooks", json=HOOK),
        org.client.post("/v1/webhooks", json=HOOK),
    ):
        assert answer.json()["data"]["webhook"]["health"]["nextAttemptAt"] is None
    changed = org.client.patch(path, json={"description": "x"}).json()["data"]["webhook"]
    assert changed["health"]["nextAttemptAt"] == queued["nextAttemptAt"]
    assert other["health"]["nextAttemptAt"] is None


def test_a_webhook_is_made_shown_changed_and_deleted(org):
    space = org.namespace()
    data = make(org.client, namespaceId=space, description="my hook")
    hook, secret = data["webhook"], data["secret"]
    assert set(hook) == FIELDS
    assert hook["id"].startswith("wh_")
    assert secret.startswith("whsec_")
    assert (hook["namespaceId"], hook["tenantId"], hook["status"]) == (space, None, "ACTIVE")
    path = f"/v1/webhooks/{hook['id']}"
    read = org.client.get(path)
    assert read.json()["data"] == {"webhook": hook}
    assert org.client.get("/v1/webhooks").json()["data"] == {"webhooks": [hook]}
    changed = org.client.patch(path, json={"events": ["*"], "status": "DISABLED", "description": None})
    changed_hook = changed.json()["data"]["webhook"]
    assert (changed_hook["events"], changed_hook["status"], changed_hook["description"]) == (["*"], "DISABLED", None)
    assert changed_hook["statusReason"]
    changed_again = org.client.patch(path, json={"status": "ACTIVE"}).json()["data"]["webhook"]
    assert (changed_again["status"], changed_again["statusReason"]) == ("ACTIVE", None)
    rotated = org.client.post(f"{path}/rotate", json={"overlapHours": 1}).json()["data"]
    assert rotated["secret"] not in {secret, ""}
    changed_again = org.client.post(f"{path}/rotate").json()["data"]["secret"]
    assert changed_again not in {secret, rotated["secret"]}
    test = org.client.post(f"{path}/test").json()["data"]["delivery"]
    assert (test["type"], test["status"], test["webhookId"]) == ("WEBHOOK_TEST", "PENDING", hook["id"])
    deliveries = org.client.get(f"{path}/deliveries").json()["data"]
    assert deliveries["deliveries"] == [test]
    redelivered = org.client.post(f"{path}/deliveries/{test['id']}/redeliver").json()["data"]["delivery"]
    assert (redelivered["id"], redelivered["eventId"]) == (test["id"], test["eventId"])
    assert_error(org.client.post(f"{path}/deliveries/whd_0/redeliver"), 404, "NOT_FOUND")
    assert org.client.delete(path).json()["data"]["webhook"]["id"] == hook["id"]
    for answer in (org.client.get(path), org.client.delete(path), org.client.post(f"{path}/test")):
        assert_error(answer, 404, "WEBHOOK_NOT_FOUND")
    answers = [read.text, changed.text, org.client.get("/v1/webhooks").text]
    assert not any("whsec_" in text for text in answers)


def test_a_new_address_forgets_the_outcomes_of_the_previous_one(org, api_db):
    hook = make(org.client)["webhook"]
    failure = {"webhook": hook["id"], "gone": False, "failed": False, "reason": "The endpoint answered 500."}
    queries.mark_failing(api_db, failure)
    path = f"/v1/webhooks/{hook['id']}"
    same = org.client.patch(path, json={"url": hook["url"]}).json()["data"]["webhook"]["health"]
    assert (same["state"], same["reason"]) == ("FAILING", "The endpoint answered 500.")
    moved = org.client.patch(path, json={"url": "https://1.1.1.1/other"}).json()["data"]["webhook"]["health"]
    assert (moved["state"], moved["failuresSince"], moved["consecutiveFailures"]) == ("UNKNOWN", None, 0)


def test_addresses_that_are_never_dialled_and_unknown_events_are_refused(org):
    urls = ("http://1.1.1.1/hook", "https://127.0.0.1/x", "https://10.0.0.1/x", "https://[::1]/x", "ftp://1.1.1.1/")
    for url in (*urls, "https://169.254.169.254/", "https://a:b@1.1.1.1/", "https://1.1.1.1:22/", "hook", ""):
        body = assert_error(org.client.post("/v1/webhooks", json={**HOOK, "url": url}), 400, "INVALID_REQUEST")
        assert body["error"]["details"]["field"] == "url"
    for events in ([], ["DOCUMENTS_EATEN"], ["WEBHOOK_TEST"], "DOCUMENTS_READY"):
        body = assert_error(org.client.post("/v1/webhooks", json={**HOOK, "events": events}), 400, "INVALID_REQUEST")
        assert body["error"]["details"]["field"].startswith("events")
    hook = make(org.client)["webhook"]
    path = f"/v1/webhooks/{hook['id']}"
    assert_error(org.client.patch(path, json={"url": "https://127.0.0.1/x"}), 400, "INVALID_REQUEST")
    assert_error(org.client.patch(path, json={"events": ["NO"]}), 400, "INVALID_REQUEST")
    assert_error(org.client.patch(path, json={"status": "FAILED"}), 400, "INVALID_REQUEST")
    assert_error(org.client.post(f"{path}/rotate", json={"overlapHours": -1}), 400, "INVALID_REQUEST")
    assert_error(org.client.post("/v1/webhooks", json={**HOOK, "namespaceId": "ns_0"}), 404, "NAMESPACE_NOT_FOUND")


def test_fifty_are_the_most_and_a_repeated_request_makes_one(org):
    key = {"Idempotency-Key": "once"}
    first = org.client.post("/v1/webhooks", json=HOOK, headers=key)
    assert org.client.post("/v1/webhooks", json=HOOK, headers=key).json() == first.json()
    org.db.rows(
        "insert into webhooks (id, organization_id, url, events, secret)"
        " select %(org)s || n, %(org)s, 'https://1.1.1.1/', '{*}', '' from generate_series(2, %(most)s) n",
        {"org": org.id, "most": endpoints.MAX_WEBHOOKS},
    )
    body = assert_error(org.client.post("/v1/webhooks", json=HOOK), 400, "INVALID_REQUEST")
    assert body["error"]["details"]["reason"] == "webhook_limit"
    org.db.rows("delete from webhooks where organization_id = %(org)s", {"org": org.id})


def test_a_deleted_namespace_takes_its_webhooks_along(org):
    space = org.namespace()
    bound_hook, whole = make(org.client, namespaceId=space)["webhook"], make(org.client)["webhook"]
    assert org.client.delete(f"/v1/namespaces/{space}").status_code == 200
    assert_error(org.client.get(f"/v1/webhooks/{bound_hook['id']}"), 404, "WEBHOOK_NOT_FOUND")
    assert org.client.get(f"/v1/webhooks/{whole['id']}").status_code == 200
