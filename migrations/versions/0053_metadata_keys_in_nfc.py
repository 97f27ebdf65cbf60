"""Metadata keys in the composed form of Unicode (NFC), by which requests name them.

Where a document has a key in both forms, the value of the composed one stays.
"""

from alembic import op

revision = "0053"
down_revision = "0052"


def _normalize(metadata: str) -> str:
    return f"(select jsonb_object_agg(normalize(key, NFC), value order by key is nfc normalized) from jsonb_each({metadata}))"


def _has_others(metadata: str) -> str:
    # The text is compared first, because hardly any row has such keys.
    return (
        f"jsonb_typeof({metadata}) = 'object' and {metadata}::text is not nfc normalized"
        f" and exists (select from jsonb_object_keys({metadata}) key where key is not nfc normalized)"
    )


def upgrade() -> None:
    op.execute(
        f"""
        with changed as (
            update documents set metadata = {_normalize("metadata")} where {_has_others("metadata")}
            returning id, partition_id
        )
        insert into sweeps (partition_id, kind, document_id)
        select c.partition_id, 'labels', c.id from changed c
        join partitions p on p.id = c.partition_id join namespaces n on n.id = p.namespace_id
        where n.config #>> '{{vectorStorageConfig,provider}}' is distinct from 'PGVECTOR'
        """
    )
    for table in ("jobs", "schedules"):
        keys = "(config -> 'metadata')"
        op.execute(
            f"update {table} set config = jsonb_set(config, '{{metadata}}', {_normalize(keys)}) where {_has_others(keys)}"
        )
