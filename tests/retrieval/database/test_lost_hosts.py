"""Every connection detects a silent PostgreSQL host within seconds."""

from retrieval.database import tcp_keepalive

URL = "postgresql://name@127.0.0.1/retrieval"


def test_a_silent_host_is_found_out_unless_the_address_says_otherwise():
    """By the system's own limits the dispatcher waited for 15 minutes, and whoever only listened for two hours."""
    assert tcp_keepalive.connection_options(URL) == tcp_keepalive.DEFAULT_OPTIONS
    assert tcp_keepalive.DEFAULT_OPTIONS["tcp_user_timeout"] <= 20_000
    idle, interval, count = (
        tcp_keepalive.DEFAULT_OPTIONS[f"keepalives_{name}"] for name in ("idle", "interval", "count")
    )
    assert idle + interval * count <= 25
    assert "keepalives_idle" not in tcp_keepalive.connection_options(URL + "?keepalives_idle=60")
    assert "connect_timeout" not in tcp_keepalive.connection_options("host=db connect_timeout=3")
