"""Events of documents in the flows' steps, and their delivery."""

from __future__ import annotations

import time
from ipaddress import ip_network

import pytest

from retrieval.database.database import Database
from retrieval.documents import hidden_passages
from retrieval.jobs import control
from retrieval.namespaces import namespaces
from retrieval.network.fetch_guard import Guard
from retrieval.ports import Scope
from retrieval.webhooks import deliveries, endpoints, retry_policy
from retrieval.webhooks.endpoints import WebhookScope
from retrieval.webhooks.sending import Sender
from tests.flows.configured import Configured
from tests.flows.connected import connected_space
from tests.standins import box
from tests.standins.webhook_receiver import receiving

ALLOWED = Guard(allowed=(ip_network("127.0.0.0/8"),))
INGESTED = [
    "INGEST_JOB_RUN_QUEUED",
    "DOCUMENTS_QUEUED_FOR_INGESTION",
    "INGEST_JOB_RUN_PROCESSING",
    "DOCUMENTS_PROCESSING",
    "DOCUMENTS_READY",
    "INGEST_JOB_RUN_COMPLETED",
]


@pytest.fixture(scope="module")
def own_database(fresh_database):
    """A sender looks at everybody's endpoints."""
    return str(fresh_database("webhooks"))


@pytest.fixture
def db(own_database):
    opened = Database(own_database)
    yield opened
    opened.rows("delete from webhooks")
    opened.close()


@pytest.fixture
def receiver():
    with receiving() as server:
        yield server
        assert server.forged == []


@pytest.fixture
def space(db, tmp_path, monkeypatch):
    monkeypatch.setenv("RETRIEVAL_FILES_DIRECTORY", str(tmp_path))
    return Configured(db)


@pytest.fixture
def sender(space):
    opened_sender = Sender(space.db, lambda: space.ring, ALLOWED)
    yield opened_sender
    opened_sender.close()
    settle(opened_sender)


def hook(space, receiver, *names, tenant=None, whole=False):
    """Webhook of the namespace, or of the organization, to the receiver."""
    reach = WebhookScope(space.scope.organization, None if whole else space.scope.namespace, tenant)
    endpoint, receiver.secret = space.call(
        endpoints.create_webhook(space.db, space.ring, reach, url=receiver.url, events=names or ["*"], description=None)
    )
    return endpoint


def reach(space):
    return WebhookScope(space.scope.organization)


def send(sender, until=lambda: False, seconds=20.0):
    """Send as a dispatcher until idle or `done`."""
    deadline = time.monotonic() + seconds
    quiet = 0
    while not until() and quiet < 3 and time.monotonic() < deadline:
        quiet = 0 if sender.begin() or not sender.idle() else quiet + 1
        time.sleep(0.01)


def list_deliveries(space, endpoint, **fields):
    page = space.call(
        deliveries.list_deliveries(space.db, reach(space), endpoint.id, deliveries.PageRequest(100), **fields)
    )
    return page.items


def age(db, endpoint, seconds):
    """Age the waiting deliveries."""
    db.rows(
        "update webhook_deliveries set next_attempt_at = next_attempt_at - make_interval(secs => %(s)s),"
        " give_up_at = give_up_at - make_interval(secs => %(s)s) where webhook_id = %(id)s",
        {"s": seconds, "id": endpoint.id},
    )
    db.rows(
        "update webhooks set alive_at = alive_at - make_interval(secs => %(s)s) where id = %(id)s",
        {"s": seconds, "id": endpoint.id},
    )


def waits(db, endpoint):
    """Seconds until the next attempt."""
    row = db.row(
        "select extract(epoch from next_attempt_at - now())::float8 as seconds from webhook_deliveries"
        " where webhook_id = %(id)s and status = 'PENDING'",
        {"id": endpoint.id},
    )
    return row["seconds"]


def settle(sender):
    """Until nothing is being sent."""
    deadline = time.monotonic() + 15
    while not sender.idle() and time.monotonic() < deadline:
        time.sleep(0.01)


