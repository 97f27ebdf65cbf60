"""A hung vendor or site is detected and releases its worker; waiting work resumes after recovery."""

import asyncio
import json
import threading
import time

import pytest

from connectors.http import retries
from flows import pipeline
from flows.run_context import RunContext
from retrieval import readiness, settings
from retrieval.errors import Unavailable
from retrieval.ingestion import crash_isolation
from retrieval.jobs import breaker_watch, queueing, runs
from retrieval.jobs.breaker_watch import Circuits
from retrieval.jobs.queries import batches, breaker_timeout, breakers
from retrieval.jobs.queries.breakers import BreakerTarget
from retrieval.jobs.runs import Ingestion
from tests import registry_instances
from tests.flows.configured import Configured
from tests.flows.plain_steps import without_prefect
from tests.standins import embedding_server, faults
from tests.standins import model_server as model_servers
from tests.standins.model_server import ModelServer


@pytest.fixture
def vendor(monkeypatch):
    """OpenAI stand-in with a time-out of a fifth of a second."""
    monkeypatch.setenv("RETRIEVAL_FETCH_ALLOW", "127.0.0.0/8")
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr("connectors.embedders.openai_protocol.REQUEST_SECONDS", {"document": 0.2, "query": 0.2})
    monkeypatch.setattr(breakers, "MAX_FAILURE_SECONDS", 0.15)
    monkeypatch.setattr(breaker_watch, "STATE_REFRESH_SECONDS", 0.05)
    with embedding_server.running("OPENAI") as server:
        monkeypatch.setenv("RETRIEVAL_ENDPOINTS", json.dumps({"OPENAI": {"base_url": server.base_url}}))
        settings.load_settings.cache_clear()
        yield server
    registry_instances.close_instances()


class Worker:
    """The flow body on waiting work without Prefect; `asked` has one entry per request."""

    def __init__(self, db, spaces, monkeypatch, requests=()):
        self.db = db
        self._asked = requests
        without_prefect(monkeypatch, db, None)
        self._rings = {space.scope.namespace: space.ring for space in spaces}

    def turn(self):
        """Run every dispatchable batch; return requests by namespace."""
        requests_by_namespace = {}
        batches.form_batches(self.db, size=1000, batches=8)
        for batch in batches.undispatched_batches(self.db):
            batches.record_flow_run(self.db, batch, "run")
            lease = batches.claim_lease(self.db, batch.id, batch.attempt, seconds=30)
            requests_before = len(self._asked)
            self.take(lease, self._rings[batch.namespace])
            requests_by_namespace[batch.namespace] = len(self._asked) - requests_before
        return requests_by_namespace

    def take(self, lease, ring):
        run = RunContext(self.db, ring, lease)
        asyncio.run(pipeline.ingest_documents(run))
        asyncio.run(run.close_batch())


def hung(openai, over):
    """Hold every request until `over` is set; return a list with one entry per request."""
    requests = []
    openai.always.append(lambda _handler: requests.append(1) or (over.wait(60) and False))
    return requests


def failing(openai):
    """Answer every request with 500; return a list with one entry per request."""
    requests = []
    refuse = faults.status(500)
    openai.always.append(lambda handler: requests.append(1) or refuse(handler))
    return requests


def statuses(space, run):
    job_run = space.run(run.job_run_id)
    return job_run.status, [document.status for document in (*job_run.queued, *job_run.processing, *job_run.completed)]


@pytest.mark.slow
def test_twenty_hung_namespaces_keep_no_place_and_go_on_when_the_vendor_answers(db, vendor, monkeypatch):
    monkeypatch.setattr(
        breakers, "FIRST_OPEN_SECONDS", 600.0
    )  # however long twenty of them take, nobody probes meanwhile
    over = threading.Event()
    held_requests = hung(vendor, over)
    spaces = [Configured(db, embeddingModelConfig=vendor.config()) for _ in range(20)]
    local = Configured(db)
    worker = Worker(db, [*spaces, local], monkeypatch, held_requests)
    waiting = [(space, space.text("about owls", "owls")) for space in spaces]
    waiting += [(spaces[0], spaces[0].text(f"text {number}", f"{number}")) for number in range(2)]
    requests = worker.turn()
    while len(requests) < 20:
        requests |= worker.turn()
    assert set(requests.values()) == {2}, "a place is kept for the time-outs of one text and of a known good word"
    assert readiness.read_dispatch(db).breakers == 20
    assert worker.turn() == {}, "every place is free"
    mine = local.text("the local text", "local")
    assert worker.turn() == {local.scope.namespace: 0}, "it waits for nobody"
    assert local.run(mine.job_run_id).status == "COMPLETED"
    for space, run in waiting:
        job_run = space.run(run.job_run_id)
        assert (job_run.status in ("QUEUED", "PROCESSING"), job_run.failed) == (True, [])
    (notice,) = [
        waiting_notice
        for waiting_notice in waiting[0][0].run(waiting[0][1].job_run_id).notices
        if "has not answered" in waiting_notice.reason
    ]
    assert "OpenAI has not answered since" in notice.reason
    vendor.always.clear()
    over.set()
    ends = time.monotonic() + 60
    while any(space.run(run.job_run_id).status != "COMPLETED" for space, run in waiting):
        assert time.monotonic() < ends
        db.rows("update breakers set open_until = now() where probe is null")  # the time until the next probe is over
        worker.turn()
    for space, run in waiting:
        job_run = space.run(run.job_run_id)
        assert (job_run.outcome, len(job_run.completed), job_run.notices) == ("SUCCEEDED", 1, [])
    assert len(spaces[0].search("text 1", top_k=10)) == 3
    assert spaces[-1].search("owls") == ["owls"]
    assert db.rows("select key from breakers") == []


