"""Time to the first content of each page of the admin app with 10,000 documents, compared with an empty namespace.

    python -m bench.ui_pages [--documents 10000] [--rounds 5]

Documents, chunks and job runs are written into the database as the pipeline leaves them. Each round opens every page in
a signed-in headless Chromium with a warm cache, by its address and then by its link. Times end at the first content,
and when the table or chart is drawn.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import time
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np
from playwright.sync_api import BrowserContext, Page, sync_playwright

from bench.harness import NAMESPACE_CONFIG, parse_options, run_instance, write_figures
from local import postgres
from retrieval.database import database
from retrieval.keywords import postings
from retrieval.sources import APP_SERVICES

CHROMIUM_PATH = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DIMENSIONS, BATCH_SIZE = 384, 2_000
SAMPLE_WORDS = [
    "seal",
    "owl",
    "harbour",
    "engine",
    "valve",
    "report",
    "quarter",
    "invoice",
    "weather",
    "clover",
    "tide",
    "pump",
]
# In percent.
STATUS_SHARES = (("SUCCESS", 94), ("FAILED", 4), ("QUEUED", 1), ("PROCESSING", 1))
SOURCE_NAMES = ("TEXT", "LOCAL_FILE", "URLS_LIST", "WEBSITE", APP_SERVICES[0])


@dataclass(frozen=True, slots=True)
class PageView:
    """Page of the app; `link`: text in the navigation, "" for pages outside."""

    path: str
    query: str
    # CSS selectors of the first and of the last content, and of the page in an empty namespace.
    first_content: str
    last_content: str
    empty_content: str = "[data-testid=stAlert]"
    link: str = ""


TABLE_SELECTOR, CHART_SELECTOR = "[data-testid=stDataFrame] canvas", "[data-testid=stVegaLiteChart]"
NONE_SELECTOR = "text=No connections yet"
LIMITS_SELECTOR = "[data-testid=stProgress]"
SPACES_SELECTOR = r"text=/^1 to \d+ of /"
FOUND_SELECTOR = r"text=/^\d+ documents? found/"
COUNTED_SELECTOR = r"text=/^[\d,]+ documents:/"
PAGE_VIEWS = {
    "overview": PageView("", "", COUNTED_SELECTOR, CHART_SELECTOR, link="Overview"),
    "namespaces": PageView("namespaces", "", SPACES_SELECTOR, TABLE_SELECTOR, SPACES_SELECTOR, "Namespaces"),
    "runs": PageView("runs", "", r"text=/^[\d,]+ runs?$/", TABLE_SELECTOR, link="Runs"),
    "one run of all documents": PageView("runs", "run={run}", "text=Work by stage", CHART_SELECTOR),
    "documents": PageView("documents", "", COUNTED_SELECTOR, TABLE_SELECTOR, link="Documents"),
    "documents, failed ones": PageView("documents", "status=FAILED", COUNTED_SELECTOR, TABLE_SELECTOR),
    "one document": PageView("documents", "document={document}", "[data-testid=stRadio]", "[data-testid=stRadio]"),
    "search": PageView("search", "q=seal+harbour", FOUND_SELECTOR, ".hit", "text=/^0 documents found/"),
    "connections": PageView("connections", "", NONE_SELECTOR, NONE_SELECTOR, NONE_SELECTOR, "Connections"),
    "keys": PageView("keys", "", LIMITS_SELECTOR, LIMITS_SELECTOR, LIMITS_SELECTOR, "Keys and limits"),
}


def main() -> None:
    options = parse_options(__doc__, documents=10_000, rounds=5)
    if CHROMIUM_PATH is None:
        sys.exit("There is no Chromium on this machine: apt-get install chromium")
    with run_instance() as service:
        info = service.info
        full, empty = create_namespace(info, "full"), create_namespace(info, "empty")
        started = time.perf_counter()
        sample_ids = fill_namespace(postgres.url(service.home), full, options.documents)
        figures: dict[str, Any] = {"documents": options.documents, "fill_s": round(time.perf_counter() - started, 1)}
        figures["pages_ms"] = measure_pages(info, {"full": full, "empty": empty}, sample_ids, options.rounds)
    write_figures("ui_pages", figures)
    print_figures(figures)


def create_namespace(info: dict[str, str], name: str) -> str:
    headers = {"Authorization": f"Bearer {info['apiKey']}"}
    answer = httpx.post(
        info["api"] + "/v1/namespaces", json={"name": name, **NAMESPACE_CONFIG}, headers=headers, timeout=60
    )
    answer.raise_for_status()
    return str(answer.json()["data"]["namespace"]["id"])


def fill_namespace(url: str, namespace: str, count: int) -> dict[str, str]:
    """Insert documents of one chunk, their job run, and 500 other runs; return the ids of the run and a document."""
    db = database.Database(url)
    generator = np.random.default_rng(5)
    values: dict[str, Any] = {"namespace": namespace, "run": "ijr_bench_all", "dims": DIMENSIONS}
    with db.transaction() as connection:
        row = connection.execute(
            "insert into partitions (namespace_id, tenant) values (%(namespace)s, '')"
            " on conflict (namespace_id, tenant) do update set tenant = excluded.tenant returning id",
            values,
        ).fetchone()
        assert row is not None
        values["partition"] = row["id"]
        connection.execute(_INSERT_RUNS, values)
    for start in range(0, count, BATCH_SIZE):
        insert_batch(db, values, generator, start, min(BATCH_SIZE, count - start))
    with db.transaction() as connection:
        connection.execute("analyze")
    db.close()
    return {"run": values["run"], "document": f"doc_bench_{count - 1:06d}"}


def insert_batch(db: database.Database, values: dict[str, Any], generator: Any, start: int, count: int) -> None:
    numbers = range(start, start + count)
    vectors = generator.normal(size=(count, DIMENSIONS))
    states = generator.choice(
        [name for name, _ in STATUS_SHARES], size=count, p=[share / 100 for _, share in STATUS_SHARES]
    )
    row_values = {
        **values,
        "ids": [f"doc_bench_{number:06d}" for number in numbers],
        "numbers": list(numbers),
        "names": [f"{' '.join(generator.choice(SAMPLE_WORDS, 5))} {number}.pdf" for number in numbers],
        "states": [*states[:-1].tolist(), "SUCCESS"],
        "sources": generator.choice(SOURCE_NAMES, size=count).tolist(),
        "texts": [" ".join(generator.choice(SAMPLE_WORDS, 120)) for _ in numbers],
        "vectors": ["[" + ",".join(f"{value:.4f}" for value in row) + "]" for row in vectors],
    }
    with db.transaction() as connection:
        connection.execute(_INSERT_DOCUMENTS, row_values)
        chunk_rows = connection.execute(_INSERT_CHUNKS, row_values).fetchall()
        chunks, terms = postings.index_chunks(
            connection, values["partition"], [row["id"] for row in chunk_rows], "english"
        )
        connection.execute(
            "update partitions set chunks = chunks + %(chunks)s, terms = terms + %(terms)s where id = %(partition)s",
            {"chunks": chunks, "terms": terms, "partition": values["partition"]},
        )


_INSERT_RUNS = """
    with job as (
        insert into jobs (id, organization_id, partition_id, source)
        select 'job_bench', organization_id, %(partition)s, 'WEBSITE' from namespaces where id = %(namespace)s
        returning id
    )
    insert into job_runs (id, job_id, partition_id, source, status, timings, created_at, finished_at)
    select case when n = 0 then %(run)s else 'ijr_bench_' || n end, job.id, %(partition)s, 'WEBSITE', 'COMPLETED',
           '{"discover": 41.2, "fetch": 63.1, "parse": 20.5, "chunk": 9.9, "embed": 180.4, "upsert": 31.7}',
           now() - make_interval(mins => n), now() from generate_series(500, 0, -1) n, job
