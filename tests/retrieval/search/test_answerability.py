"""Answerability: features of the viewer's documents, and the fitted probability."""

import pytest

from retrieval.search import answerability, search
from retrieval.search.answerability_models import ANSWERED_SHARES
from retrieval.search.search import Query
from tests.retrieval.search.test_search import FixedEmbedder, axis, hybrid


def ask(library, text, **options):
    query = Query(text, **options)
    return search.run_search(
        library.db, library.scope, query, viewer=None, embedder=FixedEmbedder(), vectors=library.store
    )


@pytest.fixture(scope="module")
def filled(new_library):
    library = new_library()
    for number in range(12):
        library.put([f"owls hunt mice at night {number}"], [axis(0.5 - number / 100)])
    library.put(["seals dive for thirty minutes"], [axis(0.9)])
    return library


@pytest.mark.parametrize("weights", [hybrid(0.5), hybrid(0.0)])
def test_words_that_no_document_has_make_an_answer_less_probable(filled, weights):
    known_words, unknown = (ask(filled, text, **weights).answerability for text in ("seals dive", "seals waltz tango"))
    assert 0 < unknown.features["share"] < 0.3 < known_words.features["share"] <= 1
    assert 0 <= unknown.probability < known_words.probability <= 1
    assert known_words.basis == "fitted on public sets"


@pytest.mark.parametrize("weights", [hybrid(0.5), hybrid(0.0), hybrid(1.0)])
def test_the_probability_is_the_same_for_any_number_of_results_and_any_threshold(filled, weights):
    single_result, ten, few = (
        ask(filled, "seals dive", top_k=top_k, threshold=threshold, **weights)
        for top_k, threshold in ((1, 0.0), (10, 0.0), (10, 1.0))
    )
    assert len(single_result.hits) == 1
    assert not few.hits
    assert single_result.answerability == ten.answerability == few.answerability


def test_nothing_found_is_no_answer(library):
    assert ask(library, "seals", **hybrid(0.0)).answerability == answerability.NO_MATCHES
    library.put(["owls"], [axis(0.5)])
    assert ask(library, "seals", **hybrid(0.0)).answerability == answerability.NO_MATCHES


def test_the_verdict_has_the_share_that_was_measured_for_it(filled):
    weights = hybrid(0.5)
    verdicts = {}
    for text in ("seals dive for thirty minutes", "seals dive waltz", "waltz tango rumba"):
        estimate = ask(filled, text, **weights).answerability
        verdicts[estimate.verdict] = estimate.answered_share
        assert estimate.answered_share == ANSWERED_SHARES["hybrid"][estimate.verdict]
    assert "likely" in verdicts
    assert len(verdicts) > 1
    shares = [ANSWERED_SHARES["hybrid"][verdict] for verdict in ("likely", "unclear", "unlikely")]
    assert shares == sorted(shares, reverse=True)
