"""Job runs over HTTP: lists, progress, cancellation, retries."""

from __future__ import annotations

import uuid

import pytest

from api.routes.runs import prefect_url
from connectors.files.local import LocalFiles
from retrieval import ids
from retrieval.ingestion import fetch
from retrieval.ingestion.queries import results, run_documents
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import DocumentKey
from tests.api.support import assert_error


def run_id_of(answer):
    return answer["data"]["ingestJobRunId"]


def read_run(org, space, run):
    answer = org.client.get(f"/v1/ingest-job-runs/{run}?namespaceId={space}")
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def post_action(org, space, run, action, **headers):
    return org.client.post(f"/v1/ingest-job-runs/{run}/{action}", json={"namespaceId": space}, headers=headers)


def put_into_batch(org, run):
    """Put the run into a batch, as the dispatcher does."""
    batch = ids.batch_id()
    values = {"batch": batch, "run": run, "flow": str(uuid.uuid4())}
    org.db.rows(
        "insert into batches (id, partition_id, source, flow_run_id, dispatched_at)"
        " select %(batch)s, partition_id, source, %(flow)s, now() from job_runs where id = %(run)s",
        values,
    )
    org.db.rows("update job_runs set batch_id = %(batch)s where id = %(run)s", values)
    return batch


def claim_batch(org, run):
    """Return the lease of a batch with the run, as a worker claims it."""
    lease = batches.claim_lease(org.db, put_into_batch(org, run), 1, seconds=60)
    assert lease is not None
    return lease


def list_document_keys(org, run):
    rows = org.db.rows(
        "select document_id from run_documents where job_run_id = %(run)s order by position", {"run": run}
    )
    return [DocumentKey(run, row["document_id"]) for row in rows]


def fail_run(org, run, error="The file is damaged."):
    """Claim the run and let all of its documents fail, as the flow does."""
    lease, keys = claim_batch(org, run), list_document_keys(org, run)
    run_documents.start_window(org.db, lease, keys)
    run_documents.fail_items(org.db, lease, dict.fromkeys(keys, error))
    results.settle_runs(org.db, lease)
    batches.finish_batch(org.db, lease)


def complete_run(org, run):
    """Claim the run and let all of its documents succeed, as the flow does."""
    lease, keys = claim_batch(org, run), list_document_keys(org, run)
    run_documents.start_window(org.db, lease, keys)
    org.db.rows("update run_documents set status = 'SUCCESS' where job_run_id = %(run)s", {"run": run})
    results.settle_runs(org.db, lease)
    batches.finish_batch(org.db, lease)


def list_runs(org, space, **query):
    answer = org.client.get("/v1/ingest-job-runs", params={"namespaceId": space, **query})
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def test_job_runs_are_listed_newest_first_page_by_page(org):
    space, other_space = org.namespace(), org.namespace()
    run_ids = [run_id_of(org.text(space, f"text {n}")) for n in range(5)]
    org.text(other_space)
    org.text(space, tenant="alice")
    listed_ids, cursor = [], ""
    while True:
        page = list_runs(org, space, pageSize=2, cursor=cursor)
        assert page["itemsReturned"] == len(page["ingestJobRuns"])
        listed_ids += [run["id"] for run in page["ingestJobRuns"]]
        if not page["hasNextPage"]:
            break
        cursor = page["nextCursor"]
        org.text(space, f"comes in between {len(listed_ids)}")
    assert listed_ids == run_ids[::-1]
    assert list_runs(org, space, pageSize=1)["totalCount"] == 7
    assert list_runs(org, space, pageSize=1, status="QUEUED", source="TEXT")["totalCount"] == 7
    assert list_runs(org, space, status="COMPLETED")["totalCount"] == 0
    assert "totalCount" not in list_runs(org, space, outcome="FAILED"), "counting them would compute each run"


