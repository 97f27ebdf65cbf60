"""Folder of LOCAL file storage: a marker proves that all machines of a service share it.

The marker's id is also in the database. A role with another folder, for example an own one on a second machine, could
not read files stored elsewhere; so it does not start.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from retrieval.database.database import Database
from retrieval.settings import Settings

MARKER = ".retrieval-files"
_SAMPLE = 20


def claim_folder(db: Database, settings: Settings) -> str | None:
    """When a role starts: make this folder the service's if there is none yet. Why the role must not start, or None."""
    if not settings.allow_local_files:
        return None
    folder = settings.files
    if folder_id := db.fetch_one(str, "select id from files_folder"):
        return folder_problem(settings, folder_id)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if reason := _holds_other_files(db, folder):
            return reason
        mine = _marker(folder) or _mark(folder, f"files_{secrets.token_hex(12)}")
    except OSError as error:
        return f"The folder of stored files {folder} cannot be written to: {error.strerror}."
    db.execute("insert into files_folder (id) values (%(id)s) on conflict do nothing", {"id": mine})
    return folder_problem(settings, db.fetch_one(str, "select id from files_folder"))


def folder_problem(settings: Settings, known: str | None) -> str | None:
    """Problem of this machine's folder, or None. `known`: the id in the database, None before the first."""
    if not settings.allow_local_files:
        return None
    try:
        marker = _marker(settings.files)
        if known is not None and marker != known:
            return _another(settings.files, known, marker)
        return _no_room(settings.files, settings.max_file_bytes) if settings.files.exists() else None
    except OSError as error:
        return f"The folder of stored files {settings.files} cannot be read: {error.strerror}."


def _no_room(folder: Path, wanted: int) -> str | None:
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"The folder of stored files {folder} may not be written to: give this user the right to."
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    if free < wanted:
        megabytes = free // (1024 * 1024)
        return f"The disk of stored files {folder} is full: {megabytes} MB are free, less than one upload. Make room."
    return None


def _another(folder: Path, known: str, found: str | None) -> str:
    says = f"its marker {MARKER} says {found!r}" if found else f"it has no marker {MARKER}"
    return (
        f"The folder {folder} is not the one that this service's files are in ({says}, the database says {known!r}). "
        "Mount the same folder on every machine and name it by RETRIEVAL_FILES_DIRECTORY; or, where all namespaces use "
        "a bucket, set RETRIEVAL_ALLOW_LOCAL_FILES=false on every machine. If the files were moved here without the "
        f"marker: echo {known} > {folder / MARKER}"
    )


def _holds_other_files(db: Database, folder: Path) -> str | None:
    """An installation from before the markers: its files must be here, if it has any."""
    keys = db.fetch(
        str,
        """
        select d.parsed_key from run_documents d
        join job_runs r on r.id = d.job_run_id
        join partitions p on p.id = r.partition_id
        join namespaces n on n.id = p.namespace_id
        where d.parsed_key is not null and n.deleted_at is null and n.config->'fileStorageConfig'->>'type' = 'LOCAL'
        limit %(sample)s
        """,
        {"sample": _SAMPLE},
    )
    if not keys or any((folder / key).exists() for key in keys):
        return None
    return (
        f"The folder {folder} holds none of this service's stored files. Name the folder that holds them by "
        "RETRIEVAL_FILES_DIRECTORY, and mount the same one on every machine."
    )


def _marker(folder: Path) -> str | None:
    try:
        return (folder / MARKER).read_text().strip()
    except FileNotFoundError:
        return None


def _mark(folder: Path, chosen: str) -> str:
    """Write the marker atomically; the first of several concurrent writers wins."""
    aside = folder / f"{MARKER}.{secrets.token_hex(6)}"
    aside.write_text(chosen + "\n")
    try:
        os.link(aside, folder / MARKER)
    except FileExistsError:
        return _marker(folder) or chosen
    finally:
        aside.unlink()
    return chosen
