"""Contract suite of the local embedding models; plain numpy checks the network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from connectors.embedders import local, minilm
from connectors.embedders.minilm import RuntimeChoice
from retrieval.errors import Fatal
from retrieval.ingestion.chunking.tokenizer import MINILM_MODEL
from retrieval.ports import Embedder

pytestmark = pytest.mark.service

TEXTS = ["Wind.", "A wing in a slipstream " * 30, "", "漢字 😀", "The boundary layer on a flat plate.", "x" * 500]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


MAKERS: dict[str, Callable[[Path], Embedder]] = {
    "minilm-onnxruntime": lambda home: local.MiniLM(home, runtime="onnxruntime"),
    "minilm-openvino": lambda home: local.MiniLM(home, runtime="openvino"),
    "minilm-int8": lambda home: local.MiniLM(home, precision="int8"),
    "wordllama": lambda _: local.WordLlama(),
}


@pytest.fixture(scope="module", params=sorted(MAKERS))
def embedder(request: pytest.FixtureRequest, home: Path) -> Embedder:
    return MAKERS[request.param](home)


def test_one_unit_vector_a_text(embedder: Embedder) -> None:
    vectors = embedder.embed(TEXTS, "document")
    assert vectors.shape == (len(TEXTS), embedder.dimensions)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_a_text_has_the_same_vector_next_to_texts_of_other_lengths(embedder: Embedder) -> None:
    texts = [f"drag of body {number} " * (1 + number * 7 % 30) for number in range(12)]
    expected = np.concatenate([embedder.embed([text], "document") for text in texts])
    together = embedder.embed(texts, "document")
    # int8 scales the numbers of a batch together.
    assert (together * expected).sum(axis=1).min() > (0.95 if "int8" in repr(vars(embedder)) else 0.999)


def test_a_long_text_is_cut_off(embedder: Embedder) -> None:
    start = "wind " * embedder.max_tokens
    long, longer = embedder.embed([start, start + "unseen rain " * 50], "document")
    assert float(long @ longer) > (0.999 if embedder.model == MINILM_MODEL else 0.9)


def test_several_threads_at_once(embedder: Embedder) -> None:
    texts = [f"Report {number} on the drag of bodies." for number in range(40)]
    expected = embedder.embed(texts, "document")
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: embedder.embed(texts, "document"), range(8)))
    assert all(np.allclose(result, expected, atol=1e-6) for result in results)


def test_known_similarities_of_the_original_model(home: Path) -> None:
    texts = ["That is a happy person", "That is a happy dog", "That is a very happy person", "Today is a sunny day"]
    vectors = local.MiniLM(home, runtime="onnxruntime").embed(texts, "document")
    assert np.allclose(vectors[0] @ vectors[1:].T, [0.695, 0.943, 0.257], atol=1e-3)


def test_openvino_sends_no_telemetry() -> None:
    code = "import sys, openvino; print(*(name for name in sys.modules if 'openvino_telemetry' in name))"
    done = subprocess.run([sys.executable, "-c", code], timeout=60, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_the_static_vectors_are_those_of_the_package(tmp_path: Path) -> None:
    # The package reads its tokenizer only from its cache.
    code = (
        "import json, pathlib, shutil, wordllama\n"
        "package = pathlib.Path(wordllama.__file__).parent\n"
        "shutil.copytree(package / 'tokenizers', pathlib.Path.home() / '.cache/wordllama/tokenizers')\n"
        "m = wordllama.WordLlama.load(disable_download=True)\n"
        "print(json.dumps(m.embed(['A wing in a slipstream', 'rain'], norm=True).tolist()))"
    )
    environment = os.environ | {"HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, timeout=120, capture_output=True, check=True)
    expected = np.array(json.loads(done.stdout))
    assert np.allclose(local.WordLlama().embed(["A wing in a slipstream", "rain"], "document"), expected, atol=1e-4)


def test_changed_weights_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"something else")
    with pytest.raises(Fatal, match="reinstall"):
        minilm.read_weights(tmp_path / "model.safetensors")


@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
def test_a_broken_graph_is_named(tmp_path: Path, runtime: RuntimeChoice) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / f"{MINILM_MODEL}.fp32.v{minilm.VERSION}.onnx").write_bytes(b"not a graph")
    with pytest.raises(Fatal, match="delete the folder"):
        local.MiniLM(tmp_path, runtime=runtime).embed(["one"], "query")


@pytest.mark.slow
def test_several_processes_build_at_once(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from connectors.embedders import local\n"
        "local.MiniLM(Path(sys.argv[1])).embed(['one'], 'query')"
    )
    builders = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) for _ in range(3)]
    assert [builder.wait(timeout=120) for builder in builders] == [0, 0, 0]
    assert len(list((tmp_path / "models").iterdir())) == 1


def test_importing_loads_no_model_library() -> None:
    heavy = {"onnx", "onnxruntime", "openvino", "wordllama", "tokenizers", "safetensors"}
    code = f"import sys, connectors.embedders.local; sys.exit(len({heavy!r} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
