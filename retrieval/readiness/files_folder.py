"""Verify that all machines share the folder of LOCAL file storage, by a marker file with the id in the database."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from retrieval.database.database import Database
from retrieval.settings import Settings

MARKER_NAME = ".retrieval-files"
_SAMPLE_SIZE = 20


def claim_folder(db: Database, settings: Settings) -> str | None:
    """Claim the folder at the start of a role, if none is claimed. Return a problem, or None."""
    if not settings.allow_local_files:
        return None
    folder = settings.files_folder
    if folder_id := db.fetch_one(str, "select id from files_folder"):
        return folder_problem(settings, folder_id)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Installations before the marker have files but no id in the database.
        if reason := _missing_files_problem(db, folder):
            return reason
        marker = _read_marker(folder) or _write_marker(folder, f"files_{secrets.token_hex(12)}")
    except OSError as error:
        return f"The folder of stored files {folder} is not writable: {error.strerror}."
    db.execute("insert into files_folder (id) values (%(id)s) on conflict do nothing", {"id": marker})
    return folder_problem(settings, db.fetch_one(str, "select id from files_folder"))


def folder_problem(settings: Settings, folder_id: str | None) -> str | None:
    """Return the problem of this machine's folder, or None. `folder_id`: id in the database, None before the first
    claim."""
    if not settings.allow_local_files:
        return None
    folder = settings.files_folder
    try:
        marker = _read_marker(folder)
        if folder_id is not None and marker != folder_id:
            return _mismatch_problem(folder, folder_id, marker)
        return _space_problem(folder, settings.max_file_bytes) if folder.exists() else None
    except OSError as error:
        return f"The folder of stored files {folder} cannot be read: {error.strerror}."


def _space_problem(folder: Path, required_bytes: int) -> str | None:
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"The folder of stored files {folder} is not writable: give this user write access."
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    if free < required_bytes:
        megabytes = free // (1024 * 1024)
        return f"The disk of stored files {folder} is full: {megabytes} MB are free, less than one upload. Make room."
    return None


def _mismatch_problem(folder: Path, folder_id: str, marker: str | None) -> str:
    difference = f"its marker {MARKER_NAME} is {marker!r}" if marker else f"it has no marker {MARKER_NAME}"
    return (
        f"The folder {folder} is not the files folder of this service ({difference}, the database has {folder_id!r}). "
        "Mount the same folder on every machine and set RETRIEVAL_FILES_DIRECTORY to it; or, if all namespaces use a "
        "bucket, set RETRIEVAL_ALLOW_LOCAL_FILES=false on every machine. If the files were moved here without the "
        f"marker: echo {folder_id} > {folder / MARKER_NAME}"
    )


def _missing_files_problem(db: Database, folder: Path) -> str | None:
    """Return a problem if the folder misses the files of an installation without a marker."""
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
        {"sample": _SAMPLE_SIZE},
    )
    if not keys or any((folder / key).exists() for key in keys):
        return None
    return (
        f"The folder {folder} does not contain this service's stored files. Set RETRIEVAL_FILES_DIRECTORY to the "
        "folder with these files, and mount it on every machine."
    )


def _read_marker(folder: Path) -> str | None:
    try:
        return (folder / MARKER_NAME).read_text().strip()
    except FileNotFoundError:
        return None


def _write_marker(folder: Path, folder_id: str) -> str:
    """Write the marker atomically; the first of concurrent writers wins."""
    temporary = folder / f"{MARKER_NAME}.{secrets.token_hex(6)}"
    temporary.write_text(folder_id + "\n")
    try:
        os.link(temporary, folder / MARKER_NAME)
    except FileExistsError:
        return _read_marker(folder) or folder_id
    finally:
        temporary.unlink()
    return folder_id
