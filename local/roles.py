"""Roles of an instance: the command, the address, the environment and the readiness of each, and what it waits for."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from local import environment, health, postgres, processes
from local.environment import Resolved
from local.instance import Record, build_url, find_ui_path, port_settings
from local.supervisor import Role
from retrieval.settings import PROJECT, Settings

PREFECT_SILENT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Addresses:
    """Addresses of an instance. `prefect` is its API, ending in /api; `ui` None without the admin app, `metrics`
    without a port for them."""

    api: str
    prefect: str
    ui: str | None
    metrics: str | None = None


def has_ui() -> bool:
    return (PROJECT / "ui" / "app.py").exists()


def locate_roles(settings: Settings) -> Addresses:
    """Addresses as the settings say, ports already settled."""
    prefect = settings.prefect_api_url or f"{build_url(settings.prefect_host, settings.prefect_port)}/api"
    admin = (
        f"{build_url(settings.ui_host, settings.ui_port)}{find_ui_path(settings.ui_public_url)}" if has_ui() else None
    )
    metrics = None if settings.metrics_port is None else build_url(settings.metrics_host, settings.metrics_port)
    return Addresses(build_url(settings.api_host, settings.api_port), prefect.rstrip("/"), admin, metrics)


def list_commands(settings: Settings, worker: str = "") -> dict[str, list[str]]:
    """The command line of every role; `worker`: its name in Prefect."""
    worker = worker or f"{socket.gethostname()}-{settings.work_pool}"
    prefect = ["--host", settings.prefect_host, "--port", str(settings.prefect_port)]
    if settings.prefect_names:
        prefect.append(f"--names={','.join(settings.prefect_names)}")
    ui = [f"--server.address={settings.ui_host}", f"--server.port={settings.ui_port}"]
    if path := find_ui_path(settings.ui_public_url):
        ui.append(f"--server.baseUrlPath={path}")
    secrets_file = f"--secrets.files={environment.sign_in_file(settings)}"
    modules = {
        "api": ["api"],
        "dispatcher": ["flows.dispatch.dispatcher"],
        "worker": [
            *("flows.worker", "--pool", settings.work_pool, "--name", worker),
            *("--limit", str(settings.worker_limit)),
        ],
        "prefect": ["flows.prefect_server", *prefect],
        "ui": ["streamlit", "run", "ui/server.py", *ui, secrets_file],
        "metrics": ["local.metrics_server"],
        "migrate": ["local.run_role", "migrate"],
        "register": ["local.run_role", "register"],
    }
    return {role: [sys.executable, "-m", *module] for role, module in modules.items()}


def build_roles(settings: Settings, at: Addresses, key: str, record: Record) -> list[Role]:
    """The roles of an instance, in the order in which they are shown; they end in the reverse order."""
    prefect_url = environment.reveal_secret(settings.prefect_database_url)
    has_prefect = not settings.prefect_api_url
    cluster = postgres.prepare(settings.home) if record.embedded or (has_prefect and prefect_url is None) else None
    url = environment.reveal_secret(settings.database_url) or (cluster.url if cluster else "")
    resolved = Resolved(url, key, at.prefect, environment.prefect_login(settings))
    token = {processes.TOKEN: record.token}
    common = token | port_settings(record.addresses) | {"RETRIEVAL_DRAIN_SECONDS": str(_drain_seconds(settings))}
    worker = f"{os.uname().nodename}-{record.token[:6]}"
    commands = list_commands(settings, worker)

    def build_environment(role: str) -> dict[str, str]:
        return environment.build_variables(role, settings, resolved) | common

    def build_setup_step(name: str, *after: str, ready: Callable[[], bool] = lambda: False) -> Role:
        return Role(name, commands[name], build_environment(name), PROJECT, ready, after=after, is_setup_step=True)

    roles = []
    if cluster:
        roles.append(
            Role(
                "postgres",
                postgres.command(cluster),
                build_environment("postgres"),
                cluster.home,
                lambda: postgres.ready(cluster),
                address=str(cluster.socket),
                stop_signal=signal.SIGINT,
                grace=6,
                identity=cluster.identity,
                prepare=lambda: postgres.prepare(cluster.home),
                lacks=lambda: postgres.lacks_room(cluster),
            )
        )
    database = ("postgres",) if cluster else ()
    if has_prefect:
        server_url = prefect_url or postgres.prefect_url(settings.home)
        variables = environment.build_prefect(settings, resolved, prefect_origins(settings), server_url) | token
        roles.append(
            Role(
                "prefect",
                commands["prefect"],
                variables,
                PROJECT,
                lambda: health.answers(f"{at.prefect}/ready"),
                after=database,
                address=at.prefect,
                lacks=lambda: postgres.describe_outage(server_url),
                silent_for=PREFECT_SILENT_SECONDS,
            )
        )
    login = environment.build_variables("worker", settings, resolved)
    has_pool = partial(health.pool_exists, at.prefect, settings.work_pool, login)
    roles += [build_setup_step("migrate", *database), build_setup_step("register", "migrate", ready=has_pool)]
    started = [datetime.now(UTC)]
    roles += [
        Role(
            "worker",
            commands["worker"],
            build_environment("worker"),
            PROJECT,
            lambda: health.worker_online(at.prefect, settings.work_pool, worker, login, started[-1]),
            after=("register",),
            grace=25,  # its flow runs end first
            prepare=lambda: started.append(datetime.now(UTC)),  # Prefect lists a killed one as online for a while
        ),
        # It has no address to ask: it is ready once it has lived through its start.
        Role(
            "dispatcher",
            commands["dispatcher"],
            build_environment("dispatcher"),
            PROJECT,
            after=("register",),
            settle=2,
        ),
        Role(
            "api",
            commands["api"],
            build_environment("api"),
            PROJECT,
            lambda: health.answers(f"{at.api}/ready?for=requests"),
            after=("migrate",),
            address=at.api,
            grace=4 + _drain_seconds(settings),
        ),
    ]
    if at.ui:
        environment.write_sign_in(settings, at.ui)
        variables = environment.build_ui(settings, at.api, token)
        ready = partial(health.answers, f"{at.ui}/_stcore/health")
        roles.append(Role("ui", commands["ui"], variables, PROJECT, ready, after_end=("register",), address=at.ui))
    if at.metrics:
        ready = partial(health.listens, settings.metrics_host, settings.metrics_port or 0)
        variables = build_environment("metrics")
        roles.append(
            Role("metrics", commands["metrics"], variables, PROJECT, ready, after=("migrate",), address=at.metrics)
        )
    return roles


def prefect_origins(settings: Settings) -> list[str]:
    """Under which addresses a browser opens the bundled Prefect."""
    local_urls = [build_url(host, settings.prefect_port) for host in ("127.0.0.1", "localhost", "[::1]")]
    return local_urls + [f"{scheme}://{name}" for name in settings.prefect_names for scheme in ("http", "https")]


def _drain_seconds(settings: Settings) -> float:
    """Drain time of the API. Nothing balances load before an instance on one machine: it waits only if it is set."""
    return settings.drain_seconds if "drain_seconds" in settings.model_fields_set else 0.0
