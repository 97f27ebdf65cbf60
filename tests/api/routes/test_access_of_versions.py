"""Access lists of a new version: removed users lose access at once, added users wait for the version."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from flows import steps
from retrieval.ingestion.queries import results, run_documents
from retrieval.jobs.queries import batches
from retrieval.statuses import Stage
from tests.api.routes.test_access import NOBODY, list_documents, names, set_access
from tests.flows.configured import STEPS
from tests.flows.ingestion.test_unpack import leased, packed
from tests.flows.ingestion.test_unpack import work as work_off
from tests.library import clear_queue

OLD, NEW = "The old words are about whales.", "The new words are about herons."


@pytest.fixture
def work(org, api_db):
    """Return a function for processing accepted ingestions, as a worker does."""
    clear_queue(api_db)
    return lambda: work_off(SimpleNamespace(db=api_db, ring=org.ring))


def texts(org, space, user):
    """Return all texts found by a user."""
    body = {"namespaceId": space, "query": "words about animals", "topK": 20}
    answer = org.client.post("/v1/search", json=body, headers={"X-On-Behalf-Of": user})
    assert answer.status_code == 200, answer.text
    return {hit["content"] for hit in answer.json()["data"]["results"]}


def send(org, space, text, access=None, **headers):
    config = {"text": text, "externalId": "it"} | ({} if access is None else {"access": access})
    body = {"namespaceId": space, "ingestConfig": {"source": "TEXT", "config": config}}
    answer = org.client.post("/v1/ingest/text", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]["ingestJobRunId"]


def cancel(org, space, run):
    answer = org.client.post(f"/v1/ingest-job-runs/{run}/cancel", json={"namespaceId": space})
    assert answer.status_code == 200, answer.text


def users(*names, **lists):
    return {"users": list(names), **lists}


def upload(org, space, name, data, access=None, **headers):
    form = {"namespaceId": space} | ({} if access is None else {"access": json.dumps(access)})
    files = {"file": (name, data, "application/octet-stream")}
    answer = org.client.post("/v1/ingest/file", data=form, files=files, headers=headers)
    assert answer.status_code == 200, answer.text


def test_who_loses_access_loses_it_at_once_and_who_gains_it_sees_the_new_version_alone(org, space, work):
    send(org, space, OLD, users("ada", "bob"))
    work()
    assert texts(org, space, "ada") == texts(org, space, "bob") == {OLD}
    send(org, space, NEW, users("bob", "cyd"))
    assert [texts(org, space, user) for user in ("ada", "bob", "cyd")] == [set(), {OLD}, set()]
    assert [names(org.client, space, user) for user in ("ada", "bob", "cyd")] == [set(), {"it"}, set()]
    (document,) = list_documents(org.client, space)
    assert document["access"] == {**NOBODY, "users": ["bob"]}
    assert document["nextAccess"] == {**NOBODY, "users": ["bob", "cyd"]}
    assert "nextAccess" not in list_documents(org.client, space, "bob")[0]
    work()
    assert [texts(org, space, user) for user in ("ada", "bob", "cyd")] == [set(), {NEW}, {NEW}]
    (document,) = list_documents(org.client, space)
    assert (document["access"]["users"], "nextAccess" in document) == (["bob", "cyd"], False)


@pytest.mark.parametrize(
    "lists",
    [
        (users("ada"), {"public": True}, {"ada"}, {"ada", "bob", "cyd"}),
        ({"public": True}, users("ada"), {"ada"}, {"ada"}),
        ({"public": True, "denied": users("bob")}, {"public": True, "denied": users("cyd")}, {"ada"}, {"ada", "bob"}),
        (users("ada", "bob", denied=users("bob")), users("ada", "bob"), {"ada"}, {"ada", "bob"}),
        ({"groups": ["staff", "guests"]}, {"groups": ["guests"]}, {"cyd"}, {"cyd"}),
        ({}, users("ada"), set(), {"ada"}),
        (None, users("ada"), {"ada"}, {"ada"}),
    ],
)
def test_a_pending_version_is_visible_to_the_intersection_of_both_lists(lists, org, space, work):
    old, new, between, expected = lists
    for group, members in (("staff", ["ada", "bob"]), ("guests", ["cyd"])):
        body = {"namespaceId": space, "members": {"users": members}}
        assert org.client.put(f"/v1/groups/{group}", json=body).status_code == 200
    send(org, space, OLD, old)
    work()
    send(org, space, NEW, new)
    assert {user for user in ("ada", "bob", "cyd") if texts(org, space, user)} == between
    work()
    assert {user for user in ("ada", "bob", "cyd") if texts(org, space, user) == {NEW}} == expected


def test_a_version_that_fails_changes_nothing_and_its_limit_ends_with_it(org, space, work):
    upload(org, space, "it.txt", OLD.encode(), users("ada", "bob"))
    work()
    upload(org, space, "it.txt", b"\x7fELF\x00\x01\x02" * 50, users("bob", "cyd"))
    work()
    assert list_documents(org.client, space)[0]["ingestionStatus"] == "FAILED"
    assert [texts(org, space, user) for user in ("ada", "bob", "cyd")] == [{OLD}, {OLD}, set()]
    upload(org, space, "it.txt", NEW.encode())
    work()
    assert [texts(org, space, user) for user in ("ada", "bob", "cyd")] == [{NEW}, {NEW}, set()]


def test_a_version_without_a_list_that_overtakes_one_with_a_list_brings_that_list(org, space, work):
    send(org, space, OLD, users("ada", "bob"))
    work()
    send(org, space, "Words that are overtaken.", users("ada", "cyd"))
    send(org, space, NEW)
    work()
    assert [texts(org, space, user) for user in ("ada", "bob", "cyd")] == [{NEW}, set(), {NEW}]


def test_a_retry_brings_the_list_of_the_version_that_failed_unless_a_client_set_another_since(org, space, work, api_db):
    def fail(name):
        values = {"id": listed_by_name(org, space)[name]["id"]}
        row = api_db.row("select job_run_id as run from documents where id = %(id)s", values)
        api_db.rows("update documents set status = 'FAILED' where id = %(id)s", values)
        api_db.rows("update run_documents set status = 'FAILED' where job_run_id = %(run)s", row)
        api_db.rows("update job_runs set finished_at = now(), status = 'COMPLETED' where id = %(run)s", row)
        return row["run"]

    for name in ("one.txt", "two.txt"):
        upload(org, space, name, OLD.encode() + name.encode(), users("ada"))
    work()
    for name in ("one.txt", "two.txt"):
        upload(org, space, name, NEW.encode() + name.encode(), users("bob"))
    runs = [fail("one.txt"), fail("two.txt")]
    set_access(org, space, users("cyd"), "two.txt")
    for run in runs:
        answer = org.client.post(f"/v1/ingest-job-runs/{run}/retry", json={"namespaceId": space})
        assert answer.status_code == 200, answer.text
    work()
    assert [names(org.client, space, user) for user in ("ada", "bob", "cyd")] == [set(), {"one.txt"}, {"two.txt"}]


def test_a_patch_counts_for_what_is_shown_and_for_what_comes(org, space, work):
    send(org, space, OLD, users("ada"))
    work()
    send(org, space, NEW, users("ada", "bob"))
    set_access(org, space, users("cyd"), "it")
    assert [texts(org, space, user) for user in ("ada", "bob", "cyd")] == [set(), set(), {OLD}]
    work()
    assert [texts(org, space, user) for user in ("ada", "bob", "cyd")] == [set(), set(), {NEW}]


def test_the_same_text_for_more_people_is_theirs_without_a_new_version(org, space, work):
    send(org, space, OLD, users("ada"))
    work()
    send(org, space, OLD, users("ada", "bob"))
    assert texts(org, space, "bob") == set()
    work()
    assert texts(org, space, "ada") == texts(org, space, "bob") == {OLD}


def test_what_is_packed_into_a_file_waits_for_its_own_new_version(org, space, work):
    upload(org, space, "a.zip", packed([("one.txt", OLD.encode()), ("two.txt", b"Two stays.")]), users("ada", "bob"))
    work()
    assert texts(org, space, "bob") >= {OLD, "Two stays."}
    broken = packed([("one.txt", b"\x7fELF\x00\x01\x02" * 50), ("two.txt", b"Two stays."), ("new.txt", b"Three.")])
    upload(org, space, "a.zip", broken, users("bob", "cyd"))
    assert (texts(org, space, "ada"), texts(org, space, "cyd")) == (set(), set())
    work()
    assert {"a.zip", "a.zip/two.txt", "a.zip/new.txt"} == names(org.client, space, "cyd")
    assert OLD in texts(org, space, "bob")
    assert OLD not in texts(org, space, "cyd")
    upload(org, space, "a.zip", broken, users("bob", "cyd", "dan"))
    work()
    assert {"a.zip", "a.zip/two.txt", "a.zip/new.txt"} == names(org.client, space, "dan")
    upload(org, space, "a.zip", broken, users("bob", "cyd", "dan", "fay"))
    set_access(org, space, users("gil"), "a.zip/new.txt")
    work()
    assert {"a.zip", "a.zip/two.txt"} == names(org.client, space, "fay")
    assert {"a.zip/new.txt"} == names(org.client, space, "gil")
    upload(org, space, "a.zip", packed([("one.txt", NEW.encode())]))
    work()
    assert {"a.zip", "a.zip/one.txt"} == names(org.client, space, "cyd")
    assert NEW in texts(org, space, "cyd")


def test_a_packed_document_with_a_list_of_its_own_keeps_it_through_all_changes_of_its_container(org, space, work):
    inner = packed([("deep.txt", b"Deep is for Ada.")])
    first = [("one.txt", OLD.encode()), ("two.txt", b"Two stays."), ("inner.zip", inner)]
    upload(org, space, "a.zip", packed(first), users("ada", "bob"))
    work()
    with_own_list = {"a.zip/one.txt", "a.zip/inner.zip/deep.txt"}
    for name in with_own_list:
        set_access(org, space, users("ada"), name)
    assert {name: document.get("accessInherited") for name, document in listed_by_name(org, space).items()} == {
        "a.zip": None,
        "a.zip/one.txt": None,
        "a.zip/two.txt": True,
        "a.zip/inner.zip": True,
        "a.zip/inner.zip/deep.txt": None,
    }
    content = packed([("one.txt", NEW.encode()), ("two.txt", b"\x7fELF\x00\x01\x02" * 50), ("inner.zip", inner)])
    upload(org, space, "a.zip", content, users("bob", "cyd", "dan"))
    upload(org, space, "a.zip", content, users("bob", "cyd"))
    assert [names(org.client, space, user) for user in ("ada", "bob", "cyd")] == [
        with_own_list,
        {"a.zip", "a.zip/two.txt", "a.zip/inner.zip"},
        set(),
    ]
    work()
    assert [names(org.client, space, user) for user in ("ada", "bob", "cyd", "dan")] == [
        with_own_list,
        {"a.zip", "a.zip/two.txt", "a.zip/inner.zip"},
        {"a.zip", "a.zip/inner.zip"},
        set(),
    ]
    assert texts(org, space, "ada") == {NEW, "Deep is for Ada."}
    set_access(org, space, None, "a.zip")
    assert names(org.client, space, "dan") == {"a.zip", "a.zip/two.txt", "a.zip/inner.zip"}
    for name in with_own_list:
        set_access(org, space, "inherit", name)
    assert len(names(org.client, space, "dan")) == 5


@pytest.mark.parametrize("how", ["resync", "retry"])
def test_what_was_there_before_is_ingested_again_and_brings_nobody_else(how, org, space, work, api_db):
    # From the kept words, readable by fewer people than the next version.
    upload(org, space, "a.zip", packed([("one.txt", OLD.encode())]), users("ada"))
    work()
    (run,) = {document["ingestJobRun"]["id"] for document in list_documents(org.client, space)}
    upload(org, space, "a.zip", packed([("one.txt", NEW.encode())]), users("ada", "bob"))
    cancel(org, space, listed_by_name(org, space)["a.zip"]["ingestJobRun"]["id"])
    assert [texts(org, space, user) >= {OLD} for user in ("ada", "bob")] == [True, False]
    if how == "resync":
        body = {"namespaceId": space, "filterConfig": {"documentExternalIds": ["a.zip/one.txt"]}}
        assert org.client.post("/v1/documents/resync", json=body).json()["data"]["itemsQueued"] == 1
    else:
        # As a store leaves it that was away.
        values = {"run": run, "id": listed_by_name(org, space)["a.zip/one.txt"]["id"]}
        api_db.rows("update documents set status = 'FAILED' where id = %(id)s", values)
        api_db.rows("update run_documents set status = 'FAILED' where document_id = %(id)s", values)
        answer = org.client.post(f"/v1/ingest-job-runs/{run}/retry", json={"namespaceId": space})
        assert answer.status_code == 200, answer.text
    work()
    assert listed_by_name(org, space)["a.zip/one.txt"]["ingestionStatus"] == "SUCCESS"
    assert [texts(org, space, user) >= {OLD} for user in ("ada", "bob")] == [True, False]
    upload(org, space, "a.zip", packed([("one.txt", NEW.encode())]))
    work()
    assert [texts(org, space, user) >= {NEW} for user in ("ada", "bob")] == [True, False]


def listed_by_name(org, space):
    return {document["externalId"]: document for document in list_documents(org.client, space)}


def test_a_file_is_not_handed_out_whole_where_something_in_it_is_hidden(org, space, work):
    inner = packed([("deep.txt", b"Deep words.")])
    upload(org, space, "a.zip", packed([("one.txt", OLD.encode()), ("inner.zip", inner)]), users("ada", "bob"))
    upload(org, space, "b.zip", packed([("one.txt", NEW.encode())]), users("ada", "bob"))
    work()

    def links(user=None):
        files = {"rawFileUrl": True, "parsedTextFileUrl": True}
        documents = list_documents(org.client, space, user, includeConfig=files)
        return {
            document["externalId"]: (document["rawFileUrl"], document["parsedTextFileUrl"]) for document in documents
        }

    def status(link):
        return org.client.get(link.partition("/v1")[1] + link.partition("/v1")[2]).status_code

    links_before = links("bob")
    assert all(status(link) == 200 for pair in links_before.values() for link in pair)
    set_access(org, space, users("ada"), "a.zip/inner.zip/deep.txt")
    links_after = links("bob")
    assert {name for name, (raw, _) in links_after.items() if raw is None} == {"a.zip", "a.zip/inner.zip"}
    assert [status(link) for link in links_before["a.zip"]] == [404, 200]
    assert [status(links_before[name][0]) for name in ("a.zip/inner.zip", "a.zip/one.txt", "b.zip")] == [404, 200, 200]
    assert all(status(link) == 200 for user in ("ada", None) for link in links(user)["a.zip"])
    set_access(org, space, users("ada", "bob"), "a.zip/inner.zip/deep.txt")
    assert [status(link) for link in links_before["a.zip"]] == [200, 200]


@pytest.mark.parametrize("is_repeated", [False, True])
def test_a_member_of_a_version_that_its_archive_never_showed_waits(is_repeated, org, space, work, api_db):
    # The archive failed after unpacking; then the earlier bytes, without the text, arrive again.
    first = packed([("one.txt", OLD.encode()), ("two.txt", b"Two stays.")])
    upload(org, space, "a.zip", first, users("ada"))
    work()
    upload(org, space, "a.zip", packed([("one.txt", NEW.encode())]))
    failing(org, api_db, "a.zip")
    assert NEW in texts(org, space, "ada")
    if is_repeated:
        resync(org, space, "a.zip/one.txt")
        work()
    upload(org, space, "a.zip", first, users("ada", "bob"))
    work()
    assert "a.zip" in names(org.client, space, "bob")
    assert "Two stays." in texts(org, space, "bob")
    assert NEW not in texts(org, space, "bob")


def resync(org, space, name):
    body = {"namespaceId": space, "filterConfig": {"documentExternalIds": [name]}}
    answer = org.client.post("/v1/documents/resync", json=body)
    assert answer.json()["data"]["itemsQueued"] == 1, answer.text


def failing(org, db, name):
    """Process waiting work; fail this document after unpacking."""
    lease = leased(SimpleNamespace(db=db))
    while windows := run_documents.list_windows(db, lease, documents=64, size=1 << 24):
        for window in windows:
            for step in STEPS:
                step(steps.Work(db, org.ring, lease, window))
                parsed = run_documents.items_at_stage(db, lease, window, Stage.PARSED)
                run_documents.fail_items(db, lease, {item.key: "Refused." for item in parsed if item.name == name})
        results.settle_runs(db, lease)
    batches.finish_batch(db, lease)
