"""Display names of job runs: a host, a file, "27 texts". No query strings, no secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import LiteralString
from urllib.parse import urlsplit

from retrieval import job_config, sources
from retrieval.logs import without_query

CHARACTERS = 100

_ABOUT: LiteralString = f"""
    {job_config.NAME} as given, {job_config.URL} as url,
    coalesce((select d.name from run_documents d where d.job_run_id = r.id order by d.position limit 1),
             {job_config.TRIED_NAME}) as first,
    (select c.name from connections c where c.id = {job_config.connection_of()}) as account
"""
ABOUT: LiteralString = "(select " + _ABOUT + ") named"
"""Words by which job run `r` of job `j` is found: `given`, `url`, `first`, `account`. Nothing is counted for them."""
COLUMNS: LiteralString = f"""
    r.source, {job_config.TRIED} as tried, counted.whole, counted.hosts, {_ABOUT}
"""
"""The columns of `About`, of job run `r` with its job `j` and `run_progress.COUNTED`."""


@dataclass(frozen=True, slots=True)
class About:
    """Parts of a job run's name. `tried`: the source of a dry run; `whole`, `hosts`: numbers of documents and hosts;
    `given`: name in the request; `first`: name of the first document; `account`: name of the connection."""

    source: str
    tried: str | None
    whole: int
    hosts: int
    given: str | None
    url: str | None
    first: str | None
    account: str | None


_WORDS = {"TEXT": "text", "LOCAL_FILE": "file", "URLS_LIST": "page", "SITEMAP": "page", "WEBSITE": "page"}
_KINDS = {
    "URLS_LIST": "URL list",
    "SITEMAP": "sitemap",
    "WEBSITE": "website",
    "REEMBED": "embedding again",
    "DRY_RUN": "dry run",
}
_QUERY = re.compile(r"[?#&][^\s?#&=]+=\S*")


def run_name(run: About) -> str:
    """Return the name of a job run."""
    source, several = run.tried or run.source, run.whole > 1
    if run.given:
        return plain_name(run.given)
    if source == "REEMBED":
        return counted_noun(run.whole, "document")
    documents = counted_noun(run.whole, _WORDS.get(run.source, "document"))
    if source in sources.CONNECTED:
        return plain_name(run.account or "") or documents
    is_one = run.hosts == 1 or bool(run.tried)
    if site := host_name(run.url) or (host_name(run.first) if is_one else ""):
        return site if source != "URLS_LIST" or not several else f"{counted_noun(run.whole, 'page')} of {site}"
    return documents if several or source in sources.WEB else plain_name(run.first or "")


def titled_name(run: About) -> str:
    """Return the name of the run with its kind of source, unless the name shows it: "website docs.example.org"."""
    kind = _KINDS.get(run.source, run.source.lower().replace("_", " "))
    return run_name(run) if run.source in sources.STORED else f"{kind} {run_name(run)}"


def counted_noun(number: int, word: str) -> str:
    return f"{number:,} {word}" + ("" if number == 1 else "s")


def name_of_several(source: str, number: int, namespace: str) -> str:
    """Return the name of a number of job runs of one source in a namespace: "27 texts in manuals"."""
    word = _WORDS[source] if source in sources.STORED else _KINDS.get(source, source.lower().replace("_", " ") + " run")
    return f"{counted_noun(number, word)} in {plain_name(namespace)}"


def plain_name(name: str) -> str:
    """Return a user-given name on one line and truncated, without what follows the path of an address."""
    bare = _QUERY.sub("", without_query(name))
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in bare).split())
    return line if len(line) <= CHARACTERS else line[: CHARACTERS - 1] + "…"


def host_name(url: object) -> str:
    """Return the host name of an address; empty for anything else."""
    try:
        return plain_name(urlsplit(url).hostname or "") if isinstance(url, str) and "://" in url else ""
    except ValueError:
        return ""
