"""Subscriptions of push at Google and Microsoft: creation, hints, renewal, refusals, ends."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from connectors import registry
from connectors.http import retries
from retrieval.connections import connections, push_subscriptions, pushes
from retrieval.ports import Tokens
from tests.api.routes.test_push import connect
from tests.api.support import assert_error, serve
from tests.standins.accounts import serving_account
from tests.standins.google_drive_files import Refusal
from tests.standins.place import APP

APPS = {
    "googleDriveConfig": APP,
    "onedriveConfig": {"clientId": "client", "clientSecret": "canary-client-secret"},
    "outlookMailConfig": {"clientId": "client", "clientSecret": "canary-client-secret"},
}


@pytest.fixture(scope="module", params=["GOOGLE_DRIVE", "ONEDRIVE", "OUTLOOK_MAIL"])
def account(request):
    with serving_account(request.param) as opened:
        yield opened


@pytest.fixture(scope="module")
def base(api_settings, api_database, ring, account):
    """API with the loopback address of the content service."""
    service = account.settings
    changes = {"endpoints": service.endpoints, "oauth_endpoints": service.oauth_endpoints}
    with serve(api_settings.model_copy(update=changes), api_database, ring) as address:
        yield address


class Subscribed:
    """Connection with push, the dispatcher that subscribes, and the service's side of the subscription."""

    def __init__(self, org, ring, account):
        self.org, self.ring, self.account = org, ring, account
        self.space = org.namespace(**APPS)
        self.connection = connect(org, self.space, account.connector)
        sealed = connections.seal_tokens(ring, self.connection, Tokens(account.token()))
        org.db.rows(
            "update connections set credentials = %(sealed)s where id = %(id)s",
            {"id": self.connection, "sealed": sealed},
        )
        self.path = f"/v1/connections/{self.connection}/push"

    @property
    def is_google(self):
        return self.account.connector == "GOOGLE_DRIVE"

    @property
    def subscriptions(self):
        """The service's subscriptions to this address: of Google channels."""
        known = self.account.channels if self.is_google else self.account.subscriptions.by_id
        field = "address" if self.is_google else "notificationUrl"
        return {key: entry for key, entry in known.items() if entry[field] == self.address}

    def turn_on(self, **fields):
        answer = self.org.client.post(self.path, json={"namespaceId": self.space, **fields})
        if answer.status_code == 200:
            self.address = answer.json()["data"]["push"]["url"]
            self.address = self.org.base + self.address[self.address.index("/v1/") :]
        return answer

    def dispatch(self):
        push_subscriptions.renew_due(
            self.org.db,
            self.ring,
            lambda row: registry.make_connector(row.connector, APP, self.account.settings),
            self.org.base,
        )

    def make_due(self):
        self.org.db.rows("update pushes set renew_at = now() where connection_id = %(id)s", {"id": self.connection})

    def send(self, secret=None, state="change", event=None):
        """Send the service's notification of the first subscription."""
        key, entry = next(iter(self.subscriptions.items()))
        if self.is_google:
            headers = {
                "X-Goog-Channel-ID": key,
                "X-Goog-Channel-Token": secret or entry["token"],
                "X-Goog-Resource-State": state,
            }
            return httpx.post(self.address, headers=headers)
        value = {"subscriptionId": key, "clientState": secret or entry["clientState"], "resource": "x"}
        value |= {"lifecycleEvent": event} if event else {"changeType": "updated"}
        return httpx.post(self.address, content=json.dumps({"value": [value]}).encode())

    def state(self):
        return self.org.client.get(f"/v1/connections/{self.connection}").json()["data"].get("push")

    def runs(self):
        pushes.start_due(self.org.db)
        answer = self.org.client.get("/v1/ingest-job-runs", params={"namespaceId": self.space})
        return answer.json()["data"]["ingestJobRuns"]


@pytest.fixture
def push(org, ring, account, monkeypatch):
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.01)
    return Subscribed(org, ring, account)


@pytest.fixture
def subscribed(push):
    assert push.turn_on().status_code == 200
    push.dispatch()
    return push


def test_the_dispatcher_subscribes_and_a_hint_starts_a_job_run(push):
    data = push.turn_on().json()["data"]
    assert (data["secret"], data["push"]["subscribedUntil"], data["push"]["problem"]) == (None, None, None)
    push.dispatch()
    state = push.state()
    assert datetime.fromisoformat(state["subscribedUntil"]["isoString"]) > datetime.now(UTC) + timedelta(days=6)
    assert (state["problem"], state["hints"], push.runs()) == (None, 0, [])
    if push.is_google:
        assert push.send(state="sync").status_code == 200
        assert push.runs() == []
    assert push.send().status_code == 200
    (run,) = push.runs()
    assert (run["trigger"], run["source"]) == ("PUSH", push.account.connector)
    assert push.state()["lastHintAt"]
    stored = push.org.db.rows("select secret from pushes where connection_id = %(id)s", {"id": push.connection})
    (entry,) = push.subscriptions.values()
    assert entry["token" if push.is_google else "clientState"].encode() not in bytes(stored[0]["secret"])


