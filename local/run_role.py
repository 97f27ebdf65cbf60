"""Run one role in the foreground, such as the API on a machine or in a container without the others.

python -m local.run_role migrate|register   # setup steps of `retrieval up`
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from contextlib import closing, suppress

import psycopg
from psycopg import OperationalError, errors
from psycopg.conninfo import conninfo_to_dict

from local import REFUSED_EXIT_CODE, LocalError, environment, health, instance, probes, roles
from local.environment import ResolvedAddresses
from retrieval import settings as service_settings
from retrieval.accounts import api_keys, bootstrap
from retrieval.accounts.bootstrap import Bootstrap
from retrieval.database import poolers, revisions
from retrieval.database.database import UNAVAILABLE_ERRORS, Database
from retrieval.database.revisions import RevisionError
from retrieval.readiness import files_folder
from retrieval.security import secrets
from retrieval.security.secrets import KeyRing, hash_api_key
from retrieval.setting_values import WrongSetting
from retrieval.settings import Settings

_PREFECT_START_SECONDS = 180.0


def run(options: Namespace, settings: Settings) -> int:
    """Replace this process by the role's program; `migrate` runs in this process. Return the exit code."""
    name = options.command
    if name == "prefect":
        return _replace_process(name, settings, _prepare_prefect(settings))
    if name == "ui":
        return _replace_process(name, settings, _prepare_ui(settings))
    if name == "register":
        if options.notify and not options.notify.startswith(("http://", "https://")):
            raise LocalError("--notify must be a URL that begins with http:// or https://.", exit_code=2)
        resolved = environment.resolve_prefect(settings)
        variables = environment.build_variables(name, settings, resolved)
        values = {"--pool": options.pool, "--notify": options.notify}
        arguments = [f"{option}={value}" for option, value in values.items() if value]
        return _replace_process(name, settings, variables, arguments)
    resolved = environment.resolve_addresses(settings, needs_prefect=name in ("worker", "dispatcher"))
    if name == "migrate":
        if options.check:
            return _print_pending_migrations(resolved.database_url)
        migrate_schema(resolved.database_url, settings.keyword_language)
        print(_NEWEST_SCHEMA)
        return 0
    if name == "api":
        instance.settle_ports({"RETRIEVAL_API_PORT": (settings.api_host, settings.api_port)})
    _require_own_storage(settings, resolved)
    running = instance.find_running(settings.home)
    ports = instance.port_settings(running.addresses) if running else {}
    # The same role of the running instance has this port.
    ports.pop(f"RETRIEVAL_{name.upper()}_PORT", None)
    return _replace_process(name, settings, environment.build_variables(name, settings, resolved) | ports)


def _require_own_storage(settings: Settings, resolved: ResolvedAddresses) -> None:
    """Raise LocalError for a folder of files of another installation, or a pooler that shares sessions."""
    # Without a database or its tables, the role starts unchecked, and is not ready.
    try:
        poolers.require_own_sessions(resolved.database_url)
        with closing(Database(resolved.database_url, size=1)) as db:
            reason = files_folder.claim_folder(db, settings)
    except poolers.SharedSessions as error:
        raise LocalError(str(error)) from error
    except UNAVAILABLE_ERRORS:
        warning = (
            "retrieval: the database does not answer yet (RETRIEVAL_DATABASE_URL); this role works as soon as it does."
        )
        print(warning, file=sys.stderr, flush=True)
        return
    except psycopg.Error:  # not migrated yet
        return
    if reason:
        raise LocalError(reason)


def _replace_process(name: str, settings: Settings, variables: dict[str, str], arguments: Sequence[str] = ()) -> int:
    """Execute the role's program in this process."""
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    health.remember_role(settings.home, name)
    # Shell scripts ignore SIGINT for background commands; Prefect's worker ends by SIGINT after a SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    command = roles.list_commands(settings, f"{os.uname().nodename}-{os.getpid()}")[name] + [*arguments]
    os.execve(command[0], command, variables)  # noqa: S606 - our own program, no shell


