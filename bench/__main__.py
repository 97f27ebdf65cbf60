"""`make bench`: run benchmarks one after the other and compare figures with goals.

    python -m bench [NAME ...]

Each benchmark is a module of this folder with figures in `bench/results/NAME.json`; `python -m bench.NAME` uses larger
sizes. Without names the suite runs. `python -m bench table` updates docs/benchmarks.md from bench/figures.toml.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench import table
from bench.harness import DATA_FOLDER, PROJECT_FOLDER, RESULTS_FOLDER, exit_on_sigterm


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Module of this folder. `arguments`: command line in the suite; `data_folder`: required folder of data."""

    name: str
    description: str
    arguments: str = ""
    timeout_seconds: float = 300
    data_folder: str = ""
    in_suite: bool = True


@dataclass(frozen=True, slots=True)
class Goal:
    """Minimum or maximum of a figure. `read_figure` selects the figure of the benchmark."""

    benchmark: str
    label: str
    read_figure: Callable[[dict[str, Any]], float]
    minimum: float | None = None
    maximum: float | None = None

    def judge_figures(self, figures: dict[str, Any]) -> tuple[str, str]:
        """Return the figure as text, and `reached`, `missed` or `not measured`."""
        try:
            value = self.read_figure(figures)
        except (KeyError, IndexError, TypeError, ZeroDivisionError):
            return "", "not measured"
        is_too_low = self.minimum is not None and value < self.minimum
        is_too_high = self.maximum is not None and value > self.maximum
        return f"{value:.4g}", "missed" if is_too_low or is_too_high else "reached"


BENCHMARK_LIST = (
    Benchmark("sync", "a crawl of 500 pages on loopback, compared with Scrapy at equal politeness", timeout_seconds=90),
    Benchmark("api", "GET and POST of a text, compared with FastAPI, SQLModel and Uvicorn", "--seconds 1.5", 120),
    Benchmark("worker_vs_process_pool", "the worker, compared with Prefect's process pool", "--runs 12", 150),
    Benchmark("search", "search, compared with a plain pgvector table", "--chunks 30000 --seconds 4", 180),
    Benchmark("access", "search of a user, compared with the application's", "--chunks 10000 --rounds 3", 60),
    Benchmark("ingest", "time of a text, ingestion and idle cost of the service", "--texts 500", 230, "cranfield"),
    Benchmark(
        "neighbour",
        "one text of a quiet organization next to a noisy one",
        "--texts 500 --pages 60 --slow 30 --rounds 3",
        150,
    ),
    Benchmark("start", "start, and memory of each role", "--rounds 1", 240),
    Benchmark("quality", "quality of search on judged collections", "--only cranfield", 180, "cranfield"),
    Benchmark("languages", "local models across languages, and the cost of a chunk", timeout_seconds=180),
    Benchmark("parse", "quality and cost of what is read from files", timeout_seconds=1800, in_suite=False),
    Benchmark("ui_pages", "time to the first content of each page of the app", in_suite=False),
)

