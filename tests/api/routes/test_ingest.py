"""Ingestion over HTTP: accepted requests are recorded, refused requests leave no trace."""

from __future__ import annotations

import hashlib
import os
import random

import httpx
import pytest

from tests.api.support import assert_error


def upload(org, space, content=b"Some bytes.", name="manual.txt", media="text/plain", **fields):
    data = {"namespaceId": space, **fields}
    return org.client.post("/v1/ingest/file", data=data, files={"file": (name, content, media)})


def test_the_same_identity_is_one_document(org):
    space = org.namespace()
    first_accepted = org.text(space, "First.", name="manual")
    two = org.text(space, "Second.", name="manual")
    same_text = org.text(space, "Alone."), org.text(space, "Alone.")
    by_id = org.text(space, "A.", externalId="e1"), org.text(space, "B.", externalId="e1", name="other")
    for first, second in ((first_accepted, two), same_text, by_id):
        assert first["data"]["documents"][0]["id"] == second["data"]["documents"][0]["id"]
        assert first["data"]["ingestJobRunId"] != second["data"]["ingestJobRunId"]
    listing = org.client.post("/v1/documents", json={"namespaceId": space, "filterConfig": {}}).json()["data"]
    assert listing["itemsReturned"] == 3


@pytest.mark.parametrize("source", [None, "", "FILE", "LOCAL_FILE"])
def test_a_file_is_stored_whole_before_it_is_accepted(org, api_settings, source):
    space = org.namespace()
    content = os.urandom(2_500_000)
    fields = {} if source is None else {"source": source}
    answer = upload(org, space, content, "report.bin", "application/octet-stream", **fields)
    assert answer.status_code == 200, answer.text
    document = answer.json()["data"]["documents"][0]["id"]
    row = org.db.row("select * from run_documents where document_id = %(id)s", {"id": document})
    assert (api_settings.files_folder / row["raw_key"]).read_bytes() == content
    assert (row["raw_size"], row["raw_hash"]) == (len(content), hashlib.sha256(content).digest())
    assert (row["name"], row["media_type"]) == ("report.bin", "application/octet-stream")
    assert list((api_settings.home / "uploads").iterdir()) == []
    listing = org.client.post("/v1/documents", json={"namespaceId": space, "filterConfig": {}}).json()["data"]
    assert [listed_document["ingestionSource"] for listed_document in listing["documents"]] == ["LOCAL_FILE"]


def multipart(parts, boundary="xyz"):
    lines = b""
    for headers, content in parts:
        lines += f"--{boundary}\r\n{headers}\r\n\r\n".encode() + content + b"\r\n"
    return lines + f"--{boundary}--\r\n".encode()


def send(org, body, boundary="xyz"):
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    return org.client.post("/v1/ingest/file", content=body, headers=headers)


def part(name, filename=None):
    return f'Content-Disposition: form-data; name="{name}"' + (f'; filename="{filename}"' if filename else "")


def test_the_order_of_the_fields_does_not_matter(org):
    space = org.namespace()
    parts = [
        (part("namespaceId"), space.encode()),
        (part("metadata"), b'{"page": 7}'),
        (part("file", "a.txt"), b"content"),
        (part("chunkConfig"), b'{"chunkSize": 50, "chunkOverlap": 5}'),
        (part("ocrConfig"), b'{"strategy": "STANDARD_OCR"}'),
        (part("unknown"), b"ignored"),
    ]
    for order in (parts, parts[::-1]):
        assert send(org, multipart(order)).status_code == 200
    row = org.db.row("select config from jobs where organization_id = %(id)s limit 1", {"id": org.id})
    assert row["config"] == {"metadata": {"page": 7}, "chunkSize": 50, "chunkOverlap": 5, "ocr": "STANDARD_OCR"}


NAMESPACE = (part("namespaceId"), b"NS")
FILE = (part("file", "a.txt"), b"x")
BAD_FORMS = [
    ("no namespace", [FILE], "INVALID_INGEST_CONFIG"),
    ("no file", [NAMESPACE], "INVALID_INGEST_CONFIG"),
    ("an empty file", [NAMESPACE, (part("file", "a"), b"")], "INVALID_INGEST_CONFIG"),
    ("two files", [NAMESPACE, FILE, FILE], "INVALID_INGEST_CONFIG"),
    ("another source", [NAMESPACE, FILE, (part("source"), b"TEXT")], "INVALID_INGEST_CONFIG"),
    ("broken metadata", [NAMESPACE, FILE, (part("metadata"), b"{")], "INVALID_INGEST_CONFIG"),
    ("NUL in metadata", [NAMESPACE, FILE, (part("metadata"), b'{"a":"\\u0000"}')], "INVALID_INGEST_CONFIG"),
    ("an unknown strategy", [NAMESPACE, FILE, (part("ocrConfig"), b'{"strategy":"X"}')], "INVALID_INGEST_CONFIG"),
    ("half a chunkConfig", [NAMESPACE, FILE, (part("chunkConfig"), b'{"chunkSize":5}')], "INVALID_CHUNK_CONFIG"),
    ("NUL in a field", [NAMESPACE, FILE, (part("externalId"), b"a\x00b")], "INVALID_INGEST_CONFIG"),
    ("a field that is not UTF-8", [(part("namespaceId"), b"\xff"), FILE], "INVALID_INGEST_CONFIG"),
    ("a huge field", [(part("namespaceId"), b"n" * 100_000), FILE], "INVALID_INGEST_CONFIG"),
    ("many parts", [NAMESPACE, FILE, *((part(f"f{n}"), b"") for n in range(60))], "INVALID_INGEST_CONFIG"),
]


