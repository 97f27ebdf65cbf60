"""Connections through the pipeline: first listing, changes, removals, recovery."""

from __future__ import annotations

import pytest

from connectors import registry
from retrieval.errors import Skippable
from retrieval.ingestion.queries import results
from tests.nightly import nightly_except
from tests.standins import faults
from tests.standins.accounts import ACCOUNTS
from tests.standins.place import APP

TEXTS = {
    "harbour.txt": "The harbour master counts ships at dawn.",
    "plans/2026/launch.txt": "The launch of the lighthouse is planned for spring.",
    "plans/2026/budget.txt": "The budget of the observatory is nearly spent.",
    "notes/bees.txt": "Bees dance to tell where the clover grows.",
    "notes/deep/er/tide.txt": "A spring tide follows the full moon.",
    "notes/owls.txt": "Owls hunt mice at night without a sound.",
}


KINDS = ["MEMORY", *ACCOUNTS]
# Two kinds of listing: changes in memory, and Notion's full listing.
OF_LISTINGS = pytest.mark.parametrize("account", nightly_except(KINDS, "MEMORY", "NOTION"), indirect=True)
# Code of the pipeline, whatever the listing.
OF_RUNS = pytest.mark.parametrize("account", nightly_except(KINDS, "MEMORY"), indirect=True)


@pytest.fixture
def files(account):
    return {path: account.put(path, text) for path, text in TEXTS.items()}


def first(space, query):
    return space.search(query, top_k=1)


def watched(account, monkeypatch, refused=""):
    """Record fetched external ids; `refused` fails."""
    read, kind = [], type(registry.make_connector(account.connector, APP, account.settings))
    fetch = kind.fetch

    def noted(self, tokens, item, to):
        read.append(item.external_id)
        if item.external_id == refused:
            raise Skippable("It cannot be had now.")
        return fetch(self, tokens, item, to)

    monkeypatch.setattr(kind, "fetch", noted)
    return read


@OF_LISTINGS
def test_a_nested_document_is_found_and_only_what_changes_is_fetched_again(space, account, files, monkeypatch):
    run = space.ingest()
    assert (run.status, len(run.completed), run.failed) == ("COMPLETED", len(TEXTS), [])
    assert "tide" in first(space, "spring tide and full moon")[0]
    rows_before = space.documents()
    assert set(rows_before) == set(files.values())
    assert all(row["properties"]["url"] for row in rows_before.values())

    account.change(files["notes/owls.txt"], "Owls have moved into the old church tower.")
    read = watched(account, monkeypatch)
    run = space.ingest()
    assert run.failed == []
    # Texts of Gmail come with its listing.
    assert read == ([] if account.connector == "GMAIL" else [files["notes/owls.txt"]])
    assert "owls" in first(space, "the old church tower")[0]
    rows_after = space.documents()
    changed = {
        name for name in rows_after if rows_after[name]["active_generation"] != rows_before[name]["active_generation"]
    }
    assert changed == {files["notes/owls.txt"]}


@OF_LISTINGS
def test_a_deleted_item_is_gone_in_the_same_run(space, account, files):
    space.ingest()
    account.delete(files["notes/bees.txt"])
    run = space.ingest()
    assert run.progress["removed"] == 1
    assert files["notes/bees.txt"] not in space.documents()
    assert not [name for name in space.search("bees dance where clover grows", top_k=9) if "bees" in name]
    space.sweep()
    assert not space.db.rows(
        "select from chunks c join documents d on d.id = c.document_id where d.connection_id = %(id)s"
        " and d.deleted_at is not null",
        {"id": space.connection},
    )


@OF_LISTINGS
def test_a_new_and_a_renamed_item_come_with_the_next_run(space, account, files):
    space.ingest()
    account.rename(files["harbour.txt"], "port.txt")
    fresh = account.put("plans/fresh.txt", "Fresh snow covers the railway.")
    run = space.ingest()
    assert run.failed == []
    assert "port" in space.documents()[files["harbour.txt"]]["name"]
    assert fresh in space.documents()
    assert "fresh" in first(space, "snow on the railway")[0]


@OF_LISTINGS
def test_a_fifth_and_more_wait_for_a_person(space, account, files):
    space.ingest()
    leaving = [files["notes/bees.txt"], files["notes/owls.txt"]]
    for file in leaving:
        account.delete(file)
    job_run = space.request()
    lease = space.lease()
    space.take(lease)
    run = space.run(job_run)
    assert (run.progress["removed"], run.progress["awaitingConfirmation"]) == (0, 2)
    assert results.count_removed(space.db, lease) == results.RemovalCounts(removed=0, held=2)
    assert "bees" in first(space, "bees dance where clover grows")[0]
    run = space.ingest()
    assert run.progress["awaitingConfirmation"] == 2
    ids = {space.documents()[file]["id"] for file in leaving}
    unconfirmed = space.resync(document_ids=tuple(ids))
    assert {(file.id, file.status) for file in unconfirmed.documents} == {
        (file, "NOT_ELIGIBLE_FOR_RESYNC") for file in ids
    }
    assert all("confirmDeletions" in file.error for file in unconfirmed.documents)
    confirmed = space.resync(document_ids=tuple(ids), confirm_deletions=True)
    assert {(file.id, file.status) for file in confirmed.documents} == {(file, "REMOVED") for file in ids}
    assert not set(leaving) & set(space.documents())
    assert not [name for name in space.search("bees dance where clover grows", top_k=9) if "bees" in name]
    assert space.ingest().progress["awaitingConfirmation"] == 0


