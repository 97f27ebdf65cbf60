"""What is done on behalf of a user touches nothing that is hidden from that user."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from api.routes import runs as routes
from retrieval.ports import Scope
from tests.api.routes.test_access import listed, names, set_access
from tests.api.support import assert_error
from tests.library import Library

BOB = {"X-On-Behalf-Of": "bob"}


@pytest.fixture
def space(org):
    return org.namespace()


@pytest.fixture
def library(api_db, org, space):
    return Library(api_db, Scope(org.id, space), None)


@pytest.fixture
def archive(org, space, library, api_db):
    """`a.zip` with `open`, `hidden` and, within `inner.zip`, which is hidden, `deep`: by external id."""
    made = {
        name: library.put([name], external_id=name, source="LOCAL_FILE", document_type="FILE")
        for name in ("a.zip", "open", "hidden", "inner.zip", "deep")
    }
    for name, above in (("open", "a.zip"), ("hidden", "a.zip"), ("inner.zip", "a.zip"), ("deep", "inner.zip")):
        values = {"above": made[above], "id": made[name]}
        api_db.rows("update documents set archive_id = %(above)s where id = %(id)s", values)
    set_access(org, space, {"users": ["ada"]}, "hidden", "inner.zip")
    set_access(org, space, {"users": ["cyd"]}, "deep")
    return made


def first(answer):
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_two_first_ingestions_at_once_hide_from_each_other_what_is_hidden(org, space, library, api_db):
    """A document that another transaction makes, and hides, while the user's request waits for it."""
    config = {"text": "Bob's words.", "externalId": "it"}
    body = {"namespaceId": space, "ingestConfig": {"source": "TEXT", "config": config}}
    with ThreadPoolExecutor(1) as pool:
        with api_db.transaction() as connection:
            connection.execute(
                "insert into documents (id, partition_id, job_id, job_run_id, source, external_id, document_type, name,"
                " status, metadata, access) values ('doc_first' || %(p)s, %(p)s, 'job_1', 'ijr_1', 'TEXT', 'it',"
                " 'TEXT', 'it', 'SUCCESS', '{}', '{\"users\": [\"ada\"]}')",
                {"p": library.partition},
            )
            waiting = pool.submit(org.client.post, "/v1/ingest/text", json=body, headers=BOB)
            until(lambda: api_db.row("select 1 from pg_locks where not granted and locktype = 'transactionid'"))
        refused = waiting.result(20)
    assert assert_error(refused, 403, "FORBIDDEN")["error"]["details"]["reason"] == "hidden_document"
    runs = org.client.get("/v1/ingest-job-runs", params={"namespaceId": space}).json()["data"]
    assert runs["ingestJobRuns"] == []
    assert names(org.client, space, "ada") == {"it"}


def until(condition):
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_deletion_for_a_user_leaves_what_is_hidden_within(org, space, archive, api_db):
    body = {"namespaceId": space, "filterConfig": {"documentIds": [archive["a.zip"]]}}
    gone = first(org.client.request("DELETE", "/v1/documents", json=body, headers=BOB))
    assert gone["message"].startswith("2 documents ")
    receipt = first(org.client.get(f"/v1/deletions/{gone['deletionId']}"))["data"]["deletion"]
    assert receipt["documents"] == 2
    assert names(org.client, space) == {"hidden", "inner.zip", "deep"}
    assert names(org.client, space, "ada") == {"hidden", "inner.zip"}
    left = api_db.rows(
        "select id from documents where archive_id = %(id)s and deleted_at is null", {"id": archive["a.zip"]}
    )
    assert left == []
    body["filterConfig"]["documentIds"] = [archive["inner.zip"]]
    first(org.client.request("DELETE", "/v1/documents", json=body))
    assert names(org.client, space) == {"hidden"}


def test_access_that_a_user_gives_does_not_reach_what_is_hidden_within(org, space, archive):
    body = {
        "namespaceId": space,
        "filterConfig": {"documentIds": [archive["a.zip"]]},
        "data": {"access": {"users": ["bob", "eve"]}},
    }
    first(org.client.patch("/v1/documents", json=body, headers=BOB))
    assert names(org.client, space, "bob") == names(org.client, space, "eve") == {"a.zip", "open"}
    assert (names(org.client, space, "ada"), names(org.client, space, "cyd")) == ({"hidden", "inner.zip"}, {"deep"})
    first(org.client.patch("/v1/documents", json={**body, "data": {"access": {"users": ["eve"]}}}))
    assert names(org.client, space, "eve") == set(archive)