@pytest.mark.parametrize(("sort", "order"), [("oldest", "abcd"), ("longest", "bcda"), ("status", "dacb")])
def test_job_runs_are_sorted_over_all_pages(org, sort, order):
    # `a` waits, `d` runs; among the ended runs `b` took longer than `c`.
    space = org.namespace()
    runs = {name: run_id_of(org.text(space, name)) for name in "abcd"}
    for name, status, seconds in (("b", "COMPLETED", 90), ("c", "COMPLETED", 60), ("d", "PROCESSING", None)):
        org.db.rows(
            "update job_runs set status = %(status)s, started_at = now() - interval '5 s', finished_at ="
            " now() - interval '5 s' + make_interval(secs => %(seconds)s) where id = %(run)s",
            {"run": runs[name], "status": status, "seconds": seconds},
        )
    listed_ids, cursor = [], ""
    while cursor is not None:
        page = list_runs(org, space, pageSize=3, sort=sort, cursor=cursor)
        listed_ids += [run["id"] for run in page["ingestJobRuns"]]
        cursor = page["nextCursor"]
    assert listed_ids == [runs[name] for name in order]


def test_job_runs_are_listed_by_their_outcome(org):
    space = org.namespace()
    good, bad, ended, waiting = (run_id_of(org.text(space, f"text {n}")) for n in range(4))
    complete_run(org, good)
    fail_run(org, bad)
    assert post_action(org, space, ended, "cancel").status_code == 200
    by_outcome = {
        outcome: [run["id"] for run in list_runs(org, space, outcome=outcome)["ingestJobRuns"]]
        for outcome in ("SUCCEEDED", "FAILED", "CANCELLED", "COMPLETED_WITH_FAILURES")
    }
    assert by_outcome == {"SUCCEEDED": [good], "FAILED": [bad], "CANCELLED": [ended], "COMPLETED_WITH_FAILURES": []}
    assert read_run(org, space, waiting)["outcome"] is None
    assert list_runs(org, space, outcome="FAILED", pageSize=1)["hasNextPage"] is False
    wrong = org.client.get("/v1/ingest-job-runs", params={"namespaceId": space, "outcome": "LOST"})
    assert_error(wrong, 400, "INVALID_REQUEST")


@pytest.mark.parametrize(
    ("api", "page"),
    [
        ("http://127.0.0.1:4200/api", "http://127.0.0.1:4200/runs/flow-run/f"),
        ("https://user:secret@prefect.example.com/sub/api/", "https://prefect.example.com/sub/runs/flow-run/f"),
        (None, None),
    ],
)
def test_the_link_leads_to_the_flow_run_and_holds_no_credentials(api_settings, api, page):
    settings = api_settings.model_copy(update={"prefect_api_url": api})
    assert prefect_url(settings, "f") == page
    assert prefect_url(settings, None) is None


@pytest.mark.parametrize("dispatched", [False, True])
def test_a_waiting_run_is_cancelled_at_once(org, dispatched):
    space = org.namespace()
    run = run_id_of(org.text(space))
    batch = put_into_batch(org, run) if dispatched else None
    answer = post_action(org, space, run, "cancel")
    assert answer.status_code == 200, answer.text
    data = answer.json()["data"]
    assert data["status"] == "COMPLETED"
    assert [document["status"] for document in data["documents"]["cancelled"]] == ["CANCELLED"]
    repeated = post_action(org, space, run, "cancel").json()["data"]
    assert repeated["documents"] == data["documents"]
    if batch is not None:
        lease = batches.claim_lease(org.db, batch, 1, seconds=60)
        assert run_documents.list_windows(org.db, lease, documents=10, size=1000) == []


def test_a_retry_ingests_the_stored_text_of_a_failed_document(org):
    space = org.namespace()
    first = org.text(space, "Kept.", name="a")
    run, document = run_id_of(first), first["data"]["documents"][0]["id"]
    fail_run(org, run)
    answer = post_action(org, space, run, "retry")
    assert answer.status_code == 200, answer.text
    data = answer.json()["data"]
    assert data["id"] != run
    assert data["status"] == "QUEUED"
    assert data["documents"]["queued"] == [{"id": document, "status": "QUEUED", "error": None, "name": "a"}]
    inbox_row = org.db.row("select content from inbox where job_run_id = %(run)s", {"run": data["id"]})
    assert inbox_row["content"] == "Kept."
    listing = org.client.post("/v1/documents", json={"namespaceId": space, "filterConfig": {}}).json()["data"]
    assert [(entry["ingestionStatus"], entry["ingestionError"]) for entry in listing["documents"]] == [("QUEUED", None)]
    assert listing["documents"][0]["ingestJobRun"]["id"] == data["id"]
    assert len(read_run(org, space, run)["documents"]["failed"]) == 1
    assert_error(post_action(org, space, run, "retry"), 400, "INVALID_REQUEST")


