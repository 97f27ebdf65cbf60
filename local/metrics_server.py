"""Prometheus metrics on their own port: `retrieval metrics`."""

from __future__ import annotations

import hmac
import signal
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from types import FrameType
from typing import Final
from urllib.parse import urlsplit

import structlog

from local import LocalError, instance
from retrieval import logs, settings
from retrieval.database.database import Database
from retrieval.metrics import catalog, exposition
from retrieval.metrics.figures import MetricsReader, Values
from retrieval.settings import Settings

log = structlog.get_logger()

# Further connections are closed.
MAX_CONNECTIONS: Final = 16
CLIENT_TIMEOUT_SECONDS: Final = 5.0
_METRICS_PATHS: Final = frozenset(("/", "/metrics"))
_LOOPBACK_NAMES: Final = frozenset(("localhost", "ip6-localhost"))


def require_token(configured: Settings) -> None:
    """Raise LocalError if other machines could read metrics without a token."""
    if not is_loopback(configured.metrics_host) and not configured.metrics_token:
        raise LocalError(
            f"RETRIEVAL_METRICS_HOST is {configured.metrics_host}, which other machines may reach, and "
            "RETRIEVAL_METRICS_TOKEN is not set: set it to a long random text, and as the bearer token in Prometheus.",
        )


def is_loopback(host: str) -> bool:
    """Return whether a name or address is this machine's loopback."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() in _LOOPBACK_NAMES


def build_server(configured: Settings, db: Database) -> ThreadingHTTPServer:
    """Return a bound server, not yet running."""
    figures, token = MetricsReader(db), configured.metrics_token
    secret = token.get_secret_value() if token else None

    class Handler(BaseHTTPRequestHandler):
        timeout = CLIENT_TIMEOUT_SECONDS
        server_version = "retrieval"
        sys_version = ""

        def do_GET(self) -> None:
            # Without a token: a page of another host could read the figures by DNS rebinding.
            if secret is None and not is_loopback(urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""):
                self._answer(403, b"This address is for this machine only.\n")
            elif secret is not None and not _is_authorized(self.headers.get("Authorization", ""), secret):
                self._answer(401, b"A bearer token is needed.\n", {"WWW-Authenticate": "Bearer"})
            elif self.path.partition("?")[0] not in _METRICS_PATHS:
                self._answer(404, b"Only /metrics is here.\n")
            else:
                text = exposition.render_text(figures.read(), roles=_read_role_metrics(configured))
                self._answer(200, text, media_type=exposition.MEDIA_TYPE)

        def _answer(
            self, status: int, body: bytes, extra_headers: dict[str, str] | None = None, media_type: str = "text/plain"
        ) -> None:
            self.send_response(status)
            headers = {"Content-Type": media_type, "Content-Length": str(len(body)), "Cache-Control": "no-store"}
            for name, value in {**headers, **(extra_headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *values: object) -> None:  # noqa: A002 - the base class's name
            log.debug("metrics.request", message=format % values)

    return _Server((configured.metrics_host, configured.metrics_port or 0), Handler)


class _Server(ThreadingHTTPServer):
    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._room = threading.BoundedSemaphore(MAX_CONNECTIONS)
        super().__init__(address, handler)

    def process_request(self, request: object, client_address: object) -> None:
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)  # type: ignore[arg-type]
            return
        super().process_request(request, client_address)  # type: ignore[arg-type]

    def process_request_thread(self, request: object, client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]
        finally:
            self._room.release()

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - the base class's
        error = sys.exception() if hasattr(sys, "exception") else sys.exc_info()[1]
        if isinstance(error, OSError):
            return  # the client went away
        log.error("metrics.failed", reason=type(error).__name__)


def _is_authorized(header: str, secret: str) -> bool:
    scheme, _, credentials = header.partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(credentials.strip().encode(), secret.encode())


def _read_role_metrics(configured: Settings) -> dict[str, Values]:
    """Return metrics of this machine's roles; empty without a supervisor."""
    record = instance.find_running(configured.home)
    roles = [role for role in record.roles if role.name in catalog.ROLES] if record else []
    up: Values = {(role.name,): float(role.state == "up") for role in roles}
    return {
        catalog.ROLE_UP.name: up,
        catalog.ROLE_RESTARTS.name: {(role.name,): float(role.restarts) for role in roles},
    }


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    configured = settings.load_settings()
    logs.configure_logs(configured, role="metrics")
    if configured.database_url is None:
        sys.exit("RETRIEVAL_DATABASE_URL is not set: name the PostgreSQL to use, or start with `retrieval up`.")
    try:
        require_token(configured)
        server = build_server(configured, Database(configured.database_url.get_secret_value(), size=2, role="metrics"))
    except LocalError as error:
        sys.exit(str(error))
    except OSError as error:
        sys.exit(f"RETRIEVAL_METRICS_PORT {configured.metrics_port} cannot be opened ({error.strerror}).")

    def shut_down(_number: int, _frame: FrameType | None) -> None:
        threading.Thread(target=server.shutdown).start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, shut_down)
    log.info("metrics.started", port=server.server_address[1])
    server.serve_forever()


if __name__ == "__main__":
    main()