@pytest.fixture
def space(db, vendor):
    return Configured(db, embeddingModelConfig=vendor.config())


def test_nobody_asks_while_it_is_open_and_one_run_alone_probes(db, vendor, space, monkeypatch):
    monkeypatch.setattr(breakers, "FIRST_OPEN_SECONDS", 1.0)
    requests = failing(vendor)
    worker = Worker(db, [space], monkeypatch)
    waiting = [space.text(f"text {number}", f"{number}") for number in range(5)]
    worker.turn()
    assert len(requests) == breakers.MAX_CONSECUTIVE_FAILURES
    later = space.text("a later one", "later")
    assert worker.turn() == {}, "what comes later waits, too"
    assert len(requests) == breakers.MAX_CONSECUTIVE_FAILURES
    waits = asyncio.run(read_queue_place(db, later))
    assert waits.start is not None
    time.sleep(1.1)
    batches.form_batches(db, size=1000, batches=8)
    (probe,) = batches.undispatched_batches(db)
    assert len(probe.job_runs) == 1
    batches.form_batches(db, size=1000, batches=8)
    assert len(batches.undispatched_batches(db)) == 1, "one probe at a time"
    batches.record_flow_run(db, probe, "run")
    worker.take(batches.claim_lease(db, probe.id, 1, seconds=30), space.ring)
    assert len(requests) == breakers.MAX_CONSECUTIVE_FAILURES + 2, "the text, and a known good word"
    assert statuses(space, waiting[0]) == ("PROCESSING", ["PROCESSING"])
    (row,) = db.rows("select opens, extract(epoch from open_until - now()) as left from breakers")
    assert row["opens"] == 2
    assert row["left"] > 1.2, "twice as long as before"


async def read_queue_place(db, run):
    try:
        return await queueing.find_position(db, run.job_run_id)
    finally:
        await db.async_close()


def test_no_key_is_kept_and_other_organizations_with_the_same_key_are_asked(db, vendor, space, monkeypatch):
    vendor.always.append(faults.status(500))
    neighbour = Configured(db, embeddingModelConfig=vendor.config())
    worker = Worker(db, [space, neighbour], monkeypatch)
    space.text("mine", "mine")
    worker.turn()
    (row,) = db.rows("select to_jsonb(b)::text as all from breakers b")
    assert embedding_server.KEYS["OPENAI"] not in row["all"]
    vendor.always.clear()
    theirs = neighbour.text("theirs", "theirs")
    worker.turn()
    assert neighbour.run(theirs.job_run_id).outcome == "SUCCEEDED"


def test_a_run_that_waits_too_long_ends_with_the_reason_and_later_ones_go_on_waiting(db, vendor, space, monkeypatch):
    vendor.always.append(faults.status(500))
    worker = Worker(db, [space], monkeypatch)
    old = space.text("old", "old")
    worker.turn()
    db.rows("update breakers set opened_at = now() - interval '2 hours'")
    db.rows("update job_runs set created_at = now() - interval '2 hours' where id = %(id)s", {"id": old.job_run_id})
    young = space.text("young", "young")
    assert breaker_timeout.expire_runs(db) == 1
    job_run = space.run(old.job_run_id)
    assert (job_run.status, job_run.outcome) == ("COMPLETED", "FAILED")
    assert "OpenAI has not answered for 120 minutes" in job_run.failed[0].error
    assert space.run(young.job_run_id).status == "QUEUED"


def site(space, host="slow.example"):
    return BreakerTarget(space.scope.organization, f"The site {host}", {"site": host}, 300)