@pytest.mark.parametrize("is_fetched", [False, True])
@pytest.mark.parametrize("kind", ["text", "file"])
def test_a_retried_run_finds_its_content(org, api_settings, kind, is_fetched):
    # The file store keeps files of failed documents, whether or not the first run reached the store.
    space, files = org.namespace(), LocalFiles(api_settings.files_folder)
    if kind == "text":
        run = run_id_of(org.text(space, "Kept."))
    else:
        upload_files = {"file": ("a.txt", b"Kept.", "text/plain")}
        run = run_id_of(org.client.post("/v1/ingest/file", data={"namespaceId": space}, files=upload_files).json())
    lease, keys = claim_batch(org, run), list_document_keys(org, run)
    run_documents.start_window(org.db, lease, keys)
    if is_fetched:
        fetch.fetch_documents(org.db, lease, keys, files, {"provider": "LOCAL"})
    run_documents.fail_items(org.db, lease, {keys[0]: "The worker had no memory left."})
    results.settle_runs(org.db, lease)
    batches.finish_batch(org.db, lease)
    new = post_action(org, space, run, "retry").json()["data"]["id"]
    lease, keys = claim_batch(org, new), list_document_keys(org, new)
    run_documents.start_window(org.db, lease, keys)
    fetch.fetch_documents(org.db, lease, keys, files, {"provider": "LOCAL"})
    (item,) = run_documents.items_at_stage(org.db, lease, keys, "fetched")
    with files.open(item.raw_key) as stream:
        assert stream.read() == b"Kept."


def test_a_retry_leaves_out_documents_that_were_sent_again(org):
    space = org.namespace()
    run = run_id_of(org.text(space, "One.", name="a"))
    fail_run(org, run)
    org.text(space, "Two.", name="a")
    answer = post_action(org, space, run, "retry")
    assert assert_error(answer, 400, "INVALID_REQUEST")["error"]["details"]["reason"] == "nothing_to_retry"
    assert len(list_runs(org, space)["ingestJobRuns"]) == 2


def test_a_limited_answer_lists_failed_documents_first(org):
    space = org.namespace()
    run = run_id_of(org.text(space, "The first.", name="first"))
    for position, status in enumerate(["SUCCESS", "SUCCESS", "PROCESSING", "FAILED"], 1):
        values = {"run": run, "id": f"{run}_{position}", "position": position, "status": status}
        org.db.rows(
            "insert into run_documents (job_run_id, document_id, position, generation, status, name)"
            " values (%(run)s, %(id)s, %(position)s, 1, %(status)s, 'n')",
            values,
        )

    def count_documents(limit):
        answer = org.client.get(f"/v1/ingest-job-runs/{run}?namespaceId={space}&documentLimit={limit}")
        assert answer.status_code == 200, answer.text
        data = answer.json()["data"]
        return {name: len(group) for name, group in data["documents"].items() if group}, data

    counts, data = count_documents(3)
    assert counts == {"failed": 1, "processing": 1, "queued": 1}
    assert (data["source"], data["connection"], data["progress"]["found"]) == ("TEXT", None, 5)
    assert count_documents(0)[0] == {}
    assert sum(count_documents(1000)[0].values()) == 5


def upload_file(org, space, name, content):
    files = {"file": (name, content, "application/octet-stream")}
    return run_id_of(org.client.post("/v1/ingest/file", data={"namespaceId": space}, files=files).json())


def test_the_counts_of_a_run_add_up(org):
    space = org.namespace(webScraperConfig={"provider": "BUILTIN"})
    urls = [f"https://docs.example.com/{number}" for number in range(5)]
    body = {"source": "URLS_LIST", "config": {"urls": urls}}
    run = run_id_of(org.client.post("/v1/ingest/urls", json={"namespaceId": space, "ingestConfig": body}).json())
    states = ["SUCCESS upserted", "SUCCESS unchanged", "SUCCESS unchanged", "FAILED fetched", "PROCESSING fetched"]
    for key, state in zip(list_document_keys(org, run), states, strict=True):
        status, stage = state.split()
        values = {"id": key.document_id, "status": status, "stage": stage}
        org.db.rows(
            "update run_documents set status = %(status)s, stage = %(stage)s where document_id = %(id)s", values
        )
    counts = '{"skipped": {"An older copy.": 3}, "removed": 4}'
    org.db.rows("update job_runs set progress = %(counts)s::jsonb where id = %(run)s", {"run": run, "counts": counts})
    progress = read_run(org, space, run)["progress"]
    expected = {"indexed": 1, "unchanged": 2, "failed": 1, "cancelled": 0, "open": 1, "skipped": 3, "removed": 4}
    assert {name: progress[name] for name in expected} == expected


