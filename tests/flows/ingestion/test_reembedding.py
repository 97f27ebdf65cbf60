"""Another model for a namespace with documents: searched as before until everything is there, then all at once."""

import asyncio
from dataclasses import replace

import pytest

from connectors import registry
from flows import context, reembed, steps
from flows.run_context import RunContext, TimeSlice
from retrieval.errors import ConfigChanged
from retrieval.ingestion import crash_isolation, reembedding
from retrieval.ingestion.queries import run_documents
from retrieval.jobs import control
from retrieval.jobs.queries import batches
from retrieval.namespaces import namespaces
from tests import registry_instances
from tests.flows.configured import STEPS, Configured
from tests.flows.plain_steps import without_prefect
from tests.standins import pinecone

MINILM = {"provider": "LOCAL", "model": "all-MiniLM-L6-v2"}
WORDS = {"provider": "LOCAL", "model": "wordllama-l2-supercat-256"}
TEXTS = {
    "owls": "Owls hunt mice at night and sleep during the day.",
    "tides": "The spring tide follows the full moon and the new moon.",
    "bread": "Bread rises because yeast makes gas in the dough.",
}


@pytest.fixture
def space(db, monkeypatch, tmp_path):
    """Three documents embedded with MiniLM (384 dimensions), and a worker without Prefect."""
    monkeypatch.setenv("RETRIEVAL_FILES_DIRECTORY", str(tmp_path / "files"))
    from retrieval import settings

    settings.load_settings.cache_clear()
    registry_instances.forget_instances()
    configured = Configured(db, embeddingModelConfig=MINILM)
    monkeypatch.setattr(context, "open_database", lambda: db)
    monkeypatch.setattr(context, "load_keys", lambda: configured.ring)
    configured.ids = {name: configured.text(text, name).document_id for name, text in TEXTS.items()}
    configured.work()
    yield configured
    settings.load_settings.cache_clear()


@pytest.fixture
def by_hand(space, monkeypatch):
    """Steps run in the test's own process; `hook(step, work)` is called before each."""

    class Hand:
        hook = staticmethod(lambda _step, _work: None)

        def run_hook(self, step, work):
            self.hook(step, work)

    hand = Hand()
    without_prefect(monkeypatch, space.db, space.ring, before_step=hand.run_hook)
    return hand


def begin(space, model=WORDS):
    config = space.config
    _, run = space.call(
        reembedding.begin_reembedding(space.db, space.ring, config, replace(config, embedding_model=model))
    )
    return run


def lease_of(space, source="REEMBED"):
    batches.form_batches(space.db, size=64, batches=8)
    for batch in batches.undispatched_batches(space.db):
        if batch.source == source:
            batches.record_flow_run(space.db, batch, "run")
            return batches.claim_lease(space.db, batch.id, batch.attempt, seconds=30)
    raise AssertionError("nothing waits")


def rebuild(space, lease=None):
    lease = lease or lease_of(space)
    swapped = asyncio.run(reembed.rebuild_documents(RunContext(space.db, space.ring, lease)))
    reembedding.drop_runs(space.db, lease)
    batches.finish_batch(space.db, lease)
    return swapped


def stored(space):
    """Number of vectors by size in the store and in embeddings."""
    sizes = {}
    for table in ("vectors", "embeddings"):
        rows = space.db.rows(
            f"select vector_dims(t.values) as size, count(*) as n from {table} t"
            " join partitions p on p.id = t.partition_id where p.namespace_id = %(id)s group by 1",
            {"id": space.scope.namespace},
        )
        sizes[table] = {row["size"]: row["n"] for row in rows}
    return sizes


def models(space):
    rows = space.db.rows(
        "select distinct d.embedding ->> 'model' as model from documents d join partitions p on p.id = d.partition_id"
        " where p.namespace_id = %(id)s and d.deleted_at is null",
        {"id": space.scope.namespace},
    )
    return {row["model"] for row in rows}