def request_urls(space, *urls):
    acceptance = runs.accept_discovery(
        space.db, space.scope, source="URLS_LIST", config={"urls": list(urls)}, ingestion=Ingestion()
    )
    return space.call(acceptance).job_run_id


def test_a_site_holds_only_the_runs_that_need_it(db, space):
    slow, healthy = request_urls(space, "https://slow.example/"), request_urls(space, "https://quick.example/")
    batches.form_batches(db, size=64, batches=8)
    waiting = {batch.job_runs: batch for batch in batches.undispatched_batches(db)}
    assert set(waiting) == {(slow,), (healthy,)}, "job runs that find out what to ingest have a flow run each"
    batch = waiting[slow,]
    batches.record_flow_run(db, batch, "run")
    lease = batches.claim_lease(db, batch.id, 1, seconds=30)
    breakers.record_failure(db, site(space), lease.batch_id, seconds=60, reason="The site did not answer in time.")
    mine = Circuits(db, lease)
    with pytest.raises(Unavailable), mine.guard_requests(site(space), job_run=slow, count_failures=True):
        raise AssertionError("it is asked")
    batches.return_runs(db, lease, blocked_runs=mine.blocked_runs, scope_breakers=mine.scope_breakers, suspended=True)
    batches.form_batches(db, size=64, batches=8)
    assert [batch.job_runs for batch in batches.undispatched_batches(db)] == [(healthy,)]
    breakers.record_success(db, site(space).key)
    batches.form_batches(db, size=64, batches=8)
    (resumed,) = [batch for batch in batches.undispatched_batches(db) if batch.job_runs == (slow,)]
    assert (resumed.id, resumed.resumes) == (batch.id, "run"), "the same flow run continues"


@pytest.mark.parametrize("end_of_batch", ["lost", "closed", "finished", "handed back"])
def test_the_probe_of_a_batch_that_is_gone_is_another_ones_at_once(db, space, end_of_batch):
    # The dead process could not release its probe.
    request_urls(space, "https://slow.example/")
    batches.form_batches(db, size=64, batches=8)
    (batch,) = batches.undispatched_batches(db)
    batches.record_flow_run(db, batch, "run")
    lease = batches.claim_lease(db, batch.id, 1, seconds=30)
    target = site(space)
    breakers.record_failure(db, target, "bat_before", seconds=60, reason="It hangs.")
    db.rows("update breakers set open_until = now() - interval '1 second'")
    assert breakers.breaker_state(db, target.key, lease.batch_id).probe == lease.batch_id
    assert breakers.breaker_state(db, target.key, "bat_other").probe == lease.batch_id
    (open_batch,) = batches.open_batches(db)
    match end_of_batch:
        case "lost":
            assert crash_isolation.restart_batch(db, open_batch, blame=crash_isolation.LOSS_BLAME)
        case "closed":
            assert batches.end_batch(db, open_batch, status="CANCELLED", error=None)
        case "finished":
            batches.finish_batch(db, lease)
        case "handed back":
            batches.return_runs(db, lease)
    assert breakers.breaker_state(db, target.key, "bat_other").probe == "bat_other"


@pytest.fixture
def model_server(monkeypatch, tmp_path):
    """Model server with failures for texts with "unembeddable"."""
    monkeypatch.setenv("RETRIEVAL_HOME", str(tmp_path))
    monkeypatch.setenv("RETRIEVAL_FETCH_ALLOW", "127.0.0.0/8")
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(breaker_watch, "STATE_REFRESH_SECONDS", 0.05)
    settings.load_settings.cache_clear()
    with model_servers.running(ModelServer("Ollama")) as server:
        yield server
    registry_instances.close_instances()


def on_server(db, server, neighbour=None, model="custom"):
    config = {"provider": "ENDPOINT", "url": server.url, "model": model, "apiKey": model_servers.API_KEY}
    return Configured(db, neighbour=neighbour, embeddingModelConfig=config | {"learned": {"dimensions": 64}})


def test_a_breaker_opens_when_a_known_good_word_fails_too_and_holds_its_model_only(db, model_server, monkeypatch):
    broken = on_server(db, model_server, model="broken")
    neighbour = on_server(db, model_server, broken, model="custom")
    model_server.broken_model = "broken"
    worker = Worker(db, [broken, neighbour], monkeypatch)
    waiting, done = broken.text("Owls.", "owls"), neighbour.text("Mice.", "mice")
    worker.turn()
    assert neighbour.run(done.job_run_id).outcome == "SUCCEEDED"
    assert broken.run(waiting.job_run_id).status in ("QUEUED", "PROCESSING")
    (row,) = db.rows("select name, reason, open_until is not null as open from breakers")
    assert row == {
        "name": "The model server",
        "reason": "The model server answered with an error of its own (500).",
        "open": True,
    }
