"""What runs the network of all-MiniLM-L6-v2: OpenVINO in bfloat16 where the processor has it, else ONNX Runtime.

Both read the same graph file. On a processor with bfloat16 (AMX or AVX512-BF16) OpenVINO embeds two to three times the
chunks a CPU second with vectors that differ by 3e-5 in their cosine; elsewhere it gains too little for its memory.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import numpy as np

from connectors.embedders import minilm_graph
from retrieval.errors import Fatal, Retryable

if TYPE_CHECKING:
    import numpy.typing as npt

    from connectors.embedders.minilm_graph import Precision
    from retrieval.ports import Embeddings

    Feeds = dict[str, npt.NDArray[np.int32]]

Runtime = Literal["openvino", "onnxruntime"]
RuntimeChoice = Literal["auto", "openvino", "onnxruntime"]

_BF16: Final = "BF16"


class Network(Protocol):
    """A loaded network; several threads may run it at the same time."""

    def run(self, feeds: Feeds) -> Embeddings:
        """One batch of `ids`, `mask` (texts, tokens) and `lengths` (texts): unit vectors (texts, 384). Retryable."""
        ...


def choose(choice: RuntimeChoice) -> Runtime:
    """The runtime for a setting; `auto` is OpenVINO where it is installed and the processor computes in bfloat16."""
    if choice == "auto":
        return "openvino" if _BF16 in _openvino_capabilities() else "onnxruntime"
    if choice == "openvino" and not _openvino_capabilities():
        raise Fatal("RETRIEVAL_LOCAL_MODEL_RUNTIME is openvino, which is not installed or cannot run here: use auto.")
    return choice


def load(runtime: Runtime, weights: Path, folder: Path, precision: Precision, threads: int) -> Network:
    """The network, ready to run; its file is built in `folder` the first time.

    Retryable where the folder cannot be written or read, Fatal where the file in it is broken.
    """
    make = _openvino if runtime == "openvino" else _onnxruntime
    try:
        return make(minilm_graph.ensure(weights, folder, precision), threads)
    except OSError as error:
        raise Retryable(f"The local model could not be written to or read from {folder}: {error}.") from error


@lru_cache(maxsize=1)
def _openvino_capabilities() -> tuple[str, ...]:
    """Number formats that OpenVINO computes in on this processor; none where it is not installed."""
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
    try:
        return _OpenVinoNetwork(openvino.Core().compile_model(str(path), "CPU", settings))
    except RuntimeError as error:
        raise _broken(path) from error


class _OpenVinoNetwork:
    def __init__(self, model: Any) -> None:
        self._model = model

    def run(self, feeds: Feeds) -> Embeddings:
        try:
            request = self._model.create_infer_request()
            request.infer(feeds, share_inputs=True)
            return np.array(request.get_output_tensor(0).data)
        except (RuntimeError, MemoryError) as error:
            raise _failed() from error


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
        raise _broken(path) from error


class _OnnxNetwork:
    def __init__(self, session: Any) -> None:
        self._session = session

    def run(self, feeds: Feeds) -> Embeddings:
        try:
            vectors: Embeddings = self._session.run(None, feeds)[0]
        except _onnx_errors() as error:
            raise _failed() from error
        return vectors


def _onnx_errors() -> tuple[type[Exception], ...]:
    """ONNX Runtime's exceptions have no common base but Exception; these are the ones for a file or a run."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    names = ("Fail", "InvalidProtobuf", "InvalidGraph", "InvalidArgument", "RuntimeException", "NoSuchFile")
    return (RuntimeError, MemoryError, *(getattr(state, name) for name in names))


def _broken(path: Path) -> Fatal:
    return Fatal(f"{path.parent} holds a broken model: delete the folder to have it built anew.")


def _failed() -> Retryable:
    return Retryable("The local model failed on a batch, probably for want of memory.")
