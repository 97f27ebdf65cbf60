"""One machine, nothing installed: embedded Postgres, process supervisor, demo and the `retrieval` command."""

from __future__ import annotations

REFUSED = 78
"""Exit code (EX_CONFIG) of a setup step whose last line on standard error says all: what is wrong, and what to do."""


class LocalError(Exception):
    """Error in plain words: what is wrong and what to do. Exit codes: 1 it failed, 2 it was called wrongly."""

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code
