"""An HTTPS server on loopback for signed addresses, with its own certificate."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from http.server import ThreadingHTTPServer
from ipaddress import ip_address
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.standins import faults

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Secure:
    """An HTTPS server with a self-signed `certificate` and one text for every request."""

    text = "words from elsewhere"

    def __init__(self, folder: Path, host: str = "") -> None:
        self.certificate, key = folder / "certificate.pem", folder / "key.pem"
        self.seen: list[tuple[str, str | None]] = []
        """Path and authorization of each request."""
        certify(self.certificate, key, host)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.certificate, key)
        secure_server = self

        class Handler(faults.Handler):
            def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
                secure_server.seen.append((self.path, self.headers.get("authorization")))
                self.reply(200, secure_server.text.encode())

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *_: None  # a client that does not trust it hangs up
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.base = f"https://127.0.0.1:{self.server.server_port}"


def certify(certificate: Path, key: Path, host: str = "") -> None:
    """Write a self-signed certificate for 127.0.0.1, or only for the given name, and the key."""
    secret = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "elsewhere")])
    subject = x509.DNSName(host) if host else x509.IPAddress(ip_address("127.0.0.1"))
    issued_at = datetime.now(UTC)
    certificate_data = (
        x509.CertificateBuilder(
            name, name, secret.public_key(), 1, issued_at - timedelta(days=1), issued_at + timedelta(days=1)
        )
        .add_extension(x509.SubjectAlternativeName([subject]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(secret, hashes.SHA256())
    )
    certificate.write_bytes(certificate_data.public_bytes(Encoding.PEM))
    key.write_bytes(secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


@contextmanager
def secured(folder: Path, host: str = "") -> Iterator[Secure]:
    secure_server = Secure(folder, host)
    thread = threading.Thread(target=secure_server.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield secure_server
    finally:
        secure_server.server.shutdown()
        thread.join(5)
        secure_server.server.server_close()


@contextmanager
def in_front_of(port: int, folder: Path) -> Iterator[tuple[str, Path]]:
    """Terminate TLS in front of a loopback server; yield the address and the certificate."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    certify(certificate, key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)

    class Tunnel(StreamRequestHandler):
        def handle(self) -> None:
            try:
                inner = context.wrap_socket(self.request, server_side=True)
            except OSError:  # a client that does not trust it hangs up
                return
            with socket.create_connection(("127.0.0.1", port)) as plain, inner:
                back = threading.Thread(target=_copy, args=(plain, inner), daemon=True)
                back.start()
                _copy(inner, plain)
                back.join(5)

    server = ThreadingTCPServer(("127.0.0.1", 0), Tunnel)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_address[1]}", certificate
    finally:
        server.shutdown()
        thread.join(5)
        server.server_close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Copy until one side closes, then close the other."""
    with suppress(OSError, ValueError):
        while piece := source.recv(65536):
            target.sendall(piece)
    with suppress(OSError, ValueError):
        target.shutdown(socket.SHUT_WR)