GOAL_LIST = (
    Goal(
        "worker_vs_process_pool",
        "Flow runs a minute over the process pool's",
        lambda figures: figures["runs_a_minute_ratio"],
        5,
    ),
    Goal("start", "Start with a warm disk, s", lambda figures: figures["medians"]["again"], maximum=12),
    Goal("start", "Memory of the idle service, MB", lambda figures: figures["idle"]["all"], maximum=550),
    Goal("api", "GETs a second over FastAPI's", lambda figures: figures["ratios"]["GET"]["requests a second"], 3.5),
    Goal("api", "POSTs a second over FastAPI's", lambda figures: figures["ratios"]["POST"]["requests a second"], 3),
    Goal("search", "Hybrid search, p50 in ms", lambda figures: figures["kinds"]["search hybrid"]["p50_ms"], maximum=30),
    Goal(
        "search",
        "Semantic search over a plain pgvector table",
        lambda figures: (
            figures["kinds"]["search semantic"]["p50_ms"] / figures["kinds"]["pgvector, plain table, 10"]["p50_ms"]
        ),
        maximum=2.5,
    ),
    Goal("access", "Search of a user over the application's", lambda figures: figures["ratio"], maximum=1.5),
    Goal("quality", "nDCG@10, semantic", lambda figures: figures["cranfield"]["semantic"]["mean"], 0.37),
    Goal("quality", "nDCG@10, keyword", lambda figures: figures["cranfield"]["keyword"]["mean"], 0.36),
    Goal("quality", "nDCG@10, hybrid", lambda figures: figures["cranfield"]["hybrid"]["mean"], 0.41),
    Goal(
        "languages",
        "Right text first, the worst of 12 languages",
        lambda figures: figures["multilingual-e5-small"]["least"],
        0.8,
    ),
    Goal("languages", "CPU of a chunk, multilingual over MiniLM", lambda figures: figures["ratio"], maximum=2.3),
    Goal("ingest", "Idle service, % of a core", lambda figures: figures["idle"]["percent_of_a_core"], maximum=10),
    Goal(
        "neighbour",
        "One text next to a noisy organization over its quiet time",
        lambda figures: figures["ratio"],
        maximum=3,
    ),
    Goal("sync", "Pages a second over Scrapy's", lambda figures: figures["ratio"], 1),
)


def run_benchmark(benchmark: Benchmark) -> str:
    """Run a benchmark with a separate temporary folder; return the reason of a failure, or ""."""
    if benchmark.data_folder and not (DATA_FOLDER / benchmark.data_folder).is_dir():
        return f"left out: {DATA_FOLDER / benchmark.data_folder} does not exist"
    folder = tempfile.mkdtemp(prefix="retrieval-bench-")
    command = [sys.executable, "-m", f"bench.{benchmark.name}", *benchmark.arguments.split()]
    process = subprocess.Popen(command, cwd=PROJECT_FOLDER, env={**os.environ, "TMPDIR": folder})
    try:
        code = process.wait(benchmark.timeout_seconds)
    except subprocess.TimeoutExpired:
        return f"ended after {benchmark.timeout_seconds:.0f} s"
    else:
        return f"exit code {code}" if code else ""
    finally:
        process.terminate()  # benchmarks clean up on SIGTERM
        process.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


def read_figures(name: str, since: float) -> dict[str, Any]:
    """Return the figures of a benchmark if they were written after a Unix time, else {}."""
    path = RESULTS_FOLDER / f"{name}.json"
    return dict(json.loads(path.read_text())) if path.exists() and path.stat().st_mtime >= since else {}


def main() -> int:
    by_name = {benchmark.name: benchmark for benchmark in BENCHMARK_LIST}
    names = sys.argv[1:]
    if names == ["table"]:
        return table.main()
    if not set(names) <= set(by_name):
        print(__doc__)
        for benchmark in BENCHMARK_LIST:
            print(f"  {'*' if benchmark.in_suite else ' '} {benchmark.name:<24}{benchmark.description}")
        return 2
    exit_on_sigterm()
    began, failures = time.time(), {}
    for benchmark in [by_name[name] for name in names] or [entry for entry in BENCHMARK_LIST if entry.in_suite]:
        print(f"\n== {benchmark.name}: {benchmark.description}", flush=True)
        failures[benchmark.name] = run_benchmark(benchmark)
    print(f"\n{'goal':<60}{'bound':>8}{'figure':>10}  verdict")
    for goal in GOAL_LIST:
        if goal.benchmark in failures:
            figure, verdict = goal.judge_figures(read_figures(goal.benchmark, began))
            bound = f">= {goal.minimum:g}" if goal.minimum is not None else f"<= {goal.maximum:g}"
            print(f"{goal.label:<60}{bound:>8}{figure:>10}  {verdict}")
    for name, failure in failures.items():
        if failure:
            print(f"{name}: {failure}")
    return 1 if any(failures.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
