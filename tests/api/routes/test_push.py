"""Hints of content services at push addresses: signatures, challenges, replays, coalescing, foreign tenants."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from api.routes.push import MAX_PUSH_BYTES
from retrieval import ids
from retrieval.accounts import quotas
from retrieval.connections import pushes
from retrieval.connections.push_vendors import PUSH_VENDORS
from retrieval.maintenance import key_rotation
from tests.api.support import assert_error, client_of

SECRET = "canary-secret-of-the-vendor"
EVENT = {"type": "event_callback", "event": {"type": "message", "text": "Not to be read."}}


def connect(org, space, connector, tenant=""):
    """Insert an ACTIVE connection."""
    connection = ids.connection_id()
    org.db.rows(
        "with p as (insert into partitions (namespace_id, tenant) values (%(space)s, %(tenant)s)"
        " on conflict (namespace_id, tenant) do update set tenant = excluded.tenant returning id)"
        " insert into connections (id, partition_id, name, connector, status, account)"
        " select %(id)s, id, 'Team', %(connector)s, 'ACTIVE', 'dbid:ada' from p",
        {"id": connection, "space": space, "tenant": tenant, "connector": connector},
    )
    return connection


class PushOf:
    """Connection with push, and its service, which signs by the service's rule."""

    def __init__(self, org, space, connector, **fields):
        self.org, self.space, self.connector, self.fields = org, space, connector, fields
        self.connection = connect(org, space, connector)
        self.path = f"/v1/connections/{self.connection}/push"
        answer = self.turn_on()
        assert answer.status_code == 200, answer.text
        data = answer.json()["data"]
        self.address = data["push"]["url"].removeprefix(data["push"]["url"].partition("/v1/")[0])
        self.secret = data["secret"] or fields.get("secret")
        if connector == "NOTION":
            assert self.send({"verification_token": SECRET}, signed=False).status_code == 200
            self.secret = self.turn_on().json()["data"]["secret"]

    def turn_on(self):
        return self.org.client.post(self.path, json={"namespaceId": self.space, **self.fields})

    def sign(self, body, secret, moment):
        def digest(content):
            return hmac.new(secret.encode(), content, hashlib.sha256).hexdigest()

        if self.connector == "SLACK":
            signed = digest(f"v0:{moment}:".encode() + body)
            return {"X-Slack-Request-Timestamp": str(moment), "X-Slack-Signature": f"v0={signed}"}
        if self.connector == "GITHUB":
            return {"X-GitHub-Event": "issues", "X-Hub-Signature-256": f"sha256={digest(body)}"}
        if self.connector == "DROPBOX":
            return {"X-Dropbox-Signature": digest(body)}
        return {"X-Notion-Signature": f"sha256={digest(body)}"}

    def send(self, content=EVENT, *, signed=True, secret=None, age=0, **headers):
        body = json.dumps(content).encode()
        signature = self.sign(body, secret or self.secret, int(time.time()) - age) if signed else {}
        with client_of(self.org.base, None) as anonymous:
            return anonymous.post(
                self.address, content=body, headers={"Content-Type": "application/json", **signature, **headers}
            )

    def state(self):
        answer = self.org.client.get(f"/v1/connections/{self.connection}")
        return answer.json()["data"].get("push")

    def runs(self):
        """Job runs of the connection after the dispatcher looked for due hints."""
        pushes.start_due(self.org.db)
        answer = self.org.client.get("/v1/ingest-job-runs", params={"namespaceId": self.space})
        return answer.json()["data"]["ingestJobRuns"]

    def finish(self):
        self.org.db.rows("update job_runs set finished_at = now(), status = 'COMPLETED' where finished_at is null")

    def pass_time(self, seconds):
        self.org.db.rows(
            "update pushes set run_at = run_at - %(s)s * interval '1 second', due_at = due_at - %(s)s * interval '1 s'",
            {"s": seconds},
        )


