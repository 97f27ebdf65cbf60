"""Ingestion from content services over HTTP: usable connections and recorded configs."""

from __future__ import annotations

import pytest

from tests.api.support import assert_error

APP = {"clientId": "client", "clientSecret": "canary-client-secret"}
SOURCES = {
    "notion": "NOTION",
    "google-drive": "GOOGLE_DRIVE",
    "dropbox": "DROPBOX",
    "onedrive": "ONEDRIVE",
    "sharepoint": "SHAREPOINT",
    "box": "BOX",
    "outlook-mail": "OUTLOOK_MAIL",
    "gmail": "GMAIL",
}


@pytest.fixture
def space(org):
    names = ("notion", "dropbox", "onedrive", "sharepoint", "box", "outlookMail", "gmail")
    apps = {f"{name}Config": APP for name in names}
    return org.namespace(googleDriveConfig={**APP, "apiKey": "canary-api-key"}, **apps)


def connection(org, space, connector, status="ACTIVE", tenant=None):
    """Return the id of a connection with the given status."""
    answer = org.client.post(
        "/v1/connections",
        json={"namespaceId": space, "name": "x", "connector": connector},
        headers={"X-Tenant-ID": tenant} if tenant else {},
    )
    created = answer.json()["data"]["connection"]["id"]
    org.db.rows("update connections set status = %(status)s where id = %(id)s", {"id": created, "status": status})
    return created


def post(org, space, path, connection_id, *, source=None, tenant=None, key=None, config=None, **beside):
    return org.client.post(
        f"/v1/ingest/{path}",
        json={
            "namespaceId": space,
            "ingestConfig": {
                "source": SOURCES[path] if source is None else source,
                "config": {"connectionId": connection_id, **(config or {})},
                **beside,
            },
        },
        headers={
            **({"X-Tenant-ID": tenant} if tenant else {}),
            **({"Idempotency-Key": key} if key else {}),
        },
    )


def test_picking_is_kept_with_the_request(org, space):
    connection_id = connection(org, space, "BOX")
    for pick, expected in ((True, {"pick": True}), (False, {}), (None, {})):
        run = post(org, space, "box", connection_id, config={"pick": pick}).json()["data"]["ingestJobRunId"]
        row = org.db.row(
            "select j.config from job_runs r join jobs j on j.id = r.job_id where r.id = %(run)s", {"run": run}
        )
        assert row["config"]["request"] == expected
    assert_error(post(org, space, "box", connection_id, config={"pick": "yes"}), 400, "INVALID_INGEST_CONFIG")


@pytest.mark.parametrize("path", ["box", "notion"])
def test_what_is_chosen_is_kept_with_the_request_and_what_makes_no_sense_is_told(org, space, path):
    connection_id = connection(org, space, SOURCES[path])
    chosen = {"include": [{"path": "plans/**/2026*"}, {"id": "1"}], "exclude": [{"mimeType": "image/*"}]}
    answer = post(org, space, path, connection_id, config=chosen)
    assert answer.status_code == 200, answer.text
    row = org.db.row(
        "select j.config from job_runs r join jobs j on j.id = r.job_id where r.id = %(run)s",
        {"run": answer.json()["data"]["ingestJobRunId"]},
    )
    assert row["config"]["request"] == chosen
    refused = post(org, space, path, connection_id, config={"exclude": [{"path": "a"}, {"path": "a/b**"}]})
    error = assert_error(refused, 400, "INVALID_INGEST_CONFIG")["error"]
    assert error["details"]["field"] == "ingestConfig.config.exclude[1]"
    assert "**" in error["message"]


@pytest.mark.parametrize("path", SOURCES)
def test_an_ingestion_is_queued(org, space, path):
    connection_id = connection(org, space, SOURCES[path])
    answer = post(
        org,
        space,
        path,
        connection_id,
        config={"metadata": {"team": "a"}},
        chunkConfig={"chunkSize": 100, "chunkOverlap": 9},
    )
    assert answer.status_code == 200, answer.text
    data = answer.json()["data"]
    assert data["documents"] == []
    row = org.db.row(
        "select j.source, j.config, r.status, r.to_discover from job_runs r join jobs j on j.id = r.job_id"
        " where r.id = %(run)s",
        {"run": data["ingestJobRunId"]},
    )
    assert (row["source"], row["status"], row["to_discover"]) == (SOURCES[path], "QUEUED", True)
    expected = {"connectionId": connection_id, "metadata": {"team": "a"}, "chunkSize": 100, "chunkOverlap": 9}
    assert expected.items() <= row["config"].items()
    run = org.client.get(f"/v1/ingest-job-runs/{data['ingestJobRunId']}", params={"namespaceId": space})
    assert run.json()["data"]["status"] == "QUEUED"


@pytest.mark.parametrize("path", ["box", "notion"])
def test_only_an_active_connection_of_that_connector_will_do(org, space, path):
    for status in ("PENDING", "FAILED", "REVOKED"):
        error = post(org, space, path, connection(org, space, SOURCES[path], status))
        assert_error(error, 400, "INVALID_INGEST_CONFIG")
        assert "ACTIVE" in error.text
    unsuitable = connection(org, space, "BOX" if path != "box" else "NOTION")
    assert_error(post(org, space, path, unsuitable), 400, "INVALID_INGEST_CONFIG")
    assert_error(post(org, space, path, "conn_none"), 404, "CONNECTION_NOT_FOUND")
