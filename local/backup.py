"""Backup and restore of an instance as a directory, export and import of a namespace as a file.

manifest.json       {"version", "postgres": major version, "createdAt"}; written last, marks a complete backup
postgres/           data of all databases, copied by pg_basebackup with the write-ahead log
postgres.password   password of the database
secret.key          key of stored secrets
files/              files of LOCAL storage
"""

from __future__ import annotations

import json
import os
import shutil
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg

from connectors import registry
from local import LocalError, admin, environment, instance, postgres
from local.admin import AuditedChange
from local.instance import read_json, write_private
from retrieval.database.database import Database
from retrieval.errors import ServiceError, StepError
from retrieval.maintenance import copies
from retrieval.maintenance.moving import archive, exporting, frame, importing
from retrieval.maintenance.moving.archive import ArchiveError
from retrieval.maintenance.moving.exporting import NoSuchNamespace
from retrieval.namespaces import destinations, namespaces, validation
from retrieval.namespaces.namespaces import FILE_STORAGE, VECTOR_STORAGE
from retrieval.security.secrets import KeyRing, SecretError
from retrieval.settings import Settings

BACKUP_VERSION = 1
MANIFEST_NAME = "manifest.json"
_DATA, _FILES, _KEY, _PASSWORD = "postgres", "files", "secret.key", "postgres.password"
# A restore moves these aside: everything of the database, and Prefect, which refers to its runs.
_STATE_NAMES = (_DATA, _PASSWORD, "postgres.socket", _KEY, _FILES, "prefect", "prefect.login", "service.last.json")
_UNFINISHED_SUFFIX = ".part"
# Secrets without which the namespace's stores cannot be written.
_REQUIRED_SECRETS: dict[str, dict[str, tuple[str, ...]]] = {
    VECTOR_STORAGE: {"PINECONE": ("apiKey",)},
    FILE_STORAGE: {"S3_COMPATIBLE": ("credentials.accessKeyId", "credentials.secretAccessKey")},
}


def run(options: Namespace, settings: Settings) -> int:
    """Run `backup` or `restore`."""
    folder = Path(options.directory).absolute()
    try:
        _back_up(folder, settings) if options.command == "backup" else _restore(folder, settings)
    except OSError as error:
        raise LocalError(f"{error.filename or folder}: {error.strerror}.") from error
    return 0


def _back_up(folder: Path, settings: Settings) -> None:
    """Copy the running instance."""
    # Files are copied before and after the database, and none is deleted in between, so every file of the database's
    # state is included.
    home = settings.home.resolve()
    running = instance.find_running(home)
    if environment.reveal_secret(settings.database_url) or (running is not None and not running.embedded):
        raise LocalError(
            "RETRIEVAL_DATABASE_URL names a PostgreSQL of your own: back it up by its own means, then the directory of"
            " files, and keep RETRIEVAL_SECRET_KEY. `retrieval fsck --repair` repairs differences after a restore.",
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
        _copy_files(settings.files_folder, folder / _FILES)
    with _keep_files(home):
        postgres.base_backup(home, folder / _DATA)
        if settings.allow_local_files:
            _copy_files(settings.files_folder, folder / _FILES)
    write_private(folder / _KEY, key)
    write_private(folder / _PASSWORD, (home / _PASSWORD).read_text())
    manifest = {
        "version": BACKUP_VERSION,
        "postgres": (folder / _DATA / "PG_VERSION").read_text().strip(),
        "createdAt": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }
    write_private(folder / MANIFEST_NAME, json.dumps(manifest, indent=1) + "\n")
    print(f"The instance in {home} is backed up in {folder}, in {time.monotonic() - began:.0f} s.")
    print("It contains the key of stored secrets: store it where only you can read it.")


@contextmanager
def _keep_files(home: Path) -> Iterator[None]:
    try:
        with copies.keep_files(postgres.service_url(home)):
            yield
    except psycopg.Error as error:
        raise LocalError("The database was lost while it was copied: this backup is not whole.") from error


def _restore(folder: Path, settings: Settings) -> None:
    """Restore a backup into the home; move its present content aside."""
    home = settings.home.resolve()
    saved = _read_manifest(folder)
    if environment.reveal_secret(settings.database_url):
        raise LocalError(
            "RETRIEVAL_DATABASE_URL is set: a backup holds an embedded Postgres. Leave the setting out to restore it.",
            exit_code=2,
        )
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = None if instance.find_running(home) else instance.lock_home(home)
    if lock is None:
        raise LocalError(f"An instance is running in {home}: stop it with `retrieval down`, or choose another home.")
    try:
        aside = _install_backup(folder, home, settings)
    finally:
        os.close(lock)
    print(f"The backup of {saved['createdAt']} is in {home}: start it with `retrieval up`.")
    if aside is not None:
        print(f"What was there before is in {aside}; delete it when you do not need it any more.")


def _install_backup(folder: Path, home: Path, settings: Settings) -> Path | None:
    """Copy the backup, move the former state aside, and rename the copies; return the folder of the former state."""
    fresh = home / f"restore{_UNFINISHED_SUFFIX}"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700)
    shutil.copytree(folder / _DATA, fresh / _DATA, symlinks=True)
    inside, has_files = settings.files_folder.resolve() == home / _FILES, (folder / _FILES).is_dir()
    if inside and has_files:
        shutil.copytree(folder / _FILES, fresh / _FILES)
    instance.clear_home(home)
    postgres.stop(home)
    aside = _move_aside(home)
    if not inside and has_files and settings.allow_local_files:
        shutil.copytree(folder / _FILES, settings.files_folder, dirs_exist_ok=True)
    for name in (_KEY, _PASSWORD):
        write_private(home / name, (folder / name).read_text())
    postgres.change_owner(home, fresh / _DATA)
    for path in (fresh / _FILES, fresh / _DATA):
        if path.exists():
            path.rename(home / path.name)
    shutil.rmtree(fresh)
    return aside


