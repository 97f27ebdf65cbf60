"""Environment variables of the roles, with resolved addresses and keys."""

from __future__ import annotations

import json
import os
import re
import secrets
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

from pydantic import SecretStr

from local import LocalError, instance, postgres
from local.instance import RECREATE_REMEDY, InstanceRecord, read_secret, write_private
from retrieval.security.secrets import SecretError, load_or_create_key_file
from retrieval.settings import IS_CHECKOUT, SECRET_FIELDS, Settings

_KEY_COMMAND = "python3 -c 'import base64, os; print(\"1:\" + base64.b64encode(os.urandom(32)).decode())'"
_FOREIGN_SERVER_VARIABLES = (
    "PREFECT_API_URL",
    "PREFECT_API_KEY",
    "PREFECT_API_AUTH_STRING",
    "PREFECT_PROFILE",
    "PREFECT_SERVER_API_AUTH_STRING",
)
_PLAIN_VARIABLES = frozenset(
    ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV", "TESSDATA_PREFIX")
)
_PLAIN_PREFIXES = ("LC_", "SSL_CERT_", "XDG_", "LD_", "MALLOC_", "OMP_", "OPENBLAS_", "MKL_", "PYTHON", "COVERAGE_")


@dataclass(frozen=True, slots=True)
class RoleNeeds:
    """Settings and secrets that a role needs."""

    settings: bool = True
    secrets: frozenset[str] = frozenset()  # names of settings
    prefect: bool = False  # login to Prefect's API


_DATA_SECRETS = frozenset({"database_url", "secret_key", "egress_proxy"})
# The admin app needs less (`build_ui`); Prefect's server has its own login and database (`build_prefect`).
ROLE_NEEDS: Mapping[str, RoleNeeds] = {
    "api": RoleNeeds(secrets=_DATA_SECRETS | {"prefect_login", "prefect_api_key", "default_namespace"}),
    "worker": RoleNeeds(secrets=_DATA_SECRETS, prefect=True),
    "dispatcher": RoleNeeds(secrets=_DATA_SECRETS, prefect=True),
    "migrate": RoleNeeds(secrets=_DATA_SECRETS | {"default_namespace"}),
    "register": RoleNeeds(prefect=True),
    "metrics": RoleNeeds(secrets=frozenset({"database_url", "metrics_token"})),
    "prefect": RoleNeeds(settings=False),
    "postgres": RoleNeeds(settings=False),
}


@dataclass(frozen=True, slots=True)
class ResolvedAddresses:
    """Addresses and secrets of a found or created instance."""

    database_url: str
    secret_key: str
    prefect_api_url: str | None
    # `name:password` of the bundled Prefect server; None for the operator's own.
    prefect_login: str | None = None


def reveal_secret(secret: SecretStr | None) -> str | None:
    """Return the text of a secret setting; None if empty."""
    return secret.get_secret_value() or None if secret else None


def secret_key(settings: Settings) -> str:
    """Return the key of stored secrets: the setting, or with the embedded Postgres a file of the home."""
    if setting := reveal_secret(settings.secret_key):
        return setting
    if reveal_secret(settings.database_url):
        raise LocalError(
            "RETRIEVAL_DATABASE_URL is set and RETRIEVAL_SECRET_KEY is not: stored secrets need a key that every "
            f"machine shares. Make one with: {_KEY_COMMAND} - keep it safe, and set RETRIEVAL_SECRET_KEY to it.",
        )
    file = settings.home.resolve() / "secret.key"
    try:
        if file.exists():
            read_secret(file, "Restore it from a backup: without it, stored secrets cannot be read.")
        load_or_create_key_file(file)
    except SecretError as error:
        raise LocalError(f"{file} is damaged: {error}") from error
    return file.read_text().strip()


def resolve_addresses(settings: Settings, *, needs_prefect: bool = False) -> ResolvedAddresses:
    """Return addresses from the settings, else of the instance in this home, for a single role or command."""
    running = instance.find_running(settings.home)
    database_url = reveal_secret(settings.database_url)
    if database_url is None and running and running.embedded:
        database_url = postgres.service_url(settings.home)
    if database_url is None:
        raise LocalError(
            f"There is no database: nothing runs in {settings.home} (start it with `retrieval up`), "
            "and RETRIEVAL_DATABASE_URL is not set.",
        )
    prefect, login = _find_prefect(settings, running, needed=needs_prefect)
    return ResolvedAddresses(database_url, secret_key(settings), prefect, login)


def resolve_prefect(settings: Settings) -> ResolvedAddresses:
    """Return Prefect's address only, without database and key."""
    prefect, login = _find_prefect(settings, instance.find_running(settings.home), needed=True)
    return ResolvedAddresses("", "", prefect, login)