def finds_all(space):
    queries = {"owls": "owls hunting mice", "tides": "spring tide and moon", "bread": "yeast in dough"}
    for name in TEXTS:
        assert space.search(queries[name])[0] == name
        assert space.search(queries[name], semantic_weight=0.0, keyword_weight=1.0)[0] == name
        assert space.search(queries[name], semantic_weight=0.5, keyword_weight=0.5)[0] == name


def test_search_goes_on_with_the_old_model_and_changes_all_at_once(space, by_hand):
    run = begin(space)
    steps_seen = []

    def look(step, _work):
        steps_seen.append((step, space.config.embedding_model["model"], models(space)))
        finds_all(space)

    by_hand.hook = look
    assert rebuild(space)
    assert [step for step, _, _ in steps_seen] == ["chunk", "embed", "shadow"]
    assert {model for _, model, _ in steps_seen} == {MINILM["model"]}
    assert space.config.embedding_model == WORDS
    assert models(space) == {WORDS["model"]}
    finds_all(space)
    job_run = space.run(run)
    assert job_run.status == "COMPLETED"
    assert len(job_run.completed) == 3
    space.sweep()
    assert stored(space) == {"vectors": {256: 3}, "embeddings": {256: 3}}
    finds_all(space)


def test_cancelled_it_leaves_everything_as_it_was(space, by_hand):
    run = begin(space)
    by_hand.hook = lambda step, _work: control.cancel_run(space.db, space.scope, run) if step == "shadow" else None
    assert not rebuild(space)
    assert space.run(run).status == "COMPLETED"
    assert len(space.run(run).cancelled) == 3
    assert space.config.embedding_model == MINILM
    finds_all(space)
    space.sweep()
    assert stored(space) == {"vectors": {384: 3}, "embeddings": {384: 3}}
    begin(space)
    by_hand.hook = lambda _step, _work: None
    assert rebuild(space)
    assert models(space) == {WORDS["model"]}


def test_a_lost_worker_costs_only_what_was_not_done(space, by_hand):
    run = begin(space)
    lease = lease_of(space)

    def die(step, _work):
        if step == "shadow":
            raise KeyboardInterrupt

    by_hand.hook = die
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(reembed.rebuild_documents(RunContext(space.db, space.ring, lease)))
    space.db.rows(
        "update batches set lease_until = now() - interval '1 second' where id = %(id)s", {"id": lease.batch_id}
    )
    (lost,) = [open_batch for open_batch in batches.open_batches(space.db) if open_batch.id == lease.batch_id]
    crash_isolation.restart_batch(space.db, lost)
    done = []
    by_hand.hook = lambda step, work: done.append(
        (step, len(run_documents.list_unfinished(work.db, work.lease, work.window, step)))
    )
    assert rebuild(space)
    assert done == [("chunk", 0), ("embed", 0), ("shadow", 3)]
    assert space.run(run).status == "COMPLETED"
    assert models(space) == {WORDS["model"]}
    finds_all(space)


def test_what_is_ingested_changed_and_deleted_meanwhile_is_right_after_the_swap(space, by_hand):
    begin(space)
    happened = []

    def meanwhile(step, _work):
        if step != "shadow" or happened:
            return
        happened.append(step)
        space.text("Bats hunt moths near street lamps.", "owls")
        space.text("Glaciers carve valleys into mountains.", "ice")
        space.work()
        assert space.search("glaciers and valleys")[0] == "ice"
        assert space.delete(space.ids["bread"]) == 1

    by_hand.hook = meanwhile
    assert rebuild(space)
    assert models(space) == {WORDS["model"]}
    for query, name in (("bats and moths", "owls"), ("glaciers and valleys", "ice"), ("spring tide", "tides")):
        assert space.search(query)[0] == name
        assert space.search(query, semantic_weight=0.0, keyword_weight=1.0)[0] == name
    assert "bread" not in space.search("yeast in dough")
    space.sweep()
    assert stored(space) == {"vectors": {256: 3}, "embeddings": {256: 3}}


