"""One role in the foreground, on the database and Prefect that it finds: how machines and containers run it."""

from __future__ import annotations

import os
import signal
from contextlib import closing

import psycopg

from local import addresses, environment, instance, ready, roles, ui_sign_in
from local.environment import Resolved
from local.errors import LocalError
from retrieval.database.database import AWAY, Database
from retrieval.readiness import files_folder
from retrieval.settings import Settings


def run(name: str, settings: Settings, *, check: bool = False) -> int:
    """Become the role: this process is replaced by it. `migrate` runs here and returns; `check`: it changes nothing."""
    if name == "prefect":
        return _become(name, settings, _for_prefect(settings))
    if name == "ui":
        return _become(name, settings, _for_ui(settings))
    if name == "register":
        return _become(name, settings, environment.build(name, settings, environment.resolve_prefect(settings)))
    resolved = environment.resolve(settings, needs_prefect=name in ("worker", "dispatcher"))
    if name == "migrate":
        from local import migration

        if check:
            return migration.check(resolved.database_url)
        migration.run(resolved.database_url)
        migration.check_language(resolved.database_url, settings.keyword_language)
        print("The database has the newest schema.")
        return 0
    if name == "api":
        addresses.settle({"RETRIEVAL_API_PORT": (settings.api_host, settings.api_port)})
    _claim_files(settings, resolved)
    running = instance.running(settings.home)
    ports = addresses.ports(running.addresses) if running else {}
    ports.pop(f"RETRIEVAL_{name.upper()}_PORT", None)  # that of the instance's own role is taken
    return _become(name, settings, environment.build(name, settings, resolved) | ports)


def _claim_files(settings: Settings, resolved: Resolved) -> None:
    """LocalError if this machine's folder of files is not the service's. Not checked while the database is away or not
    migrated: the role starts, and is not ready."""
    try:
        with closing(Database(resolved.database_url, size=1)) as db:
            reason = files_folder.claim(db, settings)
    except (*AWAY, psycopg.Error):
        return
    if reason:
        raise LocalError(reason)


def _become(name: str, settings: Settings, variables: dict[str, str]) -> int:
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if name in ready.ROLES:
        ready.remember(settings.home, name)
    # A script that starts it by `&` has SIGINT ignored, by which Prefect's worker ends after a SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    command = roles.commands(settings, f"{os.uname().nodename}-{os.getpid()}")[name]
    os.execve(command[0], command, variables)  # noqa: S606 - our own program, no shell


def _for_prefect(settings: Settings) -> dict[str, str]:
    database_url = environment.plain(settings.prefect_database_url)
    if database_url is None:
        raise LocalError(
            "RETRIEVAL_PREFECT_DATABASE_URL is not set: a Prefect server that is started alone keeps its data in a"
            " PostgreSQL with the extension pg_trgm. Set it to that database, or run `retrieval up`, which brings one.",
            exit_code=2,
        )
    alone = settings.model_copy(update={"prefect_api_url": None})
    own_url = f"{addresses.url(settings.prefect_host, settings.prefect_port)}/api"
    resolved = Resolved("", "", own_url, environment.prefect_login(alone))
    return environment.for_prefect(alone, resolved, roles.prefect_origins(alone), database_url)


def _for_ui(settings: Settings) -> dict[str, str]:
    if not roles.has_ui():
        raise LocalError("There is no admin app in this version.", exit_code=2)
    running = instance.running(settings.home)
    api = running.addresses.get("api") if running else None
    ui_sign_in.write(settings, addresses.url(settings.ui_host, settings.ui_port))
    return environment.for_ui(settings.ui_api_url or api or settings.base_url, authorities=settings.oidc_ca_bundle)
