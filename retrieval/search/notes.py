"""What is said beside a search by words that finds nothing (H443, H541)."""

from __future__ import annotations

from typing import Final, LiteralString

from retrieval.database import scopes
from retrieval.database.database import Database
from retrieval.ports import Scope
from retrieval.search import languages, words

STOP_WORDS_ALONE: Final = (
    "the query holds stop words alone. By words they are looked for as names (WHO, The Who), in short texts, and where"
    " five of them stand in a row."
)
_LANGUAGES: LiteralString = """
    select keyword_languages from partitions
    where namespace_id = %(namespace)s and tenant = %(tenant)s and chunks > 0
"""


def stop_words_alone(db: Database, scope: Scope, query: str, otherwise: str) -> bool:
    """Whether the query has no other words in its own language, or in one that documents of the scope are read in.

    Not of a scope in which there is nothing to find. otherwise: the configuration of texts that say too little of their
    language.
    """
    row = db.row(_LANGUAGES, scopes.params(scope))
    own = languages.configuration(languages.detect(query), otherwise)
    return row is not None and any(words.only_stop_words(query, one) for one in {own, *row["keyword_languages"]})