FIELDS = {"SLACK": {"secret": SECRET}, "DROPBOX": {"secret": SECRET}, "GITHUB": {}, "NOTION": {}}


@pytest.fixture(params=FIELDS)
def push(request, org, space):
    return PushOf(org, space, request.param, **FIELDS[request.param])


@pytest.fixture
def github(org, space):
    return PushOf(org, space, "GITHUB")


def test_a_signed_hint_starts_an_ordinary_job_run(push):
    assert push.runs() == []
    assert push.send().status_code == 200
    (run,) = push.runs()
    assert (run["trigger"], run["source"], run["status"]) == ("PUSH", push.connector, "QUEUED")
    read = push.org.client.get(f"/v1/ingest-job-runs/{run['id']}", params={"namespaceId": push.space}).json()["data"]
    assert (read["trigger"], read["connection"]["id"]) == ("PUSH", push.connection)
    state = push.state()
    assert (state["hints"], state["refusals"], state["lastRefusalAt"]) == (1, 0, None)
    assert state["lastHintAt"]
    assert state["confirmedAt"]
    assert "Not to be read" not in str([state, run])


@pytest.mark.parametrize("fault", ["none", "wrong", "other body"])
def test_a_wrong_signature_is_refused_and_counted(push, fault):
    before = push.state()["hints"]
    headers = {} if fault != "other body" else push.sign(b"{}", push.secret, int(time.time()))
    refused = push.send(secret="another secret", **headers) if fault != "none" else push.send(signed=False)
    assert_error(refused, 401, "UNAUTHORIZED")
    assert (push.state()["hints"], push.state()["refusals"]) == (before, 1)
    assert push.runs() == []


def test_a_repeated_signature_header_is_refused(github):
    body = json.dumps(EVENT).encode()
    headers = [("X-Hub-Signature-256", "sha256=0"), *github.sign(body, github.secret, 0).items()]
    with client_of(github.org.base, None) as anonymous:
        assert_error(anonymous.post(github.address, content=body, headers=headers), 401, "UNAUTHORIZED")


def test_slack_refuses_a_replay_after_five_minutes(org, space):
    slack = PushOf(org, space, "SLACK", secret=SECRET)
    assert slack.send(age=290).status_code == 200
    for age in (310, -310, 10**9):
        assert_error(slack.send(age=age), 401, "UNAUTHORIZED")
    assert slack.state()["refusals"] == 3


def test_replays_and_bursts_start_one_further_run(github):
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: github.send().status_code, range(16)))
    assert set(answers) == {200}
    assert len(github.runs()) == 1
    github.send()
    github.send()
    assert len(github.runs()) == 1, "a run is under way"
    github.finish()
    assert len(github.runs()) == 1, "the pause after a run"
    github.pass_time(pushes.PAUSE_SECONDS)
    assert len(github.runs()) == 2
    github.finish()
    github.pass_time(pushes.PAUSE_SECONDS)
    assert len(github.runs()) == 2
    assert github.state()["hints"] == 18


def test_two_dispatchers_start_one_run(github):
    github.send()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: pushes.start_due(github.org.db), range(8)))
    assert len(github.runs()) == 1


