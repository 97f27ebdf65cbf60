"""Databases: guarded connections, read-only statements in pages, errors with their remedy."""

from __future__ import annotations

import ssl
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

from connectors.http import responses, sessions
from connectors.sources.sql.query import PORTS, Columns, Query, Row, find_columns
from retrieval.errors import Fatal
from retrieval.network import fetch_guard
from retrieval.settings import Settings

if TYPE_CHECKING:
    from sqlalchemy import Engine
    from sqlalchemy.exc import DBAPIError

TITLE: Final = "The database"
# Name of the database among RETRIEVAL_ENDPOINTS, for certificates.
ENDPOINT: Final = "SQL"
CONNECT_SECONDS: Final = 15
STATEMENT_SECONDS: Final = 120
# Rows of one statement.
BATCH: Final = 500
_REFUSED: Final = "The database does not accept this user with this password."
_NO_RIGHT: Final = "The user may not read what the query names: grant SELECT on its tables."
_NO_DATABASE: Final = "The server has no such database, or the user may not use it."
_NO_TABLE: Final = "The query names a table or view that does not exist: write its schema before its name."
_NO_COLUMN: Final = "The query names a column that does not exist."
_SYNTAX: Final = "The query has a syntax error: it must be one SELECT statement, which can stand in parentheses."
_DUPLICATE: Final = "The query returns two columns of one name: give one another name by AS."
_CHANGES: Final = "The query changes data: only statements that read are executed."
_TOO_LONG: Final = (
    f"The query takes longer than {STATEMENT_SECONDS} s for {BATCH} rows: restrict it, or add an index on the key."
)
# By SQLSTATE of PostgreSQL, and by number of MySQL and MariaDB.
_REMEDIES: Final[Mapping[str | int, str]] = {
    **dict.fromkeys(("28P01", "28000", 1045, 1698), _REFUSED),
    **dict.fromkeys(("42501", 1142, 1143, 1370), _NO_RIGHT),
    **dict.fromkeys(("3D000", 1044, 1049), _NO_DATABASE),
    **dict.fromkeys(("42P01", "3F000", 1146), _NO_TABLE),
    **dict.fromkeys(("42703", 1054), _NO_COLUMN),
    **dict.fromkeys(("42601", "0A000", 1064), _SYNTAX),
    **dict.fromkeys(("42702", 1052, 1060), _DUPLICATE),
    **dict.fromkeys(("25006", 1792, 1290), _CHANGES),
    **dict.fromkeys(("57014", 3024, 1969), _TOO_LONG),
}
# A key that the type of the column cannot hold.
_NO_KEY: Final = frozenset({"22P02", "22003", "22007", "22008"})
# A lost connection, a restart, too many connections, a deadlock.
_PASSING: Final = frozenset({"08", "53", "57", "40", 1040, 1053, 1205, 1213, 2003, 2006, 2013, 2014})


