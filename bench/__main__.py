"""`make bench`: run benchmarks one after the other, then show each goal beside its figure.

    python -m bench [NAME ...]

Each benchmark is a module of this folder that writes its figures to `bench/results/NAME.json`; started by itself
(`python -m bench.NAME`) it has larger sizes. Without names the suite runs: those with a `*` in the list that an
unknown name prints. `python -m bench table` writes the tables of docs/benchmarks.md from bench/figures.toml.
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
from bench.harness import DATA, PROJECT, RESULTS, end_in_order


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A module of this folder: arguments in the suite, time limit in seconds, the folder of data that it needs."""

    name: str
    about: str
    arguments: str = ""
    seconds: float = 300
    needs: str = ""
    suite: bool = True


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on one figure of a benchmark's JSON."""

    benchmark: str
    what: str
    figure: Callable[[dict[str, Any]], float]
    least: float | None = None
    most: float | None = None

    def verdict(self, figures: dict[str, Any]) -> tuple[str, str]:
        """The figure as text, and `reached`, `missed` or `not measured`."""
        try:
            value = self.figure(figures)
        except (KeyError, IndexError, TypeError, ZeroDivisionError):
            return "", "not measured"
        missed = (self.least is not None and value < self.least) or (self.most is not None and value > self.most)
        return f"{value:.4g}", "missed" if missed else "reached"


BENCHMARKS = (
    Benchmark("sync", "a crawl of 500 pages on loopback beside Scrapy at equal politeness", seconds=90),
    Benchmark("api", "GET and POST of a text beside FastAPI, SQLModel and Uvicorn", "--seconds 1.5", 120),
    Benchmark("worker_vs_process_pool", "the worker beside Prefect's process pool", "--runs 12", 150),
    Benchmark("search", "search beside a plain pgvector table", "--chunks 30000 --seconds 4", 180),
    Benchmark("access", "search of a user beside the application's", "--chunks 10000 --rounds 3", 60),
    Benchmark("ingest", "time of a text, ingestion and idle cost of the service", "--texts 500", 230, "cranfield"),
    Benchmark(
        "neighbour",
        "one text of a quiet organization beside a noisy one",
        "--texts 500 --pages 60 --slow 30 --rounds 3",
        150,
    ),
    Benchmark("start", "start, and memory of each role", "--rounds 1", 240),
    Benchmark("quality", "quality of search on judged collections", "--only cranfield", 180, "cranfield"),
    Benchmark("languages", "local models across languages, and the cost of a chunk", seconds=180),
    Benchmark("parse", "quality and cost of what is read from files", seconds=1800, suite=False),
    Benchmark("ui_pages", "time to the first content of each page of the app", suite=False),
)

GOALS = (
    Goal("worker_vs_process_pool", "Flow runs a minute over the process pool's", lambda r: r["runs_a_minute_ratio"], 5),
    Goal("start", "Start with a warm disk, s", lambda r: r["medians"]["again"], most=12),
    Goal("start", "Memory of the idle service, MB", lambda r: r["idle"]["all"], most=550),
    Goal("api", "GETs a second over FastAPI's", lambda r: r["ratios"]["GET"]["requests a second"], 3.5),
    Goal("api", "POSTs a second over FastAPI's", lambda r: r["ratios"]["POST"]["requests a second"], 3),
    Goal("search", "Hybrid search, p50 in ms", lambda r: r["kinds"]["search hybrid"]["p50_ms"], most=30),
    Goal(
        "search",
        "Semantic search over a plain pgvector table",
        lambda r: r["kinds"]["search semantic"]["p50_ms"] / r["kinds"]["pgvector, plain table, 10"]["p50_ms"],
        most=2.5,
    ),
    Goal("access", "Search of a user over the application's", lambda r: r["ratio"], most=1.5),
    Goal("quality", "nDCG@10, semantic", lambda r: r["cranfield"]["semantic"]["mean"], 0.37),
    Goal("quality", "nDCG@10, keyword", lambda r: r["cranfield"]["keyword"]["mean"], 0.36),
    Goal("quality", "nDCG@10, hybrid", lambda r: r["cranfield"]["hybrid"]["mean"], 0.41),
    Goal(
        "languages", "Right text first, the worst of 12 languages", lambda r: r["multilingual-e5-small"]["least"], 0.8
    ),
    Goal("languages", "CPU of a chunk, multilingual over MiniLM", lambda r: r["ratio"], most=2.3),
    Goal("ingest", "Idle service, % of a core", lambda r: r["idle"]["percent_of_a_core"], most=10),
    Goal("neighbour", "One text beside a noisy organization over its quiet time", lambda r: r["ratio"], most=3),
    Goal("sync", "Pages a second over Scrapy's", lambda r: r["ratio"], 1),
)


def run(benchmark: Benchmark) -> str:
    """Run a benchmark in a temporary folder; its failure as text, or an empty text."""
    if benchmark.needs and not (DATA / benchmark.needs).is_dir():
        return f"left out: {DATA / benchmark.needs} does not exist"
    folder = tempfile.mkdtemp(prefix="retrieval-bench-")
    command = [sys.executable, "-m", f"bench.{benchmark.name}", *benchmark.arguments.split()]
    process = subprocess.Popen(command, cwd=PROJECT, env={**os.environ, "TMPDIR": folder})
    try:
        code = process.wait(benchmark.seconds)
    except subprocess.TimeoutExpired:
        return f"ended after {benchmark.seconds:.0f} s"
    else:
        return f"exit code {code}" if code else ""
    finally:
        process.terminate()  # benchmarks clean up on SIGTERM
        process.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


def read_figures(name: str, since: float) -> dict[str, Any]:
    """What a benchmark wrote after a time, in seconds since 1970; empty if it wrote nothing."""
    path = RESULTS / f"{name}.json"
    return dict(json.loads(path.read_text())) if path.exists() and path.stat().st_mtime >= since else {}


def main() -> int:
    by_name = {benchmark.name: benchmark for benchmark in BENCHMARKS}
    names = sys.argv[1:]
    if names == ["table"]:
        return table.main()
    if not set(names) <= set(by_name):
        print(__doc__)
        for benchmark in BENCHMARKS:
            print(f"  {'*' if benchmark.suite else ' '} {benchmark.name:<24}{benchmark.about}")
        return 2
    end_in_order()
    began, failures = time.time(), {}
    for benchmark in [by_name[name] for name in names] or [each for each in BENCHMARKS if each.suite]:
        print(f"\n== {benchmark.name}: {benchmark.about}", flush=True)
        failures[benchmark.name] = run(benchmark)
    print(f"\n{'goal':<60}{'bound':>8}{'figure':>10}  verdict")
    for goal in GOALS:
        if goal.benchmark in failures:
            figure, verdict = goal.verdict(read_figures(goal.benchmark, began))
            bound = f">= {goal.least:g}" if goal.least is not None else f"<= {goal.most:g}"
            print(f"{goal.what:<60}{bound:>8}{figure:>10}  {verdict}")
    for name, failure in failures.items():
        if failure:
            print(f"{name}: {failure}")
    return 1 if any(failures.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
