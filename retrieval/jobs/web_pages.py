"""Web pages of a job run that share one text, and application shells: pages that only scripts fill."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, LiteralString

from retrieval.sources import WEB

TEXT: Final = "textHash"
"""Property of a web page: the hash of its parsed text."""
SHELL: Final = "applicationShell"
"""Property of a web page that holds next to no text but scripts."""
COPY: Final = "It has the same content as another page."
"""Reason for which a crawl leaves a page out."""
SIGN_IN: Final = "It asks for a sign-in."
"""Reason for which a crawl leaves a page out."""
MISSING: Final = "The site answers with its page for missing pages."
"""Reason for which a crawl leaves a page out."""
TOO_DEEP: Final = "It lies more links away from the start page than maxDepth."
BEYOND_LIMIT: Final = "maxLinks was reached before it."
"""Reasons for which a crawl does not fetch a page that it found."""
UNLINKED: Final = "No page of the site leads to it any more."
UNLISTED: Final = "The sitemap does not name it any more."
MOVED: Final = "Its address leads to another page."
"""Reasons for which a page is removed."""
GATES: Final = (SIGN_IN, MISSING)
ADVICE: Final = (
    "BUILTIN does not run scripts: ingest them with a webScraperConfig whose provider does, such as FIRECRAWL."
)

COUNTED: LiteralString = f"""
    select jsonb_build_object(
        'copies', coalesce(sum(pages) filter (where pages > 1), 0),
        'copy', (array_agg(name order by pages desc, name) filter (where pages > 1))[1],
        'shells', coalesce(sum(shells), 0), 'shell', min(shell))
    from (
        select count(*) as pages, min(name) as name, count(*) filter (where properties ? '{SHELL}') as shells,
               min(name) filter (where properties ? '{SHELL}') as shell
        from run_documents where job_run_id = r.id and raw_hash is not null
        group by coalesce(properties ->> '{TEXT}', encode(raw_hash, 'hex'))
    ) alike
    where r.source in ({", ".join(f"'{source}'" for source in sorted(WEB))})
"""
"""Of job run `r`: pages that share their text with another, shells, and an example of each."""


def text_hash(text: str) -> str:
    """Return the value of `TEXT` for a parsed text."""
    return hashlib.sha256(text.encode()).hexdigest()


def web_notices(progress: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return a sentence and a number of pages for shells and for copies, among them those that a crawl left out."""
    pages, left_out = progress.get("webPages") or {}, progress.get("skippedReasons") or {}
    shells = pages.get("shells", 0)
    copies = pages.get("copies", 0) + left_out.get(COPY, 0)
    page_notices = []
    if shells:
        reason = f"{_count(shells)} an application shell, which scripts fill in a browser{_such_as(pages['shell'])}. "
        page_notices.append((reason + ADVICE, shells))
    if copies:
        reason = f"{copies:,} pages have the same content as another page of this run{_such_as(pages.get('copy'))}: "
        cause = "the site may answer for missing pages with one page, or build its pages by scripts."
        page_notices.append((reason + cause, copies))
    if sign_ins := left_out.get(SIGN_IN, 0):
        verb = "page asks" if sign_ins == 1 else "pages ask"
        page_notices.append((f"{sign_ins:,} {verb} for a sign-in; pages are fetched without one.", sign_ins))
    if missing := left_out.get(MISSING, 0):
        noun = "address leads" if missing == 1 else "addresses lead"
        page_notices.append((f"{missing:,} {noun} to the site's page for missing pages, sent as 200.", missing))
    if deep := left_out.get(TOO_DEEP, 0):
        advice = "raise maxDepth (at most 5), begin at a page that is nearer to them, or ingest the site's sitemap."
        page_notices.append((f"{_lie(deep)} more links away from the start page than maxDepth: {advice}", deep))
    if beyond := left_out.get(BEYOND_LIMIT, 0):
        advice = f"set maxLinks to {progress.get('found', 0) + beyond:,} or more."
        page_notices.append((f"maxLinks was reached; {_lie(beyond)} beyond it: {advice}", beyond))
    page_notices += [_removal(reason, **entry) for reason, entry in (progress.get("removals") or {}).items()]
    return page_notices


def _removal(reason: str, count: int, pages: Sequence[str]) -> tuple[str, int]:
    suffix = f" and {count - len(pages):,} more" if count > len(pages) else ""
    noun = "page was" if count == 1 else "pages were"
    return f"{count:,} {noun} removed. {reason} {', '.join(pages)}{suffix}", count


def _lie(pages: int) -> str:
    return "1 page lies" if pages == 1 else f"{pages:,} pages lie"


def _count(pages: int) -> str:
    return "1 page is" if pages == 1 else f"{pages:,} pages are"


def _such_as(example: str | None) -> str:
    return f", such as {example}" if example else ""
