"""Ingestions from a connection on behalf of a user: what is hidden from that user is neither removed nor forgotten."""

from __future__ import annotations

import pytest

from connectors import registry
from retrieval.connections import schedules
from retrieval.documents import documents
from retrieval.documents.documents import NewAccess
from retrieval.filters import DocumentFilter
from retrieval.ingestion import discover
from retrieval.jobs import control
from retrieval.principals import Access
from tests.flows.connected import connected_space
from tests.standins import memory

TEXTS = {
    "harbour.txt": "The harbour master counts ships at dawn.",
    "notes/bees.txt": "Bees dance to tell where the clover grows.",
    "notes/owls.txt": "Owls hunt mice at night without a sound.",
    "notes/tide.txt": "A spring tide follows the full moon.",
    "plans/budget.txt": "The budget of the observatory is nearly spent.",
    "plans/launch.txt": "The launch of the lighthouse is planned for spring.",
    "plans/tower.txt": "The tower may be painted red.",
    "wages.txt": "The wages of the crew are secret.",
}


@pytest.fixture
def account(monkeypatch):
    monkeypatch.setitem(registry.CONNECTORS, "BOX", "tests.standins.memory:make")
    with memory.serving("BOX") as made:
        yield made


@pytest.fixture
def files(account):
    return {path: account.put(path, text) for path, text in TEXTS.items()}


@pytest.fixture
def space(db, account, monkeypatch, files):
    """All is ingested, and `wages.txt` is for Ada alone from then on."""
    with connected_space(db, account, monkeypatch) as made:
        made.ingest()
        where = DocumentFilter(external_ids=(files["wages.txt"],))
        access = NewAccess(Access(users=("ada",)))
        made.call(documents.patch_metadata(db, made.scope, where, {}, {}, {}, access=access))
        yield made


def for_bob(space, **config):
    run = space.request(config, principal="bob")
    space.work()
    return space.run(run)


def here(space, files):
    rows = space.db.rows(
        "select external_id from documents where connection_id = %(id)s and deleted_at is null",
        {"id": space.connection},
    )
    there = {row["external_id"] for row in rows}
    return {path for path, one in files.items() if one in there}


def test_what_is_hidden_and_gone_at_the_service_leaves_with_the_applications_own_run(space, account, files):
    account.delete(files["wages.txt"])
    for_bob(space)
    assert here(space, files) == set(TEXTS)
    account.delete(files["harbour.txt"])
    assert for_bob(space).progress["removed"] == 1
    assert here(space, files) == set(TEXTS) - {"harbour.txt"}
    space.ingest()
    assert here(space, files) == set(TEXTS) - {"harbour.txt", "wages.txt"}


def test_what_is_hidden_and_changed_at_the_service_comes_with_the_applications_own_run(space, account, files):
    account.change(files["wages.txt"], "The wages of the crew are pearls.")
    for_bob(space)
    assert not content(space, "wages.txt", "pearls")
    space.ingest()
    assert content(space, "wages.txt", "pearls")


def content(space, name, word):
    return space.db.row(
        "select true as yes from documents d join chunks c on c.document_id = d.id"
        " and c.generation = d.active_generation where d.connection_id = %(id)s and d.name = %(name)s"
        " and c.content like %(word)s",
        {"id": space.connection, "name": name, "word": f"%{word}%"},
    )


def test_a_users_narrower_choice_takes_nothing_that_is_hidden_and_the_application_brings_all_back(space, files):
    run = for_bob(space, exclude=[{"path": "wages.txt"}, {"path": "harbour.txt"}])
    assert run.progress["removed"] == 1
    assert here(space, files) == set(TEXTS) - {"harbour.txt"}
    space.ingest()
    assert here(space, files) == set(TEXTS)


def test_a_narrower_choice_that_was_cancelled_removes_nothing_later(space, files, monkeypatch):
    record = discover._record

    def recording(db, lease, wanted, page, brought):
        kept = record(db, lease, wanted, page, brought)
        control.cancel(space.db, space.scope, wanted.job_run_id)
        return kept

    with monkeypatch.context() as patch:
        patch.setattr(discover, "_record", recording)
        space.ingest(exclude=[{"path": "harbour.txt"}])
    assert here(space, files) == set(TEXTS)
    run = space.ingest()
    assert (run.progress["removed"], run.progress["awaitingConfirmation"]) == (0, 0)
    assert here(space, files) == set(TEXTS)


def test_a_schedule_repeats_what_the_application_asked_for_not_a_user(space):
    space.request({"include": [{"path": "notes"}]}, principal="bob", groups=("staff",))
    space.work()
    assert asked_for(space, schedules.ingest(space.db, space.connection)) == (None, None, {})


def asked_for(space, scheduled):
    config = space.db.row(
        "select j.config from job_runs r join jobs j on j.id = r.job_id where r.id = %(run)s",
        {"run": scheduled.job_run_id},
    )["config"]
    assert config["scheduled"] is True
    return config.get("principal"), config.get("groups"), config["request"]


def test_a_schedule_of_what_only_a_user_asked_for_stays_that_users(space):
    space.db.rows(
        'update jobs set config = config || \'{"principal": "bob", "groups": ["staff"]}\''
        " where config ->> 'connectionId' = %(id)s",
        {"id": space.connection},
    )
    assert asked_for(space, schedules.ingest(space.db, space.connection)) == ("bob", None, {})
