"""Which addresses the roles listen on, settled before anything starts."""

from __future__ import annotations

import errno
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from urllib.parse import urlsplit

from local.errors import LocalError


def settle(wanted: Mapping[str, tuple[str, int]]) -> dict[str, int]:
    """A port for each setting's name, given (host, port); 0 picks a free one. LocalError names one that is taken."""
    with ExitStack() as stack:
        return {name: _hold(stack, name, host, port) for name, (host, port) in wanted.items()}


def url(host: str, port: int) -> str:
    """URL at which a client on this machine reaches a listener on `host`."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(host, host)  # noqa: S104
    return f"http://{reachable}:{port}"


def ports(known: Mapping[str, str | None]) -> dict[str, str]:
    """The settings that tell a role on which ports an instance listens, given its addresses by role."""
    given_ports = {name: urlsplit(address).port for name, address in known.items() if address}
    return {f"RETRIEVAL_{name.upper()}_PORT": str(port) for name, port in given_ports.items() if port}


def _hold(held: ExitStack, name: str, host: str, port: int) -> int:
    """Bind until all ports are settled, so that two roles never pick the same."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    probe = held.enter_context(socket.socket(family, socket.SOCK_STREAM))
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind((host, port))
        probe.listen(1)
    except OSError as error:
        raise LocalError(_sentence(name, host, port, error), exit_code=2) from error
    return int(probe.getsockname()[1])


def _sentence(name: str, host: str, port: int, error: OSError) -> str:
    advice = f"set {name} to another port, or to 0 for any free one"
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} on {host} is taken by another program: {advice}."
    if error.errno == errno.EACCES:
        return f"Port {port} on {host} needs rights that this user does not have: {advice}."
    return f"Port {port} on {host} cannot be opened ({error.strerror}): {advice}."
