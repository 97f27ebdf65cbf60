"""A user cancels or retries a flow run in Prefect, with a real server and worker."""

import pytest
from prefect.states import AwaitingRetry, Cancelling, Pending

from tests.flows import workshop
from tests.flows.crawling import accept


@pytest.fixture
def shop(db, monkeypatch, prefect_server, prefect_server_environment, tmp_path):
    assert prefect_server
    with workshop.opened(
        db, monkeypatch, prefect_server_environment, tmp_path, webScraperConfig={"provider": "BUILTIN"}
    ) as opened:
        yield opened


def final(shop, run):
    """Ended flow run of the job run."""
    state = shop.flow_run(run).state
    return state if state.is_final() else None


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_cancelled_there_is_cancelled_here(shop, slow_site):
    texts = [shop.space.text(f"text {number}", f"text {number}").job_run_id for number in range(3)]
    shop.until(lambda: shop.batch(texts[0]).get("flow_run_id"))
    assert shop.flow_run(texts[0]).name.startswith("3 texts in ")
    shop.pool.client.set_flow_run_state(shop.flow_run(texts[0]).id, Cancelling())
    shop.until(lambda: all(shop.done(run) for run in texts))
    assert [shop.done(run).outcome for run in texts] == ["CANCELLED"] * 3

    crawl = accept(shop.space, "WEBSITE", url=f"{slow_site.url}/p0", maxDepth=5, maxLinks=1000)
    shop.pool.start_workers()
    shop.until(lambda: shop.is_worked_on(crawl) and shop.space.run(crawl).progress["found"])
    shop.pool.client.set_flow_run_state(shop.flow_run(crawl).id, Cancelling())
    ended = shop.until(lambda: shop.done(crawl))
    assert (ended.outcome, ended.failed) == ("CANCELLED", [])
    assert shop.until(lambda: final(shop, crawl)).name == "Cancelled"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_a_worker_claimed_and_never_began_is_ingested_by_another(shop):
    run = shop.space.text("Owls hunt mice at night.", "owls").job_run_id
    shop.until(lambda: shop.batch(run).get("flow_run_id"))
    shop.pool.client.set_flow_run_state(shop.flow_run(run).id, Pending())
    shop.pool.start_workers()
    assert shop.until(lambda: shop.done(run), 120).outcome == "SUCCEEDED"
    assert shop.batch(run)["attempt"] == 2


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_retried_there_what_failed_runs_again_and_the_state_tells_the_outcome(shop):
    broken = shop.space.file("broken.pdf", b"%PDF-1.7 nothing of the kind", "application/pdf")
    good = shop.space.file("good.txt", b"Owls hunt mice at night.", "text/plain")
    runs = [broken.job_run_id, good.job_run_id]
    shop.pool.start_workers()
    shop.until(lambda: all(shop.done(run) for run in runs))
    assert [shop.done(run).outcome for run in runs] == ["FAILED", "SUCCEEDED"]
    assert shop.until(lambda: final(shop, broken.job_run_id)).name == "CompletedWithFailures"
    flow_run = shop.flow_run(broken.job_run_id).id

    def retried():
        rows = shop.db.rows(
            "select id from job_runs where job_id = (select job_id from job_runs where id = %(run)s)"
            " order by number desc limit 1",
            {"run": broken.job_run_id},
        )
        second_run = rows[0]["id"]
        return second_run if second_run not in seen_runs and shop.done(second_run) else None

    seen_runs = {broken.job_run_id}
    for content, outcome, state in ((None, "FAILED", "Failed"), (b"Bread rises.", "SUCCEEDED", "Completed")):
        if content is not None:
            row = shop.db.row("select raw_key from documents where id = %(id)s", {"id": broken.document_id})
            newest = shop.db.row(
                "select raw_key from run_documents where document_id = %(id)s order by generation desc limit 1",
                {"id": broken.document_id},
            )
            mend(shop, (newest or row)["raw_key"], broken.document_id)
        shop.pool.client.set_flow_run_state(flow_run, AwaitingRetry())
        second_run = shop.until(retried)
        seen_runs.add(second_run)
        assert shop.done(second_run).outcome == outcome
        assert shop.until(lambda second_run=second_run: final(shop, second_run)).name == state
        assert shop.flow_run(second_run).id == flow_run


def mend(shop, key, document_id):
    """The file in the store can be read from now on."""
    from connectors import registry

    registry.make_file_store(shop.space.config).put(key, [b"Bread rises because of yeast."])
    shop.db.rows(
        "update run_documents set media_type = 'text/plain', name = 'broken.txt' where document_id = %(id)s",
        {"id": document_id},
    )