"""
_INSERT_DOCUMENTS = """
    with input as (
        select * from unnest(%(ids)s::text[], %(numbers)s::int[], %(names)s::text[], %(states)s::text[],
                             %(sources)s::text[]) g (id, number, name, status, source)
    ),
    entries as (
        insert into run_documents (job_run_id, document_id, position, generation, status, stage, error, name,
                                   media_type, raw_size)
        select %(run)s, id, number, 1, status, case when status = 'SUCCESS' then 'upserted' else 'fetched' end,
               case when status = 'FAILED' then 'The file is damaged: repair it and send it again.' end, name,
               'application/pdf', 48000 from input
    ),
    small as (
        insert into run_documents (job_run_id, document_id, position, generation, status, stage, name)
        select 'ijr_bench_' || 1 + number %% 500, id, number, 1, status, 'upserted', name from input
    )
    insert into documents (id, partition_id, job_id, job_run_id, source, external_id, document_type, name, status,
                           error, active_generation, properties, created_at)
    select id, %(partition)s, 'job_bench', %(run)s, source, id, 'FILE', name, status,
           case when status = 'FAILED' then 'The file is damaged: repair it and send it again.' end,
           case when status = 'SUCCESS' then 1 else 0 end,
           '{"mimeType": "text/plain", "fileSize": 48000, "tokenCount": 160, "embeddingCount": 1}',
           now() - make_interval(secs => 10000 - number) from input
