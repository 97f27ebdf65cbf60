"""The environment that the roles get: every address and key resolved, so that all find the same database."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from local import instance, postgres
from local.trouble import LocalError
from retrieval.secrets import SecretError, load_or_create_key_file
from retrieval.settings import PROJECT, Settings

_MAKE_A_KEY = "python3 -c 'import base64, os; print(\"1:\" + base64.b64encode(os.urandom(32)).decode())'"
_OTHER_SERVERS = ("PREFECT_API_URL", "PREFECT_API_KEY", "PREFECT_API_AUTH_STRING", "PREFECT_PROFILE")


@dataclass(frozen=True, slots=True)
class Resolved:
    """What is known once an instance is found or made."""

    database_url: str
    secret_key: str
    prefect_api_url: str | None


def plain(secret: SecretStr | None) -> str | None:
    """The text of a setting; an empty one counts as absent."""
    return secret.get_secret_value() or None if secret else None


def secret_key(settings: Settings) -> str:
    """The key for stored secrets: the given one; with the embedded Postgres else a file of the home, made once."""
    if given := plain(settings.secret_key):
        return given
    if plain(settings.database_url):
        raise LocalError(
            "RETRIEVAL_DATABASE_URL is set and RETRIEVAL_SECRET_KEY is not: stored secrets need a key that every "
            f"machine shares. Make one with: {_MAKE_A_KEY} - keep it safe, and set RETRIEVAL_SECRET_KEY to it.",
            exit_code=2,
        )
    file = settings.home.resolve() / "secret.key"
    try:
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
    prefect = settings.prefect_api_url or (running.addresses.get("prefect") if running else None)
    if needs_prefect and not prefect:
        raise LocalError(
            f"There is no Prefect server: nothing runs in {settings.home} (start it with `retrieval up`), "
            "and RETRIEVAL_PREFECT_API_URL is not set.",
            exit_code=2,
        )
    return Resolved(database_url, secret_key(settings), prefect)


_OF_THE_UI = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "VIRTUAL_ENV")


def for_ui(api: str, token: Mapping[str, str] | None = None) -> dict[str, str]:
    """What the admin app gets: the API's address, and no secret of the service."""
    kept = {name: os.environ[name] for name in _OF_THE_UI if name in os.environ}
    options = {name: value for name, value in os.environ.items() if name.startswith("STREAMLIT_")}
    return kept | options | {"RETRIEVAL_API_URL": api, "PYTHONUNBUFFERED": "1"} | dict(token or {})


def build(settings: Settings, resolved: Resolved) -> dict[str, str]:
    """The whole environment of a role. Variables of other Prefect servers are dropped unless one of them is used."""
    inherited = dict(os.environ)
    if not settings.prefect_api_url:
        for name in _OTHER_SERVERS:
            inherited.pop(name, None)
    # Compiled modules are kept, or each of five processes would compile Prefect again at every start.
    inherited.pop("PYTHONDONTWRITEBYTECODE", None)
    home = settings.home.resolve()
    environment = inherited | {
        "RETRIEVAL_HOME": str(home),
        "RETRIEVAL_PROJECT": str(PROJECT),
        "RETRIEVAL_DATABASE_URL": resolved.database_url,
        "RETRIEVAL_SECRET_KEY": resolved.secret_key,
        "PREFECT_HOME": str(home / "prefect"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
        "PREFECT_CLI_PROMPT": "false",
        "PREFECT_CLI_COLORS": "false",
        "PREFECT_LOGGING_COLORS": "false",
        "PREFECT_WORKER_QUERY_SECONDS": inherited.get("PREFECT_WORKER_QUERY_SECONDS", "0.5"),
        "DO_NOT_TRACK": "1",
        "PYTHONUNBUFFERED": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{inherited.get('PATH', os.defpath)}",
    }
    if resolved.prefect_api_url:
        environment["PREFECT_API_URL"] = environment["RETRIEVAL_PREFECT_API_URL"] = resolved.prefect_api_url
    return environment
