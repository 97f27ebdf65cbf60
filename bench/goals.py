"""The goals, each with the figure of a benchmark's JSON that it is judged by."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on one figure: `least` or `most`. `shown` formats the figure; KeyError in `figure`: not measured."""

    bench: str
    what: str
    goal: str
    figure: Callable[[dict[str, Any]], float]
    least: float | None = None
    most: float | None = None
    shown: str = "{:.2f} times"

    def judge(self, report: dict[str, Any] | None) -> tuple[str, str]:
        """The figure as text and the verdict: reached, missed or not measured."""
        try:
            value = self.figure(report or {})
        except (KeyError, IndexError, TypeError, ZeroDivisionError):
            return "", "not measured"
        bad = (self.least is not None and value < self.least) or (self.most is not None and value > self.most)
        return self.shown.format(value), "missed" if bad else "reached"


def _semantic(report: dict[str, Any]) -> float:
    kinds = report["kinds"]
    return float(kinds["search semantic"]["p50_ms"]) / float(kinds["pgvector, plain table, 10"]["p50_ms"])


def _bf16(report: dict[str, Any]) -> float:
    rates = {row["variant"]: float(row["perCpuSecond"]) for row in report["rows"]}
    best = max(rate for name, rate in rates.items() if name.endswith("1 thread") and "int8" not in name)
    return best / rates["onnxruntime fp32, 1 thread"]


def _logarithm(report: dict[str, Any], name: str) -> float:
    """How many times as long the largest takes as the smallest, over what the logarithm of their sizes grows."""
    row = report["documents"]["ms"][name]
    sizes = [int(size) for size in row if size != "ratio"]
    return float(row["ratio"]) / (math.log(max(sizes)) / math.log(min(sizes)))


