"""Roles and databases of the embedded PostgreSQL, each role with the rights it needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psycopg

# The superuser, used by the supervisor only, and the service's database.
USER_NAME = DATABASE_NAME = "retrieval"
# Role of the API and the workers; owns the service's database and may connect to no other.
SERVICE_NAME = "retrieval_service"
# Role and database of the bundled Prefect server; the role may connect to no other database.
PREFECT_NAME = "prefect"
# Role without login that reads documents for users; migrations create its policies.
_VIEWER_NAME = "retrieval_viewer"

# Relations, schemas, routines and types of the superuser that belong to no extension; a sequence of a column follows
# its table. Objects of PostgreSQL have numbers below 16384.
_SUPERUSER_OBJECTS = b"""
WITH owned AS (
  SELECT 'pg_class'::regclass AS catalog, oid, oid::regclass::text AS name,
    CASE relkind WHEN 'S' THEN 'SEQUENCE' WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE 'TABLE' END
      AS kind
  FROM pg_class WHERE relowner = 'retrieval'::regrole AND relkind IN ('r', 'p', 'v', 'm', 'S')
  UNION ALL SELECT 'pg_namespace'::regclass, oid, quote_ident(nspname), 'SCHEMA'
  FROM pg_namespace WHERE nspowner = 'retrieval'::regrole
  UNION ALL SELECT 'pg_proc'::regclass, oid, oid::regprocedure::text, 'ROUTINE'
  FROM pg_proc WHERE proowner = 'retrieval'::regrole
  UNION ALL SELECT 'pg_type'::regclass, oid, oid::regtype::text, 'TYPE'
  FROM pg_type WHERE typowner = 'retrieval'::regrole AND typtype IN ('e', 'd')
)
SELECT kind, name FROM owned WHERE oid >= 16384 AND NOT EXISTS (
  SELECT FROM pg_depend d WHERE d.classid = owned.catalog AND d.objid = owned.oid
    AND (d.deptype = 'e' OR (owned.kind = 'SEQUENCE' AND d.deptype IN ('a', 'i')))
)
"""


def create_databases(admin_url: str, database_url: str, passwords: Mapping[str, str]) -> None:
    """Create missing roles and databases, also for data of an earlier version, and update the extension."""
    # Both URLs are the superuser's; `passwords` are by role.
    import psycopg
    from psycopg import sql

    with psycopg.connect(admin_url, autocommit=True, connect_timeout=5) as connection:
        for role, attribute in ((PREFECT_NAME, "LOGIN"), (SERVICE_NAME, "LOGIN"), (_VIEWER_NAME, "NOLOGIN")):
            if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
                connection.execute(f"CREATE ROLE {role} {attribute}".encode())
        for role, password in passwords.items():
            statement = sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(role), sql.Literal(password))
            connection.execute(statement)
        connection.execute(f"GRANT {_VIEWER_NAME} TO {SERVICE_NAME}")
        for database, owner in ((DATABASE_NAME, SERVICE_NAME), (PREFECT_NAME, PREFECT_NAME)):
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [database]).fetchone():
                connection.execute(f"CREATE DATABASE {database} OWNER {owner}")
            connection.execute(f"REVOKE CONNECT ON DATABASE {database} FROM PUBLIC")
    with psycopg.connect(database_url, autocommit=True, connect_timeout=5) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        connection.execute("ALTER EXTENSION vector UPDATE")
        with connection.transaction():
            _change_owners(connection)


def _change_owners(connection: psycopg.Connection[tuple[str, ...]]) -> None:
    """Give the database and the superuser's objects in it to the service's role."""
    # Until 0.2.0 the service was the superuser. REASSIGN OWNED refuses the first superuser of a cluster.
    for kind, name in connection.execute(_SUPERUSER_OBJECTS).fetchall():
        connection.execute(f"ALTER {kind} {name} OWNER TO {SERVICE_NAME}".encode())
    connection.execute(f"ALTER DATABASE {DATABASE_NAME} OWNER TO {SERVICE_NAME}")
