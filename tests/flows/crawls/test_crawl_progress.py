"""Progress of a running crawl in its job run and in Prefect."""

import asyncio
import gc

import pytest

from flows import context, report, sources
from retrieval.jobs.queries import batches
from tests.flows.crawling import accept
from tests.flows.crawls.site import answer, wide

PAGES = 24


@pytest.fixture
def broken(site):
    """Break two pages; robots.txt excludes another."""
    wide(site, PAGES)
    for path in ("/p20", "/p21"):
        del site.pages[path]
    site.pages["/robots.txt"] = answer(b"User-agent: *\nDisallow: /p22\n", content_type="text/plain")
    return site


async def _flow_and_its_artifacts(batch):
    """Artifacts of the flow run in order of their updates."""
    from prefect import get_client
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId

    state = await sources.ingest_website(batch.id, batch.attempt, return_state=True)
    chosen = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[state.state_details.flow_run_id]))
    async with get_client() as client:
        artifacts = await client.read_artifacts(artifact_filter=chosen)
        return state, sorted(artifacts, key=lambda artifact: artifact.updated)


@pytest.mark.usefixtures("prefect_server")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Prefect's client leaves its sockets
def test_prefect_shows_what_a_crawl_finds_and_leaves_out(space, broken, monkeypatch):
    descriptions, update = [], report.aupdate_progress_artifact
    monkeypatch.setenv("RETRIEVAL_UI_PUBLIC_URL", "https://admin.example.org/app/")

    async def watched(artifact, progress, description=None):
        descriptions.append(description)
        await update(artifact, progress, description)

    monkeypatch.setattr(report, "aupdate_progress_artifact", watched)
    monkeypatch.setattr(report, "LISTING_CHECK_SECONDS", 0.05)
    monkeypatch.setattr(context, "open_database", lambda: space.db)
    monkeypatch.setattr(context, "load_keys", lambda: space.ring)
    run = accept(space, "WEBSITE", url=f"{broken.url}/p0", maxDepth=5, maxLinks=1000)
    batches.form_batches(space.db, size=64, batches=8)
    (batch,) = batches.undispatched_batches(space.db)
    state, artifacts = asyncio.run(_flow_and_its_artifacts(batch))
    gc.collect()
    assert state.name == "CompletedWithFailures"
    assert space.run(run).status == "COMPLETED"
    whole = f"Finding out what to ingest: {PAGES - 3} found, {PAGES - 3} fetched, 2 failed, 1 left out."
    finding = [text for text in descriptions if text and text.startswith("Finding")]
    assert finding[-1] == whole
    assert len(set(finding)) > 1, "nothing was seen before the end"
    bars = {
        shown_artifact.description: shown_artifact.data
        for shown_artifact in artifacts
        if shown_artifact.type == "progress"
    }
    assert bars[whole] == 100
    (table,) = [shown_artifact for shown_artifact in artifacts if shown_artifact.type == "table"]
    assert table.description.startswith(
        f"Documents of this run: {PAGES - 1}, 2 of them failed. Left out: 1 (The site's"
    )
    assert table.data.count("The site answers 404") == 2
    link = f"(https://admin.example.org/app/runs?namespace={space.scope.namespace}&run={run})"
    assert table.description.endswith(link)
