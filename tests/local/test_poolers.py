"""A pooler before the database: PgBouncer itself, in transaction and in session mode."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from local import LocalError, processes, run_role
from retrieval.database import poolers
from tests.api.process import free_port

PGBOUNCER = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer is not installed: apt-get install pgbouncer"),
]


@contextmanager
def pooled(url, mode, folder):
    """Return the database URL through PgBouncer, started as PostgreSQL's user."""
    parameters, port = conninfo_to_dict(url), free_port()
    server = " ".join(
        f"{name}={parameters[name]}" for name in ("host", "port", "user", "password") if parameters.get(name)
    )
    lines = [
        f"[databases]\n* = {server}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =",
        f"auth_type = any\npool_mode = {mode}\nmax_client_conn = 50\ndefault_pool_size = 5\n",
    ]
    config = folder / f"{mode}.ini"
    config.write_text("\n".join(lines))
    identity = processes.choose_identity(folder, Path(str(PGBOUNCER)))
    for path in (folder, config):
        identity.take_ownership(path)
    running = subprocess.Popen([*identity.prefix, str(PGBOUNCER), str(config)], **identity.process_options)
    try:
        address = f"postgresql://{parameters['user']}@127.0.0.1:{port}/{parameters['dbname']}"
        for _ in range(100):
            try:
                psycopg.connect(address).close()
                break
            except psycopg.OperationalError:
                assert running.poll() is None
                time.sleep(0.05)
        yield address
    finally:
        running.kill()
        running.wait(10)


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="pgbouncer-") as name:
        yield Path(name)


@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_shared_sessions_are_refused_in_one_sentence(mode, database_url, folder):
    with pooled(database_url, mode, folder) as address:
        with pytest.raises(LocalError, match="pool_mode=session") as refused:
            run_role.migrate_schema(address, "english")
        assert "\n" not in str(refused.value)


def test_a_session_of_ones_own_is_accepted(database_url, folder):
    poolers.require_own_sessions(database_url)
    with pooled(database_url, "session", folder) as address:
        run_role.migrate_schema(address, "english")