GOALS = (
    Goal(
        "worker_vs_process_pool",
        "One run, created to Running, beside Prefect's process pool",
        "5 times sooner",
        lambda r: float(r["created_to_running_median"]["ratio"]),
        least=5,
    ),
    Goal(
        "worker_vs_process_pool",
        "Runs a minute, limit 4, beside Prefect's process pool",
        "5 times",
        lambda r: float(r["runs_a_minute_ratio"]),
        least=5,
    ),
    Goal(
        "bulk",
        "1,000 pages in one run beside a plain thread pool",
        "1.10 times",
        lambda r: float(r["pages"]["seconds_ratio"]),
        most=1.1,
    ),
    Goal(
        "bulk",
        "Texts sent one by one, beside one flow run for each",
        "30 times",
        lambda r: float(r["texts"]["ratio"]),
        least=30,
        shown="{:.1f} times",
    ),
    Goal("start", "Start, warm disk", "12 s", lambda r: float(r["medians"]["again"]), most=12, shown="{:.1f} s"),
    Goal("start", "Memory, idle", "550 MB", lambda r: float(r["idle"]["all"]), most=550, shown="{:.0f} MB"),
    Goal(
        "start",
        "Memory of the API before a model is needed",
        "110 MB",
        lambda r: float(r["idle"]["api"]),
        most=110,
        shown="{:.0f} MB",
    ),
    Goal(
        "start",
        "What 8 uploads of 10 MB add to it",
        "20 MB",
        lambda r: float(r["uploads"]["more"]),
        most=20,
        shown="{:.0f} MB",
    ),
    Goal(
        "growth",
        "Listing documents, the largest namespace beside the smallest",
        "flat: 1.25 times",
        lambda r: float(r["documents"]["ms"]["list documents"]["ratio"]),
        most=1.25,
    ),
    Goal(
        "growth",
        "Semantic search, the same",
        "the logarithm",
        lambda r: _logarithm(r, "search semantic"),
        most=1,
        shown="{:.2f} of its growth",
    ),
    Goal(
        "growth",
        "Hybrid search, the same",
        "the logarithm",
        lambda r: _logarithm(r, "search hybrid"),
        most=1,
        shown="{:.2f} of its growth",
    ),
    Goal(
        "growth",
        "A text to searchable, the same",
        "flat: 1.25 times",
        lambda r: float(r["documents"]["ms"]["a text to searchable"]["ratio"]),
        most=1.25,
    ),
    Goal(
        "growth",
        "A text to searchable, the most tenants beside the fewest",
        "flat: 1.25 times",
        lambda r: float(r["tenants"]["ms"]["a text to searchable"]["ratio"]),
        most=1.25,
    ),
    Goal("embedders", "Local model, chunks a CPU second, beside ONNX Runtime fp32", "2 times", _bf16, least=2),
    Goal(
        "api",
        "Authenticated GET beside FastAPI, SQLModel, Uvicorn",
        "4 times",
        lambda r: float(r["ratios"]["GET"]["requests a second"]),
        least=4,
    ),
    Goal(
        "api",
        "The same, CPU of the API",
        "a quarter",
        lambda r: float(r["ratios"]["GET"]["CPU of the API"]),
        most=0.25,
        shown="{:.3f} of it",
    ),
    Goal(
        "api",
        "POST of a text beside the same",
        "5 times",
        lambda r: float(r["ratios"]["POST"]["requests a second"]),
        least=5,
    ),
    Goal(
        "api",
        "The same, CPU of the API",
        "a sixth",
        lambda r: float(r["ratios"]["POST"]["CPU of the API"]),
        most=1 / 6,
        shown="{:.3f} of it",
    ),
    Goal(
        "search_scale",
        "Hybrid search, p50",
        "20 ms",
        lambda r: float(r["kinds"]["search hybrid"]["p50_ms"]),
        most=20,
        shown="{:.1f} ms",
    ),
    Goal(
        "search_scale",
        "Hybrid search, p95",
        "twice its p50",
        lambda r: float(r["kinds"]["search hybrid"]["p95_ms"]) / float(r["kinds"]["search hybrid"]["p50_ms"]),
        most=2,
    ),
    Goal("search_scale", "Semantic search beside a plain pgvector table", "1.5 times", _semantic, most=1.5),
    Goal(
        "search_scale",
        "Hybrid searches of 8 clients, each query embedded",
        "100 a second",
        lambda r: float(r["clients"]["hybrid, each query embedded"]["searches_a_second"]),
        least=100,
        shown="{:.0f} a second",
    ),
    Goal(
        "access",
        "Search for a user in 200 of 1,000 groups beside the same without one, p50",
        "1.2 times",
        lambda r: float(r["ratio"]),
        most=1.2,
    ),
    Goal(
        "llamaindex",
        "CPU a document beside LlamaIndex's IngestionPipeline",
        "half of theirs",
        lambda r: float(r["cpu_ratio"]),
        most=0.5,
        shown="{:.2f} of it",
    ),
    Goal("cranfield", "nDCG@10, semantic", ".37", lambda r: float(r["semantic"]["ndcg10"]), least=0.37, shown="{:.4f}"),
    Goal("cranfield", "nDCG@10, keyword", ".36", lambda r: float(r["keyword"]["ndcg10"]), least=0.36, shown="{:.4f}"),
    Goal("cranfield", "nDCG@10, hybrid", ".41", lambda r: float(r["hybrid"]["ndcg10"]), least=0.41, shown="{:.4f}"),
    Goal(
        "cranfield",
        "Evaluation of 225 questions under four settings",
        "60 s",
        lambda r: float(r["evaluation"]["seconds"]),
        most=60,
        shown="{:.1f} s",
    ),
    Goal(
        "cranfield",
        "Single texts, CPU of the embedder alone over CPU of the service",
        ".85",
        lambda r: float(r["cpu"]["embedder_over_service"]),
        least=0.85,
        shown="{:.2f}",
    ),
    Goal(
        "cranfield",
        "The same texts again, unchanged",
        "20 times faster",
        lambda r: float(r["again_times_faster"]),
        least=20,
        shown="{:.1f} times",
    ),
    Goal(
        "cranfield",
        "Text of 2 kB to searchable, beyond embedding and upsert",
        ".35 s",
        lambda r: float(r["one_text_s"]["beyond_embedding"]),
        most=0.35,
        shown="{:.2f} s",
    ),
    Goal(
        "cranfield",
        "Idle service",
        "3 % of a core",
        lambda r: float(r["idle"]["percent_of_a_core"]),
        most=3,
        shown="{:.1f} %",
    ),
    Goal(
        "workers",
        "Two workers beside one, documents a second over linear",
        ".9 up to the cores",
        lambda r: float(r["of_linear"]["2"]),
        least=0.9,
        shown="{:.2f}",
    ),
    Goal(
        "neighbour",
        "One text beside a noisy organization",
        "3 times its quiet time",
        lambda r: float(r["ratio"]),
        most=3,
    ),
    Goal(
        "parsing",
        "PDF, CPU beside pypdfium2's text",
        "3 times",
        lambda r: float(r["pypdfium2"]["ratio"]),
        most=3,
    ),
    Goal("crawl", "Pages a second beside Scrapy", "1 time", lambda r: float(r["ratio"]), least=1),
    Goal(
        "openai_requests",
        "Requests to an OpenAI-like vendor beside the fewest possible",
        "1.1 times",
        lambda r: float(r["requests"]) / float(r["fewest"]),
        most=1.1,
    ),
)