def test_bad_forms_are_refused_and_leave_nothing(org, api_settings):
    space = org.namespace()
    for case, parts, code in BAD_FORMS:
        filled = [(headers, space.encode() if content == b"NS" else content) for headers, content in parts]
        answer = send(org, multipart(filled))
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, code), case
    cut_off = multipart([(part("namespaceId"), space.encode()), (part("file", "a.txt"), b"x" * 40)])[:-20]
    for body in (b"", b"not a form", cut_off):
        assert_error(send(org, body), 400, "INVALID_INGEST_CONFIG")
    assert_error(send(org, b"x", boundary="y" * 400), 400, "INVALID_INGEST_CONFIG")
    listing = org.client.post("/v1/documents", json={"namespaceId": space, "filterConfig": {}}).json()["data"]
    assert listing["documents"] == []
    assert list((api_settings.home / "uploads").iterdir()) == []


def test_a_file_over_the_cap_is_too_large(org, api_settings):
    big = b"x" * (api_settings.max_file_bytes + 1)
    assert_error(upload(org, org.namespace(), big), 413, "PAYLOAD_TOO_LARGE")
    assert_error(upload(org, org.namespace(), big * 2), 413, "PAYLOAD_TOO_LARGE")
    assert upload(org, org.namespace(), big[:-1]).status_code == 200


def test_an_upload_that_breaks_off_leaves_nothing(org, base, api_settings):
    space = org.namespace()

    def half():
        yield multipart([(part("namespaceId"), space.encode()), (part("file", "a"), b"x" * 200_000)])[:100_000]
        raise ConnectionAbortedError

    headers = {
        "Content-Type": "multipart/form-data; boundary=xyz",
        "Authorization": f"Bearer {org.api_key}",
        "Content-Length": "300000",
    }
    with pytest.raises(ConnectionAbortedError), httpx.Client(trust_env=False) as client:
        client.post(f"{base}/v1/ingest/file", content=half(), headers=headers)
    listing = org.client.post("/v1/documents", json={"namespaceId": space, "filterConfig": {}}).json()["data"]
    assert listing["documents"] == []


@pytest.mark.parametrize("nothing", ["undefined", "null", ""])
def test_what_form_libraries_write_for_nothing_is_absent(nothing, org):
    space = org.namespace()
    data = {"namespaceId": space, "metadata": nothing, "chunkConfig": nothing, "ocrConfig": nothing}
    answer = org.client.post("/v1/ingest/file", data=data, files={"file": ("a.txt", b"Some text.")})
    assert answer.status_code == 200, answer.text
    bad = org.client.post(
        "/v1/ingest/file", data={**data, "metadata": "undefinable"}, files={"file": ("a.txt", b"Text.")}
    )
    assert bad.status_code == 400


def test_whole_numbers_are_integers_over_the_wire(org):
    space = org.namespace()
    json = {"Content-Type": "application/json"}
    body = f'{{"namespaceId": "{space}", "filterConfig": {{}}, "pagination": {{"pageSize": %s}}}}'
    assert org.client.post("/v1/documents", content=body % "5.0", headers=json).status_code == 200
    for refused in ("5.5", '"5"', "101.0", "0.0"):
        answer = org.client.post("/v1/documents", content=body % refused, headers=json)
        assert answer.json()["error"]["code"] == "INVALID_FILTER_CONFIG"
    form = {"namespaceId": space, "chunkConfig": '{"chunkSize": 100.0, "chunkOverlap": 1e1}'}
    assert org.client.post("/v1/ingest/file", data=form, files={"file": ("a.txt", b"Text.")}).status_code == 200


def store(org, space, name, content=b"A seal dives.", **fields):
    data = {"namespaceId": space, **fields}
    return org.client.post("/v1/ingest/uploads", data=data, files={"file": (name, content, "text/plain")})


def ingest_files(org, space, files, headers=None, **config):
    dry_run = {"dryRun": True} if config.pop("dry_run", False) else {}
    body = {"namespaceId": space, "ingestConfig": {"source": "FILE", "config": {"files": files, **config}}}
    return org.client.post("/v1/ingest/files", json=body | dry_run, headers=headers)


def uploaded(org, space, *names):
    return [{"uploadId": store(org, space, name).json()["data"]["uploadId"]} for name in names]


def list_runs(org, space):
    return org.client.get("/v1/ingest-job-runs", params={"namespaceId": space}).json()["data"]["ingestJobRuns"]


def list_documents(org, space):
    body = {"namespaceId": space, "filterConfig": {}}
    return org.client.post("/v1/documents", json=body).json()["data"]["documents"]


