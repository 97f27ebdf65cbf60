"""Schedules over HTTP: created from a job run, listed, changed, executed, deleted."""

from __future__ import annotations

import pytest

from retrieval import ids
from retrieval.connections import schedules
from tests.api.support import assert_error

SITE = "https://docs.example.com/"
WEB = {"webScraperConfig": {"provider": "BUILTIN"}}


def ingest(org, space, slug="website", source="WEBSITE", **config):
    body = {"namespaceId": space, "ingestConfig": {"source": source, "config": config or {"url": SITE}}}
    answer = org.client.post(f"/v1/ingest/{slug}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]["ingestJobRunId"]


def create(org, space, run, **timing):
    answer = org.client.post("/v1/schedules", json={"namespaceId": space, "ingestJobRunId": run, **timing})
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]["schedule"]


def list_ids(org, **query):
    return [schedule["id"] for schedule in org.client.get("/v1/schedules", params=query).json()["data"]["schedules"]]


def finish_runs(api_db, space):
    api_db.rows(
        "update job_runs r set status = 'COMPLETED', finished_at = now(), to_discover = false from partitions p"
        " where p.id = r.partition_id and p.namespace_id = %(space)s",
        {"space": space},
    )


def test_a_website_is_ingested_again_by_its_schedule(org, api_db):
    space, other_space = org.namespace(**WEB), org.namespace(**WEB)
    schedule = create(org, space, ingest(org, space), cron="0 6 * * MON-FRI", timeZone="Europe/Berlin")
    assert (schedule["source"], schedule["about"], schedule["cron"], schedule["paused"]) == (
        "WEBSITE",
        SITE,
        "0 6 * * MON-FRI",
        False,
    )
    assert (schedule["nextRunAt"] is None, schedule["lastRun"]) == (False, None)
    second = create(org, other_space, ingest(org, other_space), intervalMinutes=60)
    assert list_ids(org) == [second["id"], schedule["id"]]
    assert list_ids(org, namespaceId=space) == [schedule["id"]]
    first = schedules.repeat_ingestion(api_db, schedule["id"])
    assert schedules.repeat_ingestion(api_db, schedule["id"]).reason == schedules.BUSY_REASON
    path = f"/v1/schedules/{schedule['id']}"
    read = org.client.get(path, params={"namespaceId": space}).json()["data"]["schedule"]
    assert (read["lastRun"]["id"], read["lastRun"]["status"]) == (first.job_run_id, "QUEUED")
    finish_runs(api_db, space)
    second_run = schedules.repeat_ingestion(api_db, schedule["id"])
    jobs = "select distinct job_id from job_runs where id = any(%(ids)s)"
    assert len(api_db.rows(jobs, {"ids": [first.job_run_id, second_run.job_run_id]})) == 1
    changed = org.client.patch(path, json={"namespaceId": space, "intervalMinutes": 15, "paused": True})
    paused = changed.json()["data"]["schedule"]
    assert (paused["cron"], paused["intervalMinutes"], paused["paused"], paused["nextRunAt"]) == (None, 15, True, None)
    assert org.client.delete(path, params={"namespaceId": space}).status_code == 200
    assert_error(org.client.get(path, params={"namespaceId": space}), 404, "NOT_FOUND")
    assert schedules.repeat_ingestion(api_db, schedule["id"]).reason == "The schedule was deleted."


def test_a_list_of_urls_is_repeated_without_deleted_pages(org, api_db):
    space = org.namespace(**WEB)
    urls = [f"{SITE}{name}" for name in "abc"]
    schedule = create(org, space, ingest(org, space, "urls", "URLS_LIST", urls=urls), intervalMinutes=60)
    finish_runs(api_db, space)
    api_db.rows("update documents set deleted_at = now() where external_id = %(url)s", {"url": urls[1]})
    run = schedules.repeat_ingestion(api_db, schedule["id"])
    rows = api_db.rows(
        "select name from run_documents where job_run_id = %(id)s order by position", {"id": run.job_run_id}
    )
    assert [row["name"] for row in rows] == [urls[0], urls[2]]


def end_run(api_db, run, outcome):
    """End a job run as the flow does."""
    api_db.rows(
        "update job_runs set status = 'COMPLETED', finished_at = now(), to_discover = %(failed)s where id = %(run)s",
        {"run": run, "failed": outcome == "FAILED"},
    )
    api_db.rows(
        "insert into run_documents (job_run_id, document_id, position, generation, status, name, error)"
        " values (%(run)s, %(document)s, 0, 1, %(status)s, 'page', %(error)s)",
        {
            "run": run,
            "document": ids.document_id(),
            "status": "FAILED" if outcome == "FAILED" else "SUCCESS",
            "error": "The source answered 503." if outcome == "FAILED" else None,
        },
    )


def read_schedule(org, space, schedule_id):
    answer = org.client.get(f"/v1/schedules/{schedule_id}", params={"namespaceId": space})
    return answer.json()["data"]["schedule"]