class Database:
    """Rows of a query, in the order of their key. Raises port errors."""

    def __init__(self, query: Query, settings: Settings) -> None:
        import sqlalchemy

        self._query = query
        self._guard = fetch_guard.make_guard(settings, frozenset(PORTS.values()))
        self._endpoint = settings.endpoints.get(ENDPOINT)
        connect = self._connect_postgresql if query.scheme == "postgresql" else self._connect_mysql
        driver = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}[query.scheme]
        # The connection's own time limit closes what a server has forgotten.
        self._engine: Engine = sqlalchemy.create_engine(
            f"{driver}://", creator=connect, pool_size=2, max_overflow=2, pool_pre_ping=True, pool_recycle=300
        )
        self._columns: Columns | None = None
        weakref.finalize(self, self._engine.dispose)

    def list_rows(self, last_key: str | None) -> tuple[list[Row], str | None]:
        """Return rows after a key, and the last key, None at the end. Fatal for NULL and duplicate keys."""
        columns = self._find_columns()
        key = self._quote(columns.key)
        if last_key is None and self._select(f"WHERE {key} IS NULL", 1):
            raise Fatal(
                f"A row has no {columns.key}: name a column without NULL as key, or leave such rows out by WHERE.",
                field="key",
            )
        # Rows whose keys a collation takes for equal are read again, rather than lost between two pages.
        condition = "" if last_key is None else f"WHERE {key} >= %(key)s"
        rows = self._select(f"{condition} ORDER BY {key}", BATCH + 2, {} if last_key is None else {"key": last_key})
        keys = [row.key for row in rows]
        if len(set(keys)) < len(keys):
            raise Fatal(f"Two rows have the same {columns.key}: name a column that identifies a row.", field="key")
        page = [row for row in rows[: BATCH + 1] if row.key != last_key]
        return page, page[-1].key if len(rows) > BATCH + 1 and page else None

    def find_row(self, key: str) -> Row | None:
        """Return the row with a key."""
        columns = self._find_columns()
        try:
            rows = self._select(f"WHERE {self._quote(columns.key)} = %(key)s", BATCH, {"key": key})
        except _UnknownKey:
            return None
        return next((row for row in rows if row.key == key), None)

    def _find_columns(self) -> Columns:
        if self._columns is None:
            self._columns = find_columns(self._query, self._execute("", 0, {})[0])
        return self._columns

    def _select(self, clauses: str, limit: int, values: Mapping[str, str] | None = None) -> list[Row]:
        names, rows = self._execute(clauses, limit, values or {})
        columns = self._find_columns()
        return [Row(self._query, columns, dict(zip(names, row, strict=True))) for row in rows]

    def _execute(self, clauses: str, limit: int, values: Mapping[str, str]) -> tuple[Sequence[str], Sequence[Any]]:
        """Execute the query with further clauses; the values are text, which the database converts."""
        # In parentheses a query can only read. With values PostgreSQL takes one statement only, and `%%` is `%`.
        statement = self._query.statement.replace("%", "%%")
        with _explain_failures(), self._engine.connect() as connection, connection.begin() as transaction:
            text = f"SELECT * FROM (\n{statement}\n) AS documents {clauses} LIMIT %(limit)s"
            result = connection.exec_driver_sql(text, {**values, "limit": limit})
            names, rows = list(result.keys()), result.fetchall()
            transaction.rollback()
        return names, rows

    def _quote(self, name: str) -> str:
        return self._engine.dialect.identifier_preparer.quote_identifier(name).replace("%", "%%")

    def _connect_postgresql(self) -> Any:
        """Connect to an address that the guard resolved, as libpq takes no socket."""
        import psycopg

        query = self._query
        is_private = self._is_private()
        failure: Exception = OSError("The name leads nowhere.")
        for _, socket_address in self._guard.resolve(query.host, query.port):
            if self._guard.route(socket_address[0]):
                raise Fatal("PostgreSQL is not reached through the proxy of RETRIEVAL_EGRESS_PROXY.")
            try:
                return psycopg.connect(
                    host=query.host,
                    hostaddr=socket_address[0],
                    port=query.port,
                    dbname=query.database,
                    user=query.user,
                    password=query.password,
                    sslmode="prefer" if is_private else "verify-full",
                    sslrootcert="" if is_private else self._find_bundle(),
                    gssencmode="disable",
                    connect_timeout=CONNECT_SECONDS,
                    application_name="retrieval",
                    client_encoding="utf8",
                    options=f"-c default_transaction_read_only=on -c statement_timeout={STATEMENT_SECONDS}s",
                )
            except psycopg.OperationalError as error:
                failure = error
        raise failure

    def _connect_mysql(self) -> Any:
        import pymysql

        query = self._query
        context = None if self._is_private() else sessions.trusted_certificates(self._endpoint, ENDPOINT)
        connection = pymysql.connect(
            host=query.host,
            port=query.port,
            user=query.user,
            password=query.password,
            database=query.database,
            charset="utf8mb4",
            # Without a context TLS is used where the server offers it.
            ssl=context,
            read_timeout=STATEMENT_SECONDS + CONNECT_SECONDS,
            write_timeout=CONNECT_SECONDS,
            defer_connect=True,
        )
        connection.connect(self._guard.connect(query.host, query.port, CONNECT_SECONDS))
        limit = (
            f"max_statement_time = {STATEMENT_SECONDS}"
            if "mariadb" in connection.get_server_info().lower()
            else f"max_execution_time = {STATEMENT_SECONDS * 1000}"
        )
        with connection.cursor() as cursor:
            cursor.execute(f"SET SESSION {limit}")
            cursor.execute("SET SESSION TRANSACTION READ ONLY")
        return connection

    def _is_private(self) -> bool:
        """Check for a server in the operator's ranges, which needs no certificate."""
        return self._guard.allows_plainly(self._query.host, self._query.port)

    def _find_bundle(self) -> str:
        bundle = sessions.bundle_of(self._endpoint, ENDPOINT) or ssl.get_default_verify_paths().cafile
        return str(bundle or "system")


class _UnknownKey(Exception):
    """The column of the key cannot hold the value."""


@contextmanager
def _explain_failures() -> Iterator[None]:
    """Translate errors of drivers to port errors."""
    # The text of a database may quote rows: only its code is shown.
    import psycopg
    import pymysql
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError

    try:
        yield
    except DBAPIError as error:
        raise _translate(error) from None
    except (psycopg.Error, pymysql.MySQLError) as error:
        raise _translate(cast("DBAPIError", error)) from None
    except ssl.SSLCertVerificationError:
        raise Fatal(_UNTRUSTED) from None
    except (OSError, SQLAlchemyError):
        raise responses.connection_error(TITLE) from None


_UNTRUSTED: Final = (
    "The certificate of the database is not trusted: the operator can name that of its authority as ca_bundle of SQL in"
    " RETRIEVAL_ENDPOINTS."
)
# Texts of libpq, which gives no codes for refused connections.
_LIBPQ_TEXTS: Final = {
    "certificate verify failed": _UNTRUSTED,
    "does not match host name": _UNTRUSTED,
    "server does not support SSL": "The database offers no TLS, which a server outside of RETRIEVAL_FETCH_ALLOW needs.",
    "password authentication failed": _REFUSED,
    "no pg_hba.conf entry": "The database's pg_hba.conf does not let this user in from this service's address.",
    '" does not exist': _NO_DATABASE,
    "permission denied for database": _NO_DATABASE,
}


def _translate(error: DBAPIError) -> Exception:
    """Return the port error for an error of a driver."""
    original = getattr(error, "orig", None) or error
    number = next(iter(original.args), None)
    code = number if isinstance(number, int) else getattr(original, "sqlstate", None)
    if code in _NO_KEY:
        return _UnknownKey()
    if isinstance(code, str | int) and (remedy := _REMEDIES.get(code)):
        field = "credentials" if remedy is _REFUSED else "query"
        return Fatal(f"{remedy.rstrip('.')} ({code}).", field=field)
    texts = str(original)
    if remedy := next((remedy for text, remedy in _LIBPQ_TEXTS.items() if text in texts), ""):
        return Fatal(remedy)
    if "CERTIFICATE_VERIFY_FAILED" in texts:
        return Fatal(_UNTRUSTED)
    is_code = isinstance(code, int) or (isinstance(code, str) and len(code) == 5 and code.isalnum())
    if not is_code or code in _PASSING or (isinstance(code, str) and code[:2] in _PASSING):
        return responses.connection_error(TITLE)
    return Fatal(f"The database refuses the query ({code}).", field="query")
