"""Deleted texts leave no embedding under concurrent writers and sweepers."""

from __future__ import annotations

import random
import threading
import time

import pytest

from connectors import registry
from connectors.embedders import local
from local import admin
from retrieval import settings
from retrieval.database.database import Database
from retrieval.maintenance.fsck import check
from retrieval.maintenance.fsck.findings import Instance
from retrieval.readiness import files_folder
from tests import registry_instances
from tests.flows.configured import Configured

SEED = 20_261_123
SECONDS = 6.0


@pytest.fixture
def space(monkeypatch, tmp_path, fresh_database, request):
    # The check reads the whole database.
    monkeypatch.setenv("RETRIEVAL_FILES_DIRECTORY", str(tmp_path))
    settings.load_settings.cache_clear()
    registry_instances.forget_instances()
    (tmp_path / files_folder.MARKER_NAME).write_text("a folder in use\n")
    db = Database(fresh_database(f"left_{abs(hash(request.node.name)) % 10**9}"), size=8)
    yield Configured(db)
    db.close()
    settings.load_settings.cache_clear()
    registry_instances.forget_instances()


def instance(space):
    return Instance(
        space.db, lambda one: admin.build_stores(space.db, space.ring, one), "english", registry.make_local_file_store()
    )


def embeddings(space):
    return space.db.row("select count(*) as n from embeddings")["n"]


def after_embedding(monkeypatch, act):
    """Call `act` between the model's answer and the storage of its vectors."""
    embed = local.WordLlama.embed

    def embed_then_act(model, texts, kind):
        vectors = embed(model, texts, kind)
        if kind == "document":
            act()
        return vectors

    monkeypatch.setattr(local.WordLlama, "embed", embed_then_act)


def test_of_a_text_that_is_deleted_while_the_model_is_at_work(space, monkeypatch):
    # The sweep deletes the chunks before the vectors arrive.
    document_id = space.text("Bats hunt moths.", "bats").document_id
    space.text("Owls hunt mice.", "owls")

    def delete():
        space.delete(document_id)
        space.sweep()

    after_embedding(monkeypatch, delete)
    space.work()
    assert space.search("hunting") == ["owls"]
    assert embeddings(space) == 1
    assert check.run_check(instance(space)).findings == []


@pytest.mark.slow
def test_while_texts_come_and_go_and_are_checked(space, monkeypatch):
    """Concurrent uploads, deletions, sweeps and repairs of overlapping texts."""
    chance, until = random.Random(SEED), time.monotonic() + SECONDS
    known_ids, lock, trouble = [], threading.Lock(), []
    after_embedding(monkeypatch, lambda: time.sleep(0.1))

    def loop(act):
        def run():
            try:
                while time.monotonic() < until:
                    act()
            except Exception as error:  # noqa: BLE001 - told by the test
                trouble.append(error)

        return threading.Thread(target=run)

    def come():
        number = chance.randrange(30)
        words = f"Owl {number % 10} hunts mouse {chance.randrange(2) * number}."
        document_id = space.text(words, f"owl {number}").document_id
        with lock:
            known_ids.append(document_id)
        space.work()

    def go():
        with lock:
            chosen_ids = [known_ids.pop(chance.randrange(len(known_ids))) for _ in range(min(2, len(known_ids)))]
        if chosen_ids:
            space.delete(*chosen_ids)
        time.sleep(0.02)

    def lose():
        space.db.rows("delete from embeddings where key in (select key from embeddings order by random() limit 1)")
        time.sleep(0.2)

    def look():
        check.run_check(instance(space), repair=True)

    threads = [loop(act) for act in (come, go, space.sweep, look, lose)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert trouble == []
    space.work()
    space.sweep()
    assert [
        finding for finding in check.run_check(instance(space)).findings if finding.kind == "ORPHAN_EMBEDDING"
    ] == []
