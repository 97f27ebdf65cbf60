"""Unpack: entries of archives and attachments become documents of the same job run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from retrieval import ids, settings
from retrieval.access.queries import lists
from retrieval.conditions.model import PACKED_PATH_PROPERTY
from retrieval.database.database import Database
from retrieval.database.sessions import ThreadConnection
from retrieval.documents import external_ids, file_keys
from retrieval.errors import Skippable
from retrieval.ingestion import within_quotas
from retrieval.ingestion.items import Item
from retrieval.ingestion.queries import members as members_queries
from retrieval.ingestion.queries.members import RunUsage
from retrieval.ports import FileStore, Member, Parsed, Scope

# Nesting of archives, from 1.
MAX_ARCHIVE_DEPTH = 3
# Documents of one job run, packed ones included.
MAX_RUN_DOCUMENTS = 10_000
# Properties of a packed document: the number of archives around it, and the id of the outermost one.
DEPTH_PROPERTY = "archiveDepth"
ROOT_PROPERTY = "archiveRoot"
_READ_CHUNK_BYTES = 1 << 20
_ADVICE_TEMPLATE = "Split the archive, or upload the files by themselves; the operator can raise {setting}."


@dataclass(frozen=True, slots=True)
class StoredMember:
    """Archive member with its key in the file store, "" for an omitted member with `member.reason`."""

    member: Member
    key: str = ""
    digest: bytes = b""


def store_members(item: Item, parsed: Parsed, scope: Scope, files: FileStore) -> list[StoredMember]:
    """Store the members of an archive, or omit all with a reason beyond `MAX_ARCHIVE_DEPTH`.

    Skippable beyond this depth for an archive without text.
    """
    if parsed.members and int(item.properties.get(DEPTH_PROPERTY, 0)) >= MAX_ARCHIVE_DEPTH:
        reason = f"Archives are opened up to {MAX_ARCHIVE_DEPTH} levels deep; this one is deeper. Upload it separately."
        if parsed.is_listing:
            raise Skippable(reason)
        return [StoredMember(replace(member, reason=member.reason or reason)) for member in parsed.members]
    return [_stored(number, member, item, scope, files) for number, member in enumerate(parsed.members)]


def _stored(number: int, member: Member, item: Item, scope: Scope, files: FileStore) -> StoredMember:
    if member.reason:
        return StoredMember(member)
    key, digest = item.file_key(scope, file_keys.member_name(number)), hashlib.sha256()
    files.put(key, _pieces(member.file, digest.update))
    return StoredMember(member, key, digest.digest())


def _pieces(path: Path, update_hash: Callable[[bytes], None]) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_READ_CHUNK_BYTES):
            update_hash(piece)
            yield piece


def record_members(connection: ThreadConnection, item: Item, stored: Sequence[StoredMember]) -> None:
    """Record documents, and failed entries of omitted members, in the caller's transaction, which holds the lease."""
    if not stored:
        return
    stored = _within_quotas(connection, item, _refuse_long_paths(connection, item, stored))
    first = members_queries.count_documents(connection, item.key.job_run_id)
    members = [member for member in stored if not member.member.reason]
    values = {
        "run": item.key.job_run_id,
        "archive": item.key.document_id,
        "first": first,
        "ids": [ids.document_id() for _ in members],
        "paths": [member.member.path for member in members],
        "names": [PurePosixPath(member.member.path).name for member in members],
        "media_types": [member.member.media_type for member in members],
        "keys": [member.key for member in members],
        "hashes": [member.digest for member in members],
        "sizes": [member.member.size for member in members],
        "metadata": None if item.metadata is None else json.dumps(item.metadata),
        "path_name": PACKED_PATH_PROPERTY,
        "level_name": DEPTH_PROPERTY,
        "level": int(item.properties.get(DEPTH_PROPERTY, 0)) + 1,
        "root_name": ROOT_PROPERTY,
        "root": _root(item),
        "hash_name": lists.ARCHIVE_HASH,
    }
    members_queries.record_members(connection, values)
    _refuse(connection, item, [member.member for member in stored if member.member.reason], first + len(members))


def path_reason(archive_external_id: str, path: str) -> str | None:
    """Return the reason against a member with this path as a document, or None."""
    if external_ids.is_too_long(f"{archive_external_id}/{path}"):
        limit = f"{external_ids.MAX_BYTES:,} bytes"
        return f"Its path, with the external id of its archive, takes more than {limit}. Shorten one of them."
    return None