def test_a_member_does_not_name_an_archive_that_is_hidden(org, space, archive):
    set_access(org, space, {"users": ["ada"]}, "a.zip")
    set_access(org, space, {"users": ["bob"]}, "open")
    (shown,) = listed(org.client, space, "bob")
    assert (shown["externalId"], shown["archive"]) == ("open", None)
    body = {"namespaceId": space, "filterConfig": {"documentIds": [archive["open"]]}, "data": {"metadata": {"a": 1}}}
    changed = first(org.client.patch("/v1/documents", json=body, headers=BOB))["data"]["documents"]
    assert [one["archive"] for one in changed] == [None]
    assert {one["externalId"]: one["archive"] for one in listed(org.client, space)}["open"] == {"id": archive["a.zip"]}


def test_what_lies_in_a_hidden_archive_is_not_found_by_that_archive(org, space, archive):
    """Its `archive` is null for this user; a filter that knew better would tell that the archive is there."""
    set_access(org, space, {"users": ["ada"]}, "a.zip")
    set_access(org, space, {"users": ["bob"]}, "open")
    words = {"namespaceId": space, "query": "open", "hybridConfig": {"semanticWeight": 0.0, "keywordWeight": 1.0}}
    within, nowhere = {"documentArchiveIds": [archive["a.zip"]]}, {"documentArchiveIds": ["doc_nowhere"]}

    def matched(where, headers=BOB):
        body = {**words, "filter": {"documents": where}}
        found = first(org.client.post("/v1/search/hybrid", json=body, headers=headers))["data"]["results"]
        body = {"namespaceId": space, "filterConfig": where}
        there = first(org.client.post("/v1/documents", json=body, headers=headers))["data"]["documents"]
        return {hit["document"]["externalId"] for hit in found}, {one["externalId"] for one in there}

    assert matched(within, {}) == ({"open"}, {"open", "hidden", "inner.zip"})
    assert matched({"documentIds": [archive["open"]]}) == ({"open"}, {"open"})
    assert matched(within) == matched(nowhere) == (set(), set())
    told = []
    for where in (within, nowhere):
        asked = {**words, "documentId": archive["open"], "filter": {"documents": where}}
        told.append(first(org.client.post("/v1/search/why", json=asked, headers=BOB))["data"])
        body = {"namespaceId": space, "filterConfig": where, "data": {"metadata": {"a": 1}}}
        assert_error(org.client.patch("/v1/documents", json=body, headers=BOB), 404, "DOCUMENTS_NOT_FOUND")
    assert told[0] == told[1]
    assert [reason["detail"] for reason in told[0]["reasons"]] == ["filter.documents.documentArchiveIds leaves it out."]
    assert matched(within, {"X-On-Behalf-Of": "ada"}) == (set(), {"hidden", "inner.zip"})


def test_a_user_is_told_why_an_ingestion_of_its_own_found_nothing(org, api_db):
    space = org.namespace(webScraperConfig={"provider": "BUILTIN"})
    config = {"url": "https://example.org/"}
    body = {"namespaceId": space, "ingestConfig": {"source": "WEBSITE", "config": config}}
    run = first(org.client.post("/v1/ingest/website", json=body, headers=BOB))["data"]["ingestJobRunId"]
    api_db.rows(
        "insert into run_documents (job_run_id, document_id, position, generation, name, status, stage, error)"
        " values (%(run)s, 'doc_0' || %(run)s, 0, 1, 'listing of WEBSITE', 'FAILED', 'discover', 'No answer.')",
        {"run": run},
    )
    api_db.rows(
        "update job_runs set status = 'COMPLETED', to_discover = false, finished_at = now() where id = %(run)s",
        {"run": run},
    )

    def told(user):
        where = {"params": {"namespaceId": space}, "headers": {"X-On-Behalf-Of": user}}
        read = first(org.client.get(f"/v1/ingest-job-runs/{run}", **where))["data"]
        (listed,) = first(org.client.get("/v1/ingest-job-runs", **where))["data"]["ingestJobRuns"]
        return read["outcome"], listed["outcome"], [one["error"] for one in read["documents"]["failed"]]

    assert told("bob") == ("FAILED", "FAILED", ["No answer."])
    assert told("ada") == ("SUCCEEDED", "SUCCEEDED", [])


def test_what_was_hidden_is_no_part_of_a_users_run_after_it_is_deleted(org, api_db):
    """A listing for Bob found a file that the service shows to Ada alone; its document is deleted and swept since."""
    space = org.namespace(webScraperConfig={"provider": "BUILTIN"})
    body = {"namespaceId": space, "ingestConfig": {"source": "WEBSITE", "config": {"url": "https://example.org/"}}}
    run = first(org.client.post("/v1/ingest/website", json=body, headers=BOB))["data"]["ingestJobRunId"]
    api_db.rows(
        "insert into run_documents (job_run_id, document_id, position, generation, name, status, stage, error)"
        " values (%(run)s, 'doc_1' || %(run)s, 0, 1, 'wages.txt', 'FAILED', 'fetched', 'The wages cannot be read.')",
        {"run": run},
    )
    where = {"params": {"namespaceId": space}, "headers": BOB}
    told = first(org.client.get(f"/v1/ingest-job-runs/{run}", **where))["data"]
    assert (told["documents"]["failed"], told["progress"]["failed"]) == ([], 0)
    whole = first(org.client.get(f"/v1/ingest-job-runs/{run}", params={"namespaceId": space}))["data"]
    assert [one["error"] for one in whole["documents"]["failed"]] == ["The wages cannot be read."]


