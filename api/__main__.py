"""`python -m api`: serves the API on RETRIEVAL_API_HOST and RETRIEVAL_API_PORT with Granian."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading

from api.door import Door
from retrieval.settings import Settings


def application() -> Door:
    """What each server process calls: any ASGI server can, by `--factory api.__main__:application`."""
    from api.app import create_app
    from retrieval import logs, settings
    from retrieval.database import Database
    from retrieval.secrets import KeyRing

    loaded = settings.load()
    url, key = _required(loaded)
    _end_with_parent()
    logs.configure(loaded, role="api")
    return create_app(loaded, Database(url, size=loaded.database_pool), KeyRing.parse(key))


def main() -> None:
    """Serve until SIGTERM or SIGINT, then let requests in flight end."""
    from granian import Granian
    from granian.constants import Interfaces, Loops

    from retrieval import settings

    loaded = settings.load()
    _required(loaded)
    Granian(
        "api.__main__:application",
        address=loaded.api_host,
        port=loaded.api_port,
        interface=Interfaces.ASGI,
        workers=loaded.api_processes,
        loop=Loops.asyncio,
        factory=True,
        log_access=False,
        log_enabled=False,
        respawn_failed_workers=True,
        workers_kill_timeout=10,
    ).serve()


def _end_with_parent() -> None:
    """A server process whose starter was killed ends, too: else it would hold the port against the next start."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, name="parent", daemon=True).start()


def _required(settings: Settings) -> tuple[str, str]:
    """The database and the key of stored secrets, or an end with a sentence that says what is missing."""
    if settings.database_url is None:
        sys.exit("RETRIEVAL_DATABASE_URL is not set: name the PostgreSQL to use, or start with `retrieval up`.")
    if settings.secret_key is None:
        sys.exit("RETRIEVAL_SECRET_KEY is not set: give `id:base64 of 32 random bytes`, the same for every process.")
    return settings.database_url.get_secret_value(), settings.secret_key.get_secret_value()


if __name__ == "__main__":
    main()
