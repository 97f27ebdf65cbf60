"""The address of Prefect's database, as libpq takes it, in the words of Prefect, whose driver is asyncpg."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

from local.errors import LocalError

_URL = "PREFECT_SERVER_DATABASE_CONNECTION_URL"
_TLS = "PREFECT_SERVER_DATABASE_SQLALCHEMY_CONNECT_ARGS_TLS_"


def variables(url: str) -> dict[str, str]:
    """Variables of Prefect for this database. TLS is set as libpq has it: `sslmode` (disable, require, verify-ca,
    verify-full) and `sslrootcert`, `sslcert`, `sslkey`; LocalError for another mode."""
    if not re.match(r"postgres(ql)?(\+\w+)?://", url):
        raise LocalError("RETRIEVAL_PREFECT_DATABASE_URL is not the address of a PostgreSQL.", exit_code=2)
    parts = urlsplit(re.sub(r"^postgres(ql)?(\+\w+)?://", "postgresql+asyncpg://", url))
    query = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
    mode = query.pop("sslmode", None)
    files = {name: query.pop(key, "") for key, name in _FILES.items()}
    result = {_URL: urlunsplit(parts._replace(query=urlencode(query)))}
    match mode:
        case "verify-ca" | "verify-full":
            checks = str(mode == "verify-full").lower()
            tls = {"ENABLED": "true", "CHECK_HOSTNAME": checks, **{name: file for name, file in files.items() if file}}
            return result | {_TLS + name: value for name, value in tls.items()}
        case None | "disable" | "allow" | "prefer" | "require":
            query |= {"ssl": mode} if mode else {}
            return {_URL: urlunsplit(parts._replace(query=urlencode(query)))}
        case _:
            raise LocalError("RETRIEVAL_PREFECT_DATABASE_URL names an sslmode that does not exist.", exit_code=2)


def unreachable(url: str) -> str | None:
    """A sentence if the database does not accept connections."""
    import psycopg

    try:
        psycopg.connect(re.sub(r"^(\w+)\+\w+://", r"\1://", url), connect_timeout=2).close()
    except psycopg.OperationalError:
        return "its database does not answer. It is started by itself once that does."
    return None


_FILES = {"sslrootcert": "CA_FILE", "sslcert": "CERT_FILE", "sslkey": "KEY_FILE"}
