"""The disk of an instance's data, and whether anything can be stored, as `retrieval status` shows it."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import dataclass
from typing import Final

import psycopg

from local import deadline, environment, postgres
from local.errors import LocalError
from retrieval.database.database import AWAY, Database
from retrieval.readiness import roles
from retrieval.settings import Settings

SECONDS: Final = 5.0
SILENT: Final = "The database does not answer."


@dataclass(frozen=True, slots=True)
class Disk:
    """`free`: bytes. `problem`: why nothing can be stored, as a sentence; None if it can, or while it starts."""

    free: int
    problem: str | None

    @property
    def words(self) -> str:
        return f"{self.free / 1e9:.1f} GB free"


def look(settings: Settings, *, ready: bool = True) -> Disk:
    """Measure the disk of the embedded PostgreSQL, or of the home, and write to the database, within `SECONDS`.

    `ready`: whether the database is expected to answer.
    """
    data = settings.home / "postgres"
    folder = data if data.exists() else settings.home
    free = shutil.disk_usage(folder).free
    if free < postgres.ROOM:
        return Disk(free, f"The disk of {folder} is full: {free >> 20} MB are free. Nothing can be stored: make room.")
    try:
        return Disk(free, deadline.call(lambda: _problem(settings), SECONDS))
    except (TimeoutError, *AWAY):
        return Disk(free, SILENT if ready else None)
    except (LocalError, psycopg.Error):
        return Disk(free, None)


def _problem(settings: Settings) -> str | None:
    with closing(Database(environment.resolve(settings).database_url, size=1)) as db:
        return roles.write_problem(db)


def as_json(disk: Disk) -> dict[str, int | str | None]:
    return {"freeBytes": disk.free, "problem": disk.problem}