def _read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a complete backup; raise LocalError otherwise."""
    saved = read_json(folder / MANIFEST_NAME)
    if not saved:
        raise LocalError(f"{folder} is not a complete backup: it has no {MANIFEST_NAME}.", exit_code=2)
    if saved.get("version") != BACKUP_VERSION:
        raise LocalError(f"The backup is of version {saved.get('version')}, and this service reads {BACKUP_VERSION}.")
    if saved.get("postgres") != postgres.POSTGRES_VERSION:
        raise LocalError(
            f"The backup is of PostgreSQL {saved.get('postgres')}, and this service has {postgres.POSTGRES_VERSION}:"
            " restore it with the version of the service that made it."
        )
    for name in (f"{_DATA}/PG_VERSION", _KEY, _PASSWORD):
        if not (folder / name).is_file():
            raise LocalError(f"{folder} is not a complete backup: it has no {name}.", exit_code=2)
    return saved


def _move_aside(home: Path) -> Path | None:
    """Move the former state away; return the folder, None without any."""
    # Files outside the home stay, and the backup's are added.
    present = [home / name for name in _STATE_NAMES if (home / name).exists()]
    if not present:
        return None
    aside = home / f"before-restore-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    aside.mkdir(mode=0o700)
    for path in present:
        path.rename(aside / path.name)
    return aside


def _copy_files(source: Path, target: Path) -> None:
    """Copy missing files."""
    # Files never change after they are complete; one may be deleted during the copy.
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder, _, names in os.walk(source):
        into = target / Path(folder).relative_to(source)
        into.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in names:
            copy = into / name
            if name.endswith(_UNFINISHED_SUFFIX) or copy.exists():
                continue
            with suppress(FileNotFoundError):
                shutil.copy2(Path(folder) / name, copy)


def run_namespace(options: Namespace, settings: Settings) -> int:
    """Run `export` or `import`."""
    with admin.open_database(settings) as (db, ring):
        try:
            (_export if options.command == "export" else _audited_import)(db, ring, settings, options)
        except (ArchiveError, NoSuchNamespace, StepError, ServiceError, SecretError) as error:
            raise LocalError(str(error)) from error
        except OSError as error:
            raise LocalError(f"{error.filename or options.file}: {error.strerror}.") from error
    return 0


def _export(db: Database, ring: KeyRing, _settings: Settings, options: Namespace) -> None:
    namespace = exporting.find_namespace(db, options.namespace)
    config = namespaces.load_namespace(db, ring, namespace)
    done = exporting.export_namespace(
        db, namespace, lambda: registry.make_file_store(config), Path(options.file).absolute()
    )
    print(
        f"{done.documents} documents, {done.chunks} chunks and {done.files} files of {namespace} are in {options.file}."
    )
    if done.left_out:
        print(f"{done.left_out} documents had no version yet and were left out.")
    if done.missing:
        print(f"{done.missing} files were gone from the file store: `retrieval fsck`.")


def _audited_import(db: Database, ring: KeyRing, settings: Settings, options: Namespace) -> None:
    try:
        _import(db, ring, settings, options)
    except (ArchiveError, LocalError, StepError, ServiceError, SecretError, OSError) as error:
        status = 500 if isinstance(error, StepError) else 400
        admin.write_audit(db, options, AuditedChange(admin.list_concerned(db, options), "namespace", None), status)
        raise


def _import(db: Database, ring: KeyRing, settings: Settings, options: Namespace) -> None:
    organization = admin.choose_organization(db, options.org)
    with archive.open_archive(Path(options.file).absolute()) as opened:
        name, configs = importing.read_configs(opened)
        lacks = _fill_secrets(configs, _read_secrets(options.secrets))
        validation.check_configs(settings, configs)
        sent_to, language = destinations.list_destinations(settings, configs), importing.read_language(opened)
        config = importing.draft_namespace(organization, options.name or name, configs, sent_to, language)
        target = frame.ImportTarget(
            db,
            ring,
            config,
            files=lambda: registry.make_file_store(config),
            vectors=lambda dimensions: registry.make_vector_store(replace(config, dimensions=dimensions), db),
            language=settings.keyword_language,
            lacks=lacks,
        )
        done = importing.import_namespace(target, opened)
    admin.write_audit(db, options, AuditedChange([organization], "namespace", done.namespace), 200)
    print(done.namespace)
    print(f"{done.documents} documents and {done.chunks} chunks; nothing was embedded.")
    if done.renamed:
        print("The ids of its documents were taken here: they have new ones.")
    for path in done.lacks:
        print(f"{path} is no part of an export: send it by PATCH /v1/namespaces/{done.namespace}.")


def _read_secrets(file: str | None) -> dict[str, str]:
    """Return secrets by dotted path from a JSON file."""
    if file is None:
        return {}
    try:
        secrets: Any = json.loads(Path(file).read_text())
    except ValueError as error:
        raise LocalError(f"{file} is no JSON.", exit_code=2) from error
    if not isinstance(secrets, dict) or not all(isinstance(value, str) for value in secrets.values()):
        raise LocalError(f"{file} must hold an object of secrets by their dotted path.", exit_code=2)
    return secrets


def _fill_secrets(configs: dict[str, Any], secrets: dict[str, str]) -> tuple[str, ...]:
    """Insert the secrets; return the paths of missing optional ones. LocalError for a missing required secret."""
    for path, value in secrets.items():
        *parents, key = path.split(".")
        config = configs
        for parent in parents:
            config = config.setdefault(parent, {}) if isinstance(config, dict) else {}
        if key not in namespaces.SECRET_FIELDS:
            raise LocalError(f"{path} is not the path of a secret.", exit_code=2)
        config[key] = value
    known_paths = {path for path, _, _ in namespaces.secret_values(configs)}
    for area, providers in _REQUIRED_SECRETS.items():
        provider = str(configs[area].get("provider") or configs[area].get("type"))
        for name in providers.get(provider, ()):
            if f"{area}.{name}" not in known_paths:
                raise LocalError(
                    f"The namespace keeps its things at {provider}, and exports hold no keys: give a JSON file"
                    f' such as {{"{area}.{name}": "…"}} with --secrets.',
                    exit_code=2,
                )
    lacks = tuple(path for path in _list_secret_paths(configs) if path not in known_paths)
    for area in {path.partition(".")[0] for path in lacks} & set(namespaces.CONNECTOR_CONFIGS):
        del configs[area]  # an app is its id and its secret: it is sent as a whole
    return lacks


def _list_secret_paths(configs: dict[str, Any]) -> list[str]:
    """Return the paths of secrets that the vendors of these configs need."""
    missing = []
    for area, config in configs.items():
        if area in namespaces.CONNECTOR_CONFIGS:
            missing.append(f"{area}.clientSecret")
        elif (config.get("provider") or config.get("type")) not in {"LOCAL", "PGVECTOR", "BUILTIN", "S3_COMPATIBLE"}:
            missing.append(f"{area}.apiKey")
    return missing
