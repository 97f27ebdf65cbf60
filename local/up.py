"""`up`, `down` and `env`: settle everything that can be refused, start the roles, watch them, stop them."""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import signal
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

from local import LocalError, environment, instance, logs, metrics_server, postgres, processes, roles
from local.console import STOPPING, Console
from local.instance import Record
from local.processes import Process
from local.supervisor import Stopped, Supervisor
from retrieval.settings import PROJECT, Settings

_START_SECONDS = 280.0
_DETACHED_SECONDS = 300.0
_STOP_SECONDS = 45.0
_STARTING = "Starting the retrieval service in {}:"


def say(line: str) -> None:
    """Print a line; it is lost if the output is on a full disk."""
    with contextlib.suppress(OSError):
        print(line, flush=True)


def run(options: Namespace, settings: Settings) -> int:
    """Run an instance until it is stopped; LocalError if it cannot start or a role cannot be kept alive."""
    if options.detach:
        return _run_detached(settings)
    home = settings.home.resolve()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = instance.lock_home(home)
    if lock is None:
        raise LocalError(_already_running(home))
    try:
        instance.clear_home(home)
        with contextlib.ExitStack() as claims:
            _supervise(_settle(settings, claims), home, show_key=not options.for_a_log)
    finally:
        os.close(lock)
    return 0


def _run_detached(settings: Settings) -> int:
    """Start an instance in a session of its own; back when it is ready, or with the reason why it is not."""
    home = settings.home.resolve()
    if instance.find_running(home):
        say(_already_running(home))
        return 0
    with logs.open_log(home, "up") as log:
        offset = log.tell()
        child = subprocess.Popen(
            [sys.executable, "-m", "local.cli", "up", "--for-a-log"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=PROJECT,
            start_new_session=True,
        )
    try:
        return _wait_until_ready(child, home, offset)
    except KeyboardInterrupt:
        say(f"\n{STOPPING}")
        child.send_signal(signal.SIGTERM)
        child.wait(timeout=_STOP_SECONDS)
        say("Stopped.")
        raise


def stop(_options: Namespace, settings: Settings) -> int:
    """Stop the instance of this home, or a database that runs there alone."""
    home = settings.home.resolve()
    record = instance.load_record(home)
    if record is None and not home.exists():
        say(f"Nothing runs in {home}.")
        return 0
    was_running = record is not None and record.supervisor.alive()
    if record and was_running:
        say(STOPPING)
        processes.end_processes([record.supervisor], first=signal.SIGTERM, grace=_STOP_SECONDS)
    if instance.lock_home(home) is None:
        raise LocalError(f"Another `retrieval up` is starting in {home}: try again in a moment.")
    instance.clear_home(home)
    had_database = postgres.stop(home)
    what = "instance" if was_running else "database"
    say(f"Stopped the {what} in {home}." if was_running or had_database else f"Nothing runs in {home}.")
    return 0


def print_variables(_options: Namespace, settings: Settings) -> int:
    """Print lines that set up a shell for the running instance. LocalError: nothing runs in this home."""
    home = settings.home.resolve()
    if instance.find_running(home) is None or not (home / "service.json").exists():
        raise LocalError(f"Nothing runs in {home}: start it with `retrieval up`.", exit_code=3)
    service = instance.read_service(home)
    variables = {
        "API": service["api"],
        "API_KEY": service["apiKey"] or "<API_KEY>",
        "NAMESPACE": service["namespaceId"],
        "PREFECT_API_URL": f"{service['prefect']}/api",
        "PREFECT_API_AUTH_STRING": service.get("prefectLogin"),
    }
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items() if value]
    say("\n".join([*lines, f'export PATH={shlex.quote(str(Path(sys.executable).parent))}:"$PATH"']))
    return 0


def _already_running(home: Path) -> str:
    """One line with the addresses of the instance that has this home."""
    record = instance.find_running(home)
    addresses = [f"{name} {url}" for name, url in (record.addresses if record else {}).items() if url]
    return f"An instance is running in {home} already: {', '.join(addresses) or 'it is starting'}."


def _settle(settings: Settings, claims: contextlib.ExitStack) -> Settings:
    """Settings with every port of this instance claimed, and 0 replaced; a default that is taken gives way."""
    addresses = {"api_port": (settings.api_host, settings.api_port)}
    if not settings.prefect_api_url:
        addresses["prefect_port"] = (settings.prefect_host, settings.prefect_port)
    if roles.has_ui():
        addresses["ui_port"] = (settings.ui_host, settings.ui_port)
    if settings.metrics_port is not None:
        metrics_server.require_a_token(settings)
        addresses["metrics_port"] = (settings.metrics_host, settings.metrics_port)
    by_variable = {f"RETRIEVAL_{name.upper()}": address for name, address in addresses.items()}
    defaults = [f"RETRIEVAL_{name.upper()}" for name in addresses if name not in settings.model_fields_set]
    ports = instance.settle_ports(by_variable, movable=defaults, claims=claims)
    for variable in defaults:
        host, port = by_variable[variable]
        if ports[variable] != port:
            say(f"Port {port} on {host} is taken by another program: {variable} is {ports[variable]} this time.")
    settled = {"home": settings.home.resolve(), **dict(zip(addresses, ports.values(), strict=True))}
    return settings.model_copy(update=settled)


