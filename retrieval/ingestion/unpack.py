"""Unpack: entries of archives and attachments become documents of the same job run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from retrieval import ids, settings
from retrieval.access.queries import lists
from retrieval.database.database import Database
from retrieval.database.sessions import ThreadConnection
from retrieval.documents import external_ids, file_keys
from retrieval.documents.queries import archive_members, deletion
from retrieval.errors import Skippable
from retrieval.ingestion import within_quotas
from retrieval.ingestion.items import ARCHIVE_PATH_PROPERTY, Item
from retrieval.ingestion.queries import members as members_queries
from retrieval.ingestion.queries.members import Spent
from retrieval.ports import FileStore, Member, Parsed, Scope

DEPTH = 3
"""Archives within archives that are opened."""
RUN_DOCUMENTS = 10_000
"""Documents that one job run may come to by unpacking."""
LEVEL = "archiveDepth"
"""Property of a document that was packed into another: in how many files it lay."""
ROOT = "archiveRoot"
"""Property of a document that was packed into another: the outermost archive that it lay in."""
_READ_CHUNK_BYTES = 1 << 20
_UPLOAD = "Split the archive, or upload the files by themselves; the operator can raise {setting}."


@dataclass(frozen=True, slots=True)
class Stored:
    """An archive member whose content is in the file store, or one that was left out, with the reason."""

    member: Member
    key: str = ""
    digest: bytes = b""


def store_members(item: Item, parsed: Parsed, scope: Scope, files: FileStore) -> list[Stored]:
    """Put the members beside the file that held them.

    Of a file that is nested too deeply they are left out, each with the reason. Skippable if it has no text besides.
    """
    if parsed.members and int(item.properties.get(LEVEL, 0)) >= DEPTH:
        reason = f"Archives are opened up to {DEPTH} levels deep; this one is deeper. Upload it separately."
        if parsed.is_listing:
            raise Skippable(reason)
        return [Stored(replace(member, reason=member.reason or reason)) for member in parsed.members]
    return [_stored(number, member, item, scope, files) for number, member in enumerate(parsed.members)]


def _stored(number: int, member: Member, item: Item, scope: Scope, files: FileStore) -> Stored:
    if member.reason:
        return Stored(member)
    key, digest = item.file_key(scope, file_keys.member_name(number)), hashlib.sha256()
    files.put(key, _pieces(member.file, digest.update))
    return Stored(member, key, digest.digest())


def _pieces(path: Path, update_hash: Callable[[bytes], None]) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_READ_CHUNK_BYTES):
            update_hash(piece)
            yield piece


def record_members(connection: ThreadConnection, item: Item, stored: Sequence[Stored]) -> None:
    """Within the caller's transaction, which holds the lease: documents to work on, failed entries for the rest."""
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
        "path_name": ARCHIVE_PATH_PROPERTY,
        "level_name": LEVEL,
        "level": int(item.properties.get(LEVEL, 0)) + 1,
        "root_name": ROOT,
        "root": _root(item),
        "hash_name": lists.ARCHIVE_HASH,
    }
    members_queries.record_members(connection, values)
    _refuse(connection, item, [member.member for member in stored if member.member.reason], first + len(members))


def path_reason(archive_external_id: str, path: str) -> str | None:
    """Return why a member with this path cannot be a document, None if it can."""
    if external_ids.is_too_long(f"{archive_external_id}/{path}"):
        limit = f"{external_ids.MAX_BYTES:,} bytes"
        return f"Its path, with the external id of its archive, takes more than {limit}. Shorten one of them."
    return None