def _prepare_prefect(settings: Settings) -> dict[str, str]:
    """Return the environment of a Prefect server with a database of its own."""
    database_url = environment.reveal_secret(settings.prefect_database_url)
    if database_url is None:
        raise LocalError(
            "RETRIEVAL_PREFECT_DATABASE_URL is not set: a Prefect server started on its own keeps its data in a"
            " PostgreSQL with the extension pg_trgm. Set it to that database, or run `retrieval up`, which brings one.",
        )
    # The server must not take another server's address for its own.
    own_settings = settings.model_copy(update={"prefect_api_url": None})
    own_url = f"{instance.build_url(settings.prefect_host, settings.prefect_port)}/api"
    resolved = ResolvedAddresses("", "", own_url, environment.prefect_login(own_settings))
    return environment.build_prefect(own_settings, resolved, roles.prefect_origins(own_settings), database_url)


def _prepare_ui(settings: Settings) -> dict[str, str]:
    """Write the sign-in settings; return the environment of the app."""
    if not roles.has_ui():
        raise LocalError("There is no admin app in this version.", exit_code=2)
    running = instance.find_running(settings.home)
    api_url = running.addresses.get("api") if running else None
    environment.write_sign_in(settings, instance.build_url(settings.ui_host, settings.ui_port))
    return environment.build_ui(settings, settings.ui_api_url or api_url or settings.base_url)


def _print_pending_migrations(url: str) -> int:
    """Print pending migrations; return 1 if there are any."""
    try:
        pending = revisions.list_pending(url)
    except OperationalError as error:
        raise LocalError("The database does not answer: look at RETRIEVAL_DATABASE_URL.") from error
    except RevisionError as error:
        raise LocalError(str(error)) from error
    lines = [f"{migration.revision}  {migration.summary}" for migration in pending]
    print("\n".join(lines) or _NEWEST_SCHEMA)
    return 1 if pending else 0


def migrate_schema(url: str, language: str) -> None:
    """Upgrade the schema. LocalError for a refusal, or for a missing text search configuration `language`."""
    from sqlalchemy.exc import DBAPIError

    try:
        poolers.require_own_sessions(url)
        revisions.upgrade_schema(url)
    except (poolers.SharedSessions, RevisionError) as error:
        raise LocalError(str(error)) from error
    except (DBAPIError, OperationalError) as error:
        if refusal := _explain_refusal(url, error.orig if isinstance(error, DBAPIError) else error):
            raise LocalError(refusal) from error
        raise
    # Without this configuration every document would fail.
    schema, _, name = language.rpartition(".")
    with psycopg.connect(url) as connection:
        if connection.execute(_HAS_LANGUAGE, {"schema": schema, "name": name}).fetchone() is None:
            raise LocalError(
                "A setting is wrong. RETRIEVAL_KEYWORD_LANGUAGE: the database has no text search configuration of that"
                " name; `select cfgname from pg_ts_config` lists those that it has."
            )


_NEWEST_SCHEMA = "The database has the newest schema."
_HAS_LANGUAGE = """
    select 1 from pg_ts_config c join pg_namespace n on n.oid = c.cfgnamespace
    where c.cfgname = %(name)s and (n.nspname = %(schema)s or %(schema)s = '' and pg_ts_config_is_visible(c.oid))
"""


def _explain_refusal(url: str, cause: BaseException | None) -> str | None:
    """Return the cause and its remedy for the database's operator; None for an unknown error."""
    parameters = conninfo_to_dict(url)
    user = str(parameters.get("user") or "of this process")
    database = str(parameters.get("dbname") or parameters.get("user") or "")
    match cause:
        case errors.InsufficientPrivilege() if "extension" in str(cause):
            advice = f"let a superuser run `CREATE EXTENSION vector` in the database {database} once, then start again"
            return f"The user {user} may not create the extension vector: {advice}."
        case errors.InsufficientPrivilege() if "role" in str(cause):
            statements = f"`CREATE ROLE retrieval_viewer NOLOGIN; GRANT retrieval_viewer TO {user}`"
            return (
                f"The user {user} may not create the role retrieval_viewer, by which documents are read for users:"
                f" let a superuser run {statements} once, then start again."
            )
        case errors.InsufficientPrivilege():
            grants = f"GRANT CREATE ON DATABASE {database} TO {user}; GRANT CREATE ON SCHEMA public TO {user}"
            advice = f"let its owner run `{grants}`, or make {user} the owner"
            return f"The database {database} refuses its schema ({str(cause).splitlines()[0]}): {advice}."
        case errors.FeatureNotSupported() | errors.UndefinedFile() if "extension" in str(cause):
            advice = "install pgvector there (on Debian: postgresql-NN-pgvector), then start again"
            return f"The PostgreSQL of {database} has no extension vector: {advice}."
        case OperationalError():
            reason = " ".join(str(cause).split())
            return f"The database {database} cannot be used: {reason}. Look at RETRIEVAL_DATABASE_URL."
    return None


