"""Further addresses of web pages, and the merging of a sitemap's pages by text.

new page with the text of another ──▶ alias, before it is parsed
known page with the text of another ─▶ a miss ─▶ a second run ─▶ alias, or held if more than a fifth leave
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import LiteralString, NamedTuple

from retrieval.database.rows import Executor
from retrieval.documents.queries import deletion
from retrieval.ingestion.queries import listings
from retrieval.jobs import web_pages
from retrieval.statuses import Stage


def record_aliases(connection: Executor, job_run_id: str, aliases: Sequence[tuple[str, str, str]]) -> None:
    """Record further addresses of documents: document address, alias, version mark of the response."""
    if not aliases:
        return
    rows = list({address: (document, address, version) for document, address, version in aliases}.values())
    connection.execute(
        """
        insert into document_aliases (partition_id, source, address, document_id, version, job_run_id)
        select d.partition_id, d.source, w.address, d.id, w.version, r.id
        from unnest(%(kept)s::text[], %(addresses)s::text[], %(versions)s::text[]) as w (kept, address, version)
        join job_runs r on r.id = %(run)s
        join documents d on d.partition_id = r.partition_id and d.source = r.source and d.external_id = w.kept
            and d.deleted_at is null
        order by w.address on conflict (partition_id, source, address) do update
            set document_id = excluded.document_id, version = excluded.version, job_run_id = excluded.job_run_id
        """,
        {
            "run": job_run_id,
            "kept": [document for document, _, _ in rows],
            "addresses": [address for _, address, _ in rows],
            "versions": [version for _, _, version in rows],
        },
    )


def merge_new_copies(connection: Executor, job_run_ids: Collection[str]) -> None:
    """Make fetched, new pages of sitemaps with the text of another page aliases of that page."""
    copies = connection.fetch(_Copy, _NEW_COPIES_QUERY, {"runs": list(job_run_ids), "accepted": Stage.ACCEPTED})
    for run in sorted({page.job_run_id for page in copies}):
        pages = [page for page in copies if page.job_run_id == run]
        record_aliases(connection, run, [(page.kept_address, page.address, "") for page in pages])
        connection.execute(
            "delete from run_documents where job_run_id = %(run)s and document_id = any(%(ids)s)",
            {"run": run, "ids": [page.id for page in pages]},
        )
        deletion.delete_documents(connection, [page.id for page in pages])
        listings.count_skipped(connection, run, Counter(map(_skip_reason, pages)))


def keep_addresses(connection: Executor, job_run_id: str, document_ids: Sequence[str]) -> None:
    """Make the addresses of leaving copies aliases of the page with the same text."""
    values = {"run": job_run_id, "runs": [job_run_id], "ids": list(document_ids)}
    copies = connection.fetch(_Copy, f"select * from ({COPIES_QUERY}) copies where id = any(%(ids)s)", values)
    aliases = connection.fetch(
        _Alias,
        "select document_id, address from document_aliases where document_id = any(%(ids)s) order by address",
        {"ids": [page.id for page in copies]},
    )
    kept = {page.id: page.kept_address for page in copies}
    record_aliases(
        connection,
        job_run_id,
        [(page.kept_address, page.address, "") for page in copies]
        + [(kept[alias.document_id], alias.address, "") for alias in aliases],
    )


def drop_outdated_aliases(connection: Executor, job_run_id: str) -> None:
    """Delete aliases of earlier runs for addresses now ingested as documents."""
    connection.execute(
        """
        delete from document_aliases a using run_documents m join documents d on d.id = m.document_id
        where m.job_run_id = %(run)s and m.status = 'SUCCESS' and a.job_run_id <> m.job_run_id
          and a.partition_id = d.partition_id and a.source = d.source and a.address = d.external_id
        """,
        {"run": job_run_id},
    )


class _Copy(NamedTuple):
    job_run_id: str
    id: str
    address: str
    kept_address: str
    names_kept: bool


class _Alias(NamedTuple):
    document_id: str
    address: str


def _skip_reason(page: _Copy) -> str:
    is_variant = page.address.partition("?")[0] == page.kept_address.partition("?")[0]
    return web_pages.DUPLICATE_REASON if page.names_kept or is_variant else web_pages.COPY_REASON


_SITEMAP_PAGES_QUERY: LiteralString = f"""
    select m.job_run_id, d.id, d.external_id as address, d.created_at, m.position, m.stage, m.status,
           d.active_generation > 0 as is_known, coalesce(m.properties ->> 'canonicalUrl', '') as canonical,
           coalesce(m.properties ->> '{web_pages.MAIN_TEXT_PROPERTY}', encode(m.raw_hash, 'hex')) as mark
    from job_runs r join run_documents m on m.job_run_id = r.id
    join documents d on d.id = m.document_id and d.deleted_at is null
    where r.id = any(%(runs)s) and r.source = 'SITEMAP' and m.raw_hash is not null
      and m.status in ('PROCESSING', 'SUCCESS')
"""
# Searchable pages come first, then the one that calls itself canonical.
_NEW_COPIES_QUERY: LiteralString = f"""
    select job_run_id, id, address, kept_address, canonical = kept_address as names_kept from (
        select *, first_value(id) over same_text as kept, first_value(address) over same_text as kept_address
        from ({_SITEMAP_PAGES_QUERY}) pages
        window same_text as (partition by job_run_id, mark
            order by (is_known or stage <> %(accepted)s) desc, (canonical = address) desc, position)
    ) pages
    where id <> kept and not is_known and stage = %(accepted)s and status = 'PROCESSING'
    order by job_run_id, position
"""
# Documents of a run with the text of an older one.
COPIES_QUERY: LiteralString = f"""
    select job_run_id, id, address, kept_address, canonical = kept_address as names_kept from (
        select *, first_value(id) over same_text as kept, first_value(address) over same_text as kept_address
        from ({_SITEMAP_PAGES_QUERY}) pages where status = 'SUCCESS'
        window same_text as (partition by mark order by created_at, position)
    ) pages
    where id <> kept
"""