def test_a_connection_counts_what_the_user_may_see(org, api_db):
    space = org.namespace(boxConfig={"clientId": "client", "clientSecret": "secret"})
    body = {"namespaceId": space, "name": "Box", "connector": "BOX"}
    made = first(org.client.post("/v1/connections", json=body))["data"]["connection"]["id"]
    library = Library(api_db, Scope(org.id, space), None)
    for name in ("one", "two"):
        library.put([name], external_id=name, source="BOX", connection_id=made)
    set_access(org, space, {"users": ["ada"]}, "one")

    def counted(**headers):
        return first(org.client.get(f"/v1/connections/{made}", headers=headers))["data"]["documents"]["own"]

    assert (counted(), counted(**BOB), counted(**{"X-On-Behalf-Of": "ada"})) == (2, 1, 2)


def test_how_long_a_run_took_is_not_told_whether_it_has_hidden_documents_or_not(org, space, api_db):
    runs = {}
    for name in ("hidden", "open"):
        config = {"name": name, "text": f"The text {name}.", "access": {"users": ["ada"], "public": name == "open"}}
        body = {"namespaceId": space, "ingestConfig": {"source": "TEXT", "config": config}}
        runs[name] = first(org.client.post("/v1/ingest/text", json=body))["data"]["ingestJobRunId"]
    took = {"embed": 2.5}
    api_db.rows(
        "update job_runs set timings = '{\"embed\": 2.5}' where id = any(%(ids)s)", {"ids": list(runs.values())}
    )

    def told(**headers):
        where = {"params": {"namespaceId": space}, "headers": headers}
        found = first(org.client.get("/v1/ingest-job-runs", **where))["data"]["ingestJobRuns"]
        listed = {run["id"]: run["timings"] for run in found}
        read = {run: first(org.client.get(f"/v1/ingest-job-runs/{run}", **where))["data"]["timings"] for run in listed}
        assert read == listed
        return [listed[runs[name]] for name in ("hidden", "open")]

    assert told() == [took, took]
    assert told(**BOB) == [{}, {}]


def test_a_run_whose_documents_are_hidden_tells_the_same_as_one_without_documents(org, space, api_db, monkeypatch):
    """Not that there was nothing to do; and no page in Prefect, which tells of all documents."""
    monkeypatch.setattr(routes, "prefect_url", lambda _, flow_run: flow_run)
    config = {"name": "it", "text": "Ada's.", "access": {"users": ["ada"]}}
    body = {"namespaceId": space, "ingestConfig": {"source": "TEXT", "config": config}}
    runs = {name: first(org.client.post("/v1/ingest/text", json=body))["data"]["ingestJobRunId"] for name in ("a", "b")}
    api_db.rows("delete from run_documents where job_run_id = %(id)s", {"id": runs["b"]})
    batch = api_db.rows(
        "insert into batches (id, partition_id, source, flow_run_id, finished_at)"
        " select 'bat_' || id, partition_id, source, 'flow', now() from job_runs where id = %(id)s returning id",
        {"id": runs["a"]},
    )
    api_db.rows(
        "update job_runs set status = 'COMPLETED', finished_at = now(), batch_id = %(batch)s where id = any(%(ids)s)",
        {"ids": list(runs.values()), "batch": batch[0]["id"]},
    )

    def told(name, **headers):
        where = {"params": {"namespaceId": space}, "headers": headers}
        listed = first(org.client.get("/v1/ingest-job-runs", **where))["data"]["ingestJobRuns"]
        read = first(org.client.get(f"/v1/ingest-job-runs/{runs[name]}", **where))["data"]
        (one,) = (run for run in listed if run["id"] == runs[name])
        assert (one["notices"], one["prefectUrl"]) == (read["notices"], read["prefectUrl"])
        return {key: one[key] for key in ("name", "notices", "outcome", "prefectUrl", "progress", "timings")}

    assert told("a", **BOB) == told("b", **BOB)
    (notice,) = told("a", **BOB)["notices"]
    assert notice == {"reason": "None of this run's documents, if it has any, is shown to this user.", "count": 0}
    assert [told("a", **headers)["notices"] for headers in ({}, {"X-On-Behalf-Of": "ada"})] == [[], []]
    assert told("b")["notices"] == [{"reason": "There was nothing to do.", "count": 0}]
    pages = [told("a", **headers)["prefectUrl"] for headers in ({}, BOB, {"X-On-Behalf-Of": "ada"})]
    assert pages == ["flow", None, None]
