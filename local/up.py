"""Commands `up`, `down` and `env`."""

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

from local import LocalError, environment, instance, logs, postgres, processes, roles
from local.console import STOPPING_MESSAGE, Console
from local.instance import InstanceRecord
from local.processes import Process
from local.supervisor import StopRequested, Supervisor
from retrieval.settings import PROJECT_ROOT, Settings

_START_SECONDS = 280.0
_DETACHED_SECONDS = 300.0
_STOP_SECONDS = 45.0
_STARTING_MESSAGE = "Starting the retrieval service in {}:"


def print_line(line: str) -> None:
    """Print a line; lose it on a full disk."""
    with contextlib.suppress(OSError):
        print(line, flush=True)


def run(options: Namespace, settings: Settings) -> int:
    """Run an instance until stopped; raise LocalError for a failed start or a role that died too often."""
    if options.detach:
        return _run_detached(settings)
    home = settings.home.resolve()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = instance.lock_home(home)
    if lock is None:
        raise LocalError(_describe_running(home))
    try:
        instance.clear_home(home)
        with contextlib.ExitStack() as claims:
            _supervise(_choose_ports(settings, claims), home, show_key=not options.for_a_log)
    finally:
        os.close(lock)
    return 0


def _run_detached(settings: Settings) -> int:
    """Start an instance in its own session; return when ready, failed or already running."""
    home = settings.home.resolve()
    if instance.find_running(home):
        print_line(_describe_running(home))
        return 0
    with logs.open_log(home, "up") as log:
        offset = log.tell()
        child = subprocess.Popen(
            [sys.executable, "-m", "local.cli", "up", "--for-a-log"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=PROJECT_ROOT,
            start_new_session=True,
        )
    try:
        return _wait_until_ready(child, home, offset)
    except KeyboardInterrupt:
        print_line(f"\n{STOPPING_MESSAGE}")
        child.send_signal(signal.SIGTERM)
        child.wait(timeout=_STOP_SECONDS)
        print_line("Stopped.")
        raise


def stop(_options: Namespace, settings: Settings) -> int:
    """Stop the instance of this home, or its database without a supervisor."""
    home = settings.home.resolve()
    record = instance.load_record(home)
    if record is None and not home.exists():
        print_line(f"Nothing runs in {home}.")
        return 0
    was_running = record is not None and record.supervisor.is_alive()
    if record and was_running:
        print_line(STOPPING_MESSAGE)
        processes.end_processes([record.supervisor], first=signal.SIGTERM, grace=_STOP_SECONDS)
    if instance.lock_home(home) is None:
        raise LocalError(f"Another `retrieval up` is starting in {home}: try again in a moment.")
    instance.clear_home(home)
    had_database = postgres.stop(home)
    noun = "instance" if was_running else "database"
    print_line(f"Stopped the {noun} in {home}." if was_running or had_database else f"Nothing runs in {home}.")
    return 0


def print_variables(_options: Namespace, settings: Settings) -> int:
    """Print lines that set up a shell for the running instance; raise LocalError if nothing runs."""
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
    print_line("\n".join([*lines, f'export PATH={shlex.quote(str(Path(sys.executable).parent))}:"$PATH"']))
    return 0


def _describe_running(home: Path) -> str:
    """Return a line with the addresses of the running instance."""
    record = instance.find_running(home)
    addresses = [f"{name} {url}" for name, url in (record.addresses if record else {}).items() if url]
    return f"An instance is running in {home} already: {', '.join(addresses) or 'it is starting'}."


def _choose_ports(settings: Settings, claims: contextlib.ExitStack) -> Settings:
    """Return settings with claimed ports; a taken default port moves; LocalError for a taken port that was set."""
    addresses = {"api_port": (settings.api_host, settings.api_port)}
    if not settings.prefect_api_url:
        addresses["prefect_port"] = (settings.prefect_host, settings.prefect_port)
    if roles.has_ui():
        addresses["ui_port"] = (settings.ui_host, settings.ui_port)
    if settings.metrics_port is not None:
        from local import metrics_server  # the supervisor keeps what it imports

        metrics_server.require_token(settings)
        addresses["metrics_port"] = (settings.metrics_host, settings.metrics_port)
    by_variable = {f"RETRIEVAL_{name.upper()}": address for name, address in addresses.items()}
    defaults = [f"RETRIEVAL_{name.upper()}" for name in addresses if name not in settings.model_fields_set]
    ports = instance.settle_ports(by_variable, movable=defaults, claims=claims)
    for variable in defaults:
        host, port = by_variable[variable]
        if ports[variable] != port:
            print_line(f"Port {port} on {host} is taken by another program: {variable} is {ports[variable]} this time.")
    settled = {"home": settings.home.resolve(), **dict(zip(addresses, ports.values(), strict=True))}
    return settings.model_copy(update=settled)


def _supervise(settings: Settings, home: Path, *, show_key: bool) -> None:
    # The API key is not shown if the output goes into a log.
    key, at = environment.secret_key(settings), roles.locate_roles(settings)
    process = Process.from_pid(os.getpid())
    if process is None:
        raise LocalError("/proc is not there: `retrieval up` needs Linux with /proc.")
    record = InstanceRecord(process.pid, process.started, secrets.token_hex(16))
    record.embedded = environment.reveal_secret(settings.database_url) is None
    record.addresses = {"api": at.api, "prefect": at.prefect, "ui": at.ui, "metrics": at.metrics}
    console = Console()
    supervisor = Supervisor(home, record, console.print_line)
    supervisor.handle_signals()
    try:
        console.print_line(_STARTING_MESSAGE.format(home))
        for role in roles.build_roles(settings, at, key, record):
            supervisor.add_role(role)
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
        ready = f"The service is ready after {console.elapsed_seconds():.1f} s."
        console.print_line(build_banner(service, _create_sign_in_link(home, service)) if show_key else ready)
        supervisor.watch_roles()
    except StopRequested:
        console.print_line(STOPPING_MESSAGE)
    finally:
        console.restart_clock()
        supervisor.stop_roles(console.report_stop)
        postgres.stop(home)
        instance.clear_home(home)
        console.clear()
    console.print_line(f"Stopped after {console.elapsed_seconds():.1f} s.")


def _wait_until_ready(child: subprocess.Popen[bytes], home: Path, offset: int) -> int:
    deadline = time.monotonic() + _DETACHED_SECONDS
    console = Console()
    console.print_line(_STARTING_MESSAGE.format(home))
    while child.poll() is None:
        record = instance.find_running(home)
        console.report_start(record.roles if record and record.pid == child.pid else ())
        if record and record.pid == child.pid and record.phase == "ready":
            service = instance.read_service(home)
            console.print_line(build_banner(service, _create_sign_in_link(home, service)))
            child.returncode = 0  # the instance continues without this process
            return 0
        if time.monotonic() > deadline:
            child.send_signal(signal.SIGTERM)
            console.clear()
            raise LocalError(f"It was not ready within {_DETACHED_SECONDS:.0f} s. Its log: {logs.log_path(home, 'up')}")
        time.sleep(0.1)
    console.clear()
    print(logs.read_tail(home, "up", offset=offset, lines=20), file=sys.stderr)
    print(f"It did not start. Its log: {logs.log_path(home, 'up')}", file=sys.stderr)
    return child.returncode or 1


INGEST_COMMAND = """RUN=$(curl -sS "$API/v1/ingest/text" \\
  -H "Authorization: Bearer $API_KEY" -H "Content-Type: application/json" \\
  -d '{"namespaceId": "'$NAMESPACE'", "ingestConfig": {"source": "TEXT",
       "config": {"name": "seals", "text": "The harbour seal dives for up to thirty minutes."}}}' |
  grep -o 'ijr_[a-z0-9]*')"""
WAIT_COMMAND = """until curl -sS "$API/v1/ingest-job-runs/$RUN?namespaceId=$NAMESPACE&waitSeconds=10" \\
  -H "Authorization: Bearer $API_KEY" | grep COMPLETED; do sleep 0.1; done"""
SEARCH_COMMAND = """curl -sS "$API/v1/search" \\
  -H "Authorization: Bearer $API_KEY" -H "Content-Type: application/json" \\
  -d '{"namespaceId": "'$NAMESPACE'", "query": "how long can a marine mammal hold its breath"}'"""


def _create_sign_in_link(home: Path, service: dict[str, Any]) -> str | None:
    """Return a link for one sign-in at the admin app within an hour; None without app or key."""
    if not service["ui"] or not service["apiKey"]:
        return None
    from ui.sign_ins import SignIn, create_sign_in

    link_id = create_sign_in(SignIn(service["apiKey"], once=True), environment.find_sign_ins(home))
    return f"{service['ui'].rstrip('/')}/sign-in?once={link_id}"


def build_banner(service: dict[str, Any], sign_in_link: str | None = None) -> str:
    """Return addresses, sign-in link, key, variables and first requests of the documentation."""
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
        *([f"             sign in without the key, once, within an hour: {sign_in_link}"] if sign_in_link else []),
        f"  API key    {key or 'not known here: make one with `retrieval key create`'}",
        f"  Namespace  {namespace}",
        "",
        "Put a text in, wait until it is ingested, and find it:",
        "",
        f"export API={api} API_KEY={key or '<API_KEY>'} NAMESPACE={namespace}",
        "",
        INGEST_COMMAND,
        "",
        WAIT_COMMAND,
        "",
        SEARCH_COMMAND,
        "",
        "In another terminal, this sets the variables and adds the commands `retrieval` and `prefect` to PATH:",
        "",
        f'eval "$({shlex.quote(str(Path(sys.executable).with_name("retrieval")))} env)"',
        "",
    ]
    return "\n".join(lines)
