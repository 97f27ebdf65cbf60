"""`retrieval ready ROLE`: the probe of a role for whoever runs a command, such as a container's health check."""

from __future__ import annotations

import os
from contextlib import closing

import psycopg

from local import environment, instance, probes
from retrieval.database.database import AWAY, Database
from retrieval.readiness import roles
from retrieval.settings import Settings

CHECKS = {"dispatcher": roles.dispatcher, "worker": roles.worker}
ROLES = ("api", *CHECKS)


def run(role: str, settings: Settings) -> int:
    """Prints `ready`, or a line for each reason why not; 0 or 3."""
    reasons = _api(settings) if role == "api" else _database_role(role, settings)
    print("\n".join(reasons) or "ready")
    return 3 if reasons else 0


def _api(settings: Settings) -> tuple[str, ...]:
    """As a load balancer asks: whether requests are served."""
    running = instance.running(settings.home)
    address = (running.addresses.get("api") if running else None) or settings.base_url
    return () if probes.answers(f"{address}/ready?for=requests") else (f"The API at {address} does not say ready.",)


def _database_role(role: str, settings: Settings) -> tuple[str, ...]:
    resolved = environment.resolve(settings, needs_prefect=role == "worker")
    try:
        with closing(Database(resolved.database_url, size=1)) as db:
            reasons = CHECKS[role](db, settings)
    except (*AWAY, psycopg.Error):
        return ("The database does not answer.",)
    if role == "worker" and not reasons:
        prefect, host = resolved.prefect_api_url or "", os.uname().nodename
        if not probes.a_worker_online(
            prefect, settings.work_pool, host, environment.build("worker", settings, resolved)
        ):
            return (f"Prefect at {prefect} lists no worker of {host} as online in the pool {settings.work_pool}.",)
    return reasons