def test_a_schedule_whose_every_run_fails_is_failing_until_one_succeeds(org, api_db):
    space = org.namespace(**WEB)
    schedule = create(org, space, ingest(org, space), intervalMinutes=60)
    assert (schedule["health"]["state"], schedule["health"]["lastOutcome"]) == ("UNKNOWN", None)
    for _ in range(3):
        end_run(api_db, schedules.repeat_ingestion(api_db, schedule["id"]).job_run_id, "FAILED")
    health = read_schedule(org, space, schedule["id"])["health"]
    assert (health["state"], health["lastOutcome"], health["consecutiveFailures"]) == ("FAILING", "FAILED", 3)
    assert (health["reason"], health["lastSuccessAt"]) == ("The source answered 503.", None)
    assert health["failuresSince"]["isoString"] < health["nextAttemptAt"]["isoString"]
    running = schedules.repeat_ingestion(api_db, schedule["id"]).job_run_id
    assert read_schedule(org, space, schedule["id"])["health"] == health
    end_run(api_db, running, "SUCCEEDED")
    recovered = read_schedule(org, space, schedule["id"])["health"]
    assert (recovered["state"], recovered["lastOutcome"], recovered["consecutiveFailures"]) == (
        "HEALTHY",
        "SUCCEEDED",
        0,
    )
    assert (recovered["reason"], recovered["failuresSince"]) == (None, None)
    assert recovered["lastSuccessAt"]
    end_run(api_db, schedules.repeat_ingestion(api_db, schedule["id"]).job_run_id, "FAILED")
    final_health = read_schedule(org, space, schedule["id"])["health"]
    assert (final_health["state"], final_health["consecutiveFailures"]) == ("FAILING", 1)
    assert final_health["lastSuccessAt"] == recovered["lastSuccessAt"]


@pytest.mark.parametrize(
    ("timing", "field"),
    [
        ({}, "cron"),
        ({"cron": "0 6 * * *", "intervalMinutes": 5}, "cron"),
        ({"cron": "61 6 * * *"}, "cron"),
        ({"cron": "0 0 31 2 *"}, "cron"),
        ({"intervalMinutes": 5, "timeZone": "Mars/Olympus"}, "timeZone"),
    ],
)
def test_a_timing_that_never_comes_due_is_refused(org, timing, field):
    space = org.namespace(**WEB)
    body = {"namespaceId": space, "ingestJobRunId": "ijr_0", **timing}
    error = assert_error(org.client.post("/v1/schedules", json=body), 400, "INVALID_REQUEST")["error"]
    assert error["details"]["field"] == field


def test_sent_content_cannot_be_repeated(org):
    space = org.namespace(**WEB)
    run = org.text(space, "A text.")["data"]["ingestJobRunId"]
    body = {"namespaceId": space, "ingestJobRunId": run, "intervalMinutes": 5}
    assert_error(org.client.post("/v1/schedules", json=body), 400, "INVALID_REQUEST")


def test_the_interval_of_a_connection_is_a_schedule(org, api_db):
    # A change on either side shows on the other.
    space = org.namespace()
    config = {"url": "s3://handbooks", "credentials": {"accessKeyId": "AKIA", "secretAccessKey": "secret"}}
    body = {"namespaceId": space, "name": "Handbooks", "connector": "OBJECTS", "config": config}
    created = org.client.post("/v1/connections", json=body | {"syncIntervalMinutes": 60})
    connection = f"/v1/connections/{created.json()['data']['connection']['id']}"

    def read_interval():
        answer = org.client.get(connection, params={"namespaceId": space}).json()["data"]["connection"]
        due = answer.get("nextSyncAt")
        return answer["syncIntervalMinutes"], due and due["isoString"]

    def change(path, **fields):
        answer = org.client.patch(path, json={"namespaceId": space, **fields})
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    (only,) = list_ids(org, namespaceId=space)
    path = f"/v1/schedules/{only}"
    schedule = org.client.get(path, params={"namespaceId": space}).json()["data"]["schedule"]
    assert (schedule["about"], schedule["intervalMinutes"]) == ("Handbooks", 60)
    assert read_interval() == (60, schedule["nextRunAt"]["isoString"])
    assert change(connection, syncIntervalMinutes=30)["connection"]["syncIntervalMinutes"] == 30
    assert change(path)["schedule"]["intervalMinutes"] == 30
    change(path, intervalMinutes=15)
    assert change(connection, name="Manuals")["connection"]["syncIntervalMinutes"] == 15
    change(path, paused=True)
    assert read_interval() == (15, None)
    change(path, cron="0 6 * * *", paused=False)
    change(connection, syncIntervalMinutes=None)
    assert read_interval()[0] is None
    assert read_interval()[1] is not None
    assert list_ids(org, namespaceId=space) == [only]
    change(connection, syncIntervalMinutes=5)
    assert len(list_ids(org, namespaceId=space)) == 2
    change(connection, syncIntervalMinutes=None)
    assert list_ids(org, namespaceId=space) == [only]
    api_db.rows("update connections set status = 'FAILED' where id = %(id)s", {"id": connection.rpartition("/")[2]})
    assert change(path)["schedule"]["nextRunAt"] is None
    assert read_interval() == (None, None)
    org.client.delete(path, params={"namespaceId": space})
    assert read_interval() == (None, None)
