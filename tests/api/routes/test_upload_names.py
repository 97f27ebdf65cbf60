"""Name and identity of an upload for every form of Content-Disposition."""

from __future__ import annotations

import base64
from urllib.parse import quote

import pytest

from tests.api.routes.test_ingest import multipart, part

NAMES = ["report.pdf", "Übersicht März.txt", "日本語 資料.csv", 'say "hi".txt', "100%.txt", "a;b=c, d'e.md"]


def quoted(name):
    return b'"' + name.replace("\\", "\\\\").replace('"', '\\"').encode() + b'"'


def encoded_word(name):
    return f'"=?utf-8?B?{base64.b64encode(name.encode()).decode()}?="'.encode()


def extended(name, charset="UTF-8"):
    return f"{charset}''{quote(name.encode(charset), safe='')}".encode()


FORMS = {
    "quoted with backslashes (RFC 6266, curl --form-escape)": lambda name: b"filename=" + quoted(name),
    "browsers, curl and urllib3, which write %22": lambda name: (
        b'filename="' + name.replace('"', "%22").encode() + b'"'
    ),
    "filename* alone (RFC 8187)": lambda name: b"filename*=" + extended(name),
    "filename* after a plain fallback": lambda name: b'filename="fallback.bin"; filename*=' + extended(name),
    "filename* before a plain fallback": lambda name: b"filename*=" + extended(name) + b'; filename="fallback.bin"',
    "broken filename* beside filename": lambda name: b"filename*=; filename=" + quoted(name),
    "encoded word, base64 (RFC 2047)": lambda name: b"filename=" + encoded_word(name),
    ".NET, which writes both": lambda name: (
        b"filename=" + encoded_word(name) + b"; filename*=" + extended(name, "utf-8")
    ),
    "percent-encoded (RFC 7578, aiohttp)": lambda name: f'filename="{quote(name, safe="")}"'.encode(),
}


def stored(org, space):
    answer = org.client.post("/v1/documents", json={"namespaceId": space, "filterConfig": {}})
    return answer.json()["data"]["documents"]


def send(org, space, disposition, content=b"Some text.", **fields):
    parts = [(f'Content-Disposition: form-data; name="{key}"', value) for key, value in fields.items()]
    body = multipart([(part("namespaceId"), space.encode()), *parts])[: -len(b"--xyz--\r\n")]
    body += b"--xyz\r\nContent-Disposition: form-data; " + disposition + b"\r\n\r\n" + content + b"\r\n--xyz--\r\n"
    headers = {"Content-Type": "multipart/form-data; boundary=xyz"}
    answer = org.client.post("/v1/ingest/file", content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]["documents"][0]["id"]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_content_disposition_gives_the_files_name(form, org):
    space = org.namespace()
    ids = [send(org, space, b'name="file"; ' + FORMS[form](name)) for name in NAMES]
    names = {document["id"]: (document["name"], document["externalId"]) for document in stored(org, space)}
    assert [names[document] for document in ids] == [(name, name) for name in NAMES]


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        (b'name=file; filename="caf\xe9.txt"', "café.txt"),
        (b'name="file"; filename="C:\\docs\\new\\report.pdf"', "report.pdf"),
        (b'name="file"; filename="C:\\docs\\"; x=y', "docs"),
        (b'name="file"; filename="a"b.txt"', 'a"b.txt'),
        (b"name=file; filename*=iso-8859-1'en'%A3%20rates.txt", "£ rates.txt"),
        (b"name=file; filename*=no-such-charset''%C3%A9.txt", "é.txt"),
        (b"name=file; filename*=UTF-8''..%2F..%2Fetc%2Fpasswd", "passwd"),
        (b"name=file; filename*=UTF-8''a%E2%80%AEgpj.exe%00%0D%0A", "agpj.exe"),
    ],
)
def test_irregular_forms_give_the_name_that_was_meant(disposition, name, org):
    space = org.namespace()
    send(org, space, disposition)
    assert [document["name"] for document in stored(org, space)] == [name]


NAMELESS = [
    b"name=file",
    b'name=file; filename=".."',
]


@pytest.mark.parametrize("disposition", NAMELESS)
def test_files_without_a_name_are_told_apart_by_their_content(disposition, org):
    space = org.namespace()
    first, second, repeated = (send(org, space, disposition, content) for content in (b"One.", b"Two.", b"One."))
    assert first == repeated != second
    documents = stored(org, space)
    assert len({document["name"] for document in documents}) == len({d["externalId"] for d in documents}) == 2
