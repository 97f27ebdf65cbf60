"""Real workers on a real Prefect server, with the dispatcher's and the reconciler's turns taken by the test."""

from __future__ import annotations

import asyncio
import base64
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolUpdate

from flows import register
from flows.dispatch import batches as dispatched_batches
from flows.dispatch import reconciliation
from flows.dispatch.background_loop import LoopThread
from retrieval import settings
from tests import registry_instances
from tests.flows.configured import Configured
from tests.flows.worker.test_worker import Pool, new_pool
from tests.library import clear_queue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pytest
    from prefect.client.schemas.objects import FlowRun

LEASE_SECONDS = 6.0
ATTEMPTS = 3


class Workshop:
    """Namespace, work pool with the service's deployments, and workers."""

    def __init__(self, space: Configured, pool: Pool) -> None:
        self.space, self.pool, self.db = space, pool, space.db
        self.thread = LoopThread("workshop", space.db)

    def turn(self) -> None:
        """One second's round of the dispatcher."""
        asyncio.run(self._turn())

    async def _turn(self) -> None:
        async with get_client() as client:
            await dispatched_batches.dispatch_batches(
                self.thread, client, lambda: None, size=64, limit=2, failed_batches=set()
            )
            await reconciliation.reconcile_batches(
                self.thread, client, attempts=ATTEMPTS, lease=timedelta(seconds=LEASE_SECONDS)
            )

    def until(self, condition: Callable[[], Any], seconds: float = 60) -> Any:
        """Take turns until there is something to answer."""
        deadline = time.monotonic() + seconds
        while not (answer := condition()):
            assert time.monotonic() < deadline, f"not within {seconds} s\n{self.pool.log(len(self.pool.workers) - 1)}"
            self.turn()
            time.sleep(0.4)
        return answer

    def done(self, run: str) -> Any:
        """The completed job run, else None."""
        job_run = self.space.run(run)
        return job_run if job_run.status == "COMPLETED" else None

    def batch(self, run: str) -> dict[str, Any]:
        """Batch columns of a job run; {} without a batch."""
        row = self.db.row(
            "select b.* from batches b join job_runs r on r.batch_id = b.id where r.id = %(run)s", {"run": run}
        )
        return dict(row or {})

    def flow_run(self, run: str) -> FlowRun:
        return self.pool.client.read_flow_run(self.batch(run)["flow_run_id"])

    def child(self, run: str) -> int | None:
        """Pid of the child with the job run's flow run."""
        batch = self.batch(run)
        flow_run_name = (
            batch.get("flow_run_id") and self.pool.client.read_flow_run(batch["flow_run_id"]).infrastructure_pid
        )
        return int(flow_run_name.rpartition(":")[2]) if flow_run_name else None

    def is_worked_on(self, run: str) -> bool:
        """Return True under a worker's lease."""
        rows = self.db.rows(
            "select 1 from batches b join job_runs r on r.batch_id = b.id where r.id = %(run)s and not b.released"
            " and b.finished_at is null and b.lease_until > now()",
            {"run": run},
        )
        return bool(rows)


@contextmanager
def opened(
    db: Any,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    folder: Path,
    *,
    grace_seconds: float = 10,
    **configs: Any,
) -> Iterator[Workshop]:
    """Workshop without a worker; `configs` are of its namespace."""
    clear_queue(db)
    space = Configured(db, **configs)
    variables = {
        "RETRIEVAL_DATABASE_URL": db.url,
        "RETRIEVAL_SECRET_KEY": ",".join(
            f"{name}:{base64.b64encode(key).decode()}" for name, key in space.ring.keys.items()
        ),
        "RETRIEVAL_FILES_DIRECTORY": str(folder / "files"),
        "RETRIEVAL_LEASE_SECONDS": str(LEASE_SECONDS),
        "RETRIEVAL_FETCH_ALLOW": "127.0.0.1/32",
        "RETRIEVAL_FETCH_HOST_DELAY": "0",
    }
    with new_pool(environment | variables, folder) as pool:
        for name, value in (variables | {"RETRIEVAL_WORK_POOL": pool.name}).items():
            monkeypatch.setenv(name, value)
        settings.load_settings.cache_clear()
        registry_instances.forget_instances()  # a file store of another test has another folder than these workers
        asyncio.run(register.register_deployments())
        template = pool.client.read_work_pool(pool.name).base_job_template
        template["variables"]["properties"]["grace_seconds"]["default"] = grace_seconds
        pool.client.update_work_pool(pool.name, WorkPoolUpdate(base_job_template=template))
        shop = Workshop(space, pool)
        try:
            yield shop
        finally:
            shop.thread.close()
    settings.load_settings.cache_clear()
    registry_instances.forget_instances()
