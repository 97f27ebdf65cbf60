"""Resync over HTTP: stored documents are queued again, others get a reason."""

from __future__ import annotations

import pytest

from retrieval.ingestion.queries import activation, run_documents
from retrieval.jobs.queries import batches, passwords


@pytest.fixture
def space(org):
    return org.namespace(webScraperConfig={"provider": "BUILTIN"})


def resync(org, space, filters, **options):
    body = {"namespaceId": space, "filterConfig": filters, **options}
    return org.client.post("/v1/documents/resync", json=body)


def upload(org, space, name, **fields):
    answer = org.client.post(
        "/v1/ingest/file", data={"namespaceId": space, **fields}, files={"file": (name, b"Owls.", "text/plain")}
    )
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]["documents"][0]["id"]


def succeed(org, *documents):
    # As left by the pipeline: visible generation, raw file, ended run.
    org.db.rows(
        """
        with done as (
            update run_documents set status = 'SUCCESS', stage = 'upserted' where document_id = any(%(ids)s)
            returning document_id, generation, raw_key, job_run_id
        ),
        ended as (
            update job_runs set status = 'COMPLETED', finished_at = now() where id in (select job_run_id from done)
        )
        update documents d set status = 'SUCCESS', active_generation = done.generation, raw_key = done.raw_key
        from done where d.id = done.document_id
        """,
        {"ids": list(documents)},
    )


def test_a_stored_file_is_queued_again_as_a_new_run_of_its_job(org, space):
    document = upload(org, space, "owls.txt")
    succeed(org, document)
    row_before = org.db.row("select * from run_documents where document_id = %(id)s", {"id": document})
    answer = resync(org, space, {"documentIds": [document]}, confirmDeletions=True)
    assert answer.status_code == 200, answer.text
    data = answer.json()["data"]
    assert data["documents"] == [{"id": document, "status": "QUEUED_FOR_RESYNC", "error": None}]
    assert (data["itemsQueued"], data["itemsSkipped"]) == (1, 0)
    assert data["ingestJobRunIds"] == [data["ingestJobRunId"]]
    row_after = org.db.row("select * from run_documents where job_run_id = %(run)s", {"run": data["ingestJobRunId"]})
    for same in ("name", "media_type", "raw_key", "raw_hash", "raw_size"):
        assert row_after[same] == row_before[same]
    assert row_after["generation"] > row_before["generation"]
    jobs = org.db.rows("select distinct job_id from job_runs r join jobs j on j.id = r.job_id"
                       " where j.organization_id = %(id)s", {"id": org.id})  # fmt: skip
    assert len(jobs) == 1
    listing = org.client.post("/v1/documents", json={"namespaceId": space, "filterConfig": {}}).json()["data"]
    assert [entry["ingestionStatus"] for entry in listing["documents"]] == ["QUEUED_FOR_RESYNC"]
    run = org.client.get(f"/v1/ingest-job-runs/{data['ingestJobRunId']}", params={"namespaceId": space}).json()["data"]
    assert [entry["id"] for entry in run["documents"]["queued"]] == [document]


def test_a_dry_run_starts_nothing_and_counts_what_the_resync_then_queues(org, api_settings, monkeypatch):
    monkeypatch.setitem(api_settings.prices, "OPENAI/text-embedding-3-small", 0.02)
    model = {"provider": "OPENAI", "model": "text-embedding-3-small", "apiKey": "sk-test"}
    space = org.namespace(embeddingModelConfig=model)
    files = [upload(org, space, f"{name}.txt") for name in "abc"]
    succeed(org, *files[:2])
    fail(org, "x", files[2])
    properties = 'update documents set properties = properties || \'{"embeddingCount": 3, "tokenCount": 500000}\''
    org.db.rows(f"{properties} where id = any(%(ids)s)", {"ids": files[:2]})
    upload(org, space, "waiting.txt")
    tables = ("job_runs", "jobs", "run_documents", "audit_entries", "documents where status <> 'QUEUED_FOR_RESYNC'")
    counts = "select " + ", ".join(f"(select count(*) from {table}) as n{i}" for i, table in enumerate(tables))
    counts_before = org.db.row(counts)
    answer = resync(org, space, {"documentTypes": ["FILE"]}, dryRun=True).json()
    assert org.db.row(counts) == counts_before
    assert answer["message"] == "3 documents would be queued for resync"
    assert (answer["data"]["ingestJobRunId"], answer["data"]["ingestJobRunIds"]) == (None, [])
    assert answer["data"].pop("report") == {
        "documents": 3,
        "documentsWithoutChunks": 1,
        "chunks": 6,
        "tokens": 1_000_000,
        "estimatedCost": {"amount": 0.02, "currency": "USD"},
    }
    done = resync(org, space, {"documentTypes": ["FILE"]}).json()["data"]
    runs = {name: done.pop(name) for name in ("ingestJobRunId", "ingestJobRunIds")}
    assert done == {name: answer["data"][name] for name in done}
    assert (done["itemsQueued"], done["itemsSkipped"], len(runs["ingestJobRunIds"])) == (3, 1, 3)


