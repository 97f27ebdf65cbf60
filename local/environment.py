"""The environment that the roles get: every address and key resolved, so that all find the same database."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import SecretStr

from local import instance, postgres, prefect_database
from local.errors import LocalError
from local.instance import Record
from local.private_files import ANOTHER, read_secret, write_private
from retrieval.security.secrets import SecretError, load_or_create_key_file
from retrieval.settings import PROJECT, SECRETS, Settings

_MAKE_A_KEY = "python3 -c 'import base64, os; print(\"1:\" + base64.b64encode(os.urandom(32)).decode())'"
_LOGIN_OF_PREFECT = "prefect.login"
_OF_OTHER_SERVERS = (
    "PREFECT_API_URL",
    "PREFECT_API_KEY",
    "PREFECT_API_AUTH_STRING",
    "PREFECT_PROFILE",
    "PREFECT_SERVER_API_AUTH_STRING",
)
_PLAIN = frozenset(
    ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV", "TESSDATA_PREFIX")
)
_PLAIN_PREFIXES = ("LC_", "SSL_CERT_", "XDG_", "LD_", "MALLOC_", "OMP_", "OPENBLAS_", "MKL_", "PYTHON", "COVERAGE_")


@dataclass(frozen=True, slots=True)
class Needs:
    """Settings and secrets that a role needs. `secrets`: settings that hold one; `prefect`: the login to its API."""

    settings: bool = True
    secrets: frozenset[str] = frozenset()
    prefect: bool = False


_DATA = frozenset({"database_url", "secret_key"})
NEEDS: Mapping[str, Needs] = {
    "api": Needs(secrets=_DATA),
    "worker": Needs(secrets=_DATA, prefect=True),
    "dispatcher": Needs(secrets=_DATA, prefect=True),
    "migrate": Needs(secrets=_DATA),
    "register": Needs(prefect=True),
    "metrics": Needs(secrets=frozenset({"database_url", "metrics_token"})),
    "model": Needs(),
    "prefect": Needs(settings=False),
    "postgres": Needs(settings=False),
}
"""The admin app gets even less (`for_ui`). Prefect's server gets its own login and database (`for_prefect`)."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """Facts known once an instance is found or created."""

    database_url: str
    secret_key: str
    prefect_api_url: str | None
    prefect_login: str | None = None
    """`name:password` that the bundled Prefect server asks for; None for a server of the operator's."""


def plain(secret: SecretStr | None) -> str | None:
    """The text of a setting; an empty one counts as absent."""
    return secret.get_secret_value() or None if secret else None


def secret_key(settings: Settings) -> str:
    """The key for stored secrets: the given one; with the embedded Postgres else a file of the home, made once."""
    if setting := plain(settings.secret_key):
        return setting
    if plain(settings.database_url):
        raise LocalError(
            "RETRIEVAL_DATABASE_URL is set and RETRIEVAL_SECRET_KEY is not: stored secrets need a key that every "
            f"machine shares. Make one with: {_MAKE_A_KEY} - keep it safe, and set RETRIEVAL_SECRET_KEY to it.",
            exit_code=2,
        )
    file = settings.home.resolve() / "secret.key"
    try:
        if file.exists():
            read_secret(file, "Put it back from a backup: without it stored secrets cannot be read.")
        load_or_create_key_file(file)
    except SecretError as error:
        raise LocalError(f"{file} is damaged: {error}") from error
    return file.read_text().strip()


def resolve(settings: Settings, *, needs_prefect: bool = False) -> Resolved:
    """For a role or command started alone: given addresses first, else those of the instance that runs in this home."""
    running = instance.running(settings.home)
    database_url = plain(settings.database_url)
    if database_url is None and running and running.embedded:
        database_url = postgres.url(settings.home)
    if database_url is None:
        raise LocalError(
            f"There is no database: nothing runs in {settings.home} (start it with `retrieval up`), "
            "and RETRIEVAL_DATABASE_URL is not set.",
            exit_code=2,
        )
    prefect, login = _prefect(settings, running, needed=needs_prefect)
    return Resolved(database_url, secret_key(settings), prefect, login)


def resolve_prefect(settings: Settings) -> Resolved:
    """For what speaks with Prefect alone: neither a database nor the key of stored secrets is looked for."""
    prefect, login = _prefect(settings, instance.running(settings.home), needed=True)
    return Resolved("", "", prefect, login)