def test_an_ingestion_is_told_from_its_beginning_to_its_end(space, receiver, sender):
    endpoint = hook(space, receiver)
    accepted = space.text("The harbour seal dives.", "seals", metadata={"topic": "secret topic"})
    space.work()
    send(sender)
    assert receiver.types() == INGESTED
    assert [event.data["sequence"] for event in receiver.taken] == [1, 2, 3, 4, 5, 6]
    first, queued, *_, ready, end = receiver.taken
    ids_of_run = {"organizationId": space.scope.organization, "namespaceId": space.scope.namespace, "tenantId": None}
    for event in receiver.taken:
        assert ids_of_run.items() <= event.data.items()
        assert event.data["ingestJobRunId"] == accepted.job_run_id
        assert event.timestamp.endswith("Z")
    assert first.data["status"] == "QUEUED"
    document = {"id": accepted.document_id, "externalId": "seals", "error": None}
    assert queued.data["documents"] == [{**document, "status": "QUEUED"}]
    assert ready.data["documents"] == [{**document, "status": "SUCCESS"}]
    assert (end.data["status"], end.data["outcome"]) == ("COMPLETED", "SUCCEEDED")
    assert all(b"harbour" not in content and b"topic" not in content for _, _, content in receiver.seen)
    assert [event.event_id for event in reversed(list_deliveries(space, endpoint))] == [
        event.id for event in receiver.taken
    ]
    assert {(event.status, event.attempts, event.response_status) for event in list_deliveries(space, endpoint)} == {
        ("DELIVERED", 1, 204)
    }


def test_updates_failures_and_deletions_are_told(space, receiver, sender):
    accepted = space.text("The harbour seal dives.", "seals")
    space.work()
    hook(space, receiver)
    space.text("The harbour seal dives deep.", "seals")
    space.work()
    space.file("broken.pdf", b"%PDF-1.7 nothing of a file", "application/pdf")
    space.work()
    space.delete(accepted.document_id)
    send(sender)
    types = receiver.types()
    assert types.count("DOCUMENTS_QUEUED_FOR_UPDATE") == 1
    assert types.count("DOCUMENTS_QUEUED_FOR_INGESTION") == 1
    (failed,) = [event for event in receiver.taken if event.type == "DOCUMENTS_ERROR"]
    assert failed.data["documents"][0]["error"]
    ends = [event.data["outcome"] for event in receiver.taken if event.type == "INGEST_JOB_RUN_COMPLETED"]
    assert sorted(ends) == ["FAILED", "SUCCEEDED"]  # the order is kept for each run
    assert types.count("DOCUMENTS_QUEUED_FOR_DELETION") == 1
    assert types[-1] == "DOCUMENTS_DELETED"
    deletion = receiver.taken[-1].data
    assert deletion["documents"] == [
        {"id": accepted.document_id, "externalId": "seals", "status": "DELETED", "error": None}
    ]
    space.sweep()
    space.work()
    send(sender)
    assert receiver.types() == types  # nothing after the deletion


def test_who_hears_what(space, receiver, sender):
    neighbour = Configured(space.db)
    endpoint = hook(space, receiver, "DOCUMENTS_QUEUED_FOR_INGESTION", tenant="alice", whole=True)
    home = space.scope
    for tenant in ("", "alice", "bob"):
        space.scope = Scope(home.organization, home.namespace, tenant)
        space.text("words", f"of {tenant}")
    space.scope = home
    neighbour.text("words", "of others")
    send(sender)
    assert [(event.type, event.data["tenantId"]) for event in receiver.taken] == [
        ("DOCUMENTS_QUEUED_FOR_INGESTION", "alice")
    ]
    space.call(endpoints.delete_webhook(space.db, reach(space), endpoint.id))
    everything = hook(space, receiver, "INGEST_JOB_RUN_QUEUED", whole=True)
    space.scope = Scope(home.organization, home.namespace, "bob")
    space.text("words", "of bob again")
    space.scope = home
    send(sender)
    assert [event.data["tenantId"] for event in receiver.taken] == ["alice", "bob"]
    space.call(endpoints.delete_webhook(space.db, reach(space), everything.id))
    space.text("words", "told to nobody")
    assert space.db.row("select count(*) as n from webhook_outbox")["n"] == 0
    send(sender)
    assert len(receiver.taken) == 2


