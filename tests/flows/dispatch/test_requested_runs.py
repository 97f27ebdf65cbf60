"""Flow runs started in Prefect by users, schedules and automations."""

from __future__ import annotations

import subprocess
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.schedules import IntervalSchedule
from prefect.exceptions import PrefectHTTPStatusError
from prefect.states import AwaitingRetry

from retrieval.accounts import quotas
from tests.flows import workshop
from tests.flows.conftest import PREFECT
from tests.flows.worker.test_worker import eventually, stop
from tests.standins.faults import Handler, served

pytestmark = pytest.mark.service

PAGE = "<html><title>Owls</title><main><p>Owls hunt mice at night, and sleep by day in hollow trees.</p></main></html>"


@pytest.fixture
def site():
    """URL of a site with a page and a sitemap."""

    class Site(Handler):
        def do_GET(self):  # noqa: N802
            address = f"http://{self.headers['Host']}"
            sitemap = f"<urlset><url><loc>{address}/owls</loc></url></urlset>"
            body = {"/": PAGE, "/owls": PAGE, "/sitemap.xml": sitemap}.get(self.path)
            kind = {"Content-Type": "text/xml" if "xml" in self.path else "text/html"}
            self.reply(200 if body else 404, (body or "").encode(), kind)

    with served(Site) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def shop(db, prefect_server, prefect_server_environment, tmp_path_factory):
    assert prefect_server
    with (
        pytest.MonkeyPatch.context() as monkeypatch,
        workshop.opened(
            db,
            monkeypatch,
            prefect_server_environment,
            tmp_path_factory.mktemp("shop"),
            grace_seconds=0,
            webScraperConfig={"provider": "BUILTIN"},
        ) as opened,
    ):
        opened.pool.start_workers(limit=2)
        yield opened


def deployment_of(shop, flow):
    return shop.pool.client.read_deployment_by_name(f"{flow}/{flow}")


def quick_run(shop, flow, /, **parameters):
    """Start a flow run as the form of Prefect's UI does."""
    parameters_sent = {"namespace": shop.space.scope.namespace} | parameters
    return shop.pool.client.create_flow_run_from_deployment(deployment_of(shop, flow).id, parameters=parameters_sent).id


def job_runs(shop, source):
    return shop.db.rows(
        "select r.id, r.status, b.flow_run_id from job_runs r left join batches b on b.id = r.batch_id"
        " join partitions p on p.id = r.partition_id where p.namespace_id = %(namespace)s and r.source = %(source)s",
        {"namespace": shop.space.scope.namespace, "source": source},
    )


def job_runs_of(shop, flow_run_id, source="TEXT"):
    return [run for run in job_runs(shop, source) if run["flow_run_id"] == str(flow_run_id)]


def audit_entries(shop):
    return shop.db.rows(
        "select object_id, key_id, key_name, source, route, status, client_request_id from audit_entries"
        " where organization_id = %(organization)s order by created_at",
        {"organization": shop.space.scope.organization},
    )


def wait_for_job_run(shop, source):
    """Wait for the first completed job run of the source."""

    def completed():
        return [run for run in job_runs(shop, source) if run["status"] == "COMPLETED"]

    eventually(lambda: bool(completed()), 120, lambda: f"{job_runs(shop, source)}\n{shop.pool.log()}")
    return completed()


def test_a_quick_run_of_a_text_is_the_flow_run_of_its_job_run(shop):
    flow_run = quick_run(shop, "ingest-text", text="Owls hunt at night.", name="owls", metadata={"kind": "bird"})
    while not shop.pool.run(flow_run).state.is_final():
        shop.turn()  # the dispatcher finds nothing to start
    assert shop.pool.state(flow_run) == "Completed", shop.pool.run(flow_run).state.message
    (job_run,) = job_runs_of(shop, flow_run)
    assert job_run["status"] == "COMPLETED"
    assert shop.space.search("owls at night") == ["owls"]
    flow_run_read = shop.pool.run(flow_run)
    assert flow_run_read.state.message.startswith(f"Job run {job_run['id']}: 1 document")
    assert {job_run["id"], shop.space.scope.namespace} <= set(flow_run_read.tags)
    artifacts = shop.pool.client.read_artifacts(flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[flow_run])))
    assert any(job_run["id"] in str(artifact.data) for artifact in artifacts)
    entry = audit_entries(shop)[-1]
    assert (entry["object_id"], entry["source"], entry["key_name"], entry["key_id"], entry["status"]) == (
        job_run["id"],
        "PREFECT",
        "Prefect",
        None,
        200,
    )
    assert (entry["route"], entry["client_request_id"]) == ("/v1/ingest/text", str(flow_run))


