"""Readiness of dispatchers: age of each loop's success and state of accepted work."""

import asyncio
import json
import os
from argparse import Namespace

import pytest

from local import health, instance
from local.instance import InstanceRecord, RoleRecord
from local.processes import Process
from retrieval import readiness
from retrieval.job_config import Ingestion
from retrieval.jobs import levers, runs
from retrieval.jobs.queries import batches
from retrieval.readiness import LATE_AFTER_SECONDS, LoopReport
from retrieval.settings import Settings


def beats(**ages):
    """Fresh heartbeats of all loops except those with an age."""
    return [LoopReport(name, ages.get(name, 1.0), 10_000.0) for name in LATE_AFTER_SECONDS]


def post(db, scope, *, minutes_ago=0):
    async def accept():
        await runs.accept_text(db, scope, text="text", name="text", ingestion=Ingestion())
        await db.async_close()

    asyncio.run(accept())
    ago = "make_interval(mins => %(m)s)"
    db.rows(f"update job_runs set created_at = created_at - {ago}, updated_at = created_at - {ago}", {"m": minutes_ago})


def test_what_waits_without_a_dispatcher_is_told(db, new_scope):
    post(db, new_scope(), minutes_ago=5)
    dispatch = readiness.read_dispatch(db)
    assert dispatch.waiting == pytest.approx(300, abs=10)
    assert "no dispatcher reports" in dispatch.reasons[0]


def test_flow_runs_that_no_worker_begins_are_told(db, new_scope):
    # Prefect may lose runs after it has created them.
    post(db, new_scope())
    batches.form_batches(db, size=64, batches=8)
    readiness.record_loops(db, "here:1", beats())
    for seconds, reasons in ((10, ()), (90, ("No worker has begun a flow run that was created 90 s ago",))):
        db.rows("update batches set dispatched_at = now() - make_interval(secs => %(s)s)", {"s": seconds})
        dispatch = readiness.read_dispatch(db)
        assert [reason.partition(":")[0] for reason in dispatch.reasons] == list(reasons)
    db.rows("update batches set started_at = now(), lease_until = now() + interval '30 s'")
    assert not readiness.read_dispatch(db).stalled


def test_a_loop_that_has_not_succeeded_for_long_stalls_dispatch_and_says_since_when(db):
    late = [beat for beat in beats() if beat.loop != "dispatch"]
    readiness.record_loops(db, "here:1", [*late, LoopReport("dispatch", 95.0, 200.0, "PoolTimeout")])
    dispatch = readiness.read_dispatch(db)
    assert dispatch.stalled
    assert dispatch.reasons == (
        "The dispatcher's loop `dispatch` has not succeeded for 95 s, since then: PoolTimeout.",
    )


def test_status_shows_a_dispatcher_that_is_up_but_stalled(db, database_url, tmp_path, capsys):
    settings = Settings(home=tmp_path, database_url=database_url, secret_key="1:" + "A" * 43 + "=")
    me = Process.from_pid(os.getpid())
    roles = [RoleRecord("dispatcher", "up", me.pid, me.started, 1.0)]
    instance.save_record(tmp_path, InstanceRecord(me.pid, me.started, "token", phase="ready", roles=roles))
    levers.record_levers(db, [])
    readiness.record_loops(db, "here:1", beats())
    assert health.print_status(Namespace(json=False), settings) == 0
    assert "dispatch: running" in capsys.readouterr().out
    readiness.record_loops(db, "here:1", beats(dispatch=90.0))
    assert health.print_status(Namespace(json=True), settings) == 3
    status = json.loads(capsys.readouterr().out)
    assert status["roles"][0]["state"] == "stalled"
    assert status["dispatch"]["stalled"]
    assert status["dispatch"]["loops"][0] == {
        "loop": "dispatch",
        "lastSuccessSeconds": pytest.approx(90, abs=5),
        "late": True,
        "reason": None,
    }
    assert health.print_status(Namespace(json=False), settings) == 3
    assert "has not succeeded for 9" in capsys.readouterr().out
