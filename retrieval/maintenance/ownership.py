"""Ownership of tables: their handling in exports, deletions and checks of a namespace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# A test fails for an unlisted table, for rows that survive a deletion, for an omission from exports without a reason,
# and for orphans unseen by `retrieval fsck`. `backup` copies the whole database.
EXPORTED_MARK = ""


@dataclass(frozen=True, slots=True)
class TableOwnership:
    """Table of namespaces. `left_out`: why not exported; `stays`: why rows outlive a deleted namespace."""

    left_out: str = EXPORTED_MARK
    stays: str = ""


_DERIVED_REASON = "made anew from what travels"
_UNFINISHED_REASON = "of work under way, which does not travel"

NAMESPACE_TABLES: Mapping[str, TableOwnership] = {
    "partitions": TableOwnership(),
    "connections": TableOwnership(),
    "connection_documents": TableOwnership(),
    "jobs": TableOwnership(),
    "documents": TableOwnership(),
    "run_documents": TableOwnership(),
    "chunks": TableOwnership(),
    "embeddings": TableOwnership(),
    "evaluations": TableOwnership(),
    "evaluation_questions": TableOwnership(),
    "evaluation_runs": TableOwnership(),
    "weak_searches": TableOwnership("queries stay where they were searched for"),
    "access_groups": TableOwnership(),
    "group_members": TableOwnership(),
    "directory_resources": TableOwnership(),
    "namespaces": TableOwnership("its name and configs are namespace.json", "a deleted namespace keeps its id"),
    "vectors": TableOwnership(_DERIVED_REASON),
    "postings": TableOwnership(_DERIVED_REASON),
    "posting_blocks": TableOwnership(_DERIVED_REASON),
    "posting_changes": TableOwnership(_DERIVED_REASON),
    "posting_packs": TableOwnership(_DERIVED_REASON),
    "term_counts": TableOwnership(_DERIVED_REASON),
    "document_counts": TableOwnership(_DERIVED_REASON),
    "job_runs": TableOwnership("each job gets one run that has ended"),
    "batches": TableOwnership(_UNFINISHED_REASON),
    "inbox": TableOwnership(_UNFINISHED_REASON),
    "crawl_pages": TableOwnership(_UNFINISHED_REASON),
    "page_misses": TableOwnership("the next crawl starts over"),
    "document_aliases": TableOwnership("the next crawl finds them again"),
    "departures": TableOwnership("the next listing of a connection starts over"),
    "schedules": TableOwnership("an import repeats nothing by itself"),
    "pushes": TableOwnership("an address that a service knows, and a secret"),
    "oauth_states": TableOwnership("an authorization is not carried on elsewhere"),
    "sweeps": TableOwnership("what is garbage does not travel"),
    "search_times": TableOwnership("of the machine that it was measured on", "forgotten after a month"),
    "token_usage": TableOwnership("was spent here", "what was spent stays spent"),
    "deletions": TableOwnership("a receipt is signed by this installation", "a receipt outlives what it is about"),
    "deleted_places": TableOwnership("cursors are not carried on elsewhere"),
    "deletion_stores": TableOwnership("part of a receipt", "part of a receipt"),
    "webhooks": TableOwnership("an address of somebody's, and a secret"),
    "webhook_outbox": TableOwnership(_UNFINISHED_REASON, "delivered within seconds, then deleted"),
    "webhook_deliveries": TableOwnership("was sent from here, and is forgotten after its days"),
    "api_keys": TableOwnership("keys are secrets", "a key bound to a deleted namespace reaches nothing"),
}
# Tables without a namespace, with their owner.
OTHER_TABLES: Mapping[str, str] = {
    "organizations": "an import names the one that it goes to",
    "tenants": "of the organization; an import makes those that its documents need",
    "uploaded_files": "of the organization, until they expire",
    "uploaded_pieces": "of uploaded files",
    "quota_changes": "counted for the organization, by triggers",
    "breakers": "of the organization and its vendors",
    "audit_entries": "of the organization",
    "metric_counts": "of the organization",
    "rate_windows": "of callers, for a minute",
    "idempotent_answers": "of callers, for a day",
    "server_secrets": "of the installation",
    "files_folder": "of the installation",
    "dispatcher_loops": "of the installation",
    "prefect_levers": "of the installation",
    "event_feeds": "of the installation",
    "prefect_events": "of the installation's Prefect, delivered within seconds",
}
EXPORTED_TABLES = tuple(table for table, rule in NAMESPACE_TABLES.items() if rule.left_out == EXPORTED_MARK)
