"""Server of the API: `python -m api`."""

from __future__ import annotations

import logging
import math
import multiprocessing
import os
import resource
import signal
import sys
import threading

from api.middleware import RequestMiddleware
from retrieval.settings import Settings

OPEN_FILES_LIMIT = 8192


def application() -> RequestMiddleware:
    """Return the ASGI application of one server process."""
    # ASGI servers call it by `--factory api.__main__:application`.
    from api.app import create_app
    from retrieval import logs, settings
    from retrieval.database.database import Database
    from retrieval.security.secrets import KeyRing

    loaded = settings.load_settings()
    url, key = _require_secrets(loaded)
    _end_with_parent()
    _raise_file_limit()
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    logs.configure_logs(loaded, role="api")
    return create_app(loaded, Database(url, size=loaded.database_pool, role="api"), KeyRing.parse(key))


def main() -> None:
    """Serve until SIGTERM or SIGINT; requests in flight end first."""
    import uvicorn
    from uvicorn.supervisors import Multiprocess

    from api.server import StrictProtocol
    from retrieval import settings

    loaded = settings.load_settings()
    _require_secrets(loaded)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _exit_in_order)
    config = uvicorn.Config(
        "api.__main__:application",
        factory=True,
        host=loaded.api_host,
        port=loaded.api_port,
        workers=loaded.api_processes,
        loop="uvloop",
        http=StrictProtocol,
        ws="none",
        lifespan="on",
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_config=None,
        timeout_keep_alive=math.ceil(loaded.api_idle_seconds),
        timeout_graceful_shutdown=10,
        timeout_worker_healthcheck=60,
    )
    if loaded.api_processes > 1:
        Multiprocess(config, sockets=[config.bind_socket()]).run()
        return
    server = uvicorn.Server(config)
    server.run()
    if not server.started:
        sys.exit(1)


def _exit_in_order(*_: object) -> None:
    """Exit in order."""
    # Uvicorn raises the signal that ended it a second time.
    sys.exit(0)


def _end_with_parent() -> None:
    """End this process when its parent process was killed."""
    # An orphan would hold the port.
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def kill_with_parent() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=kill_with_parent, name="parent", daemon=True).start()


def _raise_file_limit() -> None:
    """Raise the soft limit of open files to OPEN_FILES_LIMIT or the hard limit."""
    # Each connection is an open file; the usual soft limit is 1,024.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = OPEN_FILES_LIMIT if hard == resource.RLIM_INFINITY else min(OPEN_FILES_LIMIT, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _require_secrets(settings: Settings) -> tuple[str, str]:
    """Return the database URL and the key of stored secrets; exit with a message for a missing setting."""
    if settings.database_url is None:
        sys.exit("RETRIEVAL_DATABASE_URL is not set: name the PostgreSQL to use, or start with `retrieval up`.")
    if settings.secret_key is None:
        sys.exit("RETRIEVAL_SECRET_KEY is not set: give `id:base64 of 32 random bytes`, the same for every process.")
    return settings.database_url.get_secret_value(), settings.secret_key.get_secret_value()


if __name__ == "__main__":
    main()
