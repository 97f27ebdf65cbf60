"""One machine, nothing installed: embedded Postgres, process supervisor, demo and the `retrieval` command."""

from __future__ import annotations

# EX_CONFIG: the last line of a setup step's standard error has the problem and the remedy.
REFUSED_EXIT_CODE = 78


class LocalError(Exception):
    """Error with problem and remedy; exit code 1 for a failure, 2 for wrong usage."""

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code