def _find_prefect(settings: Settings, running: InstanceRecord | None, *, needed: bool) -> tuple[str | None, str | None]:
    """Return the address of Prefect's API, with the login for the instance in this home."""
    address = settings.prefect_api_url or (running.addresses.get("prefect") if running else None)
    if needed and not address:
        raise LocalError(
            f"There is no Prefect server: nothing runs in {settings.home} (start it with `retrieval up`), "
            "and RETRIEVAL_PREFECT_API_URL is not set.",
        )
    is_bundled = running is not None and any(role.name == "prefect" for role in running.roles)
    return address, prefect_login(settings) if is_bundled else None


def prefect_login(settings: Settings) -> str | None:
    """Return the login of the bundled Prefect, created once; None with another server."""
    if settings.prefect_api_url:
        return None
    own_login = settings.home.resolve() / "prefect.login"
    return reveal_secret(settings.prefect_login) or _read_or_create(own_login, f"retrieval:{secrets.token_urlsafe(24)}")


def _read_or_create(file: Path, text: str) -> str:
    """Return the secret of a private file; create the file with `text` if missing."""
    if not file.exists():
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(file, f"{text}\n")
    return read_secret(file, RECREATE_REMEDY)


def build_variables(role: str, settings: Settings, resolved: ResolvedAddresses) -> dict[str, str]:
    """Return the environment of a role with its secrets only (`ROLE_NEEDS`)."""
    needs, home = ROLE_NEEDS[role], settings.home.resolve()
    variables = _inherit_variables(needs) | {
        "RETRIEVAL_HOME": str(home),
        "DO_NOT_TRACK": "1",
        "PYTHONUNBUFFERED": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }
    values = {"database_url": resolved.database_url, "secret_key": resolved.secret_key}
    values["egress_proxy"] = reveal_secret(settings.egress_proxy) or ""
    for name in ("metrics_token", "prefect_login", "prefect_api_key", "default_namespace"):
        values[name] = reveal_secret(getattr(settings, name)) or ""
    values["prefect_login"] = resolved.prefect_login or values["prefect_login"]
    variables |= {f"RETRIEVAL_{name.upper()}": values[name] for name in needs.secrets if values[name]}
    if needs.settings:
        optional = {
            "RETRIEVAL_PREFECT_API_URL": resolved.prefect_api_url,
            "RETRIEVAL_UI_PORT": str(settings.ui_port or ""),
            "RETRIEVAL_OWN_ADDRESSES": ",".join(_list_own_addresses(settings)),
        }
        variables |= {name: value for name, value in optional.items() if value}
    if needs.prefect or role == "prefect":
        variables |= _configure_prefect(home, resolved, is_foreign=bool(settings.prefect_api_url))
    if needs.prefect and resolved.prefect_login:
        variables["PREFECT_API_AUTH_STRING"] = resolved.prefect_login
    elif needs.prefect and settings.prefect_api_url:
        logins = {"AUTH_STRING": settings.prefect_login, "KEY": settings.prefect_api_key}
        variables |= {f"PREFECT_API_{name}": text for name, secret in logins.items() if (text := reveal_secret(secret))}
    return variables


def find_sign_ins(home: Path) -> Path:
    """Return the folder of the admin app's sign-ins (`ui.sign_ins`)."""
    return home.resolve() / "ui" / "sign-ins"


