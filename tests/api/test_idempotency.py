"""Requests with an Idempotency-Key act once, also under concurrency."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from api.app import ROUTE_HANDLERS
from retrieval.errors import ErrorCode
from retrieval.maintenance import garbage
from tests.api.support import EMBEDDED, assert_error

# POST requests without creation: harmless when repeated.
NOT_CREATING = {
    "POST /v1/namespaces/test",
    "POST /v1/search",
    "POST /v1/search/hybrid",
    "POST /v1/search/batch",
    "POST /v1/search/why",
    "POST /v1/deletions/verify",
    "POST /v1/compat/dify/retrieval",
    "POST /v1/vector_stores/{namespace_id:str}/search",
    "POST /v1/convert/file",
    "POST /v1/documents",
    "POST /v1/ingest-job-runs/{ingest_job_run_id:str}/cancel",
    "POST /v1/connections/{connection_id:str}/browse",
    "POST /v1/connections/{connection_id:str}/push",
    "POST /v1/connections/{connection_id:str}/revoke",
    "POST /v1/webhooks/{webhook_id:str}/test",
    "POST /v1/webhooks/{webhook_id:str}/deliveries/{delivery_id:str}/redeliver",
}


def text_body(space, text="A text."):
    return {"namespaceId": space, "ingestConfig": {"source": "TEXT", "config": {"text": text}}}


def runs_of(org, space):
    row = org.db.row(
        "select count(*) as runs from job_runs r join partitions p on p.id = r.partition_id"
        " where p.namespace_id = %(space)s",
        {"space": space},
    )
    return row["runs"]


@pytest.fixture
def key():
    return {"Idempotency-Key": str(uuid.uuid4())}


def test_32_identical_requests_create_one_job_run(org, key):
    space = org.namespace()
    with ThreadPoolExecutor(32) as pool:
        futures = [
            pool.submit(org.client.post, "/v1/ingest/text", json=text_body(space), headers=key) for _ in range(32)
        ]
        answers = [future.result() for future in futures]
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert len({answer.headers["x-request-id"] for answer in answers}) == 32
    assert runs_of(org, space) == 1
    assert org.client.post("/v1/ingest/text", json=text_body(space), headers=key).content == answers[0].content


def test_a_document_that_was_deleted_is_ingested_again_under_the_same_key(org, key):
    space = org.namespace()

    def send():
        accepted = org.client.post("/v1/ingest/text", json=text_body(space), headers=key)
        assert accepted.status_code == 200, accepted.text
        return accepted.json()["data"]["documents"][0]["id"]

    first = send()
    filters = {"documentIds": [first]}
    deleted = org.client.request("DELETE", "/v1/documents", json={"namespaceId": space, "filterConfig": filters})
    assert deleted.status_code == 200, deleted.text
    second = send()
    assert second != first
    assert send() == second
    assert runs_of(org, space) == 2


def test_a_deleted_file_is_ingested_once_by_identical_requests(org, key):
    space = org.namespace()

    def send(_=None):
        files = {"file": ("a.txt", b"A file.", "text/plain")}
        accepted = org.client.post("/v1/ingest/file", data={"namespaceId": space}, files=files, headers=key)
        assert accepted.status_code == 200, accepted.text
        return accepted.json()["data"]["documents"][0]["id"]

    first = send()
    body = {"namespaceId": space, "filterConfig": {"documentIds": [first]}}
    assert org.client.request("DELETE", "/v1/documents", json=body).status_code == 200
    with ThreadPoolExecutor(8) as pool:
        second = set(pool.map(send, range(8)))
    assert len(second) == 1
    assert second != {first}
    assert runs_of(org, space) == 2


def test_a_namespace_that_was_deleted_is_created_again_under_the_same_key(org, key):
    def create():
        creation = org.client.post("/v1/namespaces", json={"name": "x", **EMBEDDED}, headers=key)
        return creation.json()["data"]["namespace"]["id"]

    first = create()
    assert org.client.delete(f"/v1/namespaces/{first}").status_code == 200
    second = create()
    assert second != first
    assert [namespace["id"] for namespace in org.client.get("/v1/namespaces").json()["data"]["namespaces"]] == [second]


def test_an_ingestion_into_a_deleted_namespace_is_refused_under_the_key_that_was_answered(org, key):
    space = org.namespace()
    assert org.client.post("/v1/ingest/text", json=text_body(space), headers=key).status_code == 200
    assert org.client.delete(f"/v1/namespaces/{space}").status_code == 200
    assert_error(org.client.post("/v1/ingest/text", json=text_body(space), headers=key), 404, "NAMESPACE_NOT_FOUND")


def test_another_body_path_or_query_under_the_same_key_is_a_conflict(org, key):
    space = org.namespace()
    assert org.client.post("/v1/ingest/text", json=text_body(space), headers=key).status_code == 200
    conflict = org.client.post("/v1/ingest/text", json=text_body(space, "Another."), headers=key)
    assert_error(conflict, 409, "IDEMPOTENCY_CONFLICT")
    assert_error(org.client.post("/v1/namespaces", json={"name": "x", **EMBEDDED}, headers=key), 409, other_code())
    assert_error(org.client.post("/v1/ingest/text?a=b", json=text_body(space), headers=key), 409, other_code())
    assert runs_of(org, space) == 1


def other_code():
    return ErrorCode.IDEMPOTENCY_CONFLICT.value


def test_a_file_is_taken_once_whatever_the_boundary(org, key):
    space = org.namespace()

    def send(content=b"A file.", **fields):
        files = {"file": ("a.txt", content, "text/plain")}
        return org.client.post("/v1/ingest/file", data={"namespaceId": space, **fields}, files=files, headers=key)

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: send(), range(6)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert runs_of(org, space) == 1
    assert_error(send(b"Another."), 409, "IDEMPOTENCY_CONFLICT")
    assert_error(send(externalId="x"), 409, "IDEMPOTENCY_CONFLICT")


def test_a_refused_request_can_be_repeated(organization, key):
    org = organization(namespace_limit=1)
    org.namespace()
    body = {"name": "x", **EMBEDDED}
    assert_error(org.client.post("/v1/namespaces", json=body, headers=key), 403, "NAMESPACE_LIMIT_EXCEEDED")
    org.db.rows("update organizations set namespace_limit = 2 where id = %(id)s", {"id": org.id})
    assert org.client.post("/v1/namespaces", json=body, headers=key).status_code == 200


@pytest.mark.parametrize("key", ["", "x" * 256, "ä".encode("latin-1")], ids=["empty", "long", "not ASCII"])
def test_a_malformed_key_is_refused(org, key):
    answer = org.client.post("/v1/ingest/text", json=text_body(org.namespace()), headers={"Idempotency-Key": key})
    body = assert_error(answer, 400, "INVALID_INGEST_CONFIG")
    assert body["error"]["details"] == {"reason": "invalid_idempotency_key", "field": "Idempotency-Key"}


def test_two_tenants_and_two_keys_do_not_see_each_other(org, key):
    space = org.namespace()

    def send(client, tenant):
        answer = client.post("/v1/ingest/text", json=text_body(space), headers={**key, "X-Tenant-ID": tenant})
        return answer.json()["data"]["ingestJobRunId"]

    with org.key() as second_client:
        runs = {send(org.client, "alice"), send(org.client, "bob"), send(second_client, "alice")}
    assert len(runs) == 3


def test_answers_are_kept_sealed_for_a_day(org, key):
    space = org.namespace()
    first = org.client.post("/v1/ingest/text", json=text_body(space), headers=key).json()["data"]
    parameters = {"key": key["Idempotency-Key"]}
    row = org.db.row("select * from idempotent_answers where key = %(key)s", parameters)
    assert first["ingestJobRunId"] not in str(row)
    assert first["ingestJobRunId"].encode() not in bytes(row["sealed"])
    org.db.rows(
        "update idempotent_answers set created_at = now() - interval '25 hours' where key = %(key)s", parameters
    )
    second = org.client.post("/v1/ingest/text", json=text_body(space, "Another."), headers=key).json()["data"]
    assert second["ingestJobRunId"] != first["ingestJobRunId"]
    garbage.delete_expired(org.db)
    assert org.db.row("select 1 from idempotent_answers where key = %(key)s", parameters)
    org.db.rows(
        "update idempotent_answers set created_at = now() - interval '25 hours' where key = %(key)s", parameters
    )
    garbage.delete_expired(org.db)
    assert org.db.row("select 1 from idempotent_answers where key = %(key)s", parameters) is None


def test_every_operation_that_creates_takes_the_header():
    operations = [handler.opt["operation"] for handler in ROUTE_HANDLERS if "operation" in handler.opt]
    without = {f"{about.method} {about.path}" for about in operations if about.method == "POST" and not about.creates}
    assert without <= NOT_CREATING


CREATING = [
    about
    for about in (handler.opt["operation"] for handler in ROUTE_HANDLERS if "operation" in handler.opt)
    if about.creates and about.body is not None and "{" not in about.path
]


@pytest.mark.parametrize("about", CREATING, ids=lambda about: about.path)
def test_whatever_is_created_is_created_once(org, key, about):
    # Sends the example of each operation twice; handlers act within `Call.once`.
    app = {"clientId": "client", "clientSecret": "secret", "apiKey": "key"}
    space = org.namespace(webScraperConfig={"provider": "BUILTIN"}, googleDriveConfig=app)
    body = {**about.example, **({"namespaceId": space} if "namespaceId" in about.example else {})}
    first = org.client.post(about.path, json=body, headers=key)
    repeated = org.client.post(about.path, json=body, headers=key)
    assert repeated.content == first.content
    row = org.db.row("select 1 as kept from idempotent_answers where key = %(key)s", {"key": key["Idempotency-Key"]})
    assert (row is not None) is (first.status_code == 200), first.text
