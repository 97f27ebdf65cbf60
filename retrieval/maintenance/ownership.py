"""Ownership of tables: how each is handled in exports, deletions and checks of a namespace.

A test fails for a table that is not named here, and for one of a namespace that a deletion leaves behind, that an
export leaves out without a reason, or whose orphans `retrieval fsck` does not see. `backup` copies the whole database.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CARRIED = ""


@dataclass(frozen=True, slots=True)
class Owned:
    """A table of namespaces.

    left_out: why no export holds it; empty for those that travel. stays: why rows outlive their namespace; empty for
    those that go with it.
    """

    left_out: str = CARRIED
    stays: str = ""


_MADE = "made anew from what travels"
_WORK = "of work under way, which does not travel"

OF_NAMESPACES: Mapping[str, Owned] = {
    "partitions": Owned(),
    "connections": Owned(),
    "connection_documents": Owned(),
    "jobs": Owned(),
    "documents": Owned(),
    "run_documents": Owned(),
    "chunks": Owned(),
    "embeddings": Owned(),
    "evaluations": Owned(),
    "evaluation_questions": Owned(),
    "evaluation_runs": Owned(),
    "weak_searches": Owned("queries stay where they were searched for"),
    "access_groups": Owned(),
    "group_members": Owned(),
    "directory_resources": Owned(),
    "namespaces": Owned("its name and configs are namespace.json", "a deleted namespace keeps its id"),
    "vectors": Owned(_MADE),
    "postings": Owned(_MADE),
    "posting_blocks": Owned(_MADE),
    "posting_changes": Owned(_MADE),
    "posting_packs": Owned(_MADE),
    "term_counts": Owned(_MADE),
    "document_counts": Owned(_MADE),
    "job_runs": Owned("each job gets one run that has ended"),
    "batches": Owned(_WORK),
    "inbox": Owned(_WORK),
    "crawl_pages": Owned(_WORK),
    "page_misses": Owned("the next crawl begins anew"),
    "document_aliases": Owned("the next crawl finds them again"),
    "departures": Owned("the next listing of a connection begins anew"),
    "schedules": Owned("an import repeats nothing by itself"),
    "oauth_states": Owned("an authorization is not carried on elsewhere"),
    "sweeps": Owned("what is garbage does not travel"),
    "search_times": Owned("of the machine that it was measured on", "forgotten after a month"),
    "token_usage": Owned("was spent here", "what was spent stays spent"),
    "deletions": Owned("a receipt is signed by this installation", "a receipt outlives what it is about"),
    "deleted_places": Owned("cursors are not carried on elsewhere"),
    "deletion_stores": Owned("part of a receipt", "part of a receipt"),
    "webhooks": Owned("an address of somebody's, and a secret"),
    "webhook_outbox": Owned(_WORK, "told within seconds, and forgotten"),
    "webhook_deliveries": Owned("was sent from here, and is forgotten after its days"),
    "api_keys": Owned("keys are secrets", "a key bound to a deleted namespace reaches nothing"),
}
OF_OTHERS: Mapping[str, str] = {
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
    "prefect_events": "of the installation's Prefect, told within seconds",
}
"""Tables that belong to no namespace, and to whom."""
EXPORTED = tuple(table for table, rule in OF_NAMESPACES.items() if rule.left_out == CARRIED)