def _prefect(settings: Settings, running: Record | None, *, needed: bool) -> tuple[str | None, str | None]:
    """The address of Prefect's API, and the login to it where it is the one of the instance in this home."""
    address = settings.prefect_api_url or (running.addresses.get("prefect") if running else None)
    if needed and not address:
        raise LocalError(
            f"There is no Prefect server: nothing runs in {settings.home} (start it with `retrieval up`), "
            "and RETRIEVAL_PREFECT_API_URL is not set.",
            exit_code=2,
        )
    bundled = running is not None and any(role.name == "prefect" for role in running.roles)
    return address, prefect_login(settings) if bundled else None


def prefect_login(settings: Settings) -> str | None:
    """Login of the bundled Prefect: from the settings, else made once, in a file of the home. None where another server
    is set."""
    if settings.prefect_api_url:
        return None
    if setting := plain(settings.prefect_login):
        return setting
    file = settings.home.resolve() / _LOGIN_OF_PREFECT
    if not file.exists():
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(file, f"retrieval:{secrets.token_urlsafe(24)}\n")
    return read_secret(file, ANOTHER)


_OF_THE_UI = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "VIRTUAL_ENV")


def for_ui(api: str, token: Mapping[str, str] | None = None, authorities: Path | None = None) -> dict[str, str]:
    """Environment of the admin app: the API's address, and no secret of the service. `authorities`: certificates of the
    identity provider, if not the usual ones."""
    variables = {name: os.environ[name] for name in _OF_THE_UI if name in os.environ}
    options = {name: value for name, value in os.environ.items() if name.startswith("STREAMLIT_")}
    if authorities is not None:
        variables["SSL_CERT_FILE"] = str(authorities)
    return variables | options | {"RETRIEVAL_API_URL": api, "PYTHONUNBUFFERED": "1"} | dict(token or {})


def build(role: str, settings: Settings, resolved: Resolved) -> dict[str, str]:
    """The whole environment of a role: what it needs (`NEEDS`), and of the secrets nothing else."""
    needs = NEEDS[role]
    home = settings.home.resolve()
    speaks_prefect = needs.prefect or role == "prefect"
    environment = _inherited(needs) | {
        "RETRIEVAL_HOME": str(home),
        "RETRIEVAL_PROJECT": str(PROJECT),
        "DO_NOT_TRACK": "1",
        "PYTHONUNBUFFERED": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }
    values = {"database_url": resolved.database_url, "secret_key": resolved.secret_key}
    values["metrics_token"] = plain(settings.metrics_token) or ""
    environment |= {f"RETRIEVAL_{name.upper()}": values[name] for name in needs.secrets if values[name]}
    if needs.settings and resolved.prefect_api_url:
        environment["RETRIEVAL_PREFECT_API_URL"] = resolved.prefect_api_url
    if needs.settings and settings.ui_port:
        environment["RETRIEVAL_UI_PORT"] = str(settings.ui_port)
    if needs.settings and (own_addresses := _own_addresses(settings)):
        environment["RETRIEVAL_OWN_ADDRESSES"] = ",".join(own_addresses)
    if speaks_prefect:
        environment |= _of_prefect(home, resolved, dropped=() if settings.prefect_api_url else _OF_OTHER_SERVERS)
    if needs.prefect:
        environment |= _sign_in(settings, resolved)
    return environment


def _sign_in(settings: Settings, resolved: Resolved) -> dict[str, str]:
    """Login of a role to Prefect, in Prefect's own variables: to the bundled server, or to the operator's."""
    if resolved.prefect_login:
        return {"PREFECT_API_AUTH_STRING": resolved.prefect_login}
    if not settings.prefect_api_url:
        return {}
    login, key = plain(settings.prefect_login), plain(settings.prefect_api_key)
    return ({"PREFECT_API_AUTH_STRING": login} if login else {}) | ({"PREFECT_API_KEY": key} if key else {})


def for_prefect(settings: Settings, resolved: Resolved, origins: Iterable[str], database_url: str) -> dict[str, str]:
    """The environment of Prefect's server: its own login and database. `origins`: whose pages may speak with it."""
    environment = build("prefect", settings, resolved)
    for name in ("PREFECT_API_KEY", "PREFECT_API_AUTH_STRING"):
        environment.pop(name, None)
    return environment | {
        "PREFECT_SERVER_API_AUTH_STRING": resolved.prefect_login or "",
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": ",".join(origins),
        **prefect_database.variables(database_url),
        **_place_of_pages(settings.home.resolve()),
        "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
        **{name: os.environ.get(name, usual) for name, usual in _QUIET_SERVICES.items()},
    }


