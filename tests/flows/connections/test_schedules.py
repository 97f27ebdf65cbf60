"""Connections with a sync interval: schedules in a real Prefect and their job runs."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import psycopg
import pytest
from prefect.client.orchestration import get_client
from prefect.server.schemas import schedules as server_schedules

from connectors import registry
from flows import scheduled_sync
from flows.dispatch import schedules as prefect_schedules
from flows.register import register_deployments
from retrieval import settings
from retrieval.accounts import quotas
from retrieval.connections import connections, schedules
from retrieval.connections.schedules import Timing
from retrieval.jobs.runs import JOB_RUNS_CHANNEL
from tests.flows.connected import ConnectedSpace, lead_to
from tests.standins import memory


@pytest.fixture
def space(db, monkeypatch):
    monkeypatch.setitem(registry.CONNECTOR_FACTORIES, "BOX", "tests.standins.memory:make")
    db.rows("delete from schedules")
    with memory.serving("BOX") as account:
        lead_to(monkeypatch, account)
        account.put("notes/owls.txt", "Owls hunt mice at night without a sound.")
        yield ConnectedSpace(db, account)
    settings.load_settings.cache_clear()


def schedule_every(space, minutes):
    """The id of the schedule of the connection's interval."""
    change = connections.ConnectionChange(sync_minutes=minutes, changes_sync=True)
    changed = connections.change_connection(space.db, space.ring, space.scope, space.connection, change, None)
    return space.call(changed).schedule["id"]


async def read_prefect_schedules():
    async with get_client() as client:
        deployment = await client.read_deployment_by_name(prefect_schedules.SYNC_DEPLOYMENT)
        schedules_in_prefect = await client.read_deployment_schedules(deployment.id)
    return {
        schedule.slug: (schedule.schedule.interval.total_seconds() / 60, schedule.parameters)
        for schedule in schedules_in_prefect
    }


@pytest.mark.usefixtures("registered_deployments")
def test_prefect_has_the_schedules_that_connections_ask_for(space):
    async def reconciled():
        async with get_client() as client:
            return await prefect_schedules.reconcile_schedules(client, schedules.list_timings(space.db))

    assert asyncio.run(reconciled()) == 0
    for minutes, touched in ((30, 1), (30, 0), (60, 1)):
        schedule = schedule_every(space, minutes)
        assert asyncio.run(reconciled()) == touched
        assert asyncio.run(read_prefect_schedules()) == {schedule: (minutes, {"schedule_id": schedule})}
    asyncio.run(register_deployments())
    asyncio.run(reconciled())
    assert list(asyncio.run(read_prefect_schedules())) == [schedule]
    space.db.rows("update connections set status = 'REVOKED' where id = %(id)s", {"id": space.connection})
    assert asyncio.run(reconciled()) == 1
    assert asyncio.run(read_prefect_schedules()) == {}


def test_a_schedule_asks_for_one_run_at_a_time_of_one_job(space):
    first = space.repeat()
    waiting = space.repeat()
    assert (waiting.job_run_id, waiting.reason) == (None, "A job run of this connection is under way.")
    space.work()
    assert space.run(first.job_run_id).status == "COMPLETED"
    assert space.search("owls hunt at night", top_k=1) == ["owls.txt"]
    second = space.repeat()
    space.work()
    assert space.run(second.job_run_id).failed == []
    jobs = space.db.rows(
        "select distinct job_id from job_runs where id = any(%(ids)s)", {"ids": [first.job_run_id, second.job_run_id]}
    )
    assert len(jobs) == 1


def test_a_scheduled_run_keeps_the_options_of_the_newest_request(space):
    run = space.request()
    space.db.rows(
        "update jobs set config = config || '{\"chunkSize\": 277}' where id ="
        " (select job_id from job_runs where id = %(run)s)",
        {"run": run},
    )
    space.work()
    scheduled = space.repeat()
    row = space.db.row(
        "select j.config from job_runs r join jobs j on j.id = r.job_id where r.id = %(run)s",
        {"run": scheduled.job_run_id},
    )
    assert (row["config"]["chunkSize"], row["config"]["scheduled"]) == (277, True)


def test_a_schedule_beyond_a_quota_is_refused_and_the_connection_says_so(space):
    org = space.scope.organization

    def reason():
        connection = space.db.row(
            "select status, status_reason from connections where id = %(id)s", {"id": space.connection}
        )
        assert connection["status"] == "ACTIVE"
        return connection["status_reason"]

    quotas.set_organization_quotas(space.db, org, {"concurrentRuns": 0})
    refused = space.repeat()
    assert refused.job_run_id is None
    assert refused.reason == reason()
    assert "organization's quota of 0 job runs at the same time; 0 are used" in reason()
    assert space.db.rows("select 1 from jobs where organization_id = %(id)s", {"id": org}) == []
    quotas.set_organization_quotas(space.db, org, {"concurrentRuns": 1})
    assert space.repeat().job_run_id
    assert reason() is None