def test_what_is_not_taken_is_tried_again_and_keeps_its_id(space, receiver, sender):
    endpoint = hook(space, receiver, "INGEST_JOB_RUN_QUEUED", "DOCUMENTS_QUEUED_FOR_INGESTION")
    receiver.answers = [503]
    space.text("words", "one")
    send(sender)
    assert receiver.types() == ["DOCUMENTS_QUEUED_FOR_INGESTION"]  # the one that failed holds nobody back
    (waiting,) = list_deliveries(space, endpoint, status="PENDING")
    assert (waiting.attempts, waiting.response_status, waiting.reason) == (1, 503, "The endpoint answered 503.")
    first = receiver.seen[0][1]["webhook-id"]
    receiver.status = 500
    for pause in (
        *retry_policy.RETRY_SCHEDULE_SECONDS,
        retry_policy.LATER_RETRY_SECONDS,
        retry_policy.LATER_RETRY_SECONDS,
        retry_policy.LATER_RETRY_SECONDS,
    ):
        assert pause - 5 < waits(space.db, endpoint) <= pause
        received_before = len(receiver.seen)
        age(space.db, endpoint, pause)
        send(sender, lambda count=received_before: len(receiver.seen) > count)
        settle(sender)
        assert len(receiver.seen) == received_before + 1
    assert {headers["webhook-id"] for _, headers, _ in receiver.seen[2:]} == {first}
    hooked = space.call(endpoints.get_webhook(space.db, reach(space), endpoint.id))
    assert hooked.status == "ACTIVE"
    age(space.db, endpoint, 5 * 3600)
    send(sender)
    (failed,) = list_deliveries(space, endpoint, status="FAILED")
    assert failed.next_attempt_at is None
    hooked = space.call(endpoints.get_webhook(space.db, reach(space), endpoint.id))
    assert (hooked.status, hooked.status_reason) == (
        "DISABLED",
        "Nothing was taken for 24 hours. The endpoint answered 500.",
    )
    receiver.status = 204
    space.call(endpoints.change_webhook(space.db, reach(space), endpoint.id, status="ACTIVE"))
    space.call(deliveries.retry_delivery(space.db, reach(space), endpoint.id, failed.id))
    send(sender)
    assert receiver.taken[-1].id == first


def test_gone_switches_off_and_a_redirect_is_not_followed(space, receiver, sender):
    endpoint = hook(space, receiver, "INGEST_JOB_RUN_QUEUED")
    receiver.answers, receiver.location = [302], receiver.url + "/elsewhere"
    space.text("words", "one")
    send(sender)
    assert [path for path, _, _ in receiver.seen] == ["/hook"]
    (waiting,) = list_deliveries(space, endpoint)
    assert (waiting.status, waiting.response_status) == ("PENDING", 302)
    receiver.answers = [410]
    age(space.db, endpoint, 6)
    send(sender)
    hooked = space.call(endpoints.get_webhook(space.db, reach(space), endpoint.id))
    assert (hooked.status, hooked.status_reason) == ("DISABLED", "The endpoint answered 410 Gone.")
    count = len(receiver.seen)
    age(space.db, endpoint, 3600)
    space.text("words", "two")
    send(sender)
    assert len(receiver.seen) == count
    space.call(deliveries.send_test(space.db, reach(space), endpoint.id))
    send(sender)
    assert receiver.types() == ["WEBHOOK_TEST"]


def test_both_secrets_sign_while_they_overlap(space, receiver, sender):
    endpoint = hook(space, receiver)
    old = receiver.secret
    _, new = space.call(endpoints.rotate_secret(space.db, space.ring, reach(space), endpoint.id, 24))
    for secret in (old, new):
        receiver.secret = secret
        space.call(deliveries.send_test(space.db, reach(space), endpoint.id))
        send(sender)
    assert receiver.types() == ["WEBHOOK_TEST", "WEBHOOK_TEST"]
    assert len(receiver.seen[0][1]["webhook-signature"].split()) == 2
    space.db.rows("update webhooks set previous_until = now() where id = %(id)s", {"id": endpoint.id})
    space.call(deliveries.send_test(space.db, reach(space), endpoint.id))
    send(sender)
    assert len(receiver.seen[2][1]["webhook-signature"].split()) == 1
    row = space.db.row("select * from webhooks where id = %(id)s", {"id": endpoint.id})
    assert all(secret[6:].encode() not in bytes(row["secret"]) for secret in (old, new))


def test_a_private_address_is_never_dialled(space, receiver):
    endpoint = hook(space, receiver, "INGEST_JOB_RUN_QUEUED")
    guarded = Sender(space.db, lambda: space.ring, Guard())
    space.text("words", "one")
    send(guarded)
    guarded.close()
    (waiting,) = list_deliveries(space, endpoint)
    assert receiver.seen == []
    assert waiting.response_status is None
    assert "not on the public internet" in waiting.reason


