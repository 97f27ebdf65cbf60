"""`export` and `import`: a namespace of the running instance to a file, and back."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from connectors import registry
from local import LocalError, admin
from local.admin import Changed
from retrieval.database.database import Database
from retrieval.errors import ServiceError, StepError
from retrieval.maintenance.moving import archive, exporting, frame, importing
from retrieval.maintenance.moving.archive import ArchiveError
from retrieval.maintenance.moving.exporting import NoSuchNamespace
from retrieval.namespaces import destinations, namespaces, validation
from retrieval.namespaces.namespaces import FILE_STORAGE, VECTOR_STORAGE
from retrieval.security.secrets import KeyRing, SecretError
from retrieval.settings import Settings

Options = argparse.Namespace
_NEEDED: dict[str, dict[str, tuple[str, ...]]] = {
    VECTOR_STORAGE: {"PINECONE": ("apiKey",)},
    FILE_STORAGE: {"S3_COMPATIBLE": ("credentials.accessKeyId", "credentials.secretAccessKey")},
}
"""Secrets without which nothing can be written to the namespace's stores."""


def run(options: Options, settings: Settings) -> int:
    """Export or import, as the command says."""
    with admin.open_database(settings) as (db, ring):
        try:
            (_export if options.command == "export" else _audited_import)(db, ring, settings, options)
        except (ArchiveError, NoSuchNamespace, StepError, ServiceError, SecretError) as error:
            raise LocalError(str(error)) from error
        except OSError as error:
            raise LocalError(f"{error.filename or options.file}: {error.strerror}.") from error
    return 0


def _export(db: Database, ring: KeyRing, _settings: Settings, options: Options) -> None:
    namespace = exporting.named(db, options.namespace)
    config = namespaces.load(db, ring, namespace)
    done = exporting.run(db, namespace, lambda: registry.file_store(config), Path(options.file).absolute())
    print(
        f"{done.documents} documents, {done.chunks} chunks and {done.files} files of {namespace} are in {options.file}."
    )
    if done.left_out:
        print(f"{done.left_out} documents had no version yet and were left out.")
    if done.missing:
        print(f"{done.missing} files were gone from the file store: `retrieval fsck`.")


def _audited_import(db: Database, ring: KeyRing, settings: Settings, options: Options) -> None:
    try:
        _import(db, ring, settings, options)
    except (ArchiveError, LocalError, StepError, ServiceError, SecretError, OSError) as error:
        status = 500 if isinstance(error, StepError) else 400
        admin.write_audit(db, options, Changed(admin.list_concerned(db, options), "namespace", None), status)
        raise


def _import(db: Database, ring: KeyRing, settings: Settings, options: Options) -> None:
    organization = admin.choose_organization(db, options.org)
    with archive.opened(Path(options.file).absolute()) as opened:
        name, configs = importing.configs_of(opened)
        lacks = _fill(configs, _secrets(options.secrets))
        validation.check_allowed(settings, configs)
        sent_to, language = destinations.of(settings, configs), importing.language_of(opened)
        config = importing.draft(organization, options.name or name, configs, sent_to, language)
        target = frame.Target(
            db,
            ring,
            config,
            files=lambda: registry.file_store(config),
            vectors=lambda dimensions: registry.vector_store(replace(config, dimensions=dimensions), db),
            language=settings.keyword_language,
            lacks=lacks,
        )
        done = importing.run(target, opened)
    admin.write_audit(db, options, Changed([organization], "namespace", done.namespace), 200)
    print(done.namespace)
    print(f"{done.documents} documents and {done.chunks} chunks; nothing was embedded.")
    if done.renamed:
        print("The ids of its documents were taken here: they have new ones.")
    for path in done.lacks:
        print(f"{path} is no part of an export: send it by PATCH /v1/namespaces/{done.namespace}.")


def _secrets(file: str | None) -> dict[str, str]:
    """Secrets by dotted path, from the file."""
    if file is None:
        return {}
    try:
        secrets: Any = json.loads(Path(file).read_text())
    except ValueError as error:
        raise LocalError(f"{file} is no JSON.", exit_code=2) from error
    if not isinstance(secrets, dict) or not all(isinstance(value, str) for value in secrets.values()):
        raise LocalError(f"{file} must hold an object of secrets by their dotted path.", exit_code=2)
    return secrets


def _fill(configs: dict[str, Any], secrets: dict[str, str]) -> tuple[str, ...]:
    """Put the secrets in; those that are lacking. LocalError without one that the import itself needs."""
    for path, value in secrets.items():
        *parents, key = path.split(".")
        config = configs
        for parent in parents:
            config = config.setdefault(parent, {}) if isinstance(config, dict) else {}
        if key not in namespaces.SECRET_FIELDS:
            raise LocalError(f"{path} is not the path of a secret.", exit_code=2)
        config[key] = value
    known_paths = {path for path, _, _ in namespaces.secret_values(configs)}
    for area, providers in _NEEDED.items():
        provider = str(configs[area].get("provider") or configs[area].get("type"))
        for name in providers.get(provider, ()):
            if f"{area}.{name}" not in known_paths:
                raise LocalError(
                    f"The namespace keeps its things at {provider}, and exports hold no keys: give a JSON file"
                    f' such as {{"{area}.{name}": "…"}} with --secrets.',
                    exit_code=2,
                )
    lacks = tuple(path for path in _lacking(configs) if path not in known_paths)
    for area in {path.partition(".")[0] for path in lacks} & set(namespaces.CONNECTORS):
        del configs[area]  # an app is its id and its secret: it is sent as a whole
    return lacks


def _lacking(configs: dict[str, Any]) -> list[str]:
    """Paths of secrets that vendors of these configs ask for."""
    missing = []
    for area, config in configs.items():
        if area in namespaces.CONNECTORS:
            missing.append(f"{area}.clientSecret")
        elif (config.get("provider") or config.get("type")) not in {"LOCAL", "PGVECTOR", "BUILTIN", "S3_COMPATIBLE"}:
            missing.append(f"{area}.apiKey")
    return missing