@pytest.mark.parametrize("status", ["FAILED", "REVOKED"])
def test_only_an_active_connection_is_ingested(space, status):
    schedule = schedule_every(space, 5)
    assert schedule in schedules.list_timings(space.db)
    space.db.rows("update connections set status = %(s)s where id = %(id)s", {"s": status, "id": space.connection})
    assert schedule not in schedules.list_timings(space.db)
    skipped = schedules.repeat_ingestion(space.db, schedule)
    assert (skipped.job_run_id, skipped.reason) == (None, "The connection is not ACTIVE.")


def test_the_flow_says_what_became_of_it(space, monkeypatch):
    monkeypatch.setattr(scheduled_sync.context, "open_database", lambda: space.db)
    schedule = schedule_every(space, 5)
    monkeypatch.setattr(scheduled_sync, "flow_run", SimpleNamespace(parameters={"schedule_id": schedule}))
    (connection,) = space.db.rows("select name from connections where id = %(id)s", {"id": space.connection})
    assert scheduled_sync.name_flow_run() == f"Sync of {connection['name']}"
    with psycopg.connect(space.db.url, autocommit=True) as listener:
        listener.execute("listen " + JOB_RUNS_CHANNEL)
        done = asyncio.run(scheduled_sync.sync_connection.fn(schedule))
        heard = list(listener.notifies(timeout=5, stop_after=1))
    assert "waits for its turn" in done.message
    assert heard, "a dispatcher at rest is woken"
    second_state = asyncio.run(scheduled_sync.sync_connection.fn(schedule))
    assert second_state.name == "Skipped"


@pytest.mark.usefixtures("registered_deployments")
def test_a_pause_goes_to_prefect_and_comes_from_there(space):
    """A paused interval of a connection."""
    run = space.request()
    created_id = space.call(
        schedules.create_schedule(space.db, space.scope, run, Timing(cron="0 6 * * *", time_zone="Europe/Berlin"))
    ).id

    async def reconcile(active=None):
        """Schedule in Prefect after a round, with `active` set before."""

        async def settle(schedule_id, paused):
            schedules.settle_pause(space.db, schedule_id, paused=paused)

        async with get_client() as client:
            deployment = (await client.read_deployment_by_name(prefect_schedules.SYNC_DEPLOYMENT)).id

            async def read():
                schedules_in_prefect = await client.read_deployment_schedules(deployment)
                return {schedule.slug: schedule for schedule in schedules_in_prefect}.get(created_id)

            if active is not None:
                await client.update_deployment_schedule(deployment, (await read()).id, active=active)
            await prefect_schedules.reconcile_schedules(client, schedules.list_timings(space.db), None, settle)
            return await read()

    def paused():
        return space.call(schedules.get_schedule(space.db, space.scope, created_id)).paused

    shown_schedule = asyncio.run(reconcile())
    assert (shown_schedule.active, shown_schedule.schedule.cron, shown_schedule.schedule.timezone) == (
        True,
        "0 6 * * *",
        "Europe/Berlin",
    )
    assert shown_schedule.parameters == {"schedule_id": created_id}
    space.call(schedules.change_schedule(space.db, space.scope, created_id, None, None, paused=True))
    assert asyncio.run(reconcile()).active is False
    assert asyncio.run(reconcile(active=True)).active is True
    assert paused() is False
    assert asyncio.run(reconcile(active=False)).active is False
    assert paused() is True
    assert schedules.repeat_ingestion(space.db, created_id).reason == "A job run of this connection is under way."
    space.work()
    assert schedules.repeat_ingestion(space.db, created_id).job_run_id
    space.call(schedules.delete_schedule(space.db, space.scope, created_id))
    assert asyncio.run(reconcile()) is None


@pytest.mark.parametrize(
    ("cron", "zone"),
    [("*/7 * * * *", "UTC"), ("30 2 * * *", "Europe/Berlin"), ("0 6 * * MON-FRI", "America/New_York")],
)
def test_cron_schedule_is_due_when_prefect_makes_the_run(cron, zone):
    """Includes daylight saving: 2027-03-28 in Berlin lacks 02:30, 2026-10-25 has two."""
    timing = Timing(cron=cron, time_zone=zone)
    assert schedules.check_timing(timing) is None
    body = prefect_schedules.make_schedule("sch_a", timing).model_dump(mode="json")
    parsed = server_schedules.CronSchedule.model_validate(body)
    for day in ("2026-10-24", "2026-11-27", "2027-03-13", "2027-03-26"):
        current_time = datetime.fromisoformat(f"{day}T12:01:00+00:00")
        (due,) = asyncio.run(parsed.get_dates(1, start=current_time))
        assert schedules.next_due("sch_a", timing, current_time).timestamp() == due.timestamp()


@pytest.mark.parametrize("minutes", [1, 15, 1440, 10080])
def test_the_next_run_that_is_told_is_the_one_that_prefect_makes(minutes):
    current_time = datetime.now(UTC)
    moments = set()
    for connection in ("con_a", "con_b"):
        body = prefect_schedules.make_schedule(connection, Timing(minutes)).model_dump(mode="json")
        (due,) = asyncio.run(server_schedules.IntervalSchedule.model_validate(body).get_dates(1, start=current_time))
        next_run = schedules.next_due(connection, Timing(minutes), current_time)
        assert next_run == due
        assert current_time < next_run <= current_time + timedelta(minutes=minutes)
        moments.add(next_run)
    assert len(moments) == 2