def _refuse_long_paths(connection: ThreadConnection, item: Item, stored: Sequence[Stored]) -> list[Stored]:
    """Mark members whose external id is too long with the reason; their files are left to garbage collection."""
    external_id = members_queries.read_external_id(connection, item.key.document_id)
    reasons = [entry.member.reason or path_reason(external_id, entry.member.path) for entry in stored]
    refused = [reason is not None and not entry.member.reason for entry, reason in zip(stored, reasons, strict=True)]
    discard_files(connection, item, [entry for entry, is_refused in zip(stored, refused, strict=True) if is_refused])
    return [
        replace(entry, member=replace(entry.member, reason=reason or ""))
        for entry, reason in zip(stored, reasons, strict=True)
    ]


def _within_quotas(connection: ThreadConnection, item: Item, stored: Sequence[Stored]) -> list[Stored]:
    """Mark members beyond a quota with the reason; their files are left to garbage collection."""
    members = [stored_member for stored_member in stored if not stored_member.member.reason]
    reasons = within_quotas.member_reasons(
        connection, item.key.job_run_id, [stored_member.member.size for stored_member in members]
    )
    refused = {id(stored_member): why for stored_member, why in zip(members, reasons, strict=True) if why is not None}
    if refused:
        discard_files(connection, item, [stored_member for stored_member in members if id(stored_member) in refused])
    return [
        replace(stored_member, member=replace(stored_member.member, reason=refused[id(stored_member)]))
        if id(stored_member) in refused
        else stored_member
        for stored_member in stored
    ]


def discard_files(connection: ThreadConnection, item: Item, stored: Sequence[Stored]) -> None:
    """Let garbage collection delete files that were stored and are not used."""
    members_queries.discard_files(connection, item.key.job_run_id, [member.key for member in stored if member.key])


def drop_members(connection: ThreadConnection, versions: Sequence[tuple[str, int]]) -> None:
    """Take away what earlier versions of these archives held and this one does not. versions: documents, generations.

    Within the transaction that makes the version the visible one.
    """
    values = {
        "archives": [document for document, _ in versions],
        "generations": [generation for _, generation in versions],
    }
    if dropped_ids := connection.fetch(str, archive_members.FIND_DROPPED_MEMBERS, values):
        deletion.delete_documents(connection, dropped_ids)


def refuse_too_many(db: Database, item: Item, members: Sequence[Member]) -> None:
    """Skippable for what `room` would refuse, before anything is stored."""
    spent = members_queries.count_spent(db, item.key.job_run_id, _root(item)) if members else None
    reason = _over(spent, members) if spent else None
    if reason:
        raise Skippable(reason)


def excess_reason(connection: ThreadConnection, item: Item, stored: Sequence[Stored]) -> str | None:
    """Why these members are too many, or too large, for the run or for the archive; None if they are not."""
    spent = members_queries.count_spent(connection, item.key.job_run_id, _root(item)) if stored else None
    return _over(spent, [entry.member for entry in stored]) if spent else None


def _over(spent: Spent, members: Sequence[Member]) -> str | None:
    bounds = settings.load_settings()
    size = sum(member.size for member in members if not member.reason)
    if spent.documents + len(members) > RUN_DOCUMENTS:
        return f"The files packed into this one bring the run to more than {RUN_DOCUMENTS:,} documents. Upload fewer."
    if spent.members + len(members) > bounds.archive_all_members:
        limit = f"{bounds.archive_all_members:,} documents"
        advice = _UPLOAD.format(setting="RETRIEVAL_ARCHIVE_ALL_MEMBERS")
    elif spent.bytes + size > bounds.archive_all_bytes:
        limit = f"{bounds.archive_all_bytes / 2**20:,.0f} MB"
        advice = _UPLOAD.format(setting="RETRIEVAL_ARCHIVE_ALL_BYTES")
    else:
        return None
    return f"With the archives within it, the archive becomes more than {limit}; this one was not unpacked. {advice}"


def _root(item: Item) -> str:
    return str(item.properties.get(ROOT) or item.key.document_id)


def _refuse(connection: ThreadConnection, item: Item, members: Sequence[Member], first: int) -> None:
    """Record one failed entry of the run for each member that was left out, without a document."""
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