def bootstrap_installation(settings: Settings) -> None:
    """Migrate, create the first organization, namespace and key, and store their ids in the home."""
    url = environment.reveal_secret(settings.database_url)
    if url is None:
        raise LocalError("RETRIEVAL_DATABASE_URL is not set.")
    migrate_schema(url, settings.keyword_language)
    ring = KeyRing.parse(environment.secret_key(settings))
    with closing(Database(url, size=2)) as db:
        if reason := files_folder.claim_folder(db, settings):
            raise LocalError(reason)
        installation = bootstrap.ensure_installation(db, ring, settings)
        service = {
            "apiKey": _find_key(db, ring, settings, installation),
            "organizationId": installation.organization_id,
            "namespaceId": installation.namespace_id,
        }
    instance.keep_service(settings.home, service)


def _find_key(db: Database, ring: KeyRing, settings: Settings, installation: Bootstrap) -> str:
    """Return the key of a new installation, else the valid key stored in the home, else a new key."""
    key = installation.api_key or instance.read_service(settings.home).get("apiKey")
    if isinstance(key, str):
        hashed = hash_api_key(key, pepper=secrets.server_secret(db, ring, secrets.PEPPER_NAME))
        statement = "select id from api_keys where hash = %(hash)s and organization_id = %(id)s and revoked_at is null"
        if db.fetch_one(str, statement, {"hash": hashed, "id": installation.organization_id}):
            return key
    return api_keys.create_key(db, ring, installation.organization_id, "default").api_key


def register_deployments(settings: Settings, pool: str | None = None, notify_url: str | None = None) -> None:
    """Wait for Prefect and register work pool and deployments.

    `pool`: existing work pool. `notify_url`: receives failed flow runs.
    """
    # Importing Prefect and the flows takes seconds: a home that registered this version only compares.
    from flows import deployments
    from retrieval.jobs import fair_queue

    version, registered_file = deployments.compute_version(), settings.home / "registered"
    was_registered = registered_file.exists() and registered_file.read_text() == version and not (pool or notify_url)
    if not was_registered:
        importlib.import_module("flows.register")
    deadline = time.monotonic() + _PREFECT_START_SECONDS
    while not probes.is_answering(os.environ["PREFECT_API_URL"] + "/health"):
        if time.monotonic() > deadline:
            raise SystemExit(f"The Prefect server did not answer within {_PREFECT_START_SECONDS:.0f} s.")
        time.sleep(0.1)
    names = frozenset(deployment["name"] for deployment in deployments.read_plan()["deployments"])
    expected = probes.Registration(frozenset(fair_queue.WORK_QUEUES), names, version)
    if was_registered and probes.is_registered(os.environ["PREFECT_API_URL"], settings.work_pool, os.environ, expected):
        return
    from flows import register
    from local import automations

    try:
        register.main(pool)
        if notify_url:
            automations.create_for_url(notify_url)
    except register.RegistrationError as error:
        raise SystemExit(str(error)) from None
    with suppress(OSError):  # a read-only home: registered again the next time
        registered_file.write_text(version)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a setup step. After a refusal the last line on standard error is its reason."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--pool")
    parser.add_argument("--notify")
    options = parser.parse_args(arguments)
    try:
        match options.name:
            case "migrate":
                settings = service_settings.load_settings()
                importlib.import_module("connectors.registry").require_ocr_languages(settings.ocr_languages)
                bootstrap_installation(settings)
            case "register":
                register_deployments(service_settings.load_settings(), options.pool, options.notify)
    except (LocalError, WrongSetting) as error:
        print(error, file=sys.stderr)
        raise SystemExit(REFUSED_EXIT_CODE) from None


if __name__ == "__main__":
    main()