@pytest.mark.slow
def test_a_flow_run_that_is_executed_again_keeps_its_job_run(shop):
    flow_run = quick_run(shop, "ingest-text", text="Mice sleep by day.", name="mice")
    assert shop.pool.finish(flow_run, 60) == "Completed"
    shop.pool.client.set_flow_run_state(flow_run, AwaitingRetry(scheduled_time=datetime.now(UTC)), force=True)
    eventually(lambda: shop.pool.run(flow_run).run_count == 2, 60, shop.pool.log)
    assert shop.pool.finish(flow_run, 60) == "Completed"
    assert len(job_runs_of(shop, flow_run)) == 1
    assert len([run for run in audit_entries(shop) if run["client_request_id"] == str(flow_run)]) == 1


REFUSED = [
    ({"namespace": "", "text": "x"}, "INVALID_INGEST_CONFIG: namespace is required"),
    ({"namespace": "ns_none", "text": "x"}, "NAMESPACE_NOT_FOUND: There is no such namespace."),
    ({"text": " "}, "INVALID_INGEST_CONFIG: ingestConfig.config.text is blank."),
    ({}, "INVALID_INGEST_CONFIG: ingestConfig.config.text is required."),
    ({"text": "x", "tenant": "not/one"}, "invalid_tenant_id: X-Tenant-ID has up to 64 letters"),
    ({"text": "x", "chunk_size": 5, "chunk_overlap": 9}, "INVALID_CHUNK_CONFIG: ingestConfig.chunkConfig.chunkOverlap"),
]


@pytest.mark.slow
def test_invalid_parameters_fail_with_the_message_of_the_api(shop):
    started = [(quick_run(shop, "ingest-text", **parameters), message) for parameters, message in REFUSED]
    started.append((quick_run(shop, "ingest-website", url="ftp://x"), "ingestConfig.config.url"))
    started.append(
        (quick_run(shop, "ingest-website", url="http://x.example", max_depth=9), "maxDepth must be at most 5")
    )
    started.append((quick_run(shop, "ingest-notion", connection="conn_none"), "CONNECTION_NOT_FOUND: "))
    for flow_run, message in started:
        assert shop.pool.finish(flow_run, 60) == "Failed"
        assert message in shop.pool.run(flow_run).state.message
        assert not job_runs_of(shop, flow_run)
    refused = [entry for entry in audit_entries(shop) if entry["client_request_id"] == str(started[2][0])]
    assert [(entry["status"], entry["key_name"]) for entry in refused] == [(400, "Prefect")]


@pytest.mark.slow
def test_a_name_that_several_namespaces_have_is_refused(shop):
    shared, own_name = f"shared {uuid.uuid4()}", f"own {uuid.uuid4()}"
    rename = "update namespaces set name = %(name)s where id = %(id)s"
    neighbour = workshop.Configured(shop.db)
    for space in (shop.space, neighbour):
        shop.db.execute(rename, {"name": shared, "id": space.scope.namespace})
    refused = quick_run(shop, "ingest-text", namespace=shared, text="x")
    assert shop.pool.finish(refused, 60) == "Failed"
    assert "Enter an id" in shop.pool.run(refused).state.message
    shop.db.execute(rename, {"name": own_name, "id": shop.space.scope.namespace})
    accepted = quick_run(shop, "ingest-text", namespace=own_name, text="Bats hear well.", name="bats")
    assert shop.pool.finish(accepted, 60) == "Completed"
    assert len(job_runs_of(shop, accepted)) == 1


