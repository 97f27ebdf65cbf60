"""Local models: right text first, with question and texts in two languages, and the cost of a chunk.

    python -m bench.languages [--sentences 90]

The texts are translated messages of tests/fixtures/translations.jsonl: one message asks, and of all messages in the
other language its translation is to be the nearest. English beside each language, both ways.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import PROJECT, write
from connectors.embedders import local
from retrieval import settings
from retrieval.ingestion.chunking.tokenizer import E5_MODEL, MINILM_MODEL, tokenizer_for

MESSAGES = PROJECT / "tests" / "fixtures" / "translations.jsonl"
LANGUAGES = ("de", "fr", "es", "pt", "ru", "pl", "el", "tr", "vi", "zh", "ja", "ko")
CHUNK_TOKENS, CHUNKS = 200, 64


def read_messages(count: int | None = None) -> list[dict[str, str]]:
    """The messages, by language."""
    return [json.loads(line) for line in MESSAGES.read_text().splitlines()[:count]]


def share_right(model: Any, messages: list[dict[str, str]], asked: str, read: str) -> float:
    """Share of the messages in the language `asked` whose translation into `read` is the nearest text."""
    queries = model.embed([message[asked] for message in messages], "query")
    texts = model.embed([message[read] for message in messages], "document")
    return float(np.mean((queries @ texts.T).argmax(axis=1) == np.arange(len(messages))))


def measure_chunks(models: dict[str, Any]) -> dict[str, float]:
    """CPU of a chunk of 200 of the model's own tokens, in ms; the models by turns."""
    text = "\n".join(path.read_text() for path in sorted((PROJECT / "docs").glob("*.md")))
    chunks, spent = {}, dict.fromkeys(models, 0.0)
    for name, model in models.items():
        spans = tokenizer_for("LOCAL", name).spans([text[:120_000]])[0][: CHUNK_TOKENS * CHUNKS]
        starts = range(0, len(spans) - CHUNK_TOKENS + 1, CHUNK_TOKENS)
        chunks[name] = [text[spans[at][0] : spans[at + CHUNK_TOKENS - 1][1]] for at in starts]
        model.embed(chunks[name][:16], "document")
    for at in range(0, CHUNKS, 16):
        for name, model in models.items():
            began = time.process_time()
            model.embed(chunks[name][at : at + 16], "document")
            spent[name] += time.process_time() - began
    return {name: round(seconds / CHUNKS * 1000, 1) for name, seconds in spent.items()}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sentences", type=int, default=None)
    messages = read_messages(options.parse_args().sentences)
    home: Path = settings.load_settings().home
    models = {name: local.load_model(name, home) for name in (MINILM_MODEL, E5_MODEL)}
    figures: dict[str, Any] = {"messages": len(messages), "ms_of_a_chunk": measure_chunks(models)}
    figures["ratio"] = round(figures["ms_of_a_chunk"][E5_MODEL] / figures["ms_of_a_chunk"][MINILM_MODEL], 2)
    print(f"CPU of a chunk, ms: {figures['ms_of_a_chunk']}, ratio {figures['ratio']}")
    for name, model in models.items():
        figures[name] = {
            language: [share_right(model, messages, *pair) for pair in (("en", language), (language, "en"))]
            for language in LANGUAGES
        }
        for language, (there, back) in figures[name].items():
            print(f"{name:<24} en -> {language} {there:.2f}   {language} -> en {back:.2f}")
        figures[name]["least"] = min(min(shares) for shares in figures[name].values())
    write("languages", figures)


if __name__ == "__main__":
    main()
