"""`make bench`: every benchmark of the suite within 15 minutes, then goals beside figures.

    python -m bench [NAME ...] [--minutes 15]

Sizes are such that two cores do it in that time; a script that is started by itself has larger ones. Named ones only:
`make bench ARGS="cranfield embedders"`; `soak` and `ui_pages` have to be named.
"""

import argparse
import sys

from bench import suite
from bench.goals import GOALS
from bench.suite import Bench

SUITE = (
    Bench("openai_requests", "requests to an OpenAI-like vendor", ("--chunks", "2000", "--delay", "0.03"), 60),
    Bench(
        "parsing", "files a CPU second beside the bare library", ("--rounds", "3", "--pages", "300"), 90, needs="files"
    ),
    Bench("crawl", "500 pages on loopback, beside Scrapy at equal politeness", (), 90),
    Bench("embedders", "the local models: chunks a CPU second", ("16", "3", "--quick"), 90),
    Bench("api", "GET and POST of a text beside FastAPI, SQLModel, Uvicorn", ("--seconds", "1.5"), 120),
    Bench("worker_vs_process_pool", "the worker beside Prefect's own process pool", ("--runs", "12"), 150),
    Bench("llamaindex", "CPU a document beside LlamaIndex", ("--texts", "200", "--rounds", "3"), 180),
    Bench("search_scale", "search beside a plain pgvector table", ("--chunks", "30000", "--seconds", "4"), 180),
    Bench("access", "search for a user beside the application's", ("--chunks", "10000", "--rounds", "3"), 60),
    Bench("cranfield", "the service: quality, ingestion, latency, idle", ("--texts", "500"), 230, needs="cranfield"),
    Bench("workers", "1 and 2 workers on one pool", ("--workers", "1", "2", "--texts", "300", "--rounds", "1"), 150),
    Bench(
        "neighbour",
        "one text of a quiet organization beside a noisy one",
        ("--texts", "500", "--pages", "60", "--slow", "30", "--rounds", "3"),
        150,
    ),
    Bench("start", "start, and memory of each role", ("--rounds", "1"), 90),
)
MORE = (
    Bench("bulk", "1,000 pages in one run beside a thread pool; 500 texts beside a flow run for each", (), 900),
    Bench("growth", "requests by the number of documents and of tenants", (), 1200),
    Bench("longdocs", "answers in long texts: our chunks beside a fixed window", (), 900, needs="longdocs"),
    Bench("idle", "a good client beside 2,000 idle connections, guessed keys and stalled uploads", (), 300),
    Bench("soak", "a busy namespace with stalls in the database, and one that must not notice", (), 300),
    Bench("search_options", "what each option of a search costs beside none of them", (), 120),
    Bench("counting", "what counting for Prometheus costs a request", (), 240),
    Bench("ui_pages", "pages of the admin app", (), 300),
)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("names", nargs="*", metavar="NAME", help="only these")
    options.add_argument("--minutes", type=float, default=15)
    chosen = options.parse_args()
    every = {bench.name: bench for bench in (*SUITE, *MORE)}
    unknown = [name for name in chosen.names if name not in every]
    if unknown:
        print(f"There is no benchmark {unknown[0]!r}. There are:")
        for bench in every.values():
            print(f"  {bench.name:<24}{bench.about}")
        return 2
    benches = [every[name] for name in chosen.names] if chosen.names else list(SUITE)
    return suite.run(benches, GOALS, minutes=chosen.minutes)


if __name__ == "__main__":
    sys.exit(main())
