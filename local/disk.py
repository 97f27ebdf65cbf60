"""The disk of an instance's data, and whether anything can be stored, as `retrieval status` shows it."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import dataclass

import psycopg

from local import environment, postgres
from local.errors import LocalError
from retrieval.database.database import AWAY, Database
from retrieval.readiness import writing
from retrieval.settings import Settings


@dataclass(frozen=True, slots=True)
class Disk:
    """`free`: bytes. `problem`: why nothing can be stored, as a sentence; None if it can, or nobody tells."""

    free: int
    problem: str | None

    @property
    def words(self) -> str:
        return f"{self.free / 1e9:.1f} GB free"


def look(settings: Settings) -> Disk:
    """Measure the disk of the embedded PostgreSQL, or of the home, and write to the database."""
    data = settings.home / "postgres"
    folder = data if data.exists() else settings.home
    free = shutil.disk_usage(folder).free
    if free < postgres.ROOM:
        return Disk(free, f"The disk of {folder} is full: {free >> 20} MB are free. Nothing can be stored: make room.")
    return Disk(free, _problem(settings))


def _problem(settings: Settings) -> str | None:
    try:
        with closing(Database(environment.resolve(settings).database_url, size=1)) as db:
            return writing.problem(db)
    except (LocalError, *AWAY, psycopg.Error):
        return None  # that the database does not answer is told beside this


def as_json(disk: Disk) -> dict[str, int | str | None]:
    return {"freeBytes": disk.free, "problem": disk.problem}
