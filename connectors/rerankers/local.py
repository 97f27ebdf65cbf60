"""Rerankers that run in this process: late interaction by all-MiniLM-L6-v2, or a folder with a cross-encoder."""

# The folder is below RETRIEVAL_RERANKERS (`rerankers/` in the home by default) and has the layout of model hubs:
# `model.onnx` or `onnx/model.onnx`, and `tokenizer.json`. The graph takes `input_ids` and `attention_mask`,
# `token_type_ids` if it has them, and gives logits of one column (relevance) or two (the second is relevance).

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from connectors.rerankers.vendor import logit_to_probability
from retrieval.errors import Fatal, Retryable

if TYPE_CHECKING:
    from connectors.embedders.local import MiniLM
    from retrieval.ports import Reranker
    from retrieval.settings import Settings

PATH_FIELD: Final = "rerankConfig.path"
# Limit of query and text together; the text is cut off.
MAX_TOKENS: Final = 512
BATCH: Final = 16
_GRAPHS: Final = ("model.onnx", "onnx/model.onnx")


def make(config: Mapping[str, Any], settings: Settings) -> Reranker:
    """Return the cross-encoder in `path`, or late interaction without a path; loaded on first use."""
    if "path" not in config:
        from connectors.embedders.local import MiniLM

        return LateInteraction(MiniLM(settings.home.absolute(), runtime=settings.local_model_runtime))
    return CrossEncoder(_folder(settings.rerankers_folder, config["path"]))


def _folder(root: Path, path: str) -> Path:
    """Resolve `path` below the root. Fatal outside."""
    # Clients do not name files of the machine.
    root = root.absolute()
    folder = Path(os.path.normpath(root / path))
    if not folder.is_relative_to(root) or not folder.resolve().is_relative_to(root.resolve()):
        raise Fatal(
            "path must lead to a folder below the one that RETRIEVAL_RERANKERS names: have the model put there.",
            field=PATH_FIELD,
        )
    return folder


class LateInteraction:
    """Reranker by the words of query and text in context."""

    # Share of its score in the result's, and number of texts that it reads; others get the lowest score.
    weight = 0.25
    max_texts = 20

    def __init__(self, model: MiniLM) -> None:
        self._model = model

    def rerank(self, query: str, texts: Sequence[str], *, seconds: float) -> Sequence[float]:
        """See `retrieval.ports.Reranker`; Retryable after `seconds`."""
        return self._model.match(query, texts, seconds=seconds)

    def check(self) -> None:
        """Raise Fatal unless the model's files are all here."""
        self._model.check()


class CrossEncoder:
    """Reranker of pairs of query and text, thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._turn = threading.Lock()

    def rerank(self, query: str, texts: Sequence[str], *, seconds: float) -> Sequence[float]:
        """See `retrieval.ports.Reranker`; Retryable after `seconds`."""
        import numpy as np

        end = time.monotonic() + seconds
        if not self._turn.acquire(timeout=seconds):
            raise Retryable("The local reranker is busy with other searches.")
        try:
            tokenizer, session, inputs = _loaded(self._folder)
            encoded = tokenizer.encode_batch([(query, text) for text in texts])
            order = sorted(range(len(texts)), key=lambda at: len(encoded[at].ids))
            scores = [0.0] * len(texts)
            for number in range(0, len(order), BATCH):
                if time.monotonic() > end:
                    raise Retryable("The local reranker did not come to its end in time.")
                members = order[number : number + BATCH]
                longest = max(len(encoded[at].ids) for at in members)
                feeds = {
                    name: np.array(
                        [[*getattr(encoded[at], field), *[0] * (longest - len(encoded[at].ids))] for at in members],
                        dtype=np.int64,
                    )
                    for name, field in inputs.items()
                }
                for at, row in zip(members, _run(session, feeds), strict=True):
                    scores[at] = _relevance(row)
        finally:
            self._turn.release()
        if not all(map(math.isfinite, scores)):
            raise Retryable("The local reranker gave numbers that are not finite.")
        return scores

    def check(self) -> None:
        """Raise Fatal unless the folder holds a cross-encoder that scores a text."""
        self.rerank("check", ["check"], seconds=60)


_INPUT_FIELDS: Final = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}


@lru_cache(maxsize=4)
def _loaded(folder: Path) -> tuple[Any, Any, Mapping[str, str]]:
    """Load the tokenizer, the session and the fields by graph input."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # its thread pool hangs in a forked child
    import onnxruntime
    from tokenizers import Tokenizer

    graph = next((folder / name for name in _GRAPHS if (folder / name).is_file()), None)
    if graph is None or not (folder / "tokenizer.json").is_file():
        raise Fatal("path names no folder with model.onnx (or onnx/model.onnx) and tokenizer.json.", field=PATH_FIELD)
    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.enable_truncation(MAX_TOKENS, strategy="only_second")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the libraries' errors have no common base
        raise Fatal("The files in path are no ONNX graph and tokenizer that can be read.", field=PATH_FIELD) from error
    names = [entry.name for entry in session.get_inputs()]
    if unknown := set(names) - _INPUT_FIELDS.keys():
        raise Fatal(
            f"The graph in path takes {', '.join(sorted(unknown))}, which a cross-encoder has not.", field=PATH_FIELD
        )
    return tokenizer, session, {name: _INPUT_FIELDS[name] for name in names}


def _run(session: Any, feeds: Mapping[str, Any]) -> Any:
    """Return logits, a row per text."""
    try:
        logits = session.run(None, feeds)[0]
        return logits.reshape(len(next(iter(feeds.values()))), -1)
    except Exception as error:  # ONNX Runtime's exceptions have no common base
        raise Fatal("The graph in path fails on a text: is it a cross-encoder?", field=PATH_FIELD) from error


def _relevance(row: Any) -> float:
    """Convert logits of one column, or of two (irrelevant, relevant)."""
    if len(row) > 2:
        raise Fatal(
            f"The graph in path gives {len(row)} numbers for a text; a reranker gives one or two.", field=PATH_FIELD
        )
    logit = float(row[-1]) - (float(row[0]) if len(row) == 2 else 0.0)
    return logit if math.isnan(logit) else logit_to_probability(logit)