def test_a_failed_document_names_the_later_run_that_took_it(org):
    space = org.namespace()
    run = run_id_of(org.text(space, "Torn.", name="torn"))
    fail_run(org, run)
    before = read_run(org, space, run)
    assert before["failures"] == [{"cause": "UNREADABLE", "count": 1, "open": 1}]
    assert "retriedIn" not in before["documents"]["failed"][0]
    retry = post_action(org, space, run, "retry").json()["data"]["id"]
    after = read_run(org, space, run)
    assert after["failures"] == [{"cause": "UNREADABLE", "count": 1, "open": 0}]
    assert after["documents"]["failed"][0]["retriedIn"] == retry


def test_a_retry_with_other_settings_has_a_job_of_its_own(org):
    # The new run has a new job, repeated by later resyncs; the former job stays.
    space = org.namespace()
    run = upload_file(org, space, "scan.pdf", b"%PDF-1.4 scanned")
    fail_run(org, run)
    changed = {"ocrConfig": {"strategy": "STANDARD_OCR"}, "chunkConfig": {"chunkSize": 300, "chunkOverlap": 30}}
    retried = org.client.post(f"/v1/ingest-job-runs/{run}/retry", json={"namespaceId": space, **changed})
    assert retried.status_code == 200, retried.text
    new = retried.json()["data"]["id"]
    (job,) = org.db.rows(
        "select d.job_id = r.job_id as is_of_document, j.config from job_runs r join jobs j on j.id = r.job_id"
        " join documents d on d.job_run_id = r.id where r.id = %(run)s",
        {"run": new},
    )
    assert job["is_of_document"]
    assert {name: job["config"][name] for name in ("ocr", "chunkSize", "chunkOverlap")} == {
        "ocr": "STANDARD_OCR",
        "chunkSize": 300,
        "chunkOverlap": 30,
    }
    former_job = org.db.row(
        "select j.config from job_runs r join jobs j on j.id = r.job_id where r.id = %(r)s", {"r": run}
    )
    assert former_job["config"]["ocr"] == "BASIC_PARSER"
    lease = claim_batch(org, new)
    run_documents.start_window(org.db, lease, list_document_keys(org, new))
    (item,) = run_documents.items_at_stage(org.db, lease, list_document_keys(org, new), "accepted")
    assert (item.ocr, item.chunk_size, item.raw_key is not None) == ("STANDARD_OCR", 300, True)


def test_job_runs_are_found_by_parts_of_names_and_urls(org):
    space, other_space = org.namespace(webScraperConfig={"provider": "BUILTIN"}), org.namespace()
    text = run_id_of(org.text(space, "seals dive", name="Harbour seals 100%"))
    file = upload_file(org, space, "owls_at_night.txt", b"owls")
    config = {"source": "SITEMAP", "config": {"url": "https://docs.example.org/sitemap.xml?token=canary"}}
    site = run_id_of(org.client.post("/v1/ingest/sitemap", json={"namespaceId": space, "ingestConfig": config}).json())
    elsewhere = run_id_of(org.text(other_space, "seals", name="Harbour seals"))

    def find_runs(**query):
        answer = org.client.get("/v1/ingest-job-runs", params={"namespaceId": space, **query})
        assert answer.status_code == 200, answer.text
        return [run["id"] for run in answer.json()["data"]["ingestJobRuns"]]

    assert find_runs(q="harbour SEALS") == [text]
    assert find_runs(q="100%") == [text]
    assert find_runs(q="owls_at") == [file]
    assert find_runs(q="%") == [text]
    assert find_runs(q="example.org") == [site]
    assert find_runs(q="canary") == [], "query strings may hold secrets"
    assert find_runs(q=file) == [file]
    assert find_runs(source="SITEMAP") == [site]
    assert find_runs(source="TEXT", q="owls") == []
    assert find_runs(ids=f"{file},{text},{elsewhere},nobody") == [file, text]
    assert find_runs(q="harbour", outcome="FAILED") == []
    assert find_runs() == [site, file, text]