@OF_LISTINGS
def test_a_resync_fetches_anew_and_keeps_what_the_listing_said(space, account, files, monkeypatch):
    space.ingest()
    owls = files["notes/owls.txt"]
    account.change(owls, "Owls have moved into the old church tower.")
    read = watched(account, monkeypatch)
    response = space.resync(document_ids=(space.documents()[owls]["id"],))
    assert [document.status for document in response.documents] == ["QUEUED_FOR_RESYNC"]
    space.work()
    assert "owls" in first(space, "the old church tower")[0]
    assert space.documents()[owls]["properties"]["url"]
    assert space.ingest().failed == []
    assert set(read) == {owls}
    space.db.rows("update connections set status = 'FAILED' where id = %(id)s", {"id": space.connection})
    (refused,) = space.resync(document_ids=(space.documents()[owls]["id"],)).documents
    assert refused.status == "NOT_ELIGIBLE_FOR_RESYNC"
    assert "authorize" in refused.error


@OF_RUNS
def test_an_empty_listing_empties_nothing(space, account, files):
    space.ingest()
    account.lose()
    account.forget_cursors()
    run = space.ingest()
    assert run.progress["removed"] == 0
    assert set(space.documents()) == set(files.values())


@pytest.mark.parametrize("broken", [faults.html, faults.reset, faults.status(500)])
@OF_RUNS
def test_a_broken_listing_fails_the_run_and_empties_nothing(space, account, files, broken):
    space.ingest()
    account.fault = lambda _request: broken
    (entry,) = space.ingest().failed
    assert entry.error
    assert "SECRET" not in entry.error
    account.fault = lambda _request: None
    assert set(space.documents()) == set(files.values())
    assert (
        space.db.row("select status from connections where id = %(id)s", {"id": space.connection})["status"] == "ACTIVE"
    )


@OF_RUNS
def test_what_was_not_brought_to_its_end_is_taken_up_by_the_next_run(space, account, files, monkeypatch):
    if account.connector == "GMAIL":
        return  # texts come with the listing
    refused = files["notes/owls.txt"]
    with monkeypatch.context() as once:
        watched(account, once, refused)
        run = space.ingest()
    assert [entry.error for entry in run.failed] == ["It cannot be had now."]
    read = watched(account, monkeypatch)
    run = space.ingest()
    assert run.failed == []
    assert read == [refused]
    assert {row["status"] for row in space.documents().values()} == {"SUCCESS"}


@OF_RUNS
def test_another_account_keeps_the_old_documents_until_a_person_says_so(space, account, files):
    space.ingest()
    stored_before = set(space.documents())
    for file in list(files.values()):
        account.delete(file)
    fresh = account.put("other/account.txt", "The other account keeps records of comets.")
    account.vendor.account = "account-2"
    space.db.rows(
        "update connections set cursor = '{\"accountChanged\": true}' where id = %(id)s", {"id": space.connection}
    )
    run = space.ingest()
    assert run.progress["awaitingConfirmation"] == len(stored_before)
    assert set(space.documents()) == stored_before | {fresh}


@OF_RUNS
def test_the_same_account_connected_again_doubles_nothing(space, account, files):
    space.ingest()
    ids_before = {row["id"] for row in space.documents().values()}
    first_connection, space.connection = space.connection, space.connect()
    run = space.ingest()
    assert (run.failed, run.progress["embedded"]) == ([], 0)
    assert {row["id"] for row in space.documents().values()} == ids_before
    names = space.search("spring tide and full moon", top_k=9)
    assert len(names) == len(set(names))
    space.connection = first_connection
    assert space.documents() == {}
    assert space.ingest().progress["removed"] == 0


@OF_RUNS
def test_two_runs_of_a_connection_never_overlap(space, account, files):
    first_run, second_run = space.request(), space.request()
    lease = space.lease()
    assert space.lease() is None
    space.take(lease)
    assert space.run(first_run).status == "COMPLETED"
    assert space.run(second_run).status == "QUEUED"
    space.work()
    assert space.run(second_run).status == "COMPLETED"


@OF_RUNS
def test_a_refused_app_fails_the_run_alone_and_recovers_when_it_is_corrected(space, account, files):
    # The app's secret changed at the service; grants stay valid.
    space.ingest()
    rows_before, secret = space.documents(), account.vendor.client[1]
    account.vendor.client = ("client", "another secret")
    account.expire()
    (entry,) = space.ingest().failed
    assert "client id and secret in the namespace" in entry.error
    row = space.db.row("select * from connections where id = %(id)s", {"id": space.connection})
    assert (row["status"], row["status_reason"]) == ("ACTIVE", entry.error)
    assert space.documents() == rows_before
    account.vendor.client = ("client", secret)
    account.change(files["notes/owls.txt"], "Owls have moved into the old church tower.")
    assert space.ingest().failed == []
    row = space.db.row("select * from connections where id = %(id)s", {"id": space.connection})
    assert (row["status"], row["status_reason"]) == ("ACTIVE", None)
    assert "owls" in first(space, "the old church tower")[0]


@OF_RUNS
def test_an_access_that_ended_fails_the_run_and_the_connection_in_words(space, account, files):
    account.expire()
    account.vendor.refresh_tokens.clear()
    run = space.ingest()
    assert run.status == "COMPLETED"
    (entry,) = run.failed
    assert "authorize" in entry.error.lower()
    row = space.db.row("select * from connections where id = %(id)s", {"id": space.connection})
    assert (row["status"], bool(row["status_reason"])) == ("FAILED", True)
