"""The schema's migration, with a sentence for what the database's operator has to settle first."""

from __future__ import annotations

from local import migration_lint
from local.errors import LocalError
from retrieval.database import database


def run(url: str) -> None:
    """Bring the schema up to date; LocalError if the database refuses or is not there."""
    from alembic.util import CommandError
    from psycopg import OperationalError, errors
    from sqlalchemy.exc import DBAPIError

    try:
        database.migrate(url)
    except CommandError as error:
        try:
            database.pending(url)
        except ValueError as newer:
            raise LocalError(f"{newer} Start the version that made it, or restore a backup of this one.") from error
        raise
    except DBAPIError as error:
        who, what = _names(url)
        match error.orig:
            case errors.InsufficientPrivilege() if "extension" in str(error.orig):
                advice = f"let a superuser run `CREATE EXTENSION vector` in the database {what} once, then start again"
                raise LocalError(f"The user {who} may not create the extension vector: {advice}.") from error
            case errors.InsufficientPrivilege() if "role" in str(error.orig):
                advice = f"`CREATE ROLE retrieval_viewer NOLOGIN; GRANT retrieval_viewer TO {who}`"
                raise LocalError(
                    f"The user {who} may not create the role retrieval_viewer, by which documents are read for users:"
                    f" let a superuser run {advice} once, then start again."
                ) from error
            case errors.InsufficientPrivilege():
                reason = str(error.orig).splitlines()[0]
                advice = f"let its owner run `GRANT CREATE ON SCHEMA public TO {who}`, or make {who} the owner"
                raise LocalError(f"The database {what} refuses its schema ({reason}): {advice}.") from error
            case errors.FeatureNotSupported() | errors.UndefinedFile() if "extension" in str(error.orig):
                advice = "install pgvector there (on Debian: postgresql-NN-pgvector), then start again"
                raise LocalError(f"The PostgreSQL of {what} has no extension vector: {advice}.") from error
            case errors.LockNotAvailable() | errors.DeadlockDetected() | errors.QueryCanceled():
                reason = str(error.orig).splitlines()[0]
                raise LocalError(
                    f"A migration of {what} waited for others in vain ({reason}): nothing is half done. Look into"
                    " pg_stat_activity for a transaction that has been open for minutes, end it, and migrate again."
                ) from error
            case OperationalError():
                reason = " ".join(str(error.orig).split())
                raise LocalError(
                    f"The database {what} cannot be used: {reason}. Look at RETRIEVAL_DATABASE_URL."
                ) from error
        raise


def check_language(url: str, name: str) -> None:
    """LocalError if the database has no such text search configuration: each document would fail by it."""
    import psycopg

    schema, _, own = name.rpartition(".")
    with psycopg.connect(url) as connection:
        found = connection.execute(_HAS_LANGUAGE, {"schema": schema, "name": own}).fetchone()
    if found is None:
        raise LocalError(
            "A setting is wrong. RETRIEVAL_KEYWORD_LANGUAGE: the database has no text search configuration of that"
            " name; `select cfgname from pg_ts_config` lists those that it has."
        )


_HAS_LANGUAGE = """
    select 1 from pg_ts_config c join pg_namespace n on n.oid = c.cfgnamespace
    where c.cfgname = %(name)s and (n.nspname = %(schema)s or %(schema)s = '' and pg_ts_config_is_visible(c.oid))
"""


def check(url: str) -> int:
    """Say which migrations the database lacks and whether each may run beside the service; 1 if there are any."""
    from psycopg import OperationalError

    try:
        pending = database.pending(url)
    except OperationalError as error:
        raise LocalError("The database does not answer: look at RETRIEVAL_DATABASE_URL.") from error
    except ValueError as error:
        raise LocalError(str(error)) from error
    if not pending:
        print("The database has the newest schema.")
        return 0
    for one in pending:
        why = migration_lint.problems(one.file.read_text(encoding="utf-8"))
        print(f"{one.revision}  {'online' if not why else 'not online'}  {one.does}")
        for reason in why:
            print(f"      {reason}")
    return 1


def _names(url: str) -> tuple[str, str]:
    """User and database of a URL, as people name them."""
    from psycopg.conninfo import conninfo_to_dict

    found = conninfo_to_dict(url)
    return str(found.get("user") or "of this process"), str(found.get("dbname") or found.get("user") or "")
