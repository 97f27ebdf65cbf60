"""TCP keepalive parameters against hosts that stopped responding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from psycopg.conninfo import conninfo_to_dict

# A lost host is noticed within 25 s; the defaults of the system are 15 minutes and two hours.
DEFAULT_OPTIONS: Final[Mapping[str, int]] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}


def connection_options(url: str) -> dict[str, Any]:
    """Return keepalive parameters missing in the URL."""
    url_options = conninfo_to_dict(url)
    return {name: value for name, value in DEFAULT_OPTIONS.items() if name not in url_options}