def _refuse_long_paths(connection: ThreadConnection, item: Item, stored: Sequence[StoredMember]) -> list[StoredMember]:
    """Mark members whose external id is too long with the reason; their files are left to garbage collection."""
    external_id = members_queries.read_external_id(connection, item.key.document_id)
    reasons = [entry.member.reason or path_reason(external_id, entry.member.path) for entry in stored]
    refused = [reason is not None and not entry.member.reason for entry, reason in zip(stored, reasons, strict=True)]
    discard_files(connection, item, [entry for entry, is_refused in zip(stored, refused, strict=True) if is_refused])
    return [
        replace(entry, member=replace(entry.member, reason=reason or ""))
        for entry, reason in zip(stored, reasons, strict=True)
    ]


def _within_quotas(connection: ThreadConnection, item: Item, stored: Sequence[StoredMember]) -> list[StoredMember]:
    """Mark members beyond a quota with the reason; their files are left to garbage collection."""
    members = [stored_member for stored_member in stored if not stored_member.member.reason]
    reasons = within_quotas.member_reasons(
        connection, item.key.job_run_id, [stored_member.member.size for stored_member in members]
    )
    refused = {
        id(stored_member): reason for stored_member, reason in zip(members, reasons, strict=True) if reason is not None
    }
    if refused:
        discard_files(connection, item, [stored_member for stored_member in members if id(stored_member) in refused])
    return [
        replace(stored_member, member=replace(stored_member.member, reason=refused[id(stored_member)]))
        if id(stored_member) in refused
        else stored_member
        for stored_member in stored
    ]


def discard_files(connection: ThreadConnection, item: Item, stored: Sequence[StoredMember]) -> None:
    """Schedule the deletion of unused files of these members."""
    members_queries.discard_files(connection, item.key.job_run_id, [member.key for member in stored if member.key])


def refuse_too_many(db: Database, item: Item, members: Sequence[Member]) -> None:
    """Raise Skippable for the reason of `excess_reason`, before anything is stored."""
    usage = members_queries.read_usage(db, item.key.job_run_id, _root(item)) if members else None
    reason = _excess_reason(usage, members) if usage else None
    if reason:
        raise Skippable(reason)


def excess_reason(connection: ThreadConnection, item: Item, stored: Sequence[StoredMember]) -> str | None:
    """Return the reason if the members exceed the limits of the run or of the outermost archive, else None."""
    usage = members_queries.read_usage(connection, item.key.job_run_id, _root(item)) if stored else None
    return _excess_reason(usage, [entry.member for entry in stored]) if usage else None


def _excess_reason(usage: RunUsage, members: Sequence[Member]) -> str | None:
    bounds = settings.load_settings()
    size = sum(member.size for member in members if not member.reason)
    if usage.documents + len(members) > MAX_RUN_DOCUMENTS:
        return (
            f"The files packed into this one bring the run to more than {MAX_RUN_DOCUMENTS:,} documents. Upload fewer."
        )
    if usage.members + len(members) > bounds.archive_all_members:
        limit = f"{bounds.archive_all_members:,} documents"
        advice = _ADVICE_TEMPLATE.format(setting="RETRIEVAL_ARCHIVE_ALL_MEMBERS")
    elif usage.bytes + size > bounds.archive_all_bytes:
        limit = f"{bounds.archive_all_bytes / 2**20:,.0f} MB"
        advice = _ADVICE_TEMPLATE.format(setting="RETRIEVAL_ARCHIVE_ALL_BYTES")
    else:
        return None
    return f"With the archives within it, the archive becomes more than {limit}; this one was not unpacked. {advice}"


def _root(item: Item) -> str:
    return str(item.properties.get(ROOT_PROPERTY) or item.key.document_id)


def _refuse(connection: ThreadConnection, item: Item, members: Sequence[Member], first: int) -> None:
    """Record a failed entry of the run, without a document, for each omitted member."""
    members_queries.insert_refused(
        connection,
        [
            {
                "run": item.key.job_run_id,
                "document": ids.document_id(),
                "position": first + number,
                "generation": item.generation,
                "name": f"{item.name}/{member.path}",
                "error": member.reason,
            }
            for number, member in enumerate(members)
        ],
    )