def test_a_wrong_or_missing_secret_is_refused(subscribed):
    assert_error(subscribed.send(secret="somebody else's"), 401, "UNAUTHORIZED")
    for body in (b"", b"{}", b'{"value": []}', b'{"value": [{"clientState": 7}]}', b"[]", b"x"):
        assert_error(httpx.post(subscribed.address, content=body), 401, "UNAUTHORIZED")
    if not subscribed.is_google:
        (secret,) = (entry["clientState"] for entry in subscribed.subscriptions.values())
        mixed = {"value": [{"clientState": secret}, {"clientState": "other"}]}
        assert_error(httpx.post(subscribed.address, json=mixed), 401, "UNAUTHORIZED")
    assert subscribed.state()["hints"] == 0
    assert subscribed.runs() == []


def test_only_microsofts_validation_token_is_answered_and_proves_nothing(subscribed):
    answer = httpx.post(subscribed.address, params={"validationToken": "<b>a&b</b>"})
    if subscribed.is_google:
        assert_error(answer, 401, "UNAUTHORIZED")
        return
    assert (answer.status_code, answer.text) == (200, "<b>a&b</b>")
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert (subscribed.state()["confirmedAt"], subscribed.runs()) == (None, [])
    assert_error(httpx.post(subscribed.address, params={"validationToken": "a" * 501}), 401, "UNAUTHORIZED")


def test_a_subscription_is_renewed_before_its_end(subscribed):
    before = subscribed.subscriptions
    subscribed.dispatch()
    assert subscribed.subscriptions == before, "it has time"
    subscribed.make_due()
    subscribed.dispatch()
    after = subscribed.subscriptions
    assert len(after) == 1
    if subscribed.is_google:
        assert after.keys() != before.keys()
    else:
        assert (after.keys(), subscribed.account.subscriptions.renewed > 0) == (before.keys(), True)
        subscribed.account.subscriptions.by_id.clear()  # it ended in the meantime
        subscribed.make_due()
        subscribed.dispatch()
        assert len(subscribed.subscriptions) == 1
    assert subscribed.send().status_code == 200


def test_a_refused_address_shows_the_remedy_until_a_later_attempt_succeeds(push):
    push.turn_on()
    if push.is_google:
        push.account.trouble["drive.changes.watch"] = Refusal(401, "push.webhookUrlUnauthorized")
    else:
        push.account.subscriptions.refused = True
    push.dispatch()
    state = push.state()
    assert "RETRIEVAL_PUBLIC_URL must be an address of the API" in state["problem"]
    assert "SECRET" not in state["problem"]
    assert (state["subscribedUntil"], push.subscriptions) == (None, {})
    connection = push.org.client.get(f"/v1/connections/{push.connection}").json()["data"]["connection"]
    assert connection["status"] == "ACTIVE"
    push.account.__dict__.get("subscriptions", push.account).refused = False
    assert push.turn_on().status_code == 200
    push.dispatch()
    assert (push.state()["problem"], len(push.subscriptions)) == (None, 1)


@pytest.mark.parametrize("event", ["reauthorizationRequired", "subscriptionRemoved", "missed"])
def test_events_of_the_lifecycle_renew_or_synchronize(subscribed, event):
    if subscribed.is_google:
        return
    renewed = subscribed.account.subscriptions.renewed
    assert_error(subscribed.send(secret="other", event=event), 401, "UNAUTHORIZED")
    assert subscribed.send(event=event).status_code == 200
    subscribed.dispatch()
    assert (subscribed.account.subscriptions.renewed > renewed) == (event != "missed")
    assert len(subscribed.runs()) == (event != "reauthorizationRequired")


@pytest.mark.parametrize("end", ["off", "revoke"])
def test_an_end_of_push_ends_the_subscription_at_the_service(subscribed, end):
    assert len(subscribed.subscriptions) == 1
    parameters = {"namespaceId": subscribed.space}
    if end == "off":
        answer = subscribed.org.client.delete(subscribed.path, params=parameters)
    else:
        path = f"/v1/connections/{subscribed.connection}/revoke"
        answer = subscribed.org.client.post(path, json=parameters)
    assert answer.status_code == 200
    assert subscribed.subscriptions == {}
    assert_error(httpx.post(subscribed.address), 404, "NOT_FOUND")


def test_a_sent_secret_is_refused(push):
    assert_error(push.turn_on(secret="a secret of somebody"), 400, "INVALID_REQUEST")


def test_a_connection_that_is_not_active_is_left_alone(push):
    push.turn_on()
    push.org.db.rows("update connections set status = 'FAILED' where id = %(id)s", {"id": push.connection})
    push.dispatch()
    assert push.subscriptions == {}
