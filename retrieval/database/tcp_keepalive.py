"""TCP keepalive parameters, so that a connection to a host that stopped responding ends with an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from psycopg.conninfo import conninfo_to_dict

USUAL: Final[Mapping[str, int]] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
"""Seconds, a number, and milliseconds. What was sent is acknowledged within 20 s, and whoever waits learns within 25 s
that nobody is there; the system's own limits are 15 minutes and two hours."""


def connection_options(url: str) -> dict[str, Any]:
    """Parameters for a connection to this address, but those that it names itself; of no effect on a local socket."""
    url_options = conninfo_to_dict(url)
    return {name: value for name, value in USUAL.items() if name not in url_options}
