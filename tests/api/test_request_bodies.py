"""Request bodies with byte order marks, transfer encodings, repeated keys, and both Unicode forms."""

from __future__ import annotations

import base64
import json
import quopri
import unicodedata

import pytest

from api.uploads import TransferDecoder
from tests.api.support import assert_error

MARK = b"\xef\xbb\xbf"
COMPOSED = "café"
DECOMPOSED = unicodedata.normalize("NFD", COMPOSED)
JSON = {"Content-Type": "application/json"}


def send_form(org, *parts):
    """Send a form of (headers, content) parts, with each header appended to the field name."""
    boundary = b"frontier"
    body = b"".join(
        b"--" + boundary + b"\r\nContent-Disposition: form-data; " + head.encode() + b"\r\n\r\n" + content + b"\r\n"
        for head, content in parts
    )
    headers = {"Content-Type": "multipart/form-data; boundary=frontier"}
    return org.client.post("/v1/ingest/file", content=body + b"--" + boundary + b"--\r\n", headers=headers)


def read_stored(org, api_settings, answer):
    """Return the raw file and the metadata of the only document of an ingestion."""
    document_id = answer.json()["data"]["documents"][0]["id"]
    row = org.db.row(
        "select r.raw_key, j.config from run_documents r join job_runs u on u.id = r.job_run_id"
        " join jobs j on j.id = u.job_id where r.document_id = %(id)s",
        {"id": document_id},
    )
    return (api_settings.files / row["raw_key"]).read_bytes(), row["config"]["metadata"]


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
        ("BASE64", base64.b64encode),
        ("quoted-printable", quopri.encodestring),
        ("binary", bytes),
        ("8bit", bytes),
    ],
)
def test_parts_are_decoded_as_their_header_says(org, api_settings, encoding, encode):
    space, content = org.namespace(), "Größe = 5 m, naïve\n".encode() * 5000
    header = f"\r\nContent-Transfer-Encoding: {encoding}"
    answer = send_form(
        org,
        ('name="namespaceId"', space.encode()),
        ('name="metadata"' + header, encode('{"größe": "m=5"}'.encode())),
        ('name="file"; filename="a.txt"' + header, encode(content)),
    )
    assert answer.status_code == 200, answer.text
    assert read_stored(org, api_settings, answer) == (content, {"größe": "m=5"})


@pytest.mark.parametrize("size", [1, 2, 3, 5, 64])
@pytest.mark.parametrize(
    ("encoding", "encode"), [("base64", base64.encodebytes), ("quoted-printable", quopri.encodestring)]
)
def test_a_body_in_pieces_is_decoded_as_a_whole(encoding, encode, size):
    content = "naïve = größer, and a long line that is broken softly, once and then again\r\n".encode() * 3
    encoded = encode(content).replace(b"\n", b"\r\n") if encoding == "base64" else encode(content)
    decoder = TransferDecoder(encoding.encode(), "file")
    pieces = [decoder.decode_chunk(encoded[at : at + size]) for at in range(0, len(encoded), size)]
    assert b"".join([*pieces, decoder.decode_rest()]) == content


@pytest.mark.parametrize(
    ("encoding", "content", "reason", "expected_word"),
    [
        ("x-uuencode", b"abc", "unknown_encoding", "x-uuencode"),
        ("base64", b"!!!!", "invalid_encoding", "base64"),
        ("base64", b"QUJ", "invalid_encoding", "base64"),
    ],
)
def test_an_encoding_that_cannot_be_read_is_refused_by_name(org, encoding, content, reason, expected_word):
    head = f'name="file"; filename="a.txt"\r\nContent-Transfer-Encoding: {encoding}'
    answer = send_form(org, ('name="namespaceId"', org.namespace().encode()), (head, content))
    error = assert_error(answer, 400, "INVALID_INGEST_CONFIG")["error"]
    assert error["details"] == {"reason": reason, "field": "file"}
    assert expected_word in error["message"]


