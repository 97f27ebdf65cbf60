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
    select keyword_languages from partitions where namespace_id = %(namespace)s and tenant = %(tenant)s
"""


def stop_words_alone(db: Database, scope: Scope, query: str, otherwise: str) -> bool:
    """Whether the query has no other words in its own language, or in one that documents of the scope are read in.

    otherwise: the configuration of texts that say too little of their language.
    """
    if words.only_stop_words(query, languages.configuration(languages.detect(query), otherwise)):
        return True
    row = db.row(_LANGUAGES, scopes.params(scope))
    used = row["keyword_languages"] if row else []
    return any(words.only_stop_words(query, one) for one in used)
