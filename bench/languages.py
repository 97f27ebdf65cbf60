"""Local models across languages, and the cost of a chunk.

    python -m bench.languages [--sentences 90]

Messages of tests/fixtures/translations.jsonl: the nearest text in the other language must be the translation, between
English and each language in both directions.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import PROJECT_FOLDER, write_figures
from connectors.embedders import local
from retrieval import settings
from retrieval.ingestion.chunking.tokenizer import E5_MODEL, MINILM_MODEL, tokenizer_for

MESSAGES_PATH = PROJECT_FOLDER / "tests" / "fixtures" / "translations.jsonl"
LANGUAGE_CODES = ("de", "fr", "es", "pt", "ru", "pl", "el", "tr", "vi", "zh", "ja", "ko")
CHUNK_TOKENS, CHUNK_COUNT = 200, 64


def read_messages(count: int | None = None) -> list[dict[str, str]]:
    """Return the messages by language."""
    return [json.loads(line) for line in MESSAGES_PATH.read_text().splitlines()[:count]]


def measure_accuracy(model: Any, messages: list[dict[str, str]], query_language: str, text_language: str) -> float:
    """Return the share of messages with the translation as nearest text."""
    queries = model.embed([message[query_language] for message in messages], "query")
    texts = model.embed([message[text_language] for message in messages], "document")
    return float(np.mean((queries @ texts.T).argmax(axis=1) == np.arange(len(messages))))


def measure_chunks(models: dict[str, Any]) -> dict[str, float]:
    """Return CPU milliseconds per chunk of 200 model tokens; models alternate."""
    text = "\n".join(path.read_text() for path in sorted((PROJECT_FOLDER / "docs").glob("*.md")))
    chunks, spent = {}, dict.fromkeys(models, 0.0)
    for name, model in models.items():
        spans = tokenizer_for("LOCAL", name).spans([text[:120_000]])[0][: CHUNK_TOKENS * CHUNK_COUNT]
        starts = range(0, len(spans) - CHUNK_TOKENS + 1, CHUNK_TOKENS)
        chunks[name] = [text[spans[at][0] : spans[at + CHUNK_TOKENS - 1][1]] for at in starts]
        model.embed(chunks[name][:16], "document")
    # Models alternate: drift of the machine affects both.
    for at in range(0, CHUNK_COUNT, 16):
        for name, model in models.items():
            began = time.process_time()
            model.embed(chunks[name][at : at + 16], "document")
            spent[name] += time.process_time() - began
    return {name: round(seconds / CHUNK_COUNT * 1000, 1) for name, seconds in spent.items()}


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
            language: [measure_accuracy(model, messages, *pair) for pair in (("en", language), (language, "en"))]
            for language in LANGUAGE_CODES
        }
        for language, (from_english, to_english) in figures[name].items():
            print(f"{name:<24} en -> {language} {from_english:.2f}   {language} -> en {to_english:.2f}")
        figures[name]["least"] = min(min(shares) for shares in figures[name].values())
    write_figures("languages", figures)


if __name__ == "__main__":
    main()