def build_ui(settings: Settings, api: str, token: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of the admin app, without secrets of the service."""
    usual = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "VIRTUAL_ENV")
    variables = {
        name: value for name, value in os.environ.items() if name in usual or name.startswith("STREAMLIT_")
    } | {
        "RETRIEVAL_API_URL": api,
        "RETRIEVAL_UI_SIGN_INS": str(find_sign_ins(settings.home)),
        "PYTHONUNBUFFERED": "1",
        **(token or {}),
    }
    if settings.ui_host in {"127.0.0.1", "::1", "localhost"}:
        public_name = urlsplit(settings.ui_public_url or "").hostname
        variables["RETRIEVAL_UI_HOSTS"] = ",".join(filter(None, ["localhost", settings.ui_host, public_name]))
    if settings.oidc_ca_bundle is not None:
        variables["SSL_CERT_FILE"] = str(settings.oidc_ca_bundle)
    return variables


def build_prefect(
    settings: Settings, resolved: ResolvedAddresses, origins: Iterable[str], database_url: str
) -> dict[str, str]:
    """Return the environment of Prefect's server; `origins` are allowed for browser requests."""
    home = settings.home.resolve()
    variables = build_variables("prefect", settings, resolved)
    for name in ("PREFECT_API_KEY", "PREFECT_API_AUTH_STRING"):
        variables.pop(name, None)
    # The server copies its UI next to its package, or into the home if that may be read-only.
    spec = find_spec("prefect")
    if not IS_CHECKOUT or (spec and not os.access(Path(spec.origin or "").with_name("server"), os.W_OK)):
        variables["PREFECT_SERVER_UI_STATIC_DIRECTORY"] = str(home / "prefect" / "ui")
    return variables | {
        "PREFECT_SERVER_API_AUTH_STRING": resolved.prefect_login or "",
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": ",".join(origins),
        **prefect_database(database_url),
        "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
        **{name: os.environ.get(name, usual) for name, usual in _QUIET_SERVICES.items()},
    }


def _inherit_variables(needs: RoleNeeds) -> dict[str, str]:
    """Return variables of this process that a role may see: no foreign secrets."""
    hidden = {f"RETRIEVAL_{name.upper()}{end}" for name in SECRET_FIELDS for end in ("", "_FILE")}
    # Compiled modules are kept, or each of five processes would compile Prefect again at every start.
    hidden.add("PYTHONDONTWRITEBYTECODE")
    prefixes = (*_PLAIN_PREFIXES, *(("RETRIEVAL_", "OTEL_") if needs.settings else ()))
    return {
        name: value
        for name, value in os.environ.items()
        if (name in _PLAIN_VARIABLES or name.startswith(prefixes)) and name not in hidden
    }


def _configure_prefect(home: Path, resolved: ResolvedAddresses, *, is_foreign: bool) -> dict[str, str]:
    """Return Prefect's variables: those set, then the service's. `is_foreign`: the operator runs the server."""
    dropped = () if is_foreign else _FOREIGN_SERVER_VARIABLES
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
        **{name: os.environ.get(name, usual) for name, usual in _PREFECT_DEFAULTS.items()},
    }
    if not is_foreign:
        # The server has the client's version, and the client asks for tokens before each connection's first write.
        variables.setdefault("PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED", "false")
        if not _FORGERY_VARIABLES & variables.keys():
            variables.setdefault("PREFECT_CLIENT_CSRF_SUPPORT_ENABLED", "false")
    if not resolved.prefect_api_url:
        return variables
    if resolved.prefect_api_url.startswith("http://"):
        variables.setdefault("PREFECT_API_SSL_CERT_FILE", str(_EMPTY_CA_BUNDLE))
    return variables | {"PREFECT_API_URL": resolved.prefect_api_url}


# Prefect's server answers 500 while its database restarts. Without retries a flow run that is being submitted would
# crash, its report would fail too, and its batch would wait for the end of a lease.
_PREFECT_DEFAULTS = {
    "PREFECT_WORKER_QUERY_SECONDS": "10",
    "PREFECT_API_REQUEST_TIMEOUT": "20",
    "PREFECT_CLIENT_MAX_RETRIES": "5",
    "PREFECT_CLIENT_RETRY_EXTRA_CODES": "500",
}
# One certificate with a discarded key. Each Prefect client parses its bundle, which takes 0.1 s for the usual one,
# several times per flow run; plain HTTP needs none.
_EMPTY_CA_BUNDLE = Path(__file__).with_name("nobody.pem")
# With one of these the server may require tokens of its clients.
_FORGERY_VARIABLES = {"PREFECT_SERVER_API_CSRF_PROTECTION_ENABLED", "PREFECT_SERVER_CSRF_PROTECTION_ENABLED"}
_SERVICES_PREFIX = "PREFECT_SERVER_SERVICES_"
# Flow runs are kept for 14 days and events for 7, so the database stops growing. Fewer and larger writes. Nothing of
# this service pauses flow runs, holds Prefect's concurrency leases, or waits for these loops.
_QUIET_SERVICES = {
    f"{_SERVICES_PREFIX}EVENT_PERSISTER_BATCH_SIZE": "500",
    f"{_SERVICES_PREFIX}TASK_RUN_RECORDER_BATCH_SIZE": "20",
    f"{_SERVICES_PREFIX}TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
    f"{_SERVICES_PREFIX}PAUSE_EXPIRATIONS_ENABLED": "false",
    f"{_SERVICES_PREFIX}REPOSSESSOR_ENABLED": "false",
    f"{_SERVICES_PREFIX}LATE_RUNS_LOOP_SECONDS": "20",
    f"{_SERVICES_PREFIX}SCHEDULER_RECENT_DEPLOYMENTS_LOOP_SECONDS": "15",
    f"{_SERVICES_PREFIX}CANCELLATION_CLEANUP_LOOP_SECONDS": "60",
    f"{_SERVICES_PREFIX}CLEANUP_RECONCILER_LOOP_SECONDS": "30",
    "PREFECT_SERVER_EVENTS_PROACTIVE_GRANULARITY": "PT20S",
    # Connections beyond this number end after each use, and asyncpg reads the types of the database for each new one.
    "PREFECT_SERVER_DATABASE_SQLALCHEMY_POOL_SIZE": "12",
    "PREFECT_SERVER_DATABASE_SQLALCHEMY_MAX_OVERFLOW": "3",
    f"{_SERVICES_PREFIX}DB_VACUUM_ENABLED": "events,flow_runs,orphans",
    f"{_SERVICES_PREFIX}DB_VACUUM_RETENTION_PERIOD": str(14 * 86400),
}


