"""`python -m api`: serves the API on RETRIEVAL_API_HOST and RETRIEVAL_API_PORT with Uvicorn."""

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

OPEN_FILES = 8192


def application() -> RequestMiddleware:
    """Return the ASGI application of one server process. Any ASGI server can call it: `--factory
    api.__main__:application`."""
    from api.app import create_app
    from retrieval import logs, settings
    from retrieval.database.database import Database
    from retrieval.security.secrets import KeyRing

    loaded = settings.load_settings()
    url, key = _required(loaded)
    _end_with_parent()
    _raise_file_limit()
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    logs.configure_logs(loaded, role="api")
    return create_app(loaded, Database(url, size=loaded.database_pool, role="api"), KeyRing.parse(key))


def main() -> None:
    """Serve until SIGTERM or SIGINT, then let requests in flight end."""
    import uvicorn
    from uvicorn.supervisors import Multiprocess

    from api.server import StrictProtocol
    from retrieval import settings

    loaded = settings.load_settings()
    _required(loaded)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
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


def _end(*_: object) -> None:
    """Orderly, also where Uvicorn sends itself the signal again that has ended it."""
    sys.exit(0)


def _end_with_parent() -> None:
    """A server process whose starter was killed ends, too: else it would hold the port against the next start."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, name="parent", daemon=True).start()


def _raise_file_limit() -> None:
    """Raise the soft limit of open files, often 1,024, to `OPEN_FILES` or the hard limit: each connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _required(settings: Settings) -> tuple[str, str]:
    """Return the database URL and the key of stored secrets, or exit with a sentence that names the missing setting."""
    if settings.database_url is None:
        sys.exit("RETRIEVAL_DATABASE_URL is not set: name the PostgreSQL to use, or start with `retrieval up`.")
    if settings.secret_key is None:
        sys.exit("RETRIEVAL_SECRET_KEY is not set: give `id:base64 of 32 random bytes`, the same for every process.")
    return settings.database_url.get_secret_value(), settings.secret_key.get_secret_value()


if __name__ == "__main__":
    main()
