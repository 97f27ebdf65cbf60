"""Display names of job runs: a host, a file, "27 texts". No query strings, no secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, LiteralString
from urllib.parse import urlsplit

from retrieval import job_config, sources
from retrieval.logs import without_query

CHARACTERS = 100

_ABOUT: LiteralString = f"""
    {job_config.URL} as url,
    coalesce((select d.name from run_documents d where d.job_run_id = r.id order by d.position limit 1),
             {job_config.TRIED_NAME}) as first,
    (select c.name from connections c where c.id = {job_config.connection_of()}) as account
"""
ABOUT: LiteralString = "(select " + _ABOUT + ") named"
"""The words that job run `r` with its job `j` is found by: `url`, `first`, `account`. Nothing is counted for them."""
COLUMNS: LiteralString = f"""
    r.source, {job_config.TRIED} as tried, counted.whole, counted.hosts, {_ABOUT}
"""
"""What `of` needs, of job run `r` with its job `j` and `run_progress.COUNTED`."""


_WORDS = {"TEXT": "text", "LOCAL_FILE": "file", "URLS_LIST": "page", "SITEMAP": "page", "WEBSITE": "page"}
_KINDS = {
    "URLS_LIST": "URL list",
    "SITEMAP": "sitemap",
    "WEBSITE": "website",
    "REEMBED": "embedding again",
    "DRY_RUN": "dry run",
}
_QUERY = re.compile(r"[?#&][^\s?#&=]+=\S*")


def of(row: Mapping[str, Any]) -> str:
    """The name of the run that `row` holds the COLUMNS of."""
    source, several = row.get("tried") or row["source"], row["whole"] > 1
    if source == "REEMBED":
        return counted(row["whole"], "document")
    if source in sources.APPS:
        return plain(row["account"] or "") or _several(row)
    is_one = row["hosts"] == 1 or bool(row.get("tried"))
    if site := host(row["url"]) or (host(row["first"]) if is_one else ""):
        return site if source != "URLS_LIST" or not several else f"{counted(row['whole'], 'page')} of {site}"
    return _several(row) if several or source in sources.WEB else plain(row["first"] or "")


def titled(row: Mapping[str, Any]) -> str:
    """Return the name of the run with its kind of source, unless the name shows it: "website docs.example.org"."""
    kind = _KINDS.get(row["source"], row["source"].lower().replace("_", " "))
    return of(row) if row["source"] in sources.STORED else f"{kind} {of(row)}"


def counted(number: int, word: str) -> str:
    return f"{number:,} {word}" + ("" if number == 1 else "s")


def several(source: str, number: int, namespace: str) -> str:
    """Return the name of a number of job runs of one source in a namespace: "27 texts in manuals"."""
    word = _WORDS[source] if source in sources.STORED else _KINDS.get(source, source.lower().replace("_", " ") + " run")
    return f"{counted(number, word)} in {plain(namespace)}"


def plain(name: str) -> str:
    """Return a user-given name on one line and truncated, without what follows the path of an address."""
    bare = _QUERY.sub("", without_query(name))
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in bare).split())
    return line if len(line) <= CHARACTERS else line[: CHARACTERS - 1] + "…"


def _several(row: Mapping[str, Any]) -> str:
    return counted(row["whole"], _WORDS.get(row["source"], "document"))


def host(url: object) -> str:
    """Return the host name of an address; empty for anything else."""
    try:
        return plain(urlsplit(url).hostname or "") if isinstance(url, str) and "://" in url else ""
    except ValueError:
        return ""