@pytest.mark.parametrize("field", ["metadata", "namespaceId", "source", "chunkConfig", "externalId"])
def test_a_field_sent_twice_is_refused(org, field):
    space = org.namespace().encode()
    values = {"namespaceId": space, "source": b"FILE", "externalId": b"a", "metadata": b'{"a": 1}', "chunkConfig": b""}
    parts = [(f'name="{name}"', value) for name, value in values.items()]
    answer = send_form(org, *parts, (f'name="{field}"', values[field]), ('name="file"; filename="a.txt"', b"A text."))
    error = assert_error(answer, 400, "INVALID_INGEST_CONFIG")["error"]
    assert error["details"] == {"reason": "repeated", "field": field}


def test_unknown_fields_may_be_sent_twice(org):
    answer = send_form(
        org,
        ('name="namespaceId"', org.namespace().encode()),
        ('name="tags[]"', b"a"),
        ('name="tags[]"', b"b"),
        ('name="file"; filename="a.txt"', b"A text."),
    )
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    ("path", "code", "text", "field"),
    [
        ("/v1/documents", "INVALID_FILTER_CONFIG", '{"namespaceId": "SPACE", "namespaceId": "ns_x"}', "namespaceId"),
        ("/v1/search", "INVALID_SEARCH_REQUEST", '{"namespaceId": "SPACE", "query": "a", "query": "b"}', "query"),
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


def test_keys_of_metadata_are_found_in_both_forms_of_unicode(org):
    space = org.namespace()
    org.text(space, "A.", externalId="a", metadata={DECOMPOSED: "yes"})
    org.text(space, "B.", externalId="b", metadata={COMPOSED: "yes"})

    def count(filter_config, **options):
        body = {"namespaceId": space, "filterConfig": filter_config, **options}
        answer = org.client.post("/v1/documents", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    for key in (COMPOSED, DECOMPOSED):
        field = f"metadata.{key}"
        assert count({"metadata": {key: "yes"}})["itemsReturned"] == 2
        assert count({"where": {"field": field, "op": "eq", "value": "yes"}})["itemsReturned"] == 2
        assert count({"where": {field: "yes"}})["itemsReturned"] == 2
        assert count({}, facets=[field])["facets"][field] == [{"value": "yes", "count": 2}]
    change = {"metadata": {DECOMPOSED: "no"}, "$metadata": {"$append": {"list" + DECOMPOSED: ["x"]}}}
    selection = {"namespaceId": space, "filterConfig": {"documentTypes": ["TEXT"]}}
    patched = org.client.patch("/v1/documents", json={**selection, "data": change}).json()["data"]["documents"]
    assert [document["metadata"] for document in patched] == [{COMPOSED: "no", "list" + COMPOSED: ["x"]}] * 2


@pytest.mark.parametrize("part", ["text", "file", "filter", "metadata", "$set"])
def test_keys_that_become_equal_are_refused(org, part):
    space, both = org.namespace(), {COMPOSED: 1, DECOMPOSED: 2}
    org.text(space, "A.")
    selection = {"namespaceId": space, "filterConfig": {"documentTypes": ["TEXT"]}}
    if part == "text":
        config = {"source": "TEXT", "config": {"text": "A", "metadata": both}}
        answer = org.client.post("/v1/ingest/text", json={"namespaceId": space, "ingestConfig": config})
    elif part == "file":
        data = {"namespaceId": space, "metadata": json.dumps(both)}
        answer = org.client.post("/v1/ingest/file", data=data, files={"file": ("a.txt", b"A")})
    elif part == "filter":
        answer = org.client.post("/v1/documents", json={"namespaceId": space, "filterConfig": {"metadata": both}})
    else:
        data = {"metadata": both} if part == "metadata" else {"$metadata": {"$set": both}}
        answer = org.client.patch("/v1/documents", json={**selection, "data": data})
    code = "INVALID_INGEST_CONFIG" if part in {"text", "file"} else "INVALID_FILTER_CONFIG"
    assert assert_error(answer, 400, code)["error"]["details"]["reason"] == "equal_keys"