def test_several_files_are_one_job_run_under_the_name_of_the_request(org):
    space = org.namespace()
    first, second = uploaded(org, space, "a.txt", "b.txt")
    files = [first | {"externalId": "handbook/a.txt"}, second]
    answer = ingest_files(org, space, files, name="handbook", metadata={"team": "docs"})
    assert answer.status_code == 200, answer.text
    (run,) = list_runs(org, space)
    assert (run["id"], run["name"], run["progress"]["found"]) == (
        answer.json()["data"]["ingestJobRunId"],
        "handbook",
        2,
    )
    documents = list_documents(org, space)
    assert {(document["externalId"], document["name"]) for document in documents} == {
        ("handbook/a.txt", "a.txt"),
        ("b.txt", "b.txt"),
    }
    assert all(document["metadata"] == {"team": "docs"} for document in documents)
    received = [document["id"] for document in answer.json()["data"]["documents"]]
    by_id = {document["id"]: document["externalId"] for document in documents}
    assert [by_id[document] for document in received] == ["handbook/a.txt", "b.txt"], "in the order of the request"
    runs = org.client.get("/v1/ingest-job-runs", params={"namespaceId": space, "q": "handbo"})
    assert [job_run["name"] for job_run in runs.json()["data"]["ingestJobRuns"]] == ["handbook"]
    # A file sent by itself has the same identity as one of a request for several.
    assert upload(org, space, name="b.txt").json()["data"]["documents"][0]["id"] == received[1]
    repeated = ingest_files(org, space, uploaded(org, space, "b.txt", "c.txt")).json()
    assert repeated["data"]["documents"][0]["id"] == received[1]
    assert {run["name"] for run in list_runs(org, space)} == {"handbook", "b.txt", "2 files"}
    assert len(list_documents(org, space)) == 3


def test_an_upload_is_ingested_once_and_only_in_its_namespace_and_tenant(org):
    space, other_space = org.namespace(), org.namespace()
    (file,) = uploaded(org, space, "a.txt")
    assert_error(ingest_files(org, other_space, [file]), 400, "INVALID_INGEST_CONFIG")
    assert_error(ingest_files(org, space, [file], headers={"X-Tenant-ID": "seals"}), 400, "INVALID_INGEST_CONFIG")
    key = {"Idempotency-Key": "once"}
    answer = ingest_files(org, space, [file], headers=key)
    assert answer.status_code == 200
    assert ingest_files(org, space, [file], headers=key).json() == answer.json()
    refused = assert_error(ingest_files(org, space, [file]), 400, "INVALID_INGEST_CONFIG")
    assert "it was ingested" in refused["message"]
    assert "another namespace or tenant" in refused["message"]
    assert len(list_runs(org, space)) == 1


def test_an_upload_that_is_named_twice_is_refused_as_such_and_stays(org):
    space = org.namespace()
    (file,) = uploaded(org, space, "a.txt")
    answer = ingest_files(org, space, [file | {"externalId": "a"}, file | {"externalId": "b"}])
    refused = assert_error(answer, 400, "INVALID_INGEST_CONFIG")
    assert refused["error"]["details"] == {"reason": "repeated", "field": "ingestConfig.config.files[1].uploadId"}
    assert "twice" in refused["message"]
    assert ingest_files(org, space, [file]).status_code == 200


def test_an_external_id_of_too_many_bytes_is_refused_and_the_longest_is_kept(org):
    space = org.namespace()
    # PostgreSQL compresses index entries, so only characters without a pattern reach its limit.
    longest = "".join(map(chr, random.Random(7).choices(range(0x20000, 0x2A000), k=650)))
    longer = longest + "a"
    (file,) = uploaded(org, space, "a.txt")
    config = "ingestConfig.config"

    def send_text(**config):
        body = {"namespaceId": space, "ingestConfig": {"source": "TEXT", "config": {"text": "A seal.", **config}}}
        return org.client.post("/v1/ingest/text", json=body)

    answers = {
        f"{config}.externalId": send_text(externalId=longer),
        "externalId": upload(org, space, externalId=longer),
        f"{config}.files[0].externalId": ingest_files(org, space, [file | {"externalId": longer}]),
    }
    for field, answer in answers.items():
        refused = assert_error(answer, 400, "INVALID_INGEST_CONFIG")
        assert refused["error"]["details"] == {"reason": "too_long", "field": field}
        assert "2,600 bytes" in refused["message"]
    assert list_runs(org, space) == []
    assert send_text(externalId=longest).status_code == 200
    assert ingest_files(org, space, [file | {"externalId": longest}]).status_code == 200


def test_two_files_of_one_identity_are_refused_and_nothing_is_recorded(org):
    space = org.namespace()
    files = uploaded(org, space, "a.txt", "a.txt")
    refused = assert_error(ingest_files(org, space, files), 400, "INVALID_INGEST_CONFIG")
    assert refused["error"]["details"]["field"] == "ingestConfig.config.files[1].externalId"
    assert list_runs(org, space) == []
    files[1]["externalId"] = "other/a.txt"
    assert ingest_files(org, space, files).status_code == 200, "the uploads are still there"