def test_an_ingestion_that_embedded_for_the_old_model_embeds_again(space, by_hand):
    space.text("Glaciers carve valleys into mountains.", "ice")
    batches.form_batches(space.db, size=64, batches=8)
    slow = lease_of(space, "TEXT")
    (window,) = run_documents.list_windows(space.db, slow, documents=64, size=1 << 20)
    work = steps.Work(space.db, space.ring, slow, window)
    for step in STEPS[:-1]:
        step(work)
    begin(space)
    assert rebuild(space)
    with pytest.raises(ConfigChanged):
        steps.upsert(work)
    assert "ice" not in space.search("glaciers and valleys")
    slow_work = steps.Work(space.db, space.ring, slow, window)
    for step in STEPS:
        step(slow_work)
    assert space.search("glaciers and valleys")[0] == "ice"
    assert models(space) == {WORDS["model"]}


def test_tenants_are_embedded_again_each_in_their_own_place(space, by_hand):
    main = space.scope
    space.scope = replace(main, tenant="blue")
    space.text("Glaciers carve valleys into mountains.", "ice")
    space.work()
    space.scope = main
    begin(space)
    assert rebuild(space)
    finds_all(space)
    assert "ice" not in space.search("glaciers")
    space.scope = replace(main, tenant="blue")
    assert space.search("glaciers") == ["ice"]


def test_into_a_store_of_another_house_and_out_of_it(space, by_hand, monkeypatch):
    from retrieval import settings

    monkeypatch.setenv("RETRIEVAL_FETCH_ALLOW", "127.0.0.0/8")
    settings.load_settings.cache_clear()
    with pinecone.running(dimension=256, metric="cosine") as index:
        config = space.config
        theirs = index.config()
        later = replace(config, embedding_model=WORDS, vector_storage=theirs)
        space.call(reembedding.begin_reembedding(space.db, space.ring, config, later))
        assert rebuild(space)
        finds_all(space)
        space.sweep()
        assert stored(space)["vectors"] == {}
        config = space.config
        back = replace(config, vector_storage={"provider": "PGVECTOR"})
        space.call(reembedding.begin_reembedding(space.db, space.ring, config, back))
        assert rebuild(space)
        finds_all(space)
        store = registry.make_vector_store(config, space.db)
        assert len(list(store.ids(space.scope, ""))) == 3
        space.sweep()
        assert list(store.ids(space.scope, "")) == []
        space.sweep()
        assert reembedding.other_stores(space.db, space.ring, space.config) == []
    assert stored(space)["vectors"] == {256: 3}


@pytest.mark.parametrize("moment", ["", "shadow"])
def test_a_key_that_is_changed_meanwhile_is_the_one_that_is_kept(space, by_hand, moment):
    """Before the first step, and before others."""

    def set_key(key):
        config = space.config
        space.call(
            namespaces.update_namespace(
                space.db, space.ring, replace(config, embedding_model={**MINILM, "apiKey": key})
            )
        )

    set_key("a")
    begin(space, {**WORDS, "apiKey": "a"})
    if not moment:
        set_key("b")
    by_hand.hook = lambda step, _work: set_key("b") if step == moment else None
    assert rebuild(space)
    assert space.config.embedding_model == {**WORDS, "apiKey": "b"}


def test_an_embedding_again_gives_way_between_windows_and_goes_on_where_it_was(space, by_hand, monkeypatch):
    monkeypatch.setattr(reembed, "WINDOW_DOCUMENTS", 1)
    run, built = begin(space), []
    by_hand.hook = lambda step, work: built.append(work.window[0].document_id) if step == "shadow" else None

    class Brief(TimeSlice):
        def is_over(self):
            return len(built) == 1

    lease = lease_of(space)
    paused = RunContext(space.db, space.ring, lease)
    paused.time_slice = Brief(space.db, lease)
    assert asyncio.run(reembed.rebuild_documents(paused)) is None
    assert asyncio.run(paused.hand_back()) == 1
    assert models(space) == {MINILM["model"]}
    finds_all(space)
    assert rebuild(space)
    assert len(built) == len(set(built)) == len(TEXTS)
    assert space.run(run).status == "COMPLETED"
    assert models(space) == {WORDS["model"]}
