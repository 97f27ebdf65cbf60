"""Flow runs that a person, a schedule or an automation in Prefect starts, with a real server, worker and client."""

from __future__ import annotations

import pytest

from tests.e2e import test_crawl_kills as crawls
from tests.flows import workshop

pytestmark = pytest.mark.service
site = crawls.site


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
            webScraperConfig={"provider": "BUILTIN"},
        ) as made,
    ):
        made.pool.start_workers(limit=2)
        yield made


def quick_run(shop, flow, /, **parameters):
    """Start a flow run as the form of Prefect's UI does."""
    deployment = shop.pool.client.read_deployment_by_name(f"{flow}/{flow}")
    return shop.pool.client.create_flow_run_from_deployment(deployment.id, parameters=parameters).id


def job_runs_of(shop, flow_run_id):
    return shop.db.rows(
        "select r.id, r.source, r.status from job_runs r join batches b on b.id = r.batch_id"
        " where b.flow_run_id = %(id)s",
        {"id": str(flow_run_id)},
    )


def test_a_quick_run_of_a_text_is_the_flow_run_of_its_job_run(shop):
    flow_run = quick_run(
        shop, "ingest-text", namespace=shop.space.scope.namespace, text="Owls hunt at night.", name="owls"
    )
    assert shop.pool.finish(flow_run, 60) == "Completed", shop.pool.run(flow_run).state.message
    (job_run,) = job_runs_of(shop, flow_run)
    assert job_run["status"] == "COMPLETED"
    assert shop.space.search("owls at night") == ["owls"]
    seen = shop.pool.run(flow_run)
    assert job_run["id"] in seen.state.message
    assert {job_run["id"], shop.space.scope.namespace} <= set(seen.tags)


REFUSED = [
    ({"namespace": None, "text": "x"}, "namespace is required"),
    ({"namespace": "ns_none", "text": "x"}, "NAMESPACE_NOT_FOUND: There is no such namespace."),
    ({"text": " "}, "INVALID_INGEST_CONFIG: ingestConfig.config.text is blank."),
    ({}, "INVALID_INGEST_CONFIG: ingestConfig.config.text is required."),
]


def test_invalid_parameters_fail_with_the_message_of_the_api(shop):
    own = {"namespace": shop.space.scope.namespace}
    started = [(quick_run(shop, "ingest-text", **own | parameters), message) for parameters, message in REFUSED]
    for flow_run, message in started:
        assert shop.pool.finish(flow_run, 60) == "Failed"
        assert message in shop.pool.run(flow_run).state.message
        assert not job_runs_of(shop, flow_run)