def _list_own_addresses(settings: Settings) -> list[str]:
    """Return `host:port` of the instance's ports and Prefect's database, for a role's fetch guard."""
    # The address of Prefect's database contains a password, so the role does not get it.
    running = instance.find_running(settings.home)
    addresses = [urlsplit(url).netloc for url in (running.addresses.values() if running else ()) if url]
    if database := reveal_secret(settings.prefect_database_url):
        addresses.append(urlsplit(database).netloc.rpartition("@")[2])
    return list(dict.fromkeys([*settings.own_addresses, *filter(None, addresses)]))


_DATABASE_PREFIX = "PREFECT_SERVER_DATABASE_"
_TLS_FILES = {"sslrootcert": "CA_FILE", "sslcert": "CERT_FILE", "sslkey": "KEY_FILE"}


def prefect_database(url: str) -> dict[str, str]:
    """Convert a libpq URL into Prefect's variables for asyncpg with TLS; raise LocalError if not supported."""
    if not re.match(r"postgres(ql)?(\+\w+)?://", url):
        raise LocalError("RETRIEVAL_PREFECT_DATABASE_URL is not the address of a PostgreSQL.")
    parts = urlsplit(re.sub(r"^postgres(ql)?(\+\w+)?://", "postgresql+asyncpg://", url))
    query = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
    mode, tls = query.pop("sslmode", None), {}
    files = {name: query.pop(key, "") for key, name in _TLS_FILES.items()}
    if mode in ("verify-ca", "verify-full"):
        tls = {"ENABLED": "true", "CHECK_HOSTNAME": str(mode == "verify-full").lower()}
        tls |= {name: file for name, file in files.items() if file}
    elif mode in ("disable", "allow", "prefer", "require"):
        query["ssl"] = mode
    elif mode is not None:
        raise LocalError("RETRIEVAL_PREFECT_DATABASE_URL names an sslmode that does not exist.")
    connection = {f"{_DATABASE_PREFIX}CONNECTION_URL": urlunsplit(parts._replace(query=urlencode(query)))}
    return connection | {f"{_DATABASE_PREFIX}SQLALCHEMY_CONNECT_ARGS_TLS_{name}": value for name, value in tls.items()}


def sign_in_file(settings: Settings) -> Path:
    """Return the file of the admin app's OpenID Connect sign-in."""
    # Streamlit reads this file; the environment has none of its secrets.
    return settings.home.resolve() / "ui" / "secrets.toml"


def write_sign_in(settings: Settings, address: str) -> None:
    """Write the sign-in file, or remove it without OpenID Connect; raise LocalError for a client without a secret."""
    # `address` is the app's URL in browsers.
    path = sign_in_file(settings)
    if not settings.oidc_issuer or not settings.oidc_client_id:
        path.unlink(missing_ok=True)
        return
    client_secret = reveal_secret(settings.oidc_client_secret)
    if client_secret is None:
        raise LocalError(
            "RETRIEVAL_OIDC_CLIENT_ID is set and RETRIEVAL_OIDC_CLIENT_SECRET is not: the admin app signs in as a "
            "confidential client. Set it, or RETRIEVAL_OIDC_CLIENT_SECRET_FILE.",
        )
    cookie_secret = reveal_secret(settings.oidc_cookie_secret)  # a stored secret keeps people signed in over a restart
    content = {
        "redirect_uri": f"{(settings.ui_public_url or address).rstrip('/')}/oauth2callback",
        "cookie_secret": cookie_secret or _read_or_create(path.with_name("cookie.secret"), secrets.token_urlsafe(48)),
        "client_id": settings.oidc_client_id,
        "client_secret": client_secret,
        "server_metadata_url": settings.oidc_discovery_url
        or settings.oidc_issuer.rstrip("/") + "/.well-known/openid-configuration",
        "expose_tokens": [settings.oidc_ui_token],
    }
    lines = ["[auth]", *(f"{name} = {json.dumps(value)}" for name, value in content.items())]
    lines += ["[auth.client_kwargs]", f"scope = {json.dumps(settings.oidc_scopes)}"]
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(path, "\n".join(lines) + "\n")