@pytest.mark.slow
def test_a_request_beyond_a_quota_fails_with_its_message(shop):
    organization = shop.space.scope.organization
    quotas.set_organization_quotas(shop.db, organization, {"documents": 0})
    try:
        flow_run = quick_run(shop, "ingest-text", text="One too many.", name="many")
        assert shop.pool.finish(flow_run, 60) == "Failed"
    finally:
        quotas.set_organization_quotas(shop.db, organization, {"documents": None})
    assert "QUOTA_EXCEEDED: " in shop.pool.run(flow_run).state.message
    assert not job_runs_of(shop, flow_run)


def test_a_parameter_of_the_wrong_type_is_refused_at_once(shop):
    with pytest.raises(PrefectHTTPStatusError, match="max_depth"):
        quick_run(shop, "ingest-website", url="http://x.example", max_depth="deep")


def test_a_file_cannot_be_a_parameter(shop):
    deployment = deployment_of(shop, "ingest-file")
    flow_run = shop.pool.client.create_flow_run_from_deployment(deployment.id, parameters={}).id
    assert shop.pool.finish(flow_run, 60) == "Failed"
    assert "Upload files" in shop.pool.run(flow_run).state.message


@pytest.mark.slow
def test_the_command_line_of_prefect_runs_a_deployment(shop, site):
    command = [PREFECT, "--no-prompt", "deployment", "run", "ingest-website/ingest-website", "--watch"]
    parameters = [f"url={site}", f"namespace={shop.space.scope.namespace}", "max_depth=1", "max_links=3"]
    options = [word for parameter in parameters for word in ("-p", parameter)]
    done = subprocess.run(
        [*command, *options], env=shop.pool.environment, capture_output=True, text=True, timeout=120, check=False
    )
    (job_run,) = job_runs(shop, "WEBSITE")
    assert done.returncode == 0, shop.pool.run(job_run["flow_run_id"]).state.message
    assert job_run["status"] == "COMPLETED"
    assert shop.space.run(job_run["id"]).outcome == "SUCCEEDED"


@pytest.mark.slow
def test_a_schedule_that_is_set_in_prefect_ingests_each_time(shop, site):
    deployment = deployment_of(shop, "ingest-urls")
    due = IntervalSchedule(interval=timedelta(seconds=20), anchor_date=datetime.now(UTC) + timedelta(seconds=2))
    parameters = {"namespace": shop.space.scope.namespace, "urls": [site]}
    (schedule,) = shop.pool.client.create_deployment_schedules(
        deployment.id, [DeploymentScheduleCreate(schedule=due, parameters=parameters, active=True)]
    )
    try:
        eventually(lambda: len(job_runs(shop, "URLS_LIST")) >= 2, 150, shop.pool.log)
    finally:
        shop.pool.client.delete_deployment_schedule(deployment.id, schedule.id)
    flow_runs = {run["flow_run_id"] for run in wait_for_job_run(shop, "URLS_LIST")}
    assert all(shop.pool.run(flow_run).auto_scheduled for flow_run in flow_runs)


@pytest.mark.slow
def test_a_flow_run_whose_worker_is_stopped_continues_its_job_run(shop, slow_site):
    flow_run = quick_run(shop, "ingest-website", url=f"{slow_site.url}/p0", max_links=60)

    def is_at_work():
        return any(run["status"] != "QUEUED" for run in job_runs_of(shop, flow_run, "WEBSITE"))

    eventually(is_at_work, 60, shop.pool.log)
    stop(shop.pool.workers.pop())
    assert shop.pool.state(flow_run) == "Interrupted"
    shop.pool.start_workers(limit=2)
    assert shop.pool.finish(flow_run, 120) == "Completed", shop.pool.run(flow_run).state.message
    assert len(job_runs_of(shop, flow_run, "WEBSITE")) == 1
    assert shop.pool.run(flow_run).run_count == 2