def _supervise(settings: Settings, home: Path, *, show_key: bool) -> None:
    """`show_key`: show the API key once it is ready; not where the output goes into a log."""
    key, at = environment.secret_key(settings), roles.locate_roles(settings)
    process = Process.of(os.getpid())
    if process is None:
        raise LocalError("/proc is not there: `retrieval up` needs Linux with /proc.")
    record = Record(process.pid, process.started, secrets.token_hex(16))
    record.embedded = environment.reveal_secret(settings.database_url) is None
    record.addresses = {"api": at.api, "prefect": at.prefect, "ui": at.ui, "metrics": at.metrics}
    console = Console()
    supervisor = Supervisor(home, record, console.say)
    supervisor.handle_signals()
    try:
        console.say(_STARTING.format(home))
        for role in roles.build_roles(settings, at, key, record):
            supervisor.add(role)
        supervisor.wait_ready(_START_SECONDS, console.report_start)
        service = instance.read_service(home) | {
            "api": at.api,
            "prefect": at.prefect.removesuffix("/api"),
            "prefectLogin": environment.prefect_login(settings),
            "ui": at.ui,
            "metrics": at.metrics,
        }
        instance.publish_service(home, service)
        record.phase = "ready"
        instance.save_record(home, record)
        ready = f"The service is ready after {console.seconds():.1f} s."
        console.say(build_banner(service, _create_link(home, service)) if show_key else ready)
        supervisor.watch()
    except Stopped:
        console.say(STOPPING)
    finally:
        console.restart_clock()
        supervisor.stop(console.report_stop)
        postgres.stop(home)
        instance.clear_home(home)
        console.clear()
    console.say(f"Stopped after {console.seconds():.1f} s.")


def _wait_until_ready(child: subprocess.Popen[bytes], home: Path, offset: int) -> int:
    deadline = time.monotonic() + _DETACHED_SECONDS
    console = Console()
    console.say(_STARTING.format(home))
    while child.poll() is None:
        record = instance.find_running(home)
        console.report_start(record.roles if record and record.pid == child.pid else ())
        if record and record.pid == child.pid and record.phase == "ready":
            service = instance.read_service(home)
            console.say(build_banner(service, _create_link(home, service)))
            child.returncode = 0  # it goes on without us: this program no longer waits for it
            return 0
        if time.monotonic() > deadline:
            child.send_signal(signal.SIGTERM)
            console.clear()
            raise LocalError(f"It was not ready within {_DETACHED_SECONDS:.0f} s. Its log: {logs.log_path(home, 'up')}")
        time.sleep(0.1)
    console.clear()
    print(logs.read_tail(home, "up", since=offset, lines=20), file=sys.stderr)
    print(f"It did not start. Its log: {logs.log_path(home, 'up')}", file=sys.stderr)
    return child.returncode or 1


INGEST = """RUN=$(curl -sS "$API/v1/ingest/text" \\
  -H "Authorization: Bearer $API_KEY" -H "Content-Type: application/json" \\
  -d '{"namespaceId": "'$NAMESPACE'", "ingestConfig": {"source": "TEXT",
       "config": {"name": "seals", "text": "The harbour seal dives for up to thirty minutes."}}}' |
  grep -o 'ijr_[a-z0-9]*')"""
WAIT = """until curl -sS "$API/v1/ingest-job-runs/$RUN?namespaceId=$NAMESPACE&waitSeconds=10" \\
  -H "Authorization: Bearer $API_KEY" | grep COMPLETED; do sleep 0.1; done"""
SEARCH = """curl -sS "$API/v1/search" \\
  -H "Authorization: Bearer $API_KEY" -H "Content-Type: application/json" \\
  -d '{"namespaceId": "'$NAMESPACE'", "query": "how long can a marine mammal hold its breath"}'"""
"""The requests of docs/quickstart.md, letter by letter."""


def _create_link(home: Path, service: dict[str, Any]) -> str | None:
    """Create a link that signs in at the admin app, once and within an hour; None without the app or a key."""
    if not service["ui"] or not service["apiKey"]:
        return None
    from ui.sign_ins import SignIn, create_sign_in

    link_id = create_sign_in(SignIn(service["apiKey"], once=True), environment.find_sign_ins(home))
    return f"{service['ui'].rstrip('/')}/sign-in?once={link_id}"


def build_banner(service: dict[str, Any], sign_in_link: str | None = None) -> str:
    """Addresses, a link that signs in, the key, the variables that the documentation's requests use, and the first of
    these requests."""
    api, key, namespace = service["api"], service["apiKey"], service["namespaceId"]
    login = service.get("prefectLogin")
    lines = [
        "",
        "The retrieval service is ready.",
        "",
        f"  API        {api}",
        f"  API docs   {api}/docs",
        f"  Prefect    {service['prefect']}",
        *([f"             sign in with {login}"] if login else []),
        *([f"  Admin app  {service['ui']}"] if service["ui"] else []),
        *([f"             signed in, once, within an hour: {sign_in_link}"] if sign_in_link else []),
        f"  API key    {key or 'not known here: make one with `retrieval key create`'}",
        f"  Namespace  {namespace}",
        "",
        "Put a text in, wait until it is ingested, and find it:",
        "",
        f"export API={api} API_KEY={key or '<API_KEY>'} NAMESPACE={namespace}",
        "",
        INGEST,
        "",
        WAIT,
        "",
        SEARCH,
        "",
        "In another terminal, this sets the variables, and finds the commands `retrieval` and `prefect`:",
        "",
        f'eval "$({shlex.quote(str(Path(sys.executable).with_name("retrieval")))} env)"',
        "",
    ]
    return "\n".join(lines)
