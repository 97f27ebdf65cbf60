"""`make bench`: every benchmark in turn, or those that are named: `make bench ARGS="cranfield embedders"`."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
BENCHMARKS = {
    "embedders": "the local models: texts per CPU second, fp32 against int8",
    "worker_vs_process_pool": "the warm worker against Prefect's own process worker",
    "cranfield": "quality and speed of the whole service on Cranfield; latency of one text",
    "longdocs": "answers in long texts: our chunks against a fixed window; chunking against the bare tokenizer",
    "parsing": "files per CPU second by kind against the bare library; a PDF of 1,600 pages",
    "openai_requests": "10,000 chunks through the OpenAI adapter: requests, and throughput beside one after another",
    "crawl": "500 pages on loopback, beside Scrapy at equal politeness",
    "soak": "a busy namespace with stalls injected into the database, and another that must not notice",
    "neighbour": "one text of a quiet organization while another sends thousands, crawls and waits for slow sites",
    "idle": "a good client beside 2,000 idle connections, guessed keys and stalled uploads, against a quiet API",
    "api": "GET and POST of a text against FastAPI, SQLModel and Uvicorn: requests a second, CPU of a request",
    "search_scale": "search in 100,000 chunks against a plain pgvector table of the same",
}


def main() -> int:
    names = sys.argv[1:] or list(BENCHMARKS)
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"There is no benchmark {unknown[0]!r}. There are:")
        for name, about in BENCHMARKS.items():
            print(f"  {name:<24}{about}")
        return 2
    failed = []
    for name in names:
        print(f"\n== {name}: {BENCHMARKS[name]}", flush=True)
        if subprocess.run([sys.executable, HERE / f"{name}.py"], check=False, cwd=HERE.parent).returncode:
            failed.append(name)
    if failed:
        print(f"\nNot finished: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
