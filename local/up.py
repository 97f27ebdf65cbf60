"""`retrieval up` in the foreground: settle everything that can be refused, start the roles, watch them, stop them."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from local import (
    addresses,
    banner,
    environment,
    instance,
    metrics_server,
    postgres,
    probes,
    processes,
    roles,
    ui_sign_in,
)
from local.environment import Resolved
from local.errors import LocalError
from local.instance import Record
from local.processes import Process
from local.roles import Addresses
from local.supervisor import Stopped, Supervisor
from retrieval.settings import Settings

_START_SECONDS = 180.0
Say = Callable[[str], None]


def up(settings: Settings, say: Say, *, show_key: bool) -> None:
    """Run an instance until it is stopped; LocalError if it cannot start or a role cannot be kept alive.

    `show_key`: tell the API key once it is ready; not where what is said goes into a log.
    """
    home = settings.home.resolve()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = instance.lock(home)
    if lock is None:
        raise LocalError(already_running(home))
    try:
        instance.clear(home)
        _run(_settle_ports(settings), home, say, show_key=show_key)
    finally:
        os.close(lock)


def already_running(home: Path) -> str:
    """One line with the addresses of the instance that has this home."""
    record = instance.running(home)
    addresses = [f"{name} {url}" for name, url in (record.addresses if record else {}).items() if url]
    return f"An instance is running in {home} already: {', '.join(addresses) or 'it is starting'}."


def _settle_ports(settings: Settings) -> Settings:
    """Settings with every port of this instance checked, and 0 replaced."""
    wanted = {"RETRIEVAL_API_PORT": (settings.api_host, settings.api_port)}
    if not settings.prefect_api_url:
        wanted["RETRIEVAL_PREFECT_PORT"] = (settings.prefect_host, settings.prefect_port)
    if roles.has_ui():
        wanted["RETRIEVAL_UI_PORT"] = (settings.ui_host, settings.ui_port)
    if settings.metrics_port is not None:
        metrics_server.require_a_token(settings)
        wanted["RETRIEVAL_METRICS_PORT"] = (settings.metrics_host, settings.metrics_port)
    ports = addresses.settle(wanted)
    return settings.model_copy(
        update={name.removeprefix("RETRIEVAL_").lower(): port for name, port in ports.items()}
        | {"home": settings.home.resolve()}
    )


def _run(settings: Settings, home: Path, say: Say, *, show_key: bool) -> None:
    key = environment.secret_key(settings)
    at = roles.locate(settings)
    embedded = environment.plain(settings.database_url) is None
    record = _record(at, embedded=embedded)
    supervisor = Supervisor(home, record, say)
    supervisor.listen()
    try:
        service = _start(supervisor, settings, at, key, record, say)
        instance.publish(home, service)
        record.phase = "ready"
        instance.save(home, record)
        say(banner.text(service) if show_key else "The service is ready.")
        supervisor.watch()
    except Stopped:
        say("Stopping.")
    finally:
        supervisor.stop(roles.STOP_ORDER)
        postgres.stop(home)
        instance.clear(home)
    say("Stopped.")


def _record(at: Addresses, *, embedded: bool) -> Record:
    me = Process.of(os.getpid())
    if me is None:
        raise LocalError("/proc is not there: `retrieval up` needs Linux with /proc.")
    addresses: dict[str, str | None] = {"api": at.api, "prefect": at.prefect, "ui": at.ui, "metrics": at.metrics}
    return Record(me.pid, me.started, secrets.token_hex(16), embedded=embedded, addresses=addresses)


def _start(
    supervisor: Supervisor, settings: Settings, at: Addresses, key: str, record: Record, say: Say
) -> dict[str, Any]:
    """Bring up the roles, each as soon as what it needs is there; what service.json will say."""
    prefect_url = environment.plain(settings.prefect_database_url)
    bundled = not settings.prefect_api_url
    cluster = postgres.prepare(settings.home) if record.embedded or (bundled and prefect_url is None) else None
    url = environment.plain(settings.database_url) or (cluster.url if cluster else "")
    resolved = Resolved(url, key, at.prefect, environment.prefect_login(settings))
    common = {processes.TOKEN: record.token} | addresses.ports(record.addresses)
    common["RETRIEVAL_DRAIN_SECONDS"] = str(roles.drain_seconds(settings))

    def of(role: str) -> dict[str, str]:
        return environment.build(role, settings, resolved) | common

    say("Starting Postgres and Prefect …")
    if cluster:
        supervisor.start(roles.embedded_postgres(cluster, of("postgres")))
        supervisor.wait_ready("postgres", seconds=_START_SECONDS)
    if bundled:
        prefect_url = prefect_url or postgres.prefect_url(settings.home)
        variables = environment.for_prefect(settings, resolved, roles.prefect_origins(settings), prefect_url)
        variables |= {processes.TOKEN: record.token}
        supervisor.start(roles.prefect_server(settings, at, variables, prefect_url))
    first_key = json.loads(supervisor.run(roles.first_steps(of("migrate"))).splitlines()[-1])
    instance.remember_key(settings.home, first_key["apiKey"])
    supervisor.start(roles.api(settings, at, of("api")))
    errands = [supervisor.begin(roles.registration(of("register")))]
    if settings.allow_local_embeddings and not list((settings.home / "models").glob("*.onnx")):
        errands.append(supervisor.begin(roles.model(of("model"))))
    supervisor.wait_for(
        lambda: probes.pool_exists(at.prefect, settings.work_pool, of("register")),
        f"Prefect at {at.prefect} had no work pool {settings.work_pool}",
        seconds=_START_SECONDS,
        errand=errands[0],
    )
    say("Starting the API, the dispatcher and the worker …")
    supervisor.start(roles.worker(settings, at, of("worker"), f"{os.uname().nodename}-{record.token[:6]}"))
    for errand in errands:
        supervisor.finish(errand)
    supervisor.start(roles.dispatcher(settings, of("dispatcher")))
    if at.ui:
        ui_sign_in.write(settings, at.ui)
        variables = environment.for_ui(at.api, {processes.TOKEN: record.token}, settings.oidc_ca_bundle)
        supervisor.start(roles.ui(settings, at, variables))
    if at.metrics:
        supervisor.start(roles.metrics(settings, at, of("metrics")))
    supervisor.wait_ready(seconds=_START_SECONDS)
    return _service(at, first_key, resolved.prefect_login)


def _service(at: Addresses, made: dict[str, Any], prefect_login: str | None) -> dict[str, Any]:
    return {
        "api": at.api,
        "prefect": at.prefect.removesuffix("/api"),
        "prefectLogin": prefect_login,
        "ui": at.ui,
        "metrics": at.metrics,
        "apiKey": made["apiKey"],
        "organizationId": made["organizationId"],
        "namespaceId": made["namespaceId"],
    }
