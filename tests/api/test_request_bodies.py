"""Request bodies with byte order marks, transfer encodings, repeated keys, and both Unicode forms."""

from __future__ import annotations

import base64
import json
import quopri
import unicodedata

import pytest

from retrieval import settings
from tests.api.support import assert_error

MARK = b"\xef\xbb\xbf"
COMPOSED = "café"
DECOMPOSED = unicodedata.normalize("NFD", COMPOSED)
JSON = {"Content-Type": "application/json"}


def send_form(org, *parts):
    """Send a form; each part is (name parameters with further headers, content)."""
    boundary = b"frontier"
    body = b"".join(
        b"--" + boundary + b"\r\nContent-Disposition: form-data; " + head.encode() + b"\r\n\r\n" + content + b"\r\n"
        for head, content in parts
    )
    headers = {"Content-Type": "multipart/form-data; boundary=frontier"}
    return org.client.post("/v1/ingest/file", content=body + b"--" + boundary + b"--\r\n", headers=headers)


def read_stored(org, answer):
    """Return the raw file and the metadata of the only document of an ingestion."""
    document_id = answer.json()["data"]["documents"][0]["id"]
    row = org.db.row(
        "select r.raw_key, j.config from run_documents r join job_runs u on u.id = r.job_run_id"
        " join jobs j on j.id = u.job_id where r.document_id = %(id)s",
        {"id": document_id},
    )
    # The server of these tests shares the process, and its settings may have been read by another module.
    return (settings.load_settings().files_folder / row["raw_key"]).read_bytes(), row["config"]["metadata"]


def test_json_with_a_byte_order_mark_is_read(org):
    space = org.namespace()
    body = json.dumps({"namespaceId": space, "filterConfig": {}}).encode()
    assert org.client.post("/v1/documents", content=MARK + body, headers=JSON).status_code == 200
    answer = send_form(
        org,
        ('name="namespaceId"', space.encode()),
        ('name="metadata"', MARK + b'{"a": 1}'),
        ('name="file"; filename="a.txt"', b"A text."),
    )
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    ("encoding", "encode"),
    [
        ("base64", base64.encodebytes),
        ("quoted-printable", quopri.encodestring),
        ("8bit", bytes),
    ],
)
def test_parts_are_decoded_by_their_transfer_encoding(org, encoding, encode):
    space, content = org.namespace(), "Größe = 5 m, naïve\n".encode() * 5000
    header = f"\r\nContent-Transfer-Encoding: {encoding}"
    answer = send_form(
        org,
        ('name="namespaceId"', space.encode()),
        ('name="metadata"' + header, encode('{"größe": "m=5"}'.encode())),
        ('name="file"; filename="a.txt"' + header, encode(content)),
    )
    assert answer.status_code == 200, answer.text
    assert read_stored(org, answer) == (content, {"größe": "m=5"})


@pytest.mark.parametrize("field", ["metadata", "namespaceId"])
def test_a_field_sent_twice_is_refused(org, field):
    space = org.namespace().encode()
    values = {"namespaceId": space, "source": b"FILE", "externalId": b"a", "metadata": b'{"a": 1}', "chunkConfig": b""}
    parts = [(f'name="{name}"', value) for name, value in values.items()]
    answer = send_form(org, *parts, (f'name="{field}"', values[field]), ('name="file"; filename="a.txt"', b"A text."))
    error = assert_error(answer, 400, "INVALID_INGEST_CONFIG")["error"]
    assert error["details"] == {"reason": "repeated", "field": field}


@pytest.mark.parametrize(
    ("path", "code", "text", "field"),
    [
        ("/v1/documents", "INVALID_FILTER_CONFIG", '{"namespaceId": "SPACE", "namespaceId": "ns_x"}', "namespaceId"),
        (
            "/v1/ingest/text",
            "INVALID_INGEST_CONFIG",
            (
                '{"namespaceId": "SPACE", "ingestConfig": {"source": "TEXT", "config": {"text": "a",'
                ' "metadata": {"k": 1}, "metadata": {"l": 2}}}}'
            ),
            "metadata",
        ),
    ],
)
def test_a_key_sent_twice_is_refused(org, path, code, text, field):
    content = text.replace("SPACE", org.namespace())
    error = assert_error(org.client.post(path, content=content, headers=JSON), 400, code)["error"]
    assert error["details"] == {"reason": "repeated", "field": field}


def test_metadata_keys_match_in_both_unicode_forms(org):
    space = org.namespace()
    org.text(space, "A.", externalId="a", metadata={DECOMPOSED: "yes"})
    org.text(space, "B.", externalId="b", metadata={COMPOSED: "yes"})

    def list_documents(filter_config, **options):
        body = {"namespaceId": space, "filterConfig": filter_config, **options}
        answer = org.client.post("/v1/documents", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    for key in (COMPOSED, DECOMPOSED):
        field = f"metadata.{key}"
        assert list_documents({"metadata": {key: "yes"}})["itemsReturned"] == 2
        assert list_documents({"where": {"field": field, "op": "eq", "value": "yes"}})["itemsReturned"] == 2
        assert list_documents({"where": {field: "yes"}})["itemsReturned"] == 2
        assert list_documents({}, facets=[field])["facets"][field] == [{"value": "yes", "count": 2}]
    change = {"metadata": {DECOMPOSED: "no"}, "$metadata": {"$append": {"list" + DECOMPOSED: ["x"]}}}
    selection = {"namespaceId": space, "filterConfig": {"documentTypes": ["TEXT"]}}
    patched = org.client.patch("/v1/documents", json={**selection, "data": change}).json()["data"]["documents"]
    assert [document["metadata"] for document in patched] == [{COMPOSED: "no", "list" + COMPOSED: ["x"]}] * 2


@pytest.mark.parametrize("part", ["text", "filter"])
def test_keys_that_become_equal_are_refused(org, part):
    space, both = org.namespace(), {COMPOSED: 1, DECOMPOSED: 2}
    if part == "text":
        config = {"source": "TEXT", "config": {"text": "A", "metadata": both}}
        answer = org.client.post("/v1/ingest/text", json={"namespaceId": space, "ingestConfig": config})
    else:
        answer = org.client.post("/v1/documents", json={"namespaceId": space, "filterConfig": {"metadata": both}})
    code = "INVALID_INGEST_CONFIG" if part == "text" else "INVALID_FILTER_CONFIG"
    assert assert_error(answer, 400, code)["error"]["details"]["reason"] == "equal_keys"
