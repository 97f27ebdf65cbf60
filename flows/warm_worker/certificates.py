"""Makes the Prefect clients of a worker's children cheap where their server is spoken to over plain HTTP."""

from __future__ import annotations

import os
from pathlib import Path

END = "-----END CERTIFICATE-----\n"


def spare_certificates() -> None:
    """Every Prefect client parses a whole bundle of authorities, 0.1 s and several times a flow run.

    Plain HTTP looks at none of them, so the children get a bundle of one. A server behind TLS is left alone.
    """
    import certifi
    from prefect.settings import get_current_settings

    settings = get_current_settings()
    if not (settings.api.url or "").startswith("http://"):
        return
    bundle = Path(certifi.where()).read_text(encoding="ascii", errors="ignore")
    settings.home.mkdir(parents=True, exist_ok=True)
    single = settings.home / "one-authority.pem"
    draft = settings.home / f"one-authority.{os.getpid()}"
    draft.write_text(bundle[: bundle.index(END)] + END)
    draft.replace(single)
    os.environ["PREFECT_API_SSL_CERT_FILE"] = str(single)
