"""A new model is evaluated before the swap and refused if worse."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from connectors import registry
from flows import reembed
from flows.run_context import RunContext
from retrieval import settings
from retrieval.evaluations import evaluations, gate, judge
from retrieval.evaluations.gate import Gate
from retrieval.ingestion import reembedding
from retrieval.jobs import control
from retrieval.jobs.queries import batches
from retrieval.search import search
from retrieval.search.search import Query
from tests import registry_instances
from tests.flows.configured import EMBEDDED, Configured
from tests.flows.plain_steps import without_prefect
from tests.standins import embedding_server

ANIMALS = ("owl", "fox", "otter", "heron", "badger", "salmon", "beetle", "lizard", "stork", "marten", "lynx", "toad")
TODAY = EMBEDDED["embeddingModelConfig"]


@pytest.fixture
def space(db, monkeypatch, tmp_path):
    """Twelve documents, each with a question, and a worker without Prefect; the next model is OpenAI's, on loopback."""
    monkeypatch.setenv("RETRIEVAL_FILES_DIRECTORY", str(tmp_path / "files"))
    monkeypatch.setenv("RETRIEVAL_FETCH_ALLOW", "127.0.0.0/8")
    settings.load_settings.cache_clear()
    registry_instances.forget_instances()
    configured = Configured(db)
    without_prefect(monkeypatch, db, configured.ring)
    monkeypatch.setattr(reembed, "judge_generation", reembed.judge_new_generation)
    for animal in ANIMALS:
        configured.text(f"The {animal} hunts by the river at night. A {animal} sleeps by day.", animal)
    configured.work()
    yield configured
    registry_instances.forget_instances()
    settings.load_settings.cache_clear()


@contextmanager
def next_model(monkeypatch, **options):
    """Config of the next model during the test."""
    with embedding_server.running("OPENAI", **options) as vendor:
        monkeypatch.setenv("RETRIEVAL_ENDPOINTS", json.dumps({"OPENAI": {"base_url": vendor.base_url}}))
        settings.load_settings.cache_clear()
        yield vendor.config()
        registry_instances.close_instances()


def shuffled(vectors):
    """Sabotaged model: vectors of a request are permuted."""
    rng = np.random.default_rng(len(vectors) + int(np.abs(vectors[0]).sum() * 1000))
    return [rng.permutation(rng.permutation(vectors)[at]) for at in range(len(vectors))]


def constant(vectors):
    return [np.ones_like(vectors[0]) for _ in vectors]


def judged(space, tenant=""):
    questions = [{"query": f"where does the {animal} hunt", "relevant": [{"externalId": animal}]} for animal in ANIMALS]
    scope = replace(space.scope, tenant=tenant)
    return space.call(evaluations.create_evaluation(space.db, scope, "animals", questions)).id


def begin(space, model, evaluation, **gate_fields):
    config = space.config
    gate_body = gate.dump_gate(Gate(evaluation, gate_fields.pop("metric", "ndcgAt10"), **gate_fields))
    later = replace(config, embedding_model=model)
    return space.call(reembedding.begin_reembedding(space.db, space.ring, config, later, gate_body))[1]


def rebuild(space):
    batches.form_batches(space.db, size=64, batches=8)
    (batch,) = [
        waiting_batch for waiting_batch in batches.undispatched_batches(space.db) if waiting_batch.source == "REEMBED"
    ]
    batches.record_flow_run(space.db, batch, "run")
    lease = batches.claim_lease(space.db, batch.id, batch.attempt, seconds=30)
    run = RunContext(space.db, space.ring, lease)
    swapped = asyncio.run(reembed.rebuild_documents(run))
    reembedding.drop_runs(space.db, lease)
    batches.finish_batch(space.db, lease)
    run.circuits.release_probes()
    return swapped


def answers(space):
    """Results of all kinds of search."""
    config, hits = space.config, []
    for weight in (1.0, 0.5, 0.0):
        for animal in ANIMALS[:4]:
            query = Query(f"where does the {animal} hunt", semantic_weight=weight, keyword_weight=1 - weight)
            vectors = registry.make_vector_store(config, space.db)
            embedder = registry.make_embedder(config)
            hits.append(
                search.run_search(space.db, space.scope, query, viewer=None, embedder=embedder, vectors=vectors).hits
            )
    return repr(hits)


@pytest.mark.parametrize(
    ("sabotage", "gate_fields"), [(shuffled, {"minimum": 0.75}), (constant, {"not_worse_than": 0.05})]
)
def test_a_sabotaged_model_is_refused_and_search_stays_as_it_was(space, monkeypatch, sabotage, gate_fields):
    evaluation = judged(space)
    answers_before = answers(space)
    with next_model(monkeypatch, change=sabotage) as model:
        run = begin(space, model, evaluation, **gate_fields)
        assert rebuild(space) is False
        job_run = space.run(run)
        assert (job_run.status, job_run.outcome) == ("COMPLETED", "FAILED")
        (notice,) = job_run.notices
        assert notice.count == len(ANIMALS)
        assert "refused" in notice.reason
        assert "ndcgAt10 is 0." in notice.reason
        assert evaluation in notice.reason
        assert space.config.embedding_model == TODAY
        assert answers(space) == answers_before
        space.sweep()
        assert answers(space) == answers_before
        page, _ = space.call(control.list_page(space.db, space.scope, outcome="FAILED"))
        assert [listed_run.id for listed_run in page.items] == [run]


@pytest.mark.parametrize("gate_fields", [{"minimum": 0.9}, {"not_worse_than": 0.01}], ids=["minimum", "tolerance"])
def test_a_model_that_answers_as_well_is_swapped_in_with_the_figures(space, monkeypatch, gate_fields):
    answers_before, meanwhile, ask = answers(space), [], judge.judge_setting

    def watched(*args):
        measured = ask(*args)
        with ThreadPoolExecutor(1) as pool:
            meanwhile.append(pool.submit(answers, space).result())
        return measured

    monkeypatch.setattr(judge, "judge_setting", watched)
    with next_model(monkeypatch) as model:
        run = begin(space, model, judged(space), **gate_fields)
        assert rebuild(space) is True
        assert set(meanwhile) == {answers_before}, "others search what is visible while the shadow is judged"
        job_run = space.run(run)
        assert (job_run.status, job_run.outcome) == ("COMPLETED", "SUCCEEDED")
        assert "passed its gate" in job_run.notices[0].reason
        assert space.config.embedding_model["model"] == model["model"]
        assert space.search("where does the heron hunt")[0] == "heron"


def test_a_gate_whose_evaluation_was_deleted_lets_nothing_through(space, monkeypatch):
    evaluation = judged(space)
    with next_model(monkeypatch) as model:
        run = begin(space, model, evaluation, minimum=0.0)
        space.call(evaluations.delete_evaluation(space.db, space.scope, evaluation))
        assert rebuild(space) is False
        assert space.run(run).outcome == "FAILED"
        assert "deleted" in space.run(run).notices[0].reason
    assert space.config.embedding_model == TODAY


def test_questions_of_a_tenant_judge_what_the_tenant_has(space, monkeypatch):
    with next_model(monkeypatch) as model:
        run = begin(space, model, judged(space, "blue"), minimum=0.5)
        assert rebuild(space) is False
        assert "ndcgAt10 is 0.0000" in space.run(run).notices[0].reason
