"""The schema's migration, with a sentence for what the database's operator has to settle first."""

from __future__ import annotations

from local.errors import LocalError
from retrieval.database import revisions
from retrieval.database.revisions import RevisionError


def run(url: str) -> None:
    """Bring the schema up to date; LocalError if the database refuses or is not there."""
    from psycopg import OperationalError, errors
    from sqlalchemy.exc import DBAPIError

    try:
        revisions.upgrade_schema(url)
    except RevisionError as error:
        raise LocalError(str(error)) from error
    except (DBAPIError, OperationalError) as error:
        user, database = _names(url)
        cause = error.orig if isinstance(error, DBAPIError) else error
        match cause:
            case errors.InsufficientPrivilege() if "extension" in str(cause):
                advice = (
                    f"let a superuser run `CREATE EXTENSION vector` in the database {database} once, then start again"
                )
                raise LocalError(f"The user {user} may not create the extension vector: {advice}.") from error
            case errors.InsufficientPrivilege() if "role" in str(cause):
                advice = f"`CREATE ROLE retrieval_viewer NOLOGIN; GRANT retrieval_viewer TO {user}`"
                raise LocalError(
                    f"The user {user} may not create the role retrieval_viewer, by which documents are read for users:"
                    f" let a superuser run {advice} once, then start again."
                ) from error
            case errors.InsufficientPrivilege():
                reason = str(cause).splitlines()[0]
                grants = f"GRANT CREATE ON DATABASE {database} TO {user}; GRANT CREATE ON SCHEMA public TO {user}"
                advice = f"let its owner run `{grants}`, or make {user} the owner"
                raise LocalError(f"The database {database} refuses its schema ({reason}): {advice}.") from error
            case errors.FeatureNotSupported() | errors.UndefinedFile() if "extension" in str(cause):
                advice = "install pgvector there (on Debian: postgresql-NN-pgvector), then start again"
                raise LocalError(f"The PostgreSQL of {database} has no extension vector: {advice}.") from error
            case OperationalError():
                reason = " ".join(str(cause).split())
                raise LocalError(
                    f"The database {database} cannot be used: {reason}. Look at RETRIEVAL_DATABASE_URL."
                ) from error
        raise


def check_language(url: str, name: str) -> None:
    """LocalError if the database has no such text search configuration: each document would fail by it."""
    import psycopg

    schema, _, bare_name = name.rpartition(".")
    with psycopg.connect(url) as connection:
        row = connection.execute(_HAS_LANGUAGE, {"schema": schema, "name": bare_name}).fetchone()
    if row is None:
        raise LocalError(
            "A setting is wrong. RETRIEVAL_KEYWORD_LANGUAGE: the database has no text search configuration of that"
            " name; `select cfgname from pg_ts_config` lists those that it has."
        )


_HAS_LANGUAGE = """
    select 1 from pg_ts_config c join pg_namespace n on n.oid = c.cfgnamespace
    where c.cfgname = %(name)s and (n.nspname = %(schema)s or %(schema)s = '' and pg_ts_config_is_visible(c.oid))
"""


def check(url: str) -> int:
    """Print the migrations that the database lacks; return 1 if there are any."""
    from psycopg import OperationalError

    try:
        pending = revisions.list_pending(url)
    except OperationalError as error:
        raise LocalError("The database does not answer: look at RETRIEVAL_DATABASE_URL.") from error
    except RevisionError as error:
        raise LocalError(str(error)) from error
    if not pending:
        print("The database has the newest schema.")
        return 0
    for migration in pending:
        print(f"{migration.revision}  {migration.summary}")
    return 1


def _names(url: str) -> tuple[str, str]:
    """User and database of a URL, as people name them."""
    from psycopg.conninfo import conninfo_to_dict

    parameters = conninfo_to_dict(url)
    return str(parameters.get("user") or "of this process"), str(
        parameters.get("dbname") or parameters.get("user") or ""
    )
