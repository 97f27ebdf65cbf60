"""Work continues after a loss of Prefect's server or its database."""

import os
import signal

import httpx
import psycopg
import pytest

from local import postgres

pytestmark = pytest.mark.slow
TEXTS = 40
AFTER_ITS_RETURN = 60.0


@pytest.fixture(scope="module")
def service(service_of_module):
    started = service_of_module(lease_seconds="6")
    started.expects_kills()
    started.wait(started.text("warm")["ingestJobRunId"])
    return started


def answers(service):
    try:
        with service.prefect() as prefect:
            return prefect.get("/ready", timeout=2).is_success
    except httpx.HTTPError:
        return False


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stands still"])
def test_work_goes_on_within_a_minute_of_the_return_of_prefects_server(service, number):
    first = service.pid("prefect")
    os.kill(first, number)
    runs = [service.text(f"{number.name} {i}. " * 20)["ingestJobRunId"] for i in range(TEXTS)]
    if number == signal.SIGSTOP:
        service.until(lambda: service.client.get("/ready").status_code == 503)
        assert service.client.get("/ready", params={"for": "requests"}).status_code == 200
        assert service.run("status").returncode == 3
    service.until(lambda: service.pid("prefect") not in (None, first) and answers(service))
    service.wait(*runs, seconds=AFTER_ITS_RETURN)


def test_a_home_whose_prefect_knows_nothing_goes_on_where_it_was(service):
    # Earlier versions kept Prefect in SQLite; schedules and queued job runs are ours.
    os.kill(service.pid("worker"), signal.SIGSTOP)
    runs = [service.text(f"Accepted before the change, {i}.")["ingestJobRunId"] for i in range(3)]
    with psycopg.connect(postgres.url(service.home), autocommit=True) as connection:
        connection.execute(
            "insert into schedules (id, partition_id, job_id, source, config, minutes)"
            " select 'sch_old', min(id), 'job_old', 'WEBSITE', '{}', 60 from partitions"
        )
        dispatched = "select from batches where finished_at is null and dispatched_at is not null"
        service.until(lambda: connection.execute(dispatched).fetchall())
    service.down()
    with psycopg.connect(postgres.start(service.home), autocommit=True) as connection:
        connection.execute("drop database prefect")
        connection.execute("drop role prefect")
    postgres.stop(service.home)
    (service.home / "prefect" / "prefect.db").write_bytes(b"SQLite format 3")
    service.up()
    service.wait(*runs)

    def schedules():
        with service.prefect() as prefect:
            deployment = prefect.get("/deployments/name/sync-connection/sync-connection").raise_for_status().json()
        return [schedule["slug"] for schedule in deployment["schedules"] if schedule["active"]]

    assert service.until(schedules) == ["sch_old"]