def test_the_checks_of_the_services_are_answered_and_start_nothing(org, space):
    slack = PushOf(org, space, "SLACK", secret=SECRET)
    answer = slack.send({"type": "url_verification", "challenge": "3eZbrw1aB"})
    assert (answer.status_code, answer.text) == (200, "3eZbrw1aB")
    assert answer.headers["content-type"].startswith("text/plain")
    assert_error(slack.send({"type": "url_verification", "challenge": "x"}, signed=False), 401, "UNAUTHORIZED")
    github = PushOf(org, space, "GITHUB")
    assert github.send(**{"X-GitHub-Event": "ping"}).status_code == 200
    dropbox = PushOf(org, space, "DROPBOX", secret=SECRET)
    with client_of(org.base, None) as anonymous:
        answer = anonymous.get(dropbox.address, params={"challenge": "<b>a&b</b>"})
        assert (answer.status_code, answer.text) == (200, "<b>a&b</b>")
        assert answer.headers["content-type"].startswith("text/plain")
        assert answer.headers["x-content-type-options"] == "nosniff"
        for path in (slack.address, github.address):
            assert_error(anonymous.get(path, params={"challenge": "a"}), 404, "NOT_FOUND")
        assert_error(anonymous.get(dropbox.address, params={"challenge": "a" * 501}), 404, "NOT_FOUND")
    assert dropbox.send({"list_folder": {"accounts": ["dbid:bob"]}}).status_code == 200
    for push in (slack, github, dropbox):
        assert (push.state()["hints"], push.runs()) == (0, [])
        assert push.state()["confirmedAt"]
    assert dropbox.send({"list_folder": {"accounts": ["dbid:bob", "dbid:ada"]}}).status_code == 200
    assert len(dropbox.runs()) == 1


def test_only_the_first_token_of_notion_is_kept(org, space):
    notion = PushOf(org, space, "NOTION")
    assert notion.secret == SECRET
    assert notion.send({"verification_token": SECRET}, signed=False).status_code == 200
    refused = notion.send({"verification_token": "a-token-of-somebody-else"}, signed=False)
    assert_error(refused, 401, "UNAUTHORIZED")
    assert notion.send().status_code == 200
    assert notion.turn_on().json()["data"]["secret"] is None, "the token was confirmed"


def test_of_racing_first_tokens_of_notion_one_is_kept_and_the_others_are_refused(org, space):
    connection = connect(org, space, "NOTION")
    answer = org.client.post(f"/v1/connections/{connection}/push", json={"namespaceId": space}).json()["data"]
    path = answer["push"]["url"][answer["push"]["url"].index("/v1/") :]
    tokens = [f"a-token-of-sender-{number}" for number in range(8)]

    def send(token):
        with client_of(org.base, None) as anonymous:
            return anonymous.post(path, json={"verification_token": token}).status_code

    with ThreadPoolExecutor(8) as pool:
        answers = dict(zip(tokens, pool.map(send, tokens), strict=True))
    assert sorted(answers.values()) == [200, *[401] * 7]
    kept = org.client.post(f"/v1/connections/{connection}/push", json={"namespaceId": space}).json()["data"]["secret"]
    assert answers[kept] == 200


def test_before_notion_has_sent_its_token_every_signature_is_wrong(org, space):
    connection = connect(org, space, "NOTION")
    body = {"namespaceId": space}
    answer = org.client.post(f"/v1/connections/{connection}/push", json=body).json()["data"]
    assert answer["secret"] is None
    path = answer["push"]["url"].removeprefix(answer["push"]["url"].partition("/v1/")[0])
    signature = hmac.new(b"", b"{}", hashlib.sha256).hexdigest()
    with client_of(org.base, None) as anonymous:
        for sent in ("", "sha256=", f"sha256={signature}"):
            headers = {"X-Notion-Signature": sent}
            assert_error(anonymous.post(path, content=b"{}", headers=headers), 401, "UNAUTHORIZED")


def test_unknown_foreign_and_revoked_addresses_have_the_same_answer(org, space):
    github, off = PushOf(org, space, "GITHUB"), PushOf(org, space, "GITHUB")
    parameters = {"namespaceId": space}
    for _ in range(2):
        assert org.client.delete(off.path, params=parameters).status_code == 200
    assert off.state() is None
    revoked = org.client.post(f"/v1/connections/{github.connection}/revoke", json=parameters)
    assert revoked.status_code == 200
    assert github.state() is None
    answers = [github.send(), off.send()]
    github.address = "/v1/push/" + "A" * 43
    answers.append(github.send())
    assert {answer.status_code for answer in answers} == {404}
    assert len({json.dumps(answer.json()["error"], sort_keys=True) for answer in answers}) == 1
    assert_error(github.turn_on(), 400, "INVALID_REQUEST")
    assert org.db.rows("select from pushes where connection_id = %(id)s", {"id": github.connection}) == []


