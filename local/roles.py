"""Roles of an instance: the command, the address and the readiness of each."""

from __future__ import annotations

import dataclasses
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from local import addresses, postgres, prefect_database, probes, ui_sign_in
from local.postgres import Cluster
from local.supervisor import Role
from retrieval.settings import PROJECT, Settings

STOP_ORDER = ("metrics", "ui", "api", "dispatcher", "worker", "prefect", "postgres")
PREFECT_SILENT_SECONDS = 30.0
_PYTHON = sys.executable


@dataclass(frozen=True, slots=True)
class Addresses:
    """Addresses of an instance. `prefect` is its API, ending in /api; `ui` None without the admin app, `metrics`
    without a port for them."""

    api: str
    prefect: str
    ui: str | None
    metrics: str | None = None


def commands(settings: Settings, worker_name: str = "") -> dict[str, list[str]]:
    """The command line of every role that is a program of its own."""
    name = worker_name or f"{socket.gethostname()}-{settings.work_pool}"
    return {
        "api": [_PYTHON, "-m", "api"],
        "dispatcher": [_PYTHON, "-m", "flows.dispatch"],
        "worker": _worker(settings, name),
        "prefect": _prefect_server(settings),
        "ui": _ui(settings),
        "register": [_PYTHON, "-m", "local.registration"],
        "metrics": [_PYTHON, "-m", "local.metrics_server"],
    }


def has_ui() -> bool:
    return (PROJECT / "ui" / "app.py").exists()


def embedded_postgres(cluster: Cluster, environment: dict[str, str]) -> Role:
    """Postgres in the foreground; before a restart it is cleared of what its death left."""
    return Role(
        "postgres",
        postgres.command(cluster),
        environment,
        lambda: postgres.ready(cluster),
        folder=cluster.home,
        address=str(cluster.socket),
        stop_signal=signal.SIGINT,
        grace=6,
        identity=cluster.identity,
        before=lambda: _again(cluster),
        lacks=lambda: postgres.lacks_room(cluster),
    )


def prefect_server(settings: Settings, at: Addresses, environment: dict[str, str], database_url: str) -> Role:
    """Prefect's server on this database. It is ready while it answers and reaches its database, restarted when it is
    not for `PREFECT_SILENT_SECONDS`, and not started while its database is away."""
    role = _role("prefect", settings, environment, at.prefect, lambda: probes.answers(f"{at.prefect}/ready"))
    return dataclasses.replace(
        role, silent_for=PREFECT_SILENT_SECONDS, lacks=lambda: prefect_database.unreachable(database_url)
    )


def prefect_origins(settings: Settings) -> list[str]:
    """Under which addresses a browser opens the bundled Prefect."""
    local_urls = [addresses.url(host, settings.prefect_port) for host in ("127.0.0.1", "localhost", "[::1]")]
    return local_urls + [f"{scheme}://{name}" for name in settings.prefect_names for scheme in ("http", "https")]


def api(settings: Settings, at: Addresses, environment: dict[str, str]) -> Role:
    """Ready when it serves requests; the dispatcher and the worker start after it."""
    role = _role("api", settings, environment, at.api, lambda: probes.answers(f"{at.api}/ready?for=requests"))
    return dataclasses.replace(role, grace=role.grace + drain_seconds(settings))


def drain_seconds(settings: Settings) -> float:
    """Drain time of the API. Nothing balances load before an instance on one machine: it waits only if it is set."""
    return settings.drain_seconds if "drain_seconds" in settings.model_fields_set else 0.0


def ui(settings: Settings, at: Addresses, environment: dict[str, str]) -> Role:
    return _role("ui", settings, environment, at.ui, lambda: probes.answers(f"{at.ui}/_stcore/health"))


def metrics(settings: Settings, at: Addresses, environment: dict[str, str]) -> Role:
    """Ready when its port is open: it answers whatever else is away."""
    host, port = settings.metrics_host, settings.metrics_port or 0
    return _role("metrics", settings, environment, at.metrics, lambda: probes.listens(host, port))


def dispatcher(settings: Settings, environment: dict[str, str]) -> Role:
    """It has no address to ask: ready once it has lived through its start."""
    return Role("dispatcher", commands(settings)["dispatcher"], environment, lambda: True, PROJECT, settle=2)


def worker(settings: Settings, at: Addresses, environment: dict[str, str], name: str) -> Role:
    """Ready when Prefect lists it. It lets its flow runs end before it goes."""
    command = commands(settings, name)["worker"]
    started = [datetime.now(UTC)]

    def again() -> None:
        """Prefect lists a killed worker as online for a while."""
        started.append(datetime.now(UTC))

    def ready() -> bool:
        return probes.worker_online(at.prefect, settings.work_pool, name, environment, started[-1])

    return Role("worker", command, environment, ready, PROJECT, grace=25, before=again)


def first_steps(environment: dict[str, str]) -> Role:
    """Migrations, and the first organization, key and namespace; prints what it made as JSON."""
    return Role("migrate", [_PYTHON, "-m", "local.initialize"], environment, lambda: True, PROJECT)


def model(environment: dict[str, str]) -> Role:
    """The file of the local embedding model, built once in a home."""
    return Role("model", [_PYTHON, "-m", "local.build_model"], environment, lambda: True, PROJECT)


def registration(environment: dict[str, str]) -> Role:
    """Work pool and deployments in Prefect; may be repeated."""
    return Role("register", [_PYTHON, "-m", "local.registration"], environment, lambda: True, PROJECT)


def _role(
    name: str, settings: Settings, environment: dict[str, str], address: str | None, ready: Callable[[], bool]
) -> Role:
    return Role(name, commands(settings)[name], environment, ready, PROJECT, address=address)


def _again(cluster: Cluster) -> None:
    postgres.prepare(cluster.home)


def _worker(settings: Settings, name: str) -> list[str]:
    options = ("--pool", settings.work_pool, "--name", name, "--limit", str(settings.worker_limit))
    return [_PYTHON, "-m", "flows.warm_worker", *options]


def _prefect_server(settings: Settings) -> list[str]:
    options = ("--host", settings.prefect_host, "--port", str(settings.prefect_port))
    names = [f"--names={','.join(settings.prefect_names)}"] if settings.prefect_names else []
    return [_PYTHON, "-m", "flows.bundled_prefect.server", *options, *names]


def _ui(settings: Settings) -> list[str]:
    secrets_option = f"--secrets.files={ui_sign_in.file(settings)}"
    options = (f"--server.address={settings.ui_host}", f"--server.port={settings.ui_port}", secrets_option)
    return [_PYTHON, "-m", "streamlit", "run", "ui/server.py", *options]


def locate(settings: Settings) -> Addresses:
    """Addresses as the settings say, ports already settled."""
    prefect = settings.prefect_api_url or f"{addresses.url(settings.prefect_host, settings.prefect_port)}/api"
    admin = addresses.url(settings.ui_host, settings.ui_port) if has_ui() else None
    figures = None if settings.metrics_port is None else addresses.url(settings.metrics_host, settings.metrics_port)
    return Addresses(addresses.url(settings.api_host, settings.api_port), prefect.rstrip("/"), admin, figures)
