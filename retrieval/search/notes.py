"""Notes on keyword searches without results."""

from __future__ import annotations

from typing import Final, LiteralString

from retrieval.access.reading import reading
from retrieval.database import scopes
from retrieval.database.database import Database
from retrieval.ports import Scope
from retrieval.principals import Viewer
from retrieval.search import languages, words
from retrieval.search.documents_languages import FIXED

STOP_WORDS_ALONE: Final = (
    "the query holds stop words alone. By words they are looked for as names (WHO, The Who), in short texts, and where"
    " five of them stand in a row."
)
_LANGUAGES: LiteralString = """
    select id, keyword_languages from partitions
    where namespace_id = %(namespace)s and tenant = %(tenant)s and chunks > 0
"""
_SEEN: LiteralString = f"""
    select 1 from documents d where d.partition_id = %(partition)s and d.deleted_at is null and d.active_generation > 0
      and (%(any)s or ltrim(d.keyword_language, '{FIXED}') = any(%(languages)s))
    limit 1
"""


def stop_words_alone(db: Database, scope: Scope, query: str, otherwise: str, viewer: Viewer | None) -> bool:
    """Tell if the query has only stop words in its own language, or in one of the visible documents.

    False where the viewer may see no such document. otherwise: the configuration of texts without a detected language.
    """
    row = db.row(_LANGUAGES, scopes.params(scope))
    if row is None:
        return False
    detected = languages.configuration(languages.detect(query), otherwise)
    alone = [
        configuration
        for configuration in {detected, *row["keyword_languages"]}
        if words.only_stop_words(query, configuration)
    ]
    if viewer is None or not alone:
        return bool(alone)
    values = {"partition": row["id"], "any": detected in alone, "languages": alone}
    return bool(reading(db, viewer).rows(_SEEN, values))
