"""Makes the Prefect clients of a worker's children cheap where their server is spoken to over plain HTTP."""

from __future__ import annotations

import os
from pathlib import Path

NOBODY = Path(__file__).with_name("nobody.pem")
"""A certificate whose key nobody has. It lies beside the code, where the loss of a home does not reach it."""


def spare_certificates() -> None:
    """Every Prefect client parses a whole bundle of authorities, 0.1 s and several times a flow run.

    Plain HTTP looks at none of them, so the children get a bundle of one. A server behind TLS is left alone.
    """
    from prefect.settings import get_current_settings

    if (get_current_settings().api.url or "").startswith("http://"):
        os.environ["PREFECT_API_SSL_CERT_FILE"] = str(NOBODY)
