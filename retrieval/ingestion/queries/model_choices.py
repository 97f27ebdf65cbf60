"""Model choice of namespaces with `model: auto`: languages of their content and the stored choice."""

from __future__ import annotations

import json
from typing import NamedTuple

from retrieval.database.database import Database

# Field of an embedding model's `learned`: the reason of the choice.
CHOICE_FIELD = "choice"


class _LanguageCount(NamedTuple):
    language: str
    documents: int


async def count_languages(db: Database, namespace_id: str) -> dict[str, int]:
    """Count the searchable documents of a namespace by language; "" if none was detected."""
    rows = await db.async_fetch(
        _LanguageCount,
        """
        select coalesce(d.properties ->> 'language', '') as language, count(*) as documents
        from documents d join partitions p on p.id = d.partition_id
        where p.namespace_id = %(id)s and d.deleted_at is null and d.active_generation > 0 group by 1
        """,
        {"id": namespace_id},
    )
    return {row.language: row.documents for row in rows}


def store_choice(db: Database, namespace_id: str, model: str, reason: str) -> None:
    """Store the model of a namespace with an open choice; the first of concurrent choices wins."""
    db.execute(
        """
        update namespaces
        set config = jsonb_set(config, '{embeddingModelConfig}', config -> 'embeddingModelConfig' || %(chosen)s::jsonb),
            epoch = epoch + 1, updated_at = greatest(now(), updated_at + interval '1 microsecond')
        where id = %(id)s and config -> 'embeddingModelConfig' @> '{"provider": "LOCAL", "model": "auto"}'
          and deleted_at is null
        """,
        {"id": namespace_id, "chosen": json.dumps({"model": model, "learned": {CHOICE_FIELD: reason}})},
    )
