"""Builds the local embedding model's file in the home, so that the first request for it need not wait."""

from __future__ import annotations

from connectors.embedders import local as models
from retrieval import settings
from retrieval.ingestion.chunking import tokenizer


def main() -> None:
    models.load_model(tokenizer.MINILM, settings.load().home).check()


if __name__ == "__main__":
    main()