def test_a_cancelled_run_ends_and_a_deleted_namespace_is_not_told_of(space, receiver, sender):
    hook(space, receiver, whole=True)
    first = space.text("words", "one")
    control.cancel_run(space.db, space.scope, first.job_run_id)
    space.work()
    send(sender)
    assert receiver.taken[-1].data["outcome"] == "CANCELLED"
    space.text("words", "two")
    count = len(receiver.taken)
    space.call(namespaces.delete_namespace(space.db, space.scope.organization, space.scope.namespace))
    send(sender)
    assert len(receiver.taken) == count
    own_endpoint = hook(Configured(space.db), receiver)
    assert own_endpoint.status == "ACTIVE"


def test_a_hidden_passage_that_a_new_version_does_not_have_is_reported_once(space, receiver, sender):
    hook(space, receiver, "HIDDEN_PASSAGES_UNMATCHED")
    space.text("The price of an owl is five euros.", "prices")
    space.work()
    (document,) = [row["id"] for row in space.documents().values()]
    passage = space.call(hidden_passages.hide_passage(space.db, space.scope, document, 0, "outdated"))
    for text in ("Owls are priced by weight.", "Owls are priced by age.", "The price of an owl is five euros."):
        space.text(text, "prices")
        space.work()
        send(sender)
    (event,) = receiver.taken
    assert event.data["documentId"] == document
    assert event.data["hiddenPassageIds"] == [passage.id]
    assert event.data["namespaceId"] == space.scope.namespace
    assert "owl" not in str(event.data).lower()


def test_connections_are_told_of(space, receiver, sender, monkeypatch):
    names = ("CONNECTION_ACTIVE", "CONNECTION_FAILED", "CONNECTION_REMOVALS_WAITING")
    with box.serving() as account, connected_space(space.db, account, monkeypatch) as connected:
        hook(connected, receiver, *names)
        keys = Sender(connected.db, lambda: connected.ring, ALLOWED)
        connection = connected.connect()
        files = [account.put(f"{number}.txt", f"The text {number}.") for number in range(4)]
        connected.ingest()
        for event in files[:2]:
            account.delete(event)
        connected.ingest()
        reason = "Box does not accept the authorization any more."
        connected.db.rows(
            "update connections set status = 'FAILED', status_reason = %(reason)s where id = %(id)s",
            {"id": connection, "reason": reason},
        )
        send(keys)
        keys.close()
        settle(keys)
        event_data = {event.type: event.data for event in receiver.taken}
        of_made = [event.type for event in receiver.taken if event.data["connectionId"] == connection]
        assert of_made == [names[0], names[1]]
        assert sorted(event.type for event in receiver.taken) == sorted(names)
        assert (event_data[names[0]]["connectionId"], event_data[names[0]]["status"]) == (connection, "ACTIVE")
        assert (event_data[names[2]]["connectionId"], event_data[names[2]]["removals"]) == (connected.connection, 2)
        assert (event_data[names[1]]["connectionId"], event_data[names[1]]["statusReason"]) == (connection, reason)
        for data in event_data.values():
            assert (data["connector"], data["namespaceId"], data["tenantId"]) == (
                "BOX",
                connected.scope.namespace,
                None,
            )


def read_health(space, endpoint):
    return space.call(endpoints.get_webhook(space.db, reach(space), endpoint.id)).health


def test_a_webhook_that_does_not_deliver_is_failing_until_it_does(space, receiver, sender):
    endpoint = hook(space, receiver, "INGEST_JOB_RUN_QUEUED")
    assert read_health(space, endpoint).state == "UNKNOWN"
    receiver.status = 500
    space.text("words", "one")
    send(sender)
    age(space.db, endpoint, 5)
    send(sender)
    settle(sender)
    failing = read_health(space, endpoint)
    assert (failing.state, failing.last_outcome, failing.consecutive_failures) == ("FAILING", "FAILED", 2)
    assert (failing.reason, failing.last_success_at) == ("The endpoint answered 500.", None)
    assert failing.failures_since < failing.next_attempt_at
    receiver.status = 204
    age(space.db, endpoint, 30)
    send(sender)
    settle(sender)
    healthy = read_health(space, endpoint)
    assert (healthy.state, healthy.last_outcome, healthy.consecutive_failures) == ("HEALTHY", "DELIVERED", 0)
    assert (healthy.reason, healthy.failures_since, healthy.next_attempt_at) == (None, None, None)
    assert healthy.last_success_at > failing.failures_since
