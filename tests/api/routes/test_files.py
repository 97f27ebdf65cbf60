"""Signed, expiring links to stored files, harmless in a browser."""

from __future__ import annotations

from urllib.parse import unquote

import pytest

from api import links
from tests.api.routes.test_resync import succeed
from tests.api.support import assert_error

INCLUDE = {"rawFileUrl": True, "parsedTextFileUrl": True}


def upload(org, space, name, content, media_type, *, parsed=False):
    answer = org.client.post(
        "/v1/ingest/file", data={"namespaceId": space}, files={"file": (name, content, media_type)}
    )
    document = answer.json()["data"]["documents"][0]["id"]
    succeed(org, document)
    org.db.rows(
        "update documents set properties = jsonb_build_object('mimeType', %(type)s::text),"
        " parsed_key = case when %(parsed)s then raw_key end where id = %(id)s",
        {"id": document, "type": media_type, "parsed": parsed},
    )
    return document


def first_document(org, space, **include):
    body = {"namespaceId": space, "filterConfig": {}, "includeConfig": include}
    return org.client.post("/v1/documents", json=body).json()["data"]["documents"][0]


def path(settings, link):
    assert link.startswith(settings.base_url + "/v1/files/")
    return link.removeprefix(settings.base_url)


def test_a_link_opens_with_or_without_a_key(org, space, anonymous, api_settings):
    content = bytes(range(256)) * 3000
    upload(org, space, "owls.pdf", content, "application/pdf")
    link = path(api_settings, first_document(org, space, rawFileUrl=True)["rawFileUrl"])
    for client, headers in ((anonymous, {}), (org.client, {}), (anonymous, {"Authorization": "Bearer wrong"})):
        answer = client.get(link, headers=headers)
        assert answer.status_code == 200, answer.text
        assert answer.content == content
        assert answer.headers["content-type"] == "application/pdf"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-disposition"].startswith("attachment")
        assert answer.headers["x-ratelimit-limit"]


def test_links_stand_on_documents_when_asked_for(org, space):
    document = org.text(space, "Not there yet.")["data"]["documents"][0]["id"]
    assert not set(INCLUDE) & set(first_document(org, space))
    assert {key: first_document(org, space, **INCLUDE)[key] for key in INCLUDE} == dict.fromkeys(INCLUDE)
    org.db.rows("update documents set raw_key = 'a/raw', parsed_key = 'a/b' where id = %(id)s", {"id": document})
    both = first_document(org, space, **INCLUDE)
    assert both["rawFileUrl"] != both["parsedTextFileUrl"]
    assert "parsedTextFileUrl" not in first_document(org, space, rawFileUrl=True, parsedTextFileUrl=None)


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("page.html", ("text/html", "text/plain; charset=utf-8")),
        ("drawing.svg", ("image/svg+xml", "application/octet-stream")),
        ("picture.png", ("IMAGE/PNG", "image/png")),
        ("odd", ('x/y"\nSet-Cookie: a=b', "application/octet-stream")),
    ],
)
def test_nothing_in_a_file_runs(org, space, anonymous, api_settings, name, stored):
    media_type, served = stored
    document = upload(org, space, name, b"<script>alert(1)</script>", "text/plain", parsed=True)
    org.db.rows(
        "update documents set properties = jsonb_build_object('mimeType', %(type)s::text) where id = %(id)s",
        {"id": document, "type": media_type},
    )
    links = first_document(org, space, **INCLUDE)
    raw = anonymous.get(path(api_settings, links["rawFileUrl"]))
    assert raw.headers["content-type"] == served
    assert "set-cookie" not in raw.headers
    parsed = anonymous.get(path(api_settings, links["parsedTextFileUrl"]))
    assert parsed.headers["content-type"] == "text/plain; charset=utf-8"
    for answer in (raw, parsed):
        assert "sandbox" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("name", "plain"), [('a"; b.txt', "a__ b.txt"), ("Übersicht.txt", "_bersicht.txt"), ("x/../y\r\nZ: 1.txt", None)]
)
def test_a_name_stays_within_its_header(org, space, anonymous, api_settings, name, plain):
    document = upload(org, space, "a.txt", b"x", "text/plain")
    org.db.rows("update documents set name = %(name)s where id = %(id)s", {"id": document, "name": name})
    answer = anonymous.get(path(api_settings, first_document(org, space, rawFileUrl=True)["rawFileUrl"]))
    disposition = answer.headers["content-disposition"]
    assert "z" not in answer.headers
    assert unquote(disposition.partition("filename*=UTF-8''")[2]) == name.rpartition("/")[2]
    if plain is not None:
        assert f'filename="{plain}"' in disposition


def test_what_is_no_link_of_ours_opens_nothing(org, space, anonymous, api_settings, monkeypatch):
    document = upload(org, space, "a.txt", b"x", "text/plain")
    other_document = upload(org, space, "b.txt", b"y", "text/plain")
    body = {"namespaceId": space, "filterConfig": {"documentIds": [document]}, "includeConfig": {"rawFileUrl": True}}
    document_of_link = org.client.post("/v1/documents", json=body).json()["data"]["documents"][0]
    link = path(api_settings, document_of_link["rawFileUrl"])
    bad = [
        link.replace(document, other_document),
        link.replace("/raw?", "/parsed?"),
        link.replace("expires=", "expires=1"),
        link[:-1] + ("0" if link[-1] != "0" else "1"),
        link.partition("&")[0],
        link.partition("?")[0],
        link.partition("?")[0] + "?expires=x&signature=%C3%A9",
    ]
    assert_error(anonymous.get(link.replace("/raw?", "/other?")), 401, "UNAUTHORIZED")
    answers = [anonymous.get(bad_link) for bad_link in bad]
    with monkeypatch.context() as later:
        later.setattr(links.time, "time", lambda now=links.time.time: now() + api_settings.link_seconds + 5)
        answers.append(anonymous.get(link))
    assert anonymous.get(link).status_code == 200
    deletion = {"namespaceId": space, "filterConfig": {"documentIds": [document]}}
    assert org.client.request("DELETE", "/v1/documents", json=deletion).status_code == 200
    answers.append(anonymous.get(link))
    for answer in answers:
        assert_error(answer, 404, "NOT_FOUND")
    assert len({answer.text for answer in answers}) == 1


def test_a_file_that_has_left_its_store_is_not_found(org, space, anonymous, api_settings):
    document = upload(org, space, "a.txt", b"x", "text/plain")
    org.db.rows("update documents set raw_key = 'gone/raw' where id = %(id)s", {"id": document})
    link = path(api_settings, first_document(org, space, rawFileUrl=True)["rawFileUrl"])
    assert_error(anonymous.get(link), 404, "NOT_FOUND")
