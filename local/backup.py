"""`backup` and `restore`: a running instance with its embedded Postgres, as one directory.

manifest.json       {"version", "postgres": its major version, "createdAt"}; written last: without it there is no backup
postgres/           the data, Prefect's database included, copied by pg_basebackup with the write-ahead log it needs
postgres.password   the password of that database
secret.key          the key of stored secrets
files/              the files of LOCAL storage
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg

from local import LocalError, environment, instance, postgres
from local.instance import read_json, write_private
from retrieval.maintenance import copies
from retrieval.settings import Settings

VERSION = 1
MANIFEST = "manifest.json"
_DATA, _FILES, _KEY, _PASSWORD = "postgres", "files", "secret.key", "postgres.password"
_STATE = (_DATA, _PASSWORD, "postgres.socket", _KEY, _FILES, "prefect", "prefect.login", "service.last.json")
"""What of a home a restore puts aside: all that belongs to the database, and Prefect, which knows of its runs."""
_UNFINISHED = ".part"


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Back up or restore, as the command says."""
    folder = Path(options.directory).absolute()
    try:
        _backup(folder, settings) if options.command == "backup" else _restore(folder, settings)
    except OSError as error:
        raise LocalError(f"{error.filename or folder}: {error.strerror}.") from error
    return 0


def _backup(folder: Path, settings: Settings) -> None:
    """Copy what is there while the instance runs. Files are copied before the database and once more after it, and none
    is deleted from in between: whatever the database of that moment refers to is among them."""
    home = settings.home.resolve()
    running = instance.running(home)
    if environment.reveal_secret(settings.database_url) or (running is not None and not running.embedded):
        raise LocalError(
            "RETRIEVAL_DATABASE_URL names a PostgreSQL of your own: back it up by its own means, then the directory of"
            " files, and keep RETRIEVAL_SECRET_KEY. `retrieval fsck` mends what does not fit after a restore.",
            exit_code=2,
        )
    if running is None:
        raise LocalError(f"Nothing runs in {home}: start it with `retrieval up`, or copy the home as it is.")
    if folder.exists() and any(folder.iterdir()):
        raise LocalError(f"{folder} is not empty: name a new directory.", exit_code=2)
    began = time.monotonic()
    key = environment.secret_key(settings)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    if settings.allow_local_files:
        _copy_files(settings.files, folder / _FILES)
    with _files_kept(home):
        postgres.base_backup(home, folder / _DATA)
        if settings.allow_local_files:
            _copy_files(settings.files, folder / _FILES)
    write_private(folder / _KEY, key)
    write_private(folder / _PASSWORD, (home / _PASSWORD).read_text())
    manifest = {
        "version": VERSION,
        "postgres": (folder / _DATA / "PG_VERSION").read_text().strip(),
        "createdAt": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }
    write_private(folder / MANIFEST, json.dumps(manifest, indent=1) + "\n")
    print(f"The instance in {home} is backed up in {folder}, in {time.monotonic() - began:.0f} s.")
    print("It holds the key of stored secrets: keep it where nobody else reads it.")


@contextmanager
def _files_kept(home: Path) -> Iterator[None]:
    try:
        with copies.kept(postgres.url(home)):
            yield
    except psycopg.Error as error:
        raise LocalError("The database was lost while it was copied: this backup is not whole.") from error


def _restore(folder: Path, settings: Settings) -> None:
    """Put a backup into the home. What is in the home already is put aside, not deleted."""
    home = settings.home.resolve()
    saved = _checked(folder)
    if environment.reveal_secret(settings.database_url):
        raise LocalError(
            "RETRIEVAL_DATABASE_URL is set: a backup holds an embedded Postgres. Leave the setting out to restore it.",
            exit_code=2,
        )
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = None if instance.running(home) else instance.lock(home)
    if lock is None:
        raise LocalError(f"An instance is running in {home}: stop it with `retrieval down`, or choose another home.")
    try:
        aside = _put_in(folder, home, settings)
    finally:
        os.close(lock)
    print(f"The backup of {saved['createdAt']} is in {home}: start it with `retrieval up`.")
    if aside is not None:
        print(f"What was there before is in {aside}; delete it when you do not need it any more.")


def _put_in(folder: Path, home: Path, settings: Settings) -> Path | None:
    """Copy first, then put aside what was there and give the copies its names; where the former state is now."""
    fresh = home / f"restore{_UNFINISHED}"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700)
    shutil.copytree(folder / _DATA, fresh / _DATA, symlinks=True)
    inside, has_files = settings.files.resolve() == home / _FILES, (folder / _FILES).is_dir()
    if inside and has_files:
        shutil.copytree(folder / _FILES, fresh / _FILES)
    instance.clear(home)
    postgres.stop(home)
    aside = _put_aside(home)
    if not inside and has_files and settings.allow_local_files:
        shutil.copytree(folder / _FILES, settings.files, dirs_exist_ok=True)
    for name in (_KEY, _PASSWORD):
        write_private(home / name, (folder / name).read_text())
    postgres.own(home, fresh / _DATA)
    for path in (fresh / _FILES, fresh / _DATA):
        if path.exists():
            path.rename(home / path.name)
    shutil.rmtree(fresh)
    return aside


def _checked(folder: Path) -> dict[str, Any]:
    """Manifest of the backup; LocalError if it is none, or not complete."""
    saved = read_json(folder / MANIFEST)
    if not saved:
        raise LocalError(f"{folder} is no whole backup: it has no {MANIFEST}.", exit_code=2)
    if saved.get("version") != VERSION:
        raise LocalError(f"The backup is of version {saved.get('version')}, and this service reads {VERSION}.")
    if saved.get("postgres") != postgres.VERSION:
        raise LocalError(
            f"The backup is of PostgreSQL {saved.get('postgres')}, and this service has {postgres.VERSION}: restore it"
            " with the version of the service that made it."
        )
    for name in (f"{_DATA}/PG_VERSION", _KEY, _PASSWORD):
        if not (folder / name).is_file():
            raise LocalError(f"{folder} is no whole backup: it has no {name}.", exit_code=2)
    return saved


def _put_aside(home: Path) -> Path | None:
    """Move the former state away and return its folder; None if there was none. Files outside the home stay: they are
    added to."""
    present = [home / name for name in _STATE if (home / name).exists()]
    if not present:
        return None
    aside = home / f"before-restore-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    aside.mkdir(mode=0o700)
    for path in present:
        path.rename(aside / path.name)
    return aside


def _copy_files(source: Path, target: Path) -> None:
    """Copy missing files. Files are whole or absent and never change; one may be deleted meanwhile."""
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder, _, names in os.walk(source):
        into = target / Path(folder).relative_to(source)
        into.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in names:
            copy = into / name
            if name.endswith(_UNFINISHED) or copy.exists():
                continue
            with suppress(FileNotFoundError):
                shutil.copy2(Path(folder) / name, copy)