def _place_of_pages(home: Path) -> dict[str, str]:
    """Prefect's server copies the pages of its UI beside its package at its first start; where that folder cannot be
    written to, as in an image, into the home."""
    spec = find_spec("prefect")
    beside = Path(spec.origin or "").with_name("server") if spec else home
    return {} if os.access(beside, os.W_OK) else {"PREFECT_SERVER_UI_STATIC_DIRECTORY": str(home / "prefect" / "ui")}


def _inherited(needs: Needs) -> dict[str, str]:
    """Variables of our environment that a role may see: none of other programs, no secret that is not its own."""
    hidden = {f"RETRIEVAL_{name.upper()}{end}" for name in SECRETS for end in ("", "_FILE")}
    prefixes = (*_PLAIN_PREFIXES, *(("RETRIEVAL_", "OTEL_") if needs.settings else ()))
    variables = {
        name: value
        for name, value in os.environ.items()
        if (name in _PLAIN or name.startswith(prefixes)) and name not in hidden
    }
    # Compiled modules are kept, or each of five processes would compile Prefect again at every start.
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    return variables


def _of_prefect(home: Path, resolved: Resolved, *, dropped: Iterable[str]) -> dict[str, str]:
    """Prefect's own variables: those that were set, but `dropped`, then what this service needs of it."""
    variables = {
        name: value for name, value in os.environ.items() if name.startswith("PREFECT_") and name not in dropped
    }
    variables |= {
        "PREFECT_HOME": str(home / "prefect"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
        "PREFECT_CLI_PROMPT": "false",
        "PREFECT_CLI_COLORS": "false",
        "PREFECT_LOGGING_COLORS": "false",
        **{name: os.environ.get(name, usual) for name, usual in _USUAL_OF_PREFECT.items()},
    }
    if not resolved.prefect_api_url:
        return variables
    if resolved.prefect_api_url.startswith("http://"):
        variables.setdefault("PREFECT_API_SSL_CERT_FILE", str(_NO_AUTHORITIES))
    return variables | {"PREFECT_API_URL": resolved.prefect_api_url}


_USUAL_OF_PREFECT = {
    "PREFECT_WORKER_QUERY_SECONDS": "10",
    "PREFECT_API_REQUEST_TIMEOUT": "20",
    "PREFECT_CLIENT_MAX_RETRIES": "5",
}
_NO_AUTHORITIES = Path(__file__).with_name("nobody.pem")
"""A bundle of one certificate, whose key nobody has. Each of Prefect's clients parses its bundle, 0.1 s for the usual
one and several times a flow run; plain HTTP looks at none."""
_SERVICES = "PREFECT_SERVER_SERVICES_"
_QUIET_SERVICES = {
    f"{_SERVICES}EVENT_PERSISTER_BATCH_SIZE": "500",
    f"{_SERVICES}TASK_RUN_RECORDER_BATCH_SIZE": "20",
    f"{_SERVICES}TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
    f"{_SERVICES}PAUSE_EXPIRATIONS_ENABLED": "false",
    f"{_SERVICES}REPOSSESSOR_ENABLED": "false",
    f"{_SERVICES}LATE_RUNS_LOOP_SECONDS": "20",
    f"{_SERVICES}SCHEDULER_RECENT_DEPLOYMENTS_LOOP_SECONDS": "15",
    f"{_SERVICES}CANCELLATION_CLEANUP_LOOP_SECONDS": "60",
    f"{_SERVICES}CLEANUP_RECONCILER_LOOP_SECONDS": "30",
    "PREFECT_SERVER_EVENTS_PROACTIVE_GRANULARITY": "PT20S",
}
"""Fewer and larger writes; nothing here pauses flow runs or holds Prefect's concurrency leases. What would look every 5
or 20 seconds looks less often: nothing of this service waits for it."""


def _own_addresses(settings: Settings) -> list[str]:
    """`host:port` of what the fetch guard of a role cannot know: the ports of an instance that it is started beside,
    and Prefect's database, whose address holds a password."""
    running = instance.running(settings.home)
    urls = [url for url in running.addresses.values() if url] if running else []
    places = [urlsplit(url).netloc for url in urls]
    if database := plain(settings.prefect_database_url):
        places.append(urlsplit(database).netloc.rpartition("@")[2])
    return list(dict.fromkeys([*settings.own_addresses, *filter(None, places)]))
