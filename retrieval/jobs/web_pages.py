"""Web pages of a job run with equal text, and application shells: pages filled by scripts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, LiteralString

from retrieval.sources import WEB_SOURCES

# Property of a web page.
TEXT_HASH_PROPERTY: Final = "textHash"
# Property of a web page with next to no text but scripts.
SHELL_PROPERTY: Final = "applicationShell"
# Digest of a page's main text, without times and counters; set when the page is fetched.
MAIN_TEXT_PROPERTY: Final = "mainText"
# Reasons to skip a page.
DUPLICATE_REASON: Final = "It is the same page as another one."
COPY_REASON: Final = "It has the same content as another page."
SIGN_IN_REASON: Final = "It asks for a sign-in."
MISSING_REASON: Final = "The site answers with its page for missing pages."
# Reasons not to fetch a linked page.
TOO_DEEP_REASON: Final = "It lies more links away from the start page than maxDepth."
BEYOND_LIMIT_REASON: Final = "maxLinks was reached before it."
# Reasons to remove a page.
UNLINKED_REASON: Final = "No page of the site leads to it any more."
UNLISTED_REASON: Final = "The sitemap does not name it any more."
MOVED_REASON: Final = "Its address leads to another page."
GATE_REASONS: Final = (SIGN_IN_REASON, MISSING_REASON)
SHELL_ADVICE: Final = (
    "BUILTIN does not run scripts: ingest them with a webScraperConfig whose provider does, such as FIRECRAWL."
)

# Of job run `r`: pages with equal text, shells, and an example of each.
PAGE_COUNTS_QUERY: LiteralString = f"""
    select jsonb_build_object(
        'copies', coalesce(sum(pages) filter (where pages > 1), 0),
        'copy', (array_agg(name order by pages desc, name) filter (where pages > 1))[1],
        'shells', coalesce(sum(shells), 0), 'shell', min(shell))
    from (
        select count(*) as pages, min(name) as name, count(*) filter (where properties ? '{SHELL_PROPERTY}') as shells,
               min(name) filter (where properties ? '{SHELL_PROPERTY}') as shell
        from run_documents where job_run_id = r.id and raw_hash is not null
        group by coalesce(properties ->> '{TEXT_HASH_PROPERTY}', encode(raw_hash, 'hex'))
    ) alike
    where r.source in ({", ".join(f"'{source}'" for source in sorted(WEB_SOURCES))})
"""


def text_hash(text: str) -> str:
    """Return the hash of a parsed text."""
    return hashlib.sha256(text.encode()).hexdigest()


def web_notices(progress: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return notices and page counts of shells, copies, sign-ins, missing pages, limits and removals."""
    pages, skipped = progress.get("webPages") or {}, progress.get("skippedReasons") or {}
    shells = pages.get("shells", 0)
    copies = pages.get("copies", 0) + skipped.get(COPY_REASON, 0)
    page_notices = []
    if shells:
        example = _example_phrase(pages["shell"])
        reason = f"{_count_phrase(shells)} an application shell, which scripts fill in a browser{example}. "
        page_notices.append((reason + SHELL_ADVICE, shells))
    if copies:
        reason = (
            f"{copies:,} pages have the same content as another page of this run{_example_phrase(pages.get('copy'))}: "
        )
        cause = "the site may answer for missing pages with one page, or build its pages by scripts."
        page_notices.append((reason + cause, copies))
    if sign_ins := skipped.get(SIGN_IN_REASON, 0):
        verb = "page asks" if sign_ins == 1 else "pages ask"
        page_notices.append((f"{sign_ins:,} {verb} for a sign-in; pages are fetched without one.", sign_ins))
    if missing := skipped.get(MISSING_REASON, 0):
        noun = "address leads" if missing == 1 else "addresses lead"
        page_notices.append((f"{missing:,} {noun} to the site's page for missing pages, sent as 200.", missing))
    if deep_pages := skipped.get(TOO_DEEP_REASON, 0):
        advice = "raise maxDepth (at most 5), begin at a page that is nearer to them, or ingest the site's sitemap."
        page_notices.append(
            (f"{_lie_phrase(deep_pages)} more links away from the start page than maxDepth: {advice}", deep_pages)
        )
    if excess_pages := skipped.get(BEYOND_LIMIT_REASON, 0):
        advice = f"set maxLinks to {progress.get('found', 0) + excess_pages:,} or more."
        page_notices.append((f"maxLinks was reached; {_lie_phrase(excess_pages)} beyond it: {advice}", excess_pages))
    page_notices += [_removal_notice(reason, **entry) for reason, entry in (progress.get("removals") or {}).items()]
    return page_notices


def _removal_notice(reason: str, count: int, pages: Sequence[str]) -> tuple[str, int]:
    suffix = f" and {count - len(pages):,} more" if count > len(pages) else ""
    noun = "page was" if count == 1 else "pages were"
    return f"{count:,} {noun} removed. {reason} {', '.join(pages)}{suffix}", count


def _lie_phrase(pages: int) -> str:
    return "1 page lies" if pages == 1 else f"{pages:,} pages lie"


def _count_phrase(pages: int) -> str:
    return "1 page is" if pages == 1 else f"{pages:,} pages are"


def _example_phrase(example: str | None) -> str:
    return f", such as {example}" if example else ""
