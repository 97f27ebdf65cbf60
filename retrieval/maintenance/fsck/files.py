"""Check of stored files: without a row, missing, or of another size."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Iterator, Sequence

from retrieval.documents import file_keys
from retrieval.errors import Fatal, Skippable
from retrieval.maintenance.fsck import queries_stores
from retrieval.maintenance.fsck.findings import Finding, Instance, Place, make_finding, split_batches
from retrieval.ports import FileStore

# A younger upload without a row may still be accepted.
PENDING_UPLOAD_SECONDS = 3600
_DOCUMENT_KEY_PATTERN = re.compile(r"[^/]+/[^/]+/(?P<document>doc_\w+)/(?P<generation>\d{1,18})/")
_UPLOAD_KEY_PATTERN = re.compile(r"[^/]+/[^/]+/up_(?P<moment>\w{10})")
_CROCKFORD_TO_BASE32 = bytes.maketrans(b"0123456789abcdefghjkmnpqrstvwxyz", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")


def find_missing(instance: Instance, partition: Place) -> Iterator[Finding]:
    """Yield documents of the partition with missing files or files of another size."""
    store = instance.stores(partition.scope.namespace).files
    needed = queries_stores.list_needed(instance.db, partition.partition_id)
    if not needed:
        return
    sizes = _list_sizes(store, file_keys.folder_key(partition.scope))
    suspicious = [file for file in needed if file.key not in sizes or not file.fits(sizes[file.key])]
    if not suspicious:
        return
    # The store and the tables are not read at once: a file that is no longer needed is no finding.
    needed_now = queries_stores.list_needed(instance.db, partition.partition_id)
    still_needed = {(file.document_id, file.key) for file in needed_now}
    for file in suspicious:
        if (file.document_id, file.key) not in still_needed:
            continue
        if file.key in sizes:
            yield make_finding("WRONG_FILE", file._asdict(), file.describe_cut(sizes[file.key]))
        elif not _is_stored(store, file.key):
            yield make_finding("MISSING_FILE", file._asdict(), f"the file {file.key} is not in the store")


def find_orphans(instance: Instance, namespace: str, places: Sequence[Place]) -> Iterator[Finding]:
    """Yield files in the namespace's folder without a row or pending write."""
    store = instance.stores(namespace).files
    try:
        keys = list(store.keys(f"{namespace}/"))
    except Fatal:
        yield Finding("UNREADABLE_STORE", namespace, None, "the file store does not permit listing its files")
        return
    partitions = [partition.partition_id for partition in places]
    for part in split_batches(keys):
        for key in _list_unreferred(instance, part, partitions):
            match = _DOCUMENT_KEY_PATTERN.match(key)
            yield Finding(
                "ORPHAN_FILE", namespace, match["document"] if match else None, f"no row refers to {key}", {"key": key}
            )


def find_unowned(instance: Instance) -> Iterator[Finding]:
    """Yield LOCAL files of missing namespaces."""
    if instance.local_files is None:
        return
    by_namespace: dict[str, list[str]] = {}
    for key in instance.local_files.keys("ns_"):
        by_namespace.setdefault(key.partition("/")[0], []).append(key)
    existing = queries_stores.list_existing(instance.db, list(by_namespace))
    for namespace, keys in sorted(by_namespace.items()):
        if namespace not in existing:
            for key in keys:
                yield Finding("ORPHAN_FILE", namespace, None, f"no namespace has {key}", {"key": key, "local": True})


def remove_orphans(instance: Instance, findings: Sequence[Finding]) -> None:
    """Delete orphaned files still without a row."""
    orphaned = [item for item in findings if "key" in item.data and item.namespace is not None]
    by_namespace: dict[str, list[Finding]] = {}
    for item in orphaned:
        by_namespace.setdefault(str(item.namespace), []).append(item)
    for namespace, group in by_namespace.items():
        if any(item.data.get("local") for item in group):
            if instance.local_files is not None and not queries_stores.list_existing(instance.db, [namespace]):
                instance.local_files.delete([item.data["key"] for item in group])
            continue
        store = instance.stores(namespace).files
        partitions = [
            partition.partition_id for partition in instance.list_places() if partition.scope.namespace == namespace
        ]
        for part in split_batches([item.data["key"] for item in group], 100):
            store.delete(_list_unreferred(instance, part, partitions))


def _list_unreferred(instance: Instance, keys: Sequence[str], partitions: Sequence[int]) -> list[str]:
    """Return the keys without a row or pending write."""
    return _drop_pending(instance, queries_stores.list_unreferred(instance.db, keys, partitions))


def _drop_pending(instance: Instance, keys: Sequence[str]) -> list[str]:
    """Return the keys without unfinished job runs, recent uploads and scheduled sweeps."""
    matches = {key: match for key in keys if (match := _DOCUMENT_KEY_PATTERN.match(key))}
    waiting: set[str] = set()
    if matches:
        documents = [match["document"] for match in matches.values()]
        generations = [int(match["generation"]) for match in matches.values()]
        waiting = set(queries_stores.list_waiting(instance.db, documents, generations))
    return [
        key
        for key in keys
        if not (key in matches and matches[key]["document"] in waiting)
        and not (
            (upload := _UPLOAD_KEY_PATTERN.match(key))
            and time.time() - _created_at(upload["moment"]) < PENDING_UPLOAD_SECONDS
        )
    ]


def _created_at(text: str) -> float:
    """Return the Unix time in the first 48 bits of an id; 0 for other text."""
    try:
        decoded = base64.b32decode(text.encode().translate(_CROCKFORD_TO_BASE32) + b"======")
    except ValueError:
        return 0.0
    return int.from_bytes(decoded[:6], "big") / 1000


def _list_sizes(store: FileStore, prefix: str) -> dict[str, int]:
    try:
        return dict(store.sizes(prefix))
    except Fatal:
        return {}


def _is_stored(store: FileStore, key: str) -> bool:
    try:
        with store.open(key):
            return True
    except Skippable:
        return False


def lost_keys(findings: Sequence[Finding]) -> frozenset[str]:
    """Return the keys of missing and truncated files."""
    return frozenset(str(item.data["key"]) for item in findings if item.kind in {"MISSING_FILE", "WRONG_FILE"})