def test_a_resync_undoes_no_change_of_metadata(org, space):
    document = upload(org, space, "owls.txt", metadata='{"color": "red"}')
    succeed(org, document)
    org.db.rows("update documents set fingerprint = '\\x01' where id = %(id)s", {"id": document})
    body = {"namespaceId": space, "filterConfig": {"documentIds": [document]}, "data": {"metadata": {"color": "blue"}}}
    assert org.client.patch("/v1/documents", json=body).status_code == 200
    run = resync(org, space, {"documentIds": [document]}).json()["data"]["ingestJobRunId"]
    org.db.rows(
        "with b as (insert into batches (id, partition_id, source)"
        " select 'bat_' || id, partition_id, source from job_runs where id = %(run)s returning id)"
        " update job_runs set batch_id = b.id from b where job_runs.id = %(run)s",
        {"run": run},
    )
    lease = batches.claim_lease(org.db, "bat_" + run, 1, seconds=30)
    (window,) = run_documents.list_windows(org.db, lease, documents=9, size=1 << 20)
    run_documents.start_window(org.db, lease, window)
    waiting = run_documents.items_at_stage(org.db, lease, window, "accepted")
    activation.finish_unchanged(org.db, lease, waiting, {item.key: b"\x01" for item in waiting})
    row = org.db.row("select status, metadata, raw_key from documents where id = %(id)s", {"id": document})
    assert (row["status"], row["metadata"]) == ("SUCCESS", {"color": "blue"})
    assert org.db.rows("select id from sweeps where file_key = %(key)s", {"key": row["raw_key"]}) == []


def fail(org, error, *documents):
    org.db.rows(
        """
        with failed as (update run_documents set status = 'FAILED', error = %(error)s where document_id = any(%(ids)s)
                        returning job_run_id, document_id),
        ended as (update job_runs set status = 'COMPLETED', finished_at = now()
                  where id in (select job_run_id from failed))
        update documents set status = 'FAILED', error = %(error)s where id = any(%(ids)s)
        """,
        {"ids": list(documents), "error": error},
    )


def test_failures_are_counted_by_cause_and_retried_with_text_recognition(org, space):
    scans, program = [upload(org, space, name) for name in ("a.png", "b.png")], upload(org, space, "setup.exe")
    fail(org, "Retry it, or ingest it again, with the OCR strategy STANDARD_OCR (ocrConfig).", *scans)
    fail(org, "Files like this one (.exe) cannot be read. Kinds that are taken: PDF.", program)
    body = {"namespaceId": space, "filterConfig": {}, "facets": ["document.failureCause"]}
    data = org.client.post("/v1/documents", json=body).json()["data"]
    counted = [{"value": "NO_TEXT", "count": 2}, {"value": "UNREADABLE", "count": 1}]
    assert data["facets"]["document.failureCause"] == counted
    assert {document["failureCause"] for document in data["documents"]} == {"NO_TEXT", "UNREADABLE"}
    run = next(document["ingestJobRun"]["id"] for document in data["documents"] if document["id"] == scans[0])
    read = org.client.get(f"/v1/ingest-job-runs/{run}", params={"namespaceId": space}).json()["data"]
    assert read["failures"] == [{"cause": "NO_TEXT", "count": 1, "open": 1}]

    refused = org.client.post(
        f"/v1/ingest-job-runs/{run}/retry", json={"namespaceId": space, "failureCauses": ["PASSWORD"]}
    )
    assert refused.json()["error"]["details"]["reason"] == "nothing_to_retry"
    condition = {"field": "document.failureCause", "op": "eq", "value": "NO_TEXT"}
    answer = resync(org, space, {"where": condition}, ocrConfig={"strategy": "STANDARD_OCR"}).json()["data"]
    assert sorted(document["id"] for document in answer["documents"]) == sorted(scans)
    jobs = org.db.rows(
        "select d.job_id = r.job_id as same, j.config ->> 'ocr' as ocr from documents d"
        " join job_runs r on r.id = d.job_run_id join jobs j on j.id = d.job_id where d.id = any(%(ids)s)",
        {"ids": scans},
    )
    assert [(row["same"], row["ocr"]) for row in jobs] == [(True, "STANDARD_OCR")] * 2


@pytest.mark.parametrize("route", ["retry", "resync"])
def test_a_password_is_sealed_in_the_new_run_and_deleted_at_its_end(org, space, ring, route):
    document = upload(org, space, "plan.pdf")
    fail(org, "The PDF is protected by a password. Give the password, or upload the file without one.", document)
    if route == "resync":
        answer = resync(org, space, {"documentIds": [document]}, password="canary-password")
        run = answer.json()["data"]["ingestJobRunId"]
    else:
        failed = org.db.row("select job_run_id from documents where id = %(id)s", {"id": document})["job_run_id"]
        body = {"namespaceId": space, "failureCauses": ["PASSWORD"], "password": "canary-password"}
        answer = org.client.post(f"/v1/ingest-job-runs/{failed}/retry", json=body)
        run = answer.json()["data"]["id"]
    answered_text = answer.text + org.client.get(f"/v1/ingest-job-runs/{run}", params={"namespaceId": space}).text
    assert answer.status_code == 200
    assert "canary" not in answered_text

    def stored_password():
        return org.db.row("select password from job_runs where id = %(run)s", {"run": run})["password"]

    assert b"canary" not in stored_password()
    assert passwords.open_password(ring, run, stored_password()) == "canary-password"
    org.db.rows("update job_runs set status = 'COMPLETED', finished_at = now() where id = %(run)s", {"run": run})
    assert stored_password() is None
