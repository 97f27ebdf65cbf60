"""Schema revisions: a baseline and Alembic migrations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

MIGRATIONS_FOLDER = Path(__file__).resolve().parents[2] / "migrations"
# Schema of 0.2.0. Revisions sort by age.
BASELINE_REVISION = "0051"
UPGRADE_ADVICE = (
    "is of version 0.1.0. Nothing was changed. Start 0.1.0 on it, `retrieval export` each namespace there, and"
    " `retrieval import` the files into a new RETRIEVAL_HOME, or an empty database, of this version"
    " (docs/guides/upgrade.md)"
)


class RevisionError(ValueError):
    """The schema cannot be upgraded by this version."""


@dataclass(frozen=True, slots=True)
class Migration:
    """Revision with its summary."""

    revision: str
    summary: str


def upgrade_schema(url: str) -> None:
    """Upgrade the schema to the newest revision; concurrent processes wait for one."""
    from alembic import command

    list_pending(url)
    config = _config()
    config.attributes["url"] = url
    command.upgrade(config, "head")


def list_pending(url: str) -> list[Migration]:
    """List missing migrations, oldest first. Raises RevisionError for a schema of 0.1.0 or a newer version."""
    history = list(reversed(list(_scripts().walk_revisions())))
    revisions = [script.revision for script in history]
    with psycopg.connect(url, autocommit=True) as connection:
        is_migrated = connection.execute("select to_regclass('alembic_version') is not null").fetchone()
        row = (
            connection.execute("select version_num from alembic_version").fetchone() if is_migrated == (True,) else None
        )
    if row is None:
        first = 0
    elif row[0] in revisions:
        first = revisions.index(row[0]) + 1
    elif row[0] < BASELINE_REVISION:
        raise RevisionError(f"The database's schema, {row[0]}, {UPGRADE_ADVICE}.")
    else:
        raise RevisionError(
            f"The database has the schema {row[0]}, which is newer than this version's {revisions[-1]}."
            " Start the version that made it, or restore a backup of this one."
        )
    return [Migration(script.revision, script.doc.splitlines()[0]) for script in history[first:]]


@lru_cache(maxsize=1)
def newest_revision() -> str:
    """Return the newest revision by file name."""
    # Every API process needs it, and Alembic with SQLAlchemy takes 18 MB.
    return max(file.name.partition("_")[0] for file in (MIGRATIONS_FOLDER / "versions").glob("[0-9]*_*.py"))


def _scripts() -> ScriptDirectory:
    from alembic.script import ScriptDirectory

    return ScriptDirectory.from_config(_config())


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS_FOLDER))
    return config
