"""The bundled Prefect server, as it is, behind a check of Host and Origin, which Prefect does not make.

A page of a stranger's, open in a browser on this machine, reaches 127.0.0.1 by a name of its own that leads there (DNS
rebinding), or with its own Origin. Both are refused before Prefect sees them, WebSockets too.

    python -m flows.prefect_server --host 127.0.0.1 --port 4200 --names prefect.internal

Everything else comes from Prefect's own settings, its database (`PREFECT_SERVER_DATABASE_CONNECTION_URL`) included.
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

NAMES = frozenset({"127.0.0.1", "localhost", "::1"})
"""The port may be another one: that of a tunnel."""
_REFUSED = (
    b"This server answers under its own address alone: open it as 127.0.0.1 or localhost, or name this address in "
    b"RETRIEVAL_PREFECT_NAMES.\n"
)


class OwnAddress:
    """An ASGI application before another one. `names`: hosts under which it answers besides this machine's own."""

    def __init__(self, app: App, names: Iterable[str] = ()) -> None:
        self._app = app
        self._names = NAMES | {name.lower() for name in names}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
        elif not _is_own(scope["headers"], self._names):
            await _refuse(scope["type"], receive, send)
        else:
            headers = [pair for pair in scope["headers"] if pair[0] != b"authorization" or _readable(pair[1])]
            await self._app({**scope, "headers": headers}, receive, send)


def _is_own(headers: list[tuple[bytes, bytes]], names: AbstractSet[str]) -> bool:
    """One Host that is among the names, and no Origin that is not."""
    hosts = [value for name, value in headers if name == b"host"]
    origins = [value for name, value in headers if name == b"origin"]
    return (
        len(hosts) == 1
        and _name(b"http://" + hosts[0]) in names
        and all(value.startswith((b"http://", b"https://")) and _name(value) in names for value in origins)
    )


def _name(url: bytes) -> str | None:
    try:
        parts = urlsplit(url.decode("ascii"))
        _ = parts.port
    except ValueError:
        return None
    bare = not (parts.path or parts.query or parts.fragment) and "@" not in parts.netloc
    return parts.hostname if bare else None


def _readable(authorization: bytes) -> bool:
    """Whether Prefect can compare it: it fails with 500 on a login that is not ASCII. Without it, it answers 401."""
    _, _, credentials = authorization.partition(b" ")
    try:
        return base64.b64decode(credentials).isascii()
    except binascii.Error:
        return False


async def _refuse(kind: str, receive: Receive, send: Send) -> None:
    if kind == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008})
        return
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(_REFUSED)).encode())]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": _REFUSED})


def main() -> None:
    """Serve until SIGTERM or SIGINT. No collector runs while Prefect is imported: that saves a quarter of the time."""
    gc.disable()
    import uvicorn
    from prefect.server.api.server import create_app
    from prefect.settings import get_current_settings

    logs.lose_what_does_not_fit()
    parser = argparse.ArgumentParser(description="Prefect's server behind a check of Host and Origin.")
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--names", default="", help="hosts under which it answers besides this machine's, by commas")
    options = parser.parse_args()
    server = get_current_settings().server
    app = create_app(final=True)
    gc.freeze()
    gc.enable()
    uvicorn.run(
        OwnAddress(app, [name for name in options.names.split(",") if name]),
        host=options.host,
        port=options.port,
        timeout_keep_alive=server.api.keepalive_timeout,
        ws_ping_interval=server.api.websocket_ping_interval,
        ws_ping_timeout=server.api.websocket_ping_timeout,
        log_level=server.logging_level.lower(),
    )


if __name__ == "__main__":
    main()
