"""Documents by a piece of their name or address, and by site: the rule in memory, as SQL, and how it is indexed.

A word is found anywhere in a name or an external id, whatever its case; both as NFKC in lower case, so far as they are
indexed. The index holds every three characters that follow each other (`document_words` in the database), each behind
its partition: what others have there costs nothing and is never seen. Sites are indexed likewise (`document_site`).
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any, LiteralString, Protocol

from retrieval.conditions.model import is_storable
from retrieval.errors import ErrorCode, ServiceError

LONGEST = 200
"""Characters of one search."""
NAME, ADDRESS = 1_000, 2_000
"""Characters of a name and of an external id that are looked at."""
_SITE = re.compile(r"https?://(?:[^/?#@]*@)?([^/?#]+)")


class Named(Protocol):
    """Words and sites to find documents by."""

    @property
    def name(self) -> str | None: ...
    @property
    def external_id(self) -> str: ...
    @property
    def document_type(self) -> str | None: ...


def parse_words(sent: object, code: ErrorCode, *, where: str) -> tuple[str, ...]:
    """The words of a search as they were sent, null none; ServiceError `code`. `where`: the field's path."""
    if sent is None:
        return ()
    if not isinstance(sent, str) or not is_storable(sent):
        raise ServiceError(code, "This must be a string.", field=where)
    if len(sent) > LONGEST:
        raise ServiceError(code, f"This may have at most {LONGEST} characters.", field=where, reason="too_long")
    return tuple(dict.fromkeys(sent.split()))


def has_all_words(document: Named, wanted: tuple[str, ...]) -> bool:
    """Condition that each of the words occurs in the document's name or external id."""
    text = "\n".join((_plain((document.name or "")[:NAME]), _plain(document.external_id[:ADDRESS])))
    return all(_plain(word) in text for word in wanted)


def page_site(document: Named) -> str | None:
    """The site of a web page: host, and port if its URL has one; None for what is no page."""
    match = _SITE.match(document.external_id.lower()) if document.document_type == "URL" else None
    return match and match[1]


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).lower()


def has_words(alias: LiteralString) -> LiteralString:
    """The rule on the document under `alias`. Takes `filter_words`."""
    text: LiteralString = (
        f"lower(normalize(left({alias}.name, 1000), nfkc)) || chr(10)"
        f" || lower(normalize(left({alias}.external_id, 2000), nfkc))"
    )
    return f"""(not exists (
        select from unnest(%(filter_words)s::text[]) w where strpos({text}, lower(normalize(w, nfkc))) = 0
    ))"""


def of_site(alias: LiteralString) -> LiteralString:
    """Return the SQL condition that the document under `alias` is a page of one of `filter_sites`."""
    return f"({alias}.document_type = 'URL' and {site_of(alias)} = any(%(filter_sites)s))"


def site_of(document: LiteralString) -> LiteralString:
    """SQL: the site of the web page under this alias, null where its address names none; ten times as fast as the
    pattern above."""
    host: LiteralString = f"split_part(split_part(lower(split_part({document}.external_id, '/', 3)), '?', 1), '#', 1)"
    return f"""
    (case when lower(split_part({document}.external_id, '/', 1)) in ('http:', 'https:')
               and split_part({document}.external_id, '/', 2) = ''
     then nullif(substring({host} from strpos({host}, '@') + 1), '') end)
"""


SITE: LiteralString = site_of("d")
_PARTITION: LiteralString = """
    select p.id from partitions p
    join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
    where p.namespace_id = %(namespace)s and p.tenant = %(tenant)s
"""
_WITH_WORDS: LiteralString = f"""
    (select t.* from documents t
     where document_words(t.partition_id, t.name, t.external_id)
           @@ words_query(({_PARTITION}), %(filter_words)s::text[])
     offset 0) d
"""
_OF_SITES: LiteralString = f"""
    (select t.* from documents t
     where t.document_type = 'URL' and document_site(t.partition_id, t.external_id)
           = any(array(select s.id || ':' || u.site from ({_PARTITION}) s, unnest(%(filter_sites)s::text[]) u (site)))
     offset 0) d
"""


def document_source(*, words: bool, sites: bool) -> LiteralString:
    """Source of the documents `d` of a scope's statement: the table, or what an index returns for it.

    The planner is left no other index, nor a condition that it could start from: of a table that was not analyzed yet
    it expects so few rows that it would take any.
    """
    return _WITH_WORDS if words else _OF_SITES if sites else "documents d"


def few_documents(
    scope: dict[str, str], wanted: tuple[str, ...], sites: tuple[str, ...], most: int
) -> tuple[LiteralString, dict[str, Any]]:
    """The statement, with its parameters, that answers the `id` of the documents that have the words or are of the
    sites, and of one more than `most` at most. `scope`: its parameters."""
    rules = ([has_words("d")] if wanted else []) + ([of_site("d")] if sites else [])
    rule: LiteralString = " and ".join(rules)
    statement: LiteralString = (
        f"select d.id from {document_source(words=bool(wanted), sites=bool(sites))}"
        f" where d.partition_id = ({_PARTITION}) and d.deleted_at is null and {rule} limit %(most)s + 1"
    )
    return statement, {**scope, "filter_words": list(wanted), "filter_sites": list(sites), "most": most}
