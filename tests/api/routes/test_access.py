"""Document access: `access`, groups, X-On-Behalf-Of, and keys with a principal."""

from __future__ import annotations

import json
import re

import pytest

from api import permissions
from tests.api.routes.test_files import path, upload
from tests.api.support import Failures, assert_error

BOB = {"X-On-Behalf-Of": "bob"}
NOBODY = {"users": [], "groups": [], "denied": {"users": [], "groups": []}, "public": False}


def list_documents(client, space, user=None, **options):
    headers = {} if user is None else {"X-On-Behalf-Of": user}
    body = {"namespaceId": space, "filterConfig": {}, **options}
    answer = client.post("/v1/documents", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]["documents"]


def names(client, space, user=None):
    return {document["externalId"] for document in list_documents(client, space, user)}


def set_access(org, space, access, *documents):
    body = {"namespaceId": space, "filterConfig": {"documentExternalIds": list(documents)}, "data": {"access": access}}
    answer = org.client.patch("/v1/documents", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def put_group(org, space, name, users=(), groups=(), **headers):
    body = {"namespaceId": space, "members": {"users": list(users), "groups": list(groups)}}
    answer = org.client.put(f"/v1/groups/{name}", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]["group"]


def test_access_is_shown_to_the_application_alone(org, space):
    org.text(space, "open", externalId="open")
    org.text(space, "for Ada", externalId="adas", access={"users": ["ADA@x.org"], "groups": None})
    by_external_id = {document["externalId"]: document for document in list_documents(org.client, space)}
    assert by_external_id["adas"]["access"] == {**NOBODY, "users": ["ada@x.org"]}
    assert "access" not in by_external_id["open"]
    assert ["access" in document for document in list_documents(org.client, space, "ada@x.org")] == [False, False]


def test_a_patch_replaces_all_of_it_and_null_opens(org, space):
    org.text(space, "one", externalId="it", access={"users": ["ada"]}, metadata={"a": 1})
    changed = set_access(org, space, {"groups": ["staff"]}, "it")
    assert changed["itemsUpdated"] == 1
    assert changed["documents"][0]["access"] == {**NOBODY, "groups": ["staff"]}
    body = {"namespaceId": space, "filterConfig": {"documentExternalIds": ["it"]}, "data": {"metadata": {"b": 2}}}
    document = org.client.patch("/v1/documents", json=body).json()["data"]["documents"][0]
    assert document["access"] == {**NOBODY, "groups": ["staff"]}
    assert names(org.client, space, "ada") == set()
    assert "access" not in set_access(org, space, None, "it")["documents"][0]
    assert names(org.client, space, "ada") == {"it"}


def test_a_file_carries_access_as_json(org, space):
    form = {"namespaceId": space, "access": json.dumps({"users": ["ada"]})}
    answer = org.client.post("/v1/ingest/file", data=form, files={"file": ("a.txt", b"A file.", "text/plain")})
    assert answer.status_code == 200, answer.text
    assert (names(org.client, space, "ada"), names(org.client, space, "bob")) == ({"a.txt"}, set())
    bad = org.client.post(
        "/v1/ingest/file", data={**form, "access": "[]"}, files={"file": ("b.txt", b"B", "text/plain")}
    )
    assert_error(bad, 400, "INVALID_INGEST_CONFIG")


def test_groups_nest_and_cycles_are_harmless(org, space):
    org.text(space, "one", externalId="it", access={"groups": ["company"]})
    put_group(org, space, "team", users=["ada"], groups=["company"])
    group = put_group(org, space, "company", groups=["team", "team"])
    assert (group["id"], group["members"]) == ("company", {"users": [], "groups": ["team"]})
    assert (names(org.client, space, "ada"), names(org.client, space, "bob")) == ({"it"}, set())
    read = org.client.get("/v1/groups/company", params={"namespaceId": space}).json()["data"]["group"]
    assert read["members"] == {"users": [], "groups": ["team"]}
    put_group(org, space, "team", users=["bob"])
    assert (names(org.client, space, "ada"), names(org.client, space, "bob")) == (set(), {"it"})
    deletion = org.client.delete("/v1/groups/team", params={"namespaceId": space})
    assert (deletion.status_code, deletion.json()["data"]) == (200, {"id": "team"})
    assert names(org.client, space, "bob") == set()
    assert_error(org.client.get("/v1/groups/team", params={"namespaceId": space}), 404, "NOT_FOUND")
    repeated = org.client.request("DELETE", "/v1/groups/team", json={"namespaceId": space})
    assert_error(repeated, 404, "NOT_FOUND")


def test_a_domain_is_a_group_that_others_may_hold(org, space):
    put_group(org, space, "staff", groups=["domain:example.com"])
    org.text(space, "for staff", externalId="staffs", access={"groups": ["staff"]})
    org.text(space, "for the domain", externalId="domains", access={"groups": ["domain:example.com"]})
    assert names(org.client, space, "ada@example.com") == {"staffs", "domains"}
    assert names(org.client, space, "ada@elsewhere.com") == names(org.client, space, "ada") == set()


def test_groups_belong_to_a_scope(org, space):
    put_group(org, space, "staff", users=["ada"])
    org.text(space, "one", tenant="acme", externalId="it", access={"groups": ["staff"]})
    body = {"namespaceId": space, "filterConfig": {}}
    headers = {"X-Tenant-ID": "acme", "X-On-Behalf-Of": "ada"}
    assert org.client.post("/v1/documents", json=body, headers=headers).json()["data"]["itemsReturned"] == 0
    put_group(org, space, "staff", users=["ada"], **{"X-Tenant-ID": "acme"})
    assert org.client.post("/v1/documents", json=body, headers=headers).json()["data"]["itemsReturned"] == 1


def test_the_header_is_utf8_or_percent_encoded_once_and_not_empty(org, space):
    org.text(space, "one", externalId="it", access={"users": ["ÄDA@x.org"]})
    for user in ("äda@x.org".encode(), b"%C3%84da@x.org", b"a%CC%88da@x.org"):
        assert names(org.client, space, user) == {"it"}
    body = {"namespaceId": space, "filterConfig": {}}
    for user in (b"", b"%20", b"%FF", b"\xff", b"a" * 257, b"a%00b"):
        answer = org.client.post("/v1/documents", json=body, headers={b"X-On-Behalf-Of": user})
        assert_error(answer, 400, "INVALID_FILTER_CONFIG")
    twice = org.client.post("/v1/documents", json=body, headers=[("X-On-Behalf-Of", "a"), ("X-On-Behalf-Of", "a")])
    assert_error(twice, 400, "INVALID_FILTER_CONFIG")


def test_a_key_may_need_a_user_or_be_one(org, space):
    org.text(space, "one", externalId="adas", access={"users": ["ada"]})

    def key(**config):
        creation = org.client.post("/v1/keys", json={"name": "k", "scopes": ["documents:read", "search"], **config})
        assert creation.status_code == 200, creation.text
        data = creation.json()["data"]
        return data["key"], {"Authorization": f"Bearer {data['apiKey']}"}

    def ask(authorization, **headers):
        body = {"namespaceId": space, "filterConfig": {}}
        return org.client.post("/v1/documents", json=body, headers={**authorization, **headers})

    created, required = key(principalRequired=True)
    assert created["principalRequired"] is True
    assert "principal" not in created
    assert_error(ask(required), 403, "FORBIDDEN")
    assert ask(required, **{"X-On-Behalf-Of": "ada"}).json()["data"]["itemsReturned"] == 1
    created, bobs = key(principal="bob")
    assert created["principal"] == "bob"
    assert ask(bobs).json()["data"]["itemsReturned"] == 0
    assert ask(bobs, **{"X-On-Behalf-Of": "bob"}).json()["data"]["itemsReturned"] == 0
    assert_error(ask(bobs, **{"X-On-Behalf-Of": "ada"}), 403, "FORBIDDEN")
    plain, _ = key()
    assert not {"principal", "principalRequired"} & plain.keys()


READ_FOR_USERS = {
    "GET /v1/namespaces",
    "GET /v1/namespaces/{namespace_id}",
    "POST /v1/search",
    "POST /v1/search/hybrid",
    "POST /v1/search/batch",
    "POST /v1/compat/dify/retrieval",
    "POST /v1/vector_stores/{namespace_id}/search",
    "POST /v1/documents",
    "GET /v1/documents/{document_id}/chunks",
    "GET /v1/documents/{document_id}/pages/{page}",
    "GET /v1/keys/current",
}


def test_requests_on_behalf_of_a_user_only_read(organization):
    # By header, and by a key with a principal, for any scopes.
    org, failures = organization(requests_per_minute=100_000), Failures()
    api_key = org.client.post("/v1/keys", json={"name": "bobs", "principal": "bob"}).json()["data"]["apiKey"]
    for operation in sorted(permissions.OPERATION_PERMISSIONS):
        method, _, route = operation.partition(" ")
        path = re.sub("{page}", "1", re.sub(r"{(?!page)\w+}", "x", route))
        for headers in ({"X-On-Behalf-Of": "ada"}, {"Authorization": f"Bearer {api_key}"}):
            with failures.of(operation):
                answer = org.client.request(method, path, headers=headers)
                if operation in READ_FOR_USERS:
                    assert answer.status_code != 403 or "on_behalf" not in answer.text, answer.text
                elif route == "/metrics":
                    assert answer.status_code == 403
                else:
                    assert assert_error(answer, 403, "FORBIDDEN")["error"]["details"]["reason"] == "on_behalf"
    failures.report()


def test_links_open_what_their_user_may_see_when_they_are_used(org, space, anonymous, api_settings):
    upload(org, space, "it.pdf", b"A file.", "application/pdf")
    set_access(org, space, {"groups": ["staff"]}, "it.pdf")
    put_group(org, space, "staff", users=["ada"])
    (document,) = list_documents(org.client, space, "ada", includeConfig={"rawFileUrl": True})
    link = path(api_settings, document["rawFileUrl"])
    assert anonymous.get(link).content == b"A file."
    for forged in (link.replace("principal=ada", "principal=bob"), link.partition("&principal")[0], link + "0"):
        assert_error(anonymous.get(forged), 404, "NOT_FOUND")
    signed = link.replace("&principal=ada", "").replace("&signature", "%0Aada&signature")
    assert_error(anonymous.get(signed), 404, "NOT_FOUND")
    put_group(org, space, "staff")
    assert_error(anonymous.get(link), 404, "NOT_FOUND")
    (whole,) = list_documents(org.client, space, includeConfig={"rawFileUrl": True})
    assert anonymous.get(path(api_settings, whole["rawFileUrl"])).content == b"A file."


def test_a_note_on_stop_words_tells_nothing_of_the_languages_of_hidden_documents(org, space, library):
    # `ohne sie` consists of stop words only in a namespace with German documents.
    words = {"namespaceId": space, "query": "ohne sie", "hybridConfig": {"semanticWeight": 0, "keywordWeight": 1}}
    bob = {"X-On-Behalf-Of": "bob"}

    def search_words(headers):
        answer = org.client.post("/v1/search/hybrid", json=words, headers=headers).json()
        return answer["message"], answer["data"]

    library.put(
        ["The harbour seal dives for up to thirty minutes and eats the fish of the coast."], external_id="english"
    )
    first_answer = search_words(bob)
    german = "Die Robben wurden an der Küste gezählt, und ohne sie bliebe das Meer leer und still. " * 4
    library.put([german], external_id="german")
    set_access(org, space, {"users": ["ada"]}, "german")
    assert search_words(bob) == first_answer
    assert "note" not in first_answer[1]
    for headers in ({}, {"X-On-Behalf-Of": "ada"}):
        message, data = search_words(headers)
        assert "only stop words" in message
        assert "only stop words" in data["note"]


@pytest.fixture
def archive(org, space, library, api_db):
    # `a.zip` holds `open`, `hidden` and the hidden `inner.zip` with `deep`.
    documents = {
        name: library.put([name], external_id=name, source="LOCAL_FILE", document_type="FILE")
        for name in ("a.zip", "open", "hidden", "inner.zip", "deep")
    }
    for name, above in (("open", "a.zip"), ("hidden", "a.zip"), ("inner.zip", "a.zip"), ("deep", "inner.zip")):
        values = {"above": documents[above], "id": documents[name]}
        api_db.rows("update documents set archive_id = %(above)s where id = %(id)s", values)
    set_access(org, space, {"users": ["ada"]}, "hidden", "inner.zip")
    set_access(org, space, {"users": ["cyd"]}, "deep")
    return documents


def test_a_member_does_not_name_an_archive_that_is_hidden(org, space, archive):
    set_access(org, space, {"users": ["ada"]}, "a.zip")
    set_access(org, space, {"users": ["bob"]}, "open")
    (document,) = list_documents(org.client, space, "bob")
    assert (document["externalId"], document["archive"]) == ("open", None)
    assert {entry["externalId"]: entry["archive"] for entry in list_documents(org.client, space)}["open"] == {
        "id": archive["a.zip"]
    }


def test_what_lies_in_a_hidden_archive_is_not_found_by_that_archive(org, space, archive):
    # `archive` is null for this user; a filter must not reveal the archive.
    set_access(org, space, {"users": ["ada"]}, "a.zip")
    set_access(org, space, {"users": ["bob"]}, "open")
    words = {"namespaceId": space, "query": "open", "hybridConfig": {"semanticWeight": 0.0, "keywordWeight": 1.0}}
    within, nowhere = {"documentArchiveIds": [archive["a.zip"]]}, {"documentArchiveIds": ["doc_nowhere"]}

    def matched(documents_filter, headers=BOB):
        body = {**words, "filter": {"documents": documents_filter}}
        hits = org.client.post("/v1/search/hybrid", json=body, headers=headers).json()["data"]["results"]
        body = {"namespaceId": space, "filterConfig": documents_filter}
        documents = org.client.post("/v1/documents", json=body, headers=headers).json()["data"]["documents"]
        return {hit["document"]["externalId"] for hit in hits}, {document["externalId"] for document in documents}

    assert matched(within, {}) == ({"open"}, {"open", "hidden", "inner.zip"})
    assert matched({"documentIds": [archive["open"]]}) == ({"open"}, {"open"})
    assert matched(within) == matched(nowhere) == (set(), set())
    assert matched(within, {"X-On-Behalf-Of": "ada"}) == (set(), {"hidden", "inner.zip"})