def test_push_of_another_tenant_is_not_found(org, space, organization):
    connection = connect(org, space, "GITHUB", tenant="acme")
    path, acme = f"/v1/connections/{connection}/push", {"X-Tenant-ID": "acme"}
    org.db.rows(
        "insert into tenants (organization_id, id) values (%(o)s, 'acme') on conflict do nothing", {"o": org.id}
    )
    assert_error(org.client.post(path, json={"namespaceId": space}), 404, "CONNECTION_NOT_FOUND")
    assert_error(organization().client.post(path, json={"namespaceId": space}), 404, "NAMESPACE_NOT_FOUND")
    assert org.client.post(path, json={"namespaceId": space}, headers=acme).status_code == 200
    assert_error(org.client.delete(path, params={"namespaceId": space}), 404, "CONNECTION_NOT_FOUND")
    assert org.client.get(f"/v1/connections/{connection}", headers=acme).json()["data"]["push"]["hints"] == 0


def test_secrets_are_sealed_shown_once_and_rotated(org, space, ring):
    push = PushOf(org, space, "GITHUB")
    first = push.secret
    assert first not in org.client.get(f"/v1/connections/{push.connection}").text
    (row,) = org.db.rows("select secret from pushes where connection_id = %(id)s", {"id": push.connection})
    assert first.encode() not in bytes(row["secret"])
    again = push.turn_on().json()["data"]
    assert again["secret"] != first
    assert again["push"]["url"].endswith(push.address)
    assert_error(push.send(), 401, "UNAUTHORIZED")
    push.secret = again["secret"]
    assert push.send().status_code == 200
    assert key_rotation.reseal_secrets(org.db, ring).left == 0
    slack = PushOf(org, space, "SLACK", secret=SECRET)
    assert SECRET not in slack.turn_on().text


@pytest.mark.parametrize(
    ("connector", "fields", "reason"),
    [
        ("SLACK", {}, "invalid_secret"),
        ("DROPBOX", {}, "invalid_secret"),
        ("NOTION", {"secret": SECRET}, "invalid_secret"),
        ("JIRA", {}, "not_supported"),
    ],
)
def test_a_missing_or_unexpected_secret_is_refused(org, space, connector, fields, reason):
    path = f"/v1/connections/{connect(org, space, connector)}/push"
    answer = org.client.post(path, json={"namespaceId": space, **fields})
    assert_error(answer, 400, "INVALID_REQUEST")
    assert answer.json()["error"]["details"]["reason"] == reason


def test_dropbox_signs_with_the_secret_of_the_app(org):
    space = org.namespace(dropboxConfig={"clientId": "client", "clientSecret": SECRET})
    push = PushOf(org, space, "DROPBOX")
    push.secret = SECRET
    assert push.send().status_code == 200


def test_a_long_body_is_refused(github):
    assert_error(github.send({"padding": "x" * MAX_PUSH_BYTES}), 413, "PAYLOAD_TOO_LARGE")


def test_a_refused_quota_is_the_reason_of_the_connection_until_a_later_hint(github):
    quotas.set_organization_quotas(github.org.db, github.org.id, {"concurrentRuns": 0})
    github.send()
    assert github.runs() == []
    connection = github.org.client.get(f"/v1/connections/{github.connection}").json()["data"]["connection"]
    assert "quota of 0 job runs" in connection["statusReason"]
    quotas.set_organization_quotas(github.org.db, github.org.id, {"concurrentRuns": 1})
    github.pass_time(pushes.PAUSE_SECONDS)
    github.send()
    assert len(github.runs()) == 1
    connection = github.org.client.get(f"/v1/connections/{github.connection}").json()["data"]["connection"]
    assert connection["statusReason"] is None


def test_each_service_names_its_documentation(push):
    state = push.state()
    assert state["setupUrl"] == PUSH_VENDORS[push.connector].page
    assert state["setup"]
