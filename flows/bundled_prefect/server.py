"""Prefect's server as it is, behind a check of Host and Origin (`own_address.py`).

    python -m flows.bundled_prefect.server --host 127.0.0.1 --port 4200 --names prefect.internal

Everything else comes from Prefect's own settings, its database (`PREFECT_SERVER_DATABASE_CONNECTION_URL`) included.
"""

from __future__ import annotations

import argparse

import uvicorn
from prefect.server.api.server import create_app
from prefect.settings import get_current_settings

from flows.bundled_prefect.own_address import OwnAddress
from retrieval import logs


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    logs.lose_what_does_not_fit()
    parser = argparse.ArgumentParser(description="Prefect's server behind a check of Host and Origin.")
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--names", default="", help="hosts under which it answers besides this machine's, by commas")
    options = parser.parse_args()
    server = get_current_settings().server
    uvicorn.run(
        OwnAddress(create_app(final=True), [name for name in options.names.split(",") if name]),
        host=options.host,
        port=options.port,
        timeout_keep_alive=server.api.keepalive_timeout,
        ws_ping_interval=server.api.websocket_ping_interval,
        ws_ping_timeout=server.api.websocket_ping_timeout,
        log_level=server.logging_level.lower(),
    )


if __name__ == "__main__":
    main()
