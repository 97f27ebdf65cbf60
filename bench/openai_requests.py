"""10,000 chunks through the OpenAI adapter: how many requests, and how much faster than one after another.

    python bench/openai_requests.py [--chunks 10000] [--delay 0.2]

A stand-in on loopback counts tokens and waits `delay` seconds before each answer. The baseline, in the same run, sends
the very same requests one after another. Fewest: what the limits of 2,048 inputs and 300,000 tokens allow.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from pathlib import Path
from typing import cast

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import report
from connectors.embedders import openai
from connectors.embedders.packing import Limits, Meter
from connectors.embedders.vendor import VendorEmbedder
from retrieval.settings import Endpoint, Settings
from tests.standins import embedding_server
from tests.standins.embedding_server import tokens

WORDS = ["the", "of", "flow", "boundary", "layer", "supersonic", "plate", "transfer", "wing", "number", "investigation"]


def main() -> None:
    report.end_in_order()
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--delay", type=float, default=0.2)
    options = parser.parse_args()
    choice = random.Random(7)
    texts = [" ".join(choice.choices(WORDS, k=choice.randint(60, 190))) for _ in range(options.chunks)]
    fewest = max(-(-sum(map(tokens, texts)) // 300_000), -(-len(texts) // 2048))
    with embedding_server.running("OPENAI") as server:
        server.delay = options.delay
        settings = Settings(endpoints={"OPENAI": Endpoint(base_url=server.base_url)})
        embedder = cast("VendorEmbedder", openai.make(server.config(), settings))
        began = time.perf_counter()
        embedder.embed(texts, "document")
        packed, requests = time.perf_counter() - began, len(server.times)
        few = texts[:320]
        beside = _seconds(embedder, few, Limits(texts=10, tokens=None))
        alone = _seconds(embedder, few, Limits(texts=10, tokens=None, concurrent=1))
        embedder.close()
    found = {
        "chunks": len(texts),
        "requests": requests,
        "fewest": fewest,
        "seconds": round(packed, 2),
        "32 requests beside each other, seconds": round(beside, 2),
        "32 requests one after another, seconds": round(alone, 2),
        "times faster": round(alone / beside, 1),
    }
    for name, value in found.items():
        print(f"{name:<42}{value:>10}")
    report.write("openai_requests", found)


def _seconds(embedder: VendorEmbedder, texts: list[str], limits: Limits) -> float:
    """For the same requests, as many at once as `limits` says; the median of five."""
    embedder._limits, embedder._meter = limits, Meter(limits)  # noqa: SLF001 - the limits are what is compared
    taken = []
    for _ in range(5):
        began = time.perf_counter()
        embedder.embed(texts, "document")
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


if __name__ == "__main__":
    main()
