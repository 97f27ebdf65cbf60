"""Texts refused by a model server fail their document only."""

import json

import pytest

from api.wire.evaluations import EvaluationRunQuery, compare_settings
from connectors import registry
from connectors.http import retries
from flows import evaluate
from retrieval.evaluations import evaluations, runs
from tests import registry_instances
from tests.flows.configured import Configured
from tests.flows.plain_steps import without_prefect
from tests.nightly import nightly_except
from tests.standins import embedding_server, faults, model_server
from tests.standins.model_server import API_KEY, FAILURES, OLLAMA_NAN, UNEMBEDDABLE, ModelServer

PASSAGES = 600
PER_DOCUMENT = 10


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.01)


def passages(document, *, bad=()):
    return "\n\n".join(
        f"# Part {number}\n\nOn owl{document}x{number} in the wind. {UNEMBEDDABLE if number in bad else ''} "
        + "It flew on. " * 9
        for number in range(PER_DOCUMENT)
    )


def send_documents(space, bad):
    """Send 600 passages in documents of ten; `bad` lists the refused numbers."""
    return [
        space.text(
            passages(document, bad={number - document * PER_DOCUMENT for number in bad}),
            f"document {document}",
            chunk_size=40,
            chunk_overlap=0,
        )
        for document in range(PASSAGES // PER_DOCUMENT)
    ]


def outcomes(space, receipts):
    return [space.run(run.job_run_id).outcome for run in receipts]


@pytest.mark.parametrize("failure", nightly_except(sorted(FAILURES), min(FAILURES)))
def test_one_bad_passage_of_600_fails_its_document_and_the_others_are_searchable(open_space, failure):
    with model_server.running(ModelServer("own", failure=failure)) as server:
        space = open_space(server)
        requests = len(server.sizes)
        receipts = send_documents(space, {317})
        space.work()
        assert outcomes(space, receipts).count("SUCCEEDED") == 59
        failed = space.run(receipts[31].job_run_id).failed[0].error
        assert failed.startswith("embed: The model cannot embed this passage (characters ")
        assert "It embeds other texts." in failed
        assert "ingest the document again" in failed
        assert server.failed <= 9, "halving 64 texts costs seven requests, and the passage is tried twice"
        assert len(server.sizes) - requests <= 600 / 64 + 30
        assert space.search("owl30x7", top_k=1, semantic_weight=0.0, keyword_weight=1.0) == ["document 30"]


def test_the_words_of_the_server_are_in_the_error_and_its_key_is_not(open_space):
    with model_server.running(ModelServer("own")) as server:
        space = open_space(server)
        run = space.text(passages(1, bad={3}), "one", chunk_size=40, chunk_overlap=0)
        space.work()
        error = space.run(run.job_run_id).failed[0].error
        assert f"(500). It says: {OLLAMA_NAN}" in error
        assert API_KEY not in error


def test_a_server_that_answers_nothing_is_an_outage_and_no_fault_of_a_passage(open_space):
    with model_server.running(ModelServer("own")) as server:
        space = open_space(server)
        server.always.append(faults.status(500, "overloaded"))
        embedder = registry.make_embedder(space.config)
        with pytest.raises(retries.Retryable, match=r"an error of its own \(500\)"):
            embedder.embed(["owls", "mice"], "document")


def test_a_passage_that_openai_refuses_fails_its_document(db, monkeypatch, tmp_path):
    monkeypatch.setenv("RETRIEVAL_HOME", str(tmp_path))
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.01)
    with embedding_server.running("OPENAI") as vendor:
        monkeypatch.setenv("RETRIEVAL_ENDPOINTS", json.dumps({"OPENAI": {"base_url": vendor.base_url}}))
        registry_instances.close_instances()
        space = Configured(db, embeddingModelConfig=vendor.config())
        vendor.unembeddable = UNEMBEDDABLE
        receipts = [space.text(f"An {UNEMBEDDABLE} text.", "bad"), space.text("Owls hunt mice.", "owls")]
        space.work()
        assert outcomes(space, receipts) == ["FAILED", "SUCCEEDED"]
    registry_instances.close_instances()


def test_a_question_that_cannot_be_embedded_fails_within_its_evaluation(open_space, monkeypatch):
    relevant = [{"externalId": "owls", "grade": 1}]
    judged_questions = [{"query": query, "relevant": relevant} for query in ("owls", f"owls {UNEMBEDDABLE}", "night")]
    settings_of_run = [
        {"name": "meaning", "semanticWeight": 1.0, "keywordWeight": 0.0},
        {"name": "words", "semanticWeight": 0.0, "keywordWeight": 1.0},
    ]

    def run_evaluation(space, questions):
        evaluation = space.call(evaluations.create_evaluation(space.db, space.scope, "questions", questions))
        run = space.call(runs.create_run(space.db, space.scope, evaluation.id, settings_of_run))
        (waiting,) = [waiting for waiting in runs.list_waiting(space.db) if waiting.id == run.id]
        evaluate.evaluate.fn(run.id, waiting.attempt)
        return space.call(runs.get_run(space.db, space.scope, evaluation.id, run.id))

    with model_server.running(ModelServer("own")) as server:
        space = open_space(server)
        without_prefect(monkeypatch, space.db, space.ring)
        space.text("Owls hunt at night.", "owls")
        space.work()
        run = run_evaluation(space, judged_questions)
        comparison = compare_settings(run, EvaluationRunQuery(namespace_id=space.scope.namespace, question_limit=3))
        assert (run.status, run.error) == ("COMPLETED", None)
        assert [question.ranks for question in comparison.questions] == [
            {"meaning": [1], "words": [1]},
            {},
            {"meaning": [1], "words": [1]},
        ]
        assert OLLAMA_NAN in comparison.questions[1].error
        assert [setting.metrics.mrr.value for setting in comparison.settings] == [1.0, 1.0]
        assert comparison.settings[1].compared.same == 2
        failed = run_evaluation(space, judged_questions[1:2])
        assert (failed.status, failed.result) == ("FAILED", None)
        assert OLLAMA_NAN in failed.error
