"""Display names of job runs without query strings or secrets: a page, a file, "27 texts"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import LiteralString
from urllib.parse import SplitResult, urlsplit

from retrieval import job_config, sources
from retrieval.logs import redact_urls

MAX_NAME_CHARACTERS = 100

_DESCRIPTION_SQL: LiteralString = f"""
    {job_config.RUN_NAME} as given, {job_config.START_URL} as url,
    coalesce((select d.name from run_documents d where d.job_run_id = r.id order by d.position limit 1),
             {job_config.DRY_RUN_SUBJECT}) as first,
    (select c.name from connections c where c.id = {job_config.connection_id_sql()}) as account
"""
# Searchable words of job run `r` of job `j`: `given`, `url`, `first`, `account`; without counts.
SEARCH_WORDS_QUERY: LiteralString = "(select " + _DESCRIPTION_SQL + ") named"
# Columns of `RunDescription`, of job run `r`, job `j` and `queries.progress.COUNTED_DOCUMENTS`.
DESCRIPTION_COLUMNS: LiteralString = f"""
    r.source, {job_config.DRY_RUN_SOURCE} as tested_source, counted.whole, counted.hosts, {_DESCRIPTION_SQL}
"""


@dataclass(frozen=True, slots=True)
class RunDescription:
    """Parts of a job run's name: source, tested source, counts, name in the request, first document and account."""

    source: str
    tested_source: str | None
    whole: int
    hosts: int
    given: str | None
    url: str | None
    first: str | None
    account: str | None


_DOCUMENT_NOUNS = {"TEXT": "text", "LOCAL_FILE": "file", "URLS_LIST": "page", "SITEMAP": "page", "WEBSITE": "page"}
_SOURCE_NOUNS = {
    "URLS_LIST": "URL list",
    "SITEMAP": "sitemap",
    "WEBSITE": "website",
    "REEMBED": "embedding again",
    "DRY_RUN": "dry run",
}
_QUERY_PATTERN = re.compile(r"[?#&][^\s?#&=]+=\S*")


def run_name(run: RunDescription) -> str:
    source, several = run.tested_source or run.source, run.whole > 1
    if run.given:
        return plain_name(run.given)
    if source == "REEMBED":
        return counted_noun(run.whole, "document")
    documents = counted_noun(run.whole, _DOCUMENT_NOUNS.get(run.source, "document"))
    if source in sources.CONNECTED_SOURCES:
        return plain_name(run.account or "") or documents
    is_one = run.hosts == 1 or bool(run.tested_source)
    if site := page_name(run.url) or (host_name(run.first) if is_one else ""):
        return site if source != "URLS_LIST" or not several else f"{counted_noun(run.whole, 'page')} of {site}"
    return documents if several or source in sources.WEB_SOURCES else plain_name(run.first or "")


def describe_run(run: RunDescription) -> str:
    """Return the name with the kind of source, unless the name shows it: "website docs.example.org"."""
    kind = _SOURCE_NOUNS.get(run.source, run.source.lower().replace("_", " "))
    return run_name(run) if run.source in sources.STORED_SOURCES else f"{kind} {run_name(run)}"


def counted_noun(number: int, word: str) -> str:
    return f"{number:,} {word}" + ("" if number == 1 else "s")


def name_of_several(source: str, number: int, namespace: str) -> str:
    """Return the name of several job runs of one source in a namespace: "27 texts in manuals"."""
    word = (
        _DOCUMENT_NOUNS[source]
        if source in sources.STORED_SOURCES
        else _SOURCE_NOUNS.get(source, source.lower().replace("_", " ") + " run")
    )
    return f"{counted_noun(number, word)} in {plain_name(namespace)}"


def plain_name(name: str) -> str:
    """Return a user-given name as one short line, without the query of an address."""
    bare = _QUERY_PATTERN.sub("", redact_urls(name))
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in bare).split())
    return line if len(line) <= MAX_NAME_CHARACTERS else line[: MAX_NAME_CHARACTERS - 1] + "…"


def host_name(url: object) -> str:
    """Return the host of an address with its port; "" for other values."""
    parts = _split_url(url)
    return plain_name(parts.netloc.rpartition("@")[2]) if parts else ""


def page_name(url: object) -> str:
    """Return the host and path of an address; "" for other values."""
    parts = _split_url(url)
    return plain_name(parts.netloc.rpartition("@")[2] + parts.path.rstrip("/")) if parts else ""


def _split_url(url: object) -> SplitResult | None:
    try:
        return urlsplit(url) if isinstance(url, str) and "://" in url else None
    except ValueError:
        return None
