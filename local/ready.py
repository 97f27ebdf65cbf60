"""`retrieval ready ROLE`: the probe of a role for commands, such as a container's health check."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import psycopg

from local import addresses, environment, instance, probes
from local.errors import LocalError
from retrieval.database.database import AWAY, Database
from retrieval.readiness import roles
from retrieval.settings import Settings

CHECKS = {"dispatcher": roles.dispatcher, "worker": roles.worker}
SERVERS = {"api": "/ready?for=requests", "prefect": "/api/health", "ui": "/_stcore/health"}
"""What is asked of those that listen; the API as a load balancer asks it: whether requests are served."""
ROLES = (*SERVERS, *CHECKS)
_STARTED = "role"
"""The file of the home with the name of the role that was started there by its own command."""


def remember(home: Path, role: str) -> None:
    (home / _STARTED).write_text(role)


def run(role: str | None, settings: Settings) -> int:
    """Prints `ready`, or a line for each reason why not; 0 or 3. Without a name, the role that `remember` wrote."""
    role = role or _remembered(settings.home)
    reasons = _server(role, settings) if role in SERVERS else _database_role(role, settings)
    print("\n".join(reasons) or "ready")
    return 3 if reasons else 0


def _remembered(home: Path) -> str:
    try:
        role = (home / _STARTED).read_text()
    except OSError:
        role = ""
    if role not in ROLES:
        raise LocalError(
            f"No role was started by its own command in {home}: name one, such as `retrieval ready api`.", exit_code=2
        )
    return role


def _server(role: str, settings: Settings) -> tuple[str, ...]:
    running = instance.running(settings.home)
    known_address = running.addresses.get(role) if running else None
    listens = {
        "api": (settings.api_host, settings.api_port),
        "prefect": (settings.prefect_host, settings.prefect_port),
        "ui": (settings.ui_host, settings.ui_port),
    }
    address = known_address.removesuffix("/api") if known_address else addresses.url(*listens[role])
    name = {"api": "The API", "prefect": "Prefect", "ui": "The admin app"}[role]
    return () if probes.answers(address + SERVERS[role]) else (f"{name} at {address} does not say ready.",)


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
