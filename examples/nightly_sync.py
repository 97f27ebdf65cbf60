"""Ingest a website again every night by a flow of your own in Prefect; if a night fails, its flow run fails.

export RETRIEVAL_API_URL=… RETRIEVAL_API_KEY=… PREFECT_API_URL=…
python examples/nightly_sync.py NAMESPACE_ID https://docs.example.com/           # every night at three
python examples/nightly_sync.py NAMESPACE_ID https://docs.example.com/ --once    # now
"""

from __future__ import annotations

import argparse
import os

from prefect import flow, get_run_logger, task

from retrieval_client import RetrievalClient


@task(retries=2, retry_delay_seconds=300)
def ingest_website(namespace: str, url: str) -> dict[str, int]:
    """Return numbers of completed and failed pages; RuntimeError for a failed job run."""
    with RetrievalClient(os.environ["RETRIEVAL_API_URL"], os.environ["RETRIEVAL_API_KEY"]) as client:
        run = client.ingest.website(namespace, url, max_links=500, wait=True, timeout=3600)
    for failed in run.documents.failed:
        get_run_logger().warning("%s: %s", failed.id, failed.error)
    if run.outcome == "FAILED":
        raise RuntimeError(f"nothing of {url} was ingested: {[notice.reason for notice in run.notices]}")
    return {"completed": len(run.documents.completed), "failed": len(run.documents.failed)}


@flow(name="nightly-sync", log_prints=True)
def nightly_sync(namespace: str, url: str) -> dict[str, int]:
    """Bring a namespace up to date with a website."""
    counts = ingest_website(namespace, url)
    print(f"{url}: {counts['completed']} pages, {counts['failed']} failed")
    return counts


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("namespace")
    parser.add_argument("url")
    parser.add_argument("--once", action="store_true")
    options = parser.parse_args()
    parameters = {"namespace": options.namespace, "url": options.url}
    if options.once:
        nightly_sync(**parameters)
    else:
        nightly_sync.serve(name="nightly", cron="0 3 * * *", parameters=parameters)
