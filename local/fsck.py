"""`fsck`: tables, files and vector stores of the instance, checked against each other."""

from __future__ import annotations

import argparse
import json
from contextlib import closing
from typing import LiteralString

from connectors import registry
from local import LocalError, admin, environment
from local.admin import Changed
from retrieval.accounts import organizations
from retrieval.database.database import AWAY, Database, Row
from retrieval.errors import StepError
from retrieval.ingestion import reembedding
from retrieval.maintenance.fsck import check
from retrieval.maintenance.fsck.findings import Finding, Instance
from retrieval.maintenance.garbage_actions import Stores
from retrieval.namespaces import namespaces
from retrieval.ports import FileStore
from retrieval.security.secrets import KeyRing, SecretError
from retrieval.settings import Settings


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print what is found; 0 where all is well, or was mended, else 1."""
    repair, as_json = options.repair, options.json
    resolved = environment.resolve_addresses(settings)
    with closing(Database(resolved.database_url, size=4)) as db:
        try:
            outcome = check.run(_instance(settings, db, KeyRing.parse(resolved.secret_key)), repair=repair)
            if repair and outcome.found:
                admin.tell(
                    db,
                    options,
                    Changed([organization.id for organization in organizations.list_all(db)], "instance", None),
                    200,
                )
            compared = db.row(_COMPARED) or {}
        except (StepError, SecretError) as error:
            raise LocalError(str(error)) from error
        except AWAY as error:
            raise LocalError("The database does not answer: look at `retrieval status`.") from error
    if as_json:
        report = {"findings": [_said(organization) for organization in outcome.found]}
        print(json.dumps(report | ({"left": [_said(organization) for organization in outcome.left]} if repair else {})))
    else:
        _print(outcome, compared, repair=repair)
    return 1 if outcome.left else 0


def stores_of(db: Database, ring: KeyRing, namespace_id: str) -> Stores:
    """Stores of a namespace; no authorization is ended through them."""
    config = namespaces.load(db, ring, namespace_id, deleted=True)
    other_stores = tuple(
        registry.vector_store(store_config, db) for store_config in reembedding.other_stores(db, ring, config)
    )
    return Stores(registry.vector_store(config, db), registry.file_store(config), lambda _: None, other_stores)


def _instance(settings: Settings, db: Database, ring: KeyRing) -> Instance:
    return Instance(
        db,
        lambda namespace: stores_of(db, ring, namespace),
        settings.keyword_language,
        _local_files(settings),
    )


def _local_files(settings: Settings) -> FileStore | None:
    return registry.local_files() if settings.allow_local_files else None


def _said(one: Finding) -> dict[str, str | None]:
    return {"kind": one.kind, "namespace": one.namespace, "document": one.document, "detail": one.detail}


_COMPARED: LiteralString = """
    select count(d.id) as documents, count(distinct n.id) as namespaces
    from namespaces n left join partitions p on p.namespace_id = n.id
    left join documents d on d.partition_id = p.id and d.deleted_at is null where n.deleted_at is null
"""


def _print(outcome: check.Outcome, compared: Row, *, repair: bool) -> None:
    for finding in outcome.found:
        print(f"{finding.kind:18} {finding.namespace or '-'} {finding.document or '-'}: {finding.detail}")
    if not outcome.found:
        counts = f"documents: {compared['documents']}, namespaces: {compared['namespaces']}"
        print(f"Everything is as it should be: tables, files and vectors were compared ({counts}).")
    elif repair:
        mended = len(outcome.found) - len(outcome.left)
        print(f"{len(outcome.found)} found, {max(mended, 0)} mended, {len(outcome.left)} left.")
        for finding in outcome.left:
            print(f"left: {finding.kind} {finding.namespace or '-'} {finding.document or '-'}: {finding.detail}")
    else:
        print(f"{len(outcome.found)} found; `retrieval fsck --repair` mends them.")
