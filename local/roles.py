"""Roles of an instance: commands, addresses, environments, probes and dependencies."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from local import environment, postgres, probes, processes
from local.environment import ResolvedAddresses
from local.instance import InstanceRecord, build_url, find_ui_path, port_settings
from local.supervisor import Role
from retrieval.settings import PROJECT_ROOT, Settings

PREFECT_SILENT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Addresses:
    """URLs of an instance's roles; None for a role that does not run."""

    api: str
    prefect: str  # ends with /api
    ui: str | None
    metrics: str | None = None


def has_ui() -> bool:
    return (PROJECT_ROOT / "ui" / "app.py").exists()


def locate_roles(settings: Settings) -> Addresses:
    """Return the URLs of the roles. The settings have the chosen ports."""
    prefect = settings.prefect_api_url or f"{build_url(settings.prefect_host, settings.prefect_port)}/api"
    ui_url = f"{build_url(settings.ui_host, settings.ui_port)}{find_ui_path(settings.ui_public_url)}"
    metrics = None if settings.metrics_port is None else build_url(settings.metrics_host, settings.metrics_port)
    return Addresses(
        build_url(settings.api_host, settings.api_port), prefect.rstrip("/"), ui_url if has_ui() else None, metrics
    )


def list_commands(settings: Settings, worker_name: str = "") -> dict[str, list[str]]:
    """Return the command line of each role; `worker_name`: name of the worker in Prefect."""
    worker_name = worker_name or f"{socket.gethostname()}-{settings.work_pool}"
    prefect_options = ["--host", settings.prefect_host, "--port", str(settings.prefect_port)]
    if settings.prefect_names:
        prefect_options.append(f"--names={','.join(settings.prefect_names)}")
    ui_options = [f"--server.address={settings.ui_host}", f"--server.port={settings.ui_port}"]
    if path := find_ui_path(settings.ui_public_url):
        ui_options.append(f"--server.baseUrlPath={path}")
    secrets_file = f"--secrets.files={environment.sign_in_file(settings)}"
    modules = {
        "api": ["api"],
        "dispatcher": ["flows.dispatch.dispatcher"],
        "worker": [
            *("flows.worker", "--pool", settings.work_pool, "--name", worker_name),
            *("--limit", str(settings.worker_limit)),
        ],
        "prefect": ["flows.prefect_server", *prefect_options],
        "ui": ["streamlit", "run", "ui/server.py", *ui_options, secrets_file],
        "metrics": ["local.metrics_server"],
        "migrate": ["local.run_role", "migrate"],
        "register": ["local.run_role", "register"],
    }
    return {role: [sys.executable, "-m", *module] for role, module in modules.items()}


