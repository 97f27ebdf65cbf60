"""Name and identity of an upload for every form of Content-Disposition."""

from __future__ import annotations

import asyncio
import base64
import io
import subprocess
from email.header import Header
from urllib.parse import quote

import aiohttp
import httpx
import pytest
import requests

from tests.api.routes.test_ingest import multipart, part

NAMES = ["report.pdf", "Übersicht März.txt", "日本語 資料.csv", 'say "hi".txt', "100%.txt", "a;b=c, d'e.md"]


def quoted(name):
    return b'"' + name.replace("\\", "\\\\").replace('"', '\\"').encode() + b'"'


def encoded_word(name, encoding="B", charset="utf-8"):
    if encoding == "Q":
        text = "".join(f"={byte:02X}" for byte in name.encode(charset))
    else:
        text = base64.b64encode(name.encode(charset)).decode()
    return f'"=?{charset}?{encoding}?{text}?="'.encode()


def extended(name, charset="UTF-8", language=""):
    return f"{charset}'{language}'{quote(name.encode(charset), safe='')}".encode()


def continued(name):
    encoded = [f"%{byte:02X}" for byte in name.encode()]
    pieces = ["".join(encoded[start : start + 5]) for start in range(0, len(encoded), 5)]
    return b"; ".join(
        f"filename*{number}*={piece if number else f'utf-8{2 * chr(39)}{piece}'}".encode()
        for number, piece in enumerate(pieces)
    )


FORMS = {
    "quoted with backslashes (RFC 6266, curl --form-escape)": lambda name: b"filename=" + quoted(name),
    "browsers, curl and urllib3, which write %22": lambda name: (
        b'filename="' + name.replace('"', "%22").encode() + b'"'
    ),
    "filename* alone (RFC 8187)": lambda name: b"filename*=" + extended(name),
    "filename* in small letters with a language": lambda name: b"filename*=" + extended(name, "utf-8", "de"),
    "filename* in quotes": lambda name: b'filename*="' + extended(name) + b'"',
    "filename* after a plain fallback": lambda name: b'filename="fallback.bin"; filename*=' + extended(name),
    "filename* before a plain fallback": lambda name: b"filename*=" + extended(name) + b'; filename="fallback.bin"',
    "broken filename* beside filename": lambda name: b"filename*=; filename=" + quoted(name),
    "continuations (RFC 2231)": continued,
    "encoded word, base64 (RFC 2047)": lambda name: b"filename=" + encoded_word(name),
    "encoded word, quoted-printable": lambda name: b"filename=" + encoded_word(name, "Q"),
    "several encoded words": lambda name: b'filename="' + Header(name, "utf-8", 40).encode().encode() + b'"',
    ".NET, which writes both": lambda name: (
        b"filename=" + encoded_word(name) + b"; filename*=" + extended(name, "utf-8")
    ),
    "percent-encoded (RFC 7578, aiohttp)": lambda name: f'filename="{quote(name, safe="")}"'.encode(),
    "capitals and spaces": lambda name: b"FileName = " + quoted(name) + b" ; size=3",
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
        (b"name=file; filename=report final.pdf", "report final.pdf"),
        (b"filename=report.pdf; name=file", "report.pdf"),
        (b'name="file"; filename="C:\\docs\\new\\report.pdf"', "report.pdf"),
        (b'name="file"; filename="C:\\docs\\"; x=y', "docs"),
        (b'name="file"; filename="a"b.txt"', 'a"b.txt'),
        (b'name="file"; filename="unfinished.txt', "unfinished.txt"),
        (b"name=file; filename*=iso-8859-1'en'%A3%20rates.txt", "£ rates.txt"),
        (b"name=file; filename*=gb18030''%CE%C4%BC%FE.txt", "文件.txt"),
        (b"name=file; filename*=plain%20name.txt", "plain name.txt"),
        (b"name=file; filename*=no-such-charset''%C3%A9.txt", "é.txt"),
        (b'name=file; filename*0="long "; filename*1=name; filename*2=".txt"', "long name.txt"),
        (b"name=file; filename*1=b; filename=a.txt", "a.txt"),
        (b'name=file; filename="=?iso-8859-1?Q?caf=E9_au_lait.txt?="', "café au lait.txt"),
        (b'name=file; filename="=?utf-8?B?not base64!?="', "=?utf-8?B?not base64!?="),
        (b'name=file; filename="50%25 off.txt"', "50%25 off.txt"),
        (b'name=file; filename="%E9t%E9.txt"', "%E9t%E9.txt"),
        (b"name=file; filename*=UTF-8''..%2F..%2Fetc%2Fpasswd", "passwd"),
        (b"name=file; filename*=UTF-8''a%E2%80%AEgpj.exe%00%0D%0A", "agpj.exe"),
    ],
)
def test_irregular_forms_give_the_name_that_was_meant(disposition, name, org):
    space = org.namespace()
    send(org, space, disposition)
    assert [document["name"] for document in stored(org, space)] == [name]


