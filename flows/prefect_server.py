"""Prefect's server behind a check of Host and Origin.

    python -m flows.prefect_server --host 127.0.0.1 --port 4200 --names prefect.internal

Prefect's own settings apply, including the database (`PREFECT_SERVER_DATABASE_CONNECTION_URL`).
"""

from __future__ import annotations

import argparse
import base64
import binascii
import gc
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from collections.abc import Set as AbstractSet
from typing import Any
from urllib.parse import urlsplit

from retrieval import logs

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

# On any port: a tunnel may change it.
LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})
_REFUSAL_TEXT = (
    b"This server only answers under its own address: open it as 127.0.0.1 or localhost, or name this address in "
    b"RETRIEVAL_PREFECT_NAMES.\n"
)


class HostCheckMiddleware:
    """Refuse HTTP and WebSocket requests for other hosts or from other origins."""

    # Prefect does not check them: a web page in a browser on this machine reaches 127.0.0.1 by DNS rebinding, or with a
    # foreign Origin.

    def __init__(self, app: App, names: Iterable[str] = ()) -> None:
        self._app = app
        self._names = LOOPBACK_NAMES | {name.lower() for name in names}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
        elif not _is_allowed(scope["headers"], self._names):
            await _send_refusal(scope["type"], receive, send)
        else:
            headers = [pair for pair in scope["headers"] if pair[0] != b"authorization" or _is_ascii_login(pair[1])]
            await self._app({**scope, "headers": headers}, receive, send)


def _is_allowed(headers: list[tuple[bytes, bytes]], names: AbstractSet[str]) -> bool:
    """Require exactly one allowed Host, and allowed Origins only."""
    hosts = [value for name, value in headers if name == b"host"]
    origins = [value for name, value in headers if name == b"origin"]
    return (
        len(hosts) == 1
        and _host_name(b"http://" + hosts[0]) in names
        and all(value.startswith((b"http://", b"https://")) and _host_name(value) in names for value in origins)
    )


def _host_name(url: bytes) -> str | None:
    try:
        parts = urlsplit(url.decode("ascii"))
        _ = parts.port
    except ValueError:
        return None
    is_bare = not (parts.path or parts.query or parts.fragment) and "@" not in parts.netloc
    return parts.hostname if is_bare else None


def _is_ascii_login(authorization: bytes) -> bool:
    """Check if Prefect can compare the login."""
    # Prefect answers 500 to a login that is not ASCII; without the header it answers 401.
    _, _, credentials = authorization.partition(b" ")
    try:
        return base64.b64decode(credentials).isascii()
    except binascii.Error:
        return False


async def _send_refusal(kind: str, receive: Receive, send: Send) -> None:
    if kind == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008})
        return
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(_REFUSAL_TEXT)).encode())]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": _REFUSAL_TEXT})


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    # No garbage collection during Prefect's import: saves a quarter of the time.
    gc.disable()
    import uvicorn
    from prefect.server.api.server import create_app
    from prefect.settings import get_current_settings

    logs.drop_failed_output()
    parser = argparse.ArgumentParser(description="Prefect's server behind a check of Host and Origin.")
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--names", default="", help="further host names to accept, separated by commas")
    options = parser.parse_args()
    server = get_current_settings().server
    app = create_app(final=True)
    gc.freeze()
    gc.enable()
    uvicorn.run(
        HostCheckMiddleware(app, [name for name in options.names.split(",") if name]),
        host=options.host,
        port=options.port,
        timeout_keep_alive=server.api.keepalive_timeout,
        ws_ping_interval=server.api.websocket_ping_interval,
        ws_ping_timeout=server.api.websocket_ping_timeout,
        log_level=server.logging_level.lower(),
    )


if __name__ == "__main__":
    main()