def build_roles(settings: Settings, addresses: Addresses, key: str, record: InstanceRecord) -> list[Role]:
    """Return the roles in the order of display; each starts after its `after`. `key`: the service's secret key."""
    prefect_database_url = environment.reveal_secret(settings.prefect_database_url)
    # Otherwise the settings name a Prefect server elsewhere.
    has_prefect = not settings.prefect_api_url
    cluster = (
        postgres.prepare(settings.home) if record.embedded or (has_prefect and prefect_database_url is None) else None
    )
    database_url = environment.reveal_secret(settings.database_url) or (cluster.service_url if cluster else "")
    resolved = ResolvedAddresses(database_url, key, addresses.prefect, environment.prefect_login(settings))
    token = {processes.TOKEN_VARIABLE: record.token}
    common_variables = (
        token | port_settings(record.addresses) | {"RETRIEVAL_DRAIN_SECONDS": str(_drain_seconds(settings))}
    )
    worker_name = f"{os.uname().nodename}-{record.token[:6]}"
    commands = list_commands(settings, worker_name)

    def build_environment(role: str) -> dict[str, str]:
        return environment.build_variables(role, settings, resolved) | common_variables

    def build_setup_step(name: str, *after: str, ready: Callable[[], bool] = lambda: False) -> Role:
        return Role(name, commands[name], build_environment(name), PROJECT_ROOT, ready, after=after, is_setup_step=True)

    roles = []
    if cluster:
        roles.append(
            Role(
                "postgres",
                postgres.build_command(cluster),
                build_environment("postgres"),
                cluster.home,
                lambda: postgres.is_ready(cluster),
                address=str(cluster.socket),
                stop_signal=signal.SIGINT,
                stop_seconds=6,
                identity=cluster.identity,
                prepare=lambda: postgres.prepare(cluster.home),
                describe_problem=lambda: postgres.disk_full_problem(cluster),
            )
        )
    database = ("postgres",) if cluster else ()
    if has_prefect:
        server_database_url = prefect_database_url or postgres.prefect_url(settings.home)
        variables = (
            environment.build_prefect(settings, resolved, prefect_origins(settings), server_database_url) | token
        )
        roles.append(
            Role(
                "prefect",
                commands["prefect"],
                variables,
                PROJECT_ROOT,
                lambda: probes.is_answering(f"{addresses.prefect}/ready"),
                after=database,
                address=addresses.prefect,
                describe_problem=lambda: postgres.describe_outage(server_database_url),
                max_silent_seconds=PREFECT_SILENT_SECONDS,
            )
        )
    login = environment.build_variables("worker", settings, resolved)
    has_pool = partial(probes.pool_exists, addresses.prefect, settings.work_pool, login)
    roles += [build_setup_step("migrate", *database), build_setup_step("register", "migrate", ready=has_pool)]
    # Prefect lists a killed worker as online for some time: only a sign of life after the last start counts.
    worker_starts = [datetime.now(UTC)]
    roles += [
        Role(
            "worker",
            commands["worker"],
            build_environment("worker"),
            PROJECT_ROOT,
            lambda: probes.is_worker_online(
                addresses.prefect, settings.work_pool, worker_name, login, worker_starts[-1]
            ),
            after=("register",),
            stop_seconds=25,  # flow runs end first
            prepare=lambda: worker_starts.append(datetime.now(UTC)),
        ),
        # The dispatcher has no address to probe, so it counts as ready after its start.
        Role(
            "dispatcher",
            commands["dispatcher"],
            build_environment("dispatcher"),
            PROJECT_ROOT,
            after=("register",),
            settle_seconds=2,
        ),
        Role(
            "api",
            commands["api"],
            build_environment("api"),
            PROJECT_ROOT,
            lambda: probes.is_answering(f"{addresses.api}/ready?for=requests"),
            after=("migrate",),
            address=addresses.api,
            stop_seconds=4 + _drain_seconds(settings),
        ),
    ]
    if addresses.ui:
        environment.write_sign_in(settings, addresses.ui)
        variables = environment.build_ui(settings, addresses.api, token)
        ready = partial(probes.is_answering, f"{addresses.ui}/_stcore/health")
        roles.append(
            Role("ui", commands["ui"], variables, PROJECT_ROOT, ready, after_done=("register",), address=addresses.ui)
        )
    if addresses.metrics:
        ready = partial(probes.is_listening, settings.metrics_host, settings.metrics_port or 0)
        variables = build_environment("metrics")
        roles.append(
            Role(
                "metrics",
                commands["metrics"],
                variables,
                PROJECT_ROOT,
                ready,
                after=("migrate",),
                address=addresses.metrics,
            )
        )
    return roles


def prefect_origins(settings: Settings) -> list[str]:
    """Return the origins from which browsers may use the bundled Prefect server."""
    local_urls = [build_url(host, settings.prefect_port) for host in ("127.0.0.1", "localhost", "[::1]")]
    return local_urls + [f"{scheme}://{name}" for name in settings.prefect_names for scheme in ("http", "https")]


def _drain_seconds(settings: Settings) -> float:
    """Return how long the API answers requests after the signal to end."""
    # A single machine has no load balancer: the default of the settings does not apply.
    return settings.drain_seconds if "drain_seconds" in settings.model_fields_set else 0.0