def test_raw_bytes_of_a_name_are_in_the_charset_that_the_form_declares(org):
    space = org.namespace()
    send(org, space, b'name=file; filename="\xcf\xf0\xe8\xe2\xe5\xf2.txt"', _charset_=b"windows-1251")
    assert [document["name"] for document in stored(org, space)] == ["Привет.txt"]


NAMELESS = [
    b"name=file",
    b'name=file; filename=""',
    b'name=file; filename=".."',
    b"name=file; filename*=UTF-8''",
    b'name=file; filename="blob"',
    b'name=file; filename="-"',
    b'name=file; filename="upload"',
    b'name=file; filename="file"',
]


@pytest.mark.parametrize("disposition", NAMELESS)
def test_files_without_a_name_are_told_apart_by_their_content(disposition, org):
    space = org.namespace()
    first, second, repeated = (send(org, space, disposition, content) for content in (b"One.", b"Two.", b"One."))
    assert first == repeated != second
    documents = stored(org, space)
    assert len({document["name"] for document in documents}) == len({d["externalId"] for d in documents}) == 2


def test_a_file_without_a_name_has_the_external_id_that_is_given(org):
    space = org.namespace()
    first, second = (send(org, space, b"name=file", text, externalId=b"manual") for text in (b"One.", b"Two."))
    assert first == second
    assert [(d["name"], d["externalId"]) for d in stored(org, space)] == [("manual", "manual")]


def with_curl(url, key, space, path):
    command = ["curl", "-sS", "--fail-with-body", url, "-H", f"Authorization: Bearer {key}"]
    name = path.name.replace("\\", "\\\\").replace('"', '\\"')
    form = ["-F", f"namespaceId={space}", "-F", f'file=@"{path.parent}/{name}"']
    subprocess.run([*command, *form], check=True, timeout=60, capture_output=True)


def with_requests(url, key, space, path):
    headers = {"Authorization": f"Bearer {key}"}
    with path.open("rb") as file:
        requests.post(
            url, headers=headers, data={"namespaceId": space}, files={"file": file}, timeout=60
        ).raise_for_status()


def with_httpx(url, key, space, path):
    headers = {"Authorization": f"Bearer {key}"}
    with path.open("rb") as file:
        httpx.post(
            url, headers=headers, data={"namespaceId": space}, files={"file": file}, timeout=60, trust_env=False
        ).raise_for_status()


def with_aiohttp(url, key, space, path, *, quote_fields=True):
    async def post():
        form = aiohttp.FormData(quote_fields=quote_fields)
        form.add_field("namespaceId", space)
        form.add_field("file", io.BytesIO(path.read_bytes()), filename=path.name)
        headers = {"Authorization": f"Bearer {key}"}
        async with aiohttp.ClientSession(headers=headers) as session, session.post(url, data=form) as response:
            response.raise_for_status()

    asyncio.run(post())


def with_aiohttp_unquoted(url, key, space, path):
    with_aiohttp(url, key, space, path, quote_fields=False)


@pytest.mark.parametrize("client", [with_curl, with_requests, with_httpx, with_aiohttp, with_aiohttp_unquoted])
def test_real_clients_keep_the_names_of_their_files(client, org, tmp_path):
    space = org.namespace()
    for name in NAMES:
        path = tmp_path / name
        path.write_bytes(name.encode())
        client(f"{org.base}/v1/ingest/file", org.api_key, space, path)
    assert sorted(document["name"] for document in stored(org, space)) == sorted(NAMES)
