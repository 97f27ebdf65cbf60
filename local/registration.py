"""Registers work pool and deployments once Prefect answers; what it needs is imported while Prefect still starts."""

from __future__ import annotations

import os
import time

from flows import register
from local import probes

_SECONDS = 180.0


def main() -> None:
    deadline = time.monotonic() + _SECONDS
    while not probes.answers(os.environ["PREFECT_API_URL"] + "/health"):
        if time.monotonic() > deadline:
            raise SystemExit(f"The Prefect server did not answer within {_SECONDS:.0f} s.")
        time.sleep(0.1)
    try:
        register.main()
    except register.RegistrationError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