"""
_INSERT_CHUNKS = """
    with input as (
        select * from unnest(%(ids)s::text[], %(texts)s::text[], %(vectors)s::text[], %(states)s::text[])
            g (id, text, vector, status) where status = 'SUCCESS'
    ),
    stored as (
        insert into vectors (partition_id, id, document_id, values)
        select %(partition)s, id || '#1#0', id, vector::halfvec from input
    ),
    cached as (
        insert into embeddings (partition_id, key, values)
        select %(partition)s, sha256(id::bytea), vector::halfvec from input
    )
    insert into chunks (partition_id, document_id, generation, index, start, "end", tokens, content, embedding_key)
    select %(partition)s, id, 1, 0, 0, length(text), 160, text, sha256(id::bytea) from input returning id
"""


def measure_pages(
    info: dict[str, str], spaces: dict[str, str], sample_ids: dict[str, str], rounds: int
) -> dict[str, Any]:
    """Return milliseconds until first and last content, by page and by `full`, `empty` or `clicked`, per round.

    `spaces`: ids of the namespaces `full` and `empty`. `sample_ids`: run and document for the addresses.
    """
    timings: dict[str, dict[str, list[tuple[float, float]]]] = {}
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM_PATH, args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        _sign_in(context, info)
        for number in range(rounds + 1):
            for title, view in PAGE_VIEWS.items():
                for kind, namespace in spaces.items():
                    if kind == "empty" and "{" in view.query:
                        continue
                    query = f"{view.query.format(**sample_ids)}&namespace={namespace}"
                    full_selectors = view.first_content, view.last_content
                    selectors = full_selectors if kind == "full" else (view.empty_content, view.empty_content)
                    timing = time_address(context, f"{info['ui']}/{view.path}?{query}", selectors)
                    print(
                        f"{number} {title} {kind}: {timing[0]:.0f} ms, drawn {timing[1]:.0f} ms",
                        file=sys.stderr,
                        flush=True,
                    )
                    # Round 0 is warm-up.
                    if number:
                        timings.setdefault(title, {}).setdefault(kind, []).append(timing)
            for title, timing in time_links(context, info, spaces["full"]):
                if number:
                    timings[title].setdefault("clicked", []).append(timing)
        browser.close()
    return timings


def _sign_in(context: BrowserContext, info: dict[str, str]) -> None:
    page = context.new_page()
    page.goto(info["ui"])
    page.get_by_label("API key").fill(info["apiKey"])
    page.get_by_role("button", name="Sign in").click()
    page.locator("[data-testid=stSidebarNavItems]").wait_for()
    page.close()


def time_address(context: BrowserContext, address: str, selectors: tuple[str, str]) -> tuple[float, float]:
    page = context.new_page()
    started = time.perf_counter()
    page.goto(address, wait_until="commit")
    milliseconds = time_selectors(page, selectors, started)
    page.close()
    return milliseconds


def time_links(context: BrowserContext, info: dict[str, str], namespace: str) -> list[tuple[str, tuple[float, float]]]:
    """Time the pages with a link, one after the other in a tab."""
    page = context.new_page()
    page.goto(f"{info['ui']}/search?namespace={namespace}")
    page.get_by_role("heading", level=1).wait_for()
    visits = []
    for title, view in PAGE_VIEWS.items():
        if view.link:
            started = time.perf_counter()
            page.get_by_role("link", name=view.link, exact=True).click()
            visits.append((title, time_selectors(page, (view.first_content, view.last_content), started)))
    page.close()
    return visits


def time_selectors(page: Page, selectors: tuple[str, str], started: float) -> tuple[float, float]:
    """Return milliseconds until first and last content."""
    milliseconds = []
    for selector in selectors:
        page.locator(selector).first.wait_for(timeout=60_000)
        milliseconds.append(round((time.perf_counter() - started) * 1000, 1))
    return milliseconds[0], milliseconds[1]


def print_figures(figures: dict[str, Any]) -> None:
    print(f"{figures['documents']} documents; median ms after the request, next to an empty namespace")
    print(f"{'page':<28}{'content':>9}{'worst':>9}{'drawn':>9}{'empty':>9}{'ratio':>7}{'by link':>9}{'drawn':>9}")
    for title, kinds in figures["pages_ms"].items():
        contents, drawn = zip(*kinds["full"], strict=True)
        full, ratio, clicked = statistics.median(contents), f"{'-':>9}{'-':>7}", ""
        if "empty" in kinds:
            empty = statistics.median(content for content, _ in kinds["empty"])
            ratio = f"{empty:>9.0f}{full / empty:>7.2f}"
        if "clicked" in kinds:
            clicked = "".join(f"{statistics.median(values):>9.0f}" for values in zip(*kinds["clicked"], strict=True))
        print(f"{title:<28}{full:>9.0f}{max(contents):>9.0f}{statistics.median(drawn):>9.0f}{ratio}{clicked}")


if __name__ == "__main__":
    main()
