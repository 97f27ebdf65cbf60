"""Documents by a piece of their name or address, by site, and those whose access is not known.

The functions name nothing outside of pg_catalog: PostgreSQL builds and restores indexes with no other schema in sight.
"""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"

WORDS = """
    create or replace function document_words(partition_id integer, name text, external_id text) returns tsvector
    language sql immutable parallel safe cost 1000 as $$
        with plain as materialized (
            select partition_id || ':' as p, lower(normalize(left(name, 1000), nfkc)) || chr(10) || case
                when external_id = name then '' else lower(normalize(left(external_id, 2000), nfkc)) end as t
        )
        select array_to_tsvector(array_agg(p || substr(t, i, 3))) from plain, generate_series(1, length(t)) i
    $$
"""
"""Every three characters of a document's name and external id, behind its partition; the last ones are shorter."""
QUERY = r"""
    create or replace function words_query(partition_id integer, words text[]) returns tsquery
    language sql immutable parallel safe as $$
        select string_agg(
            '''' || replace(replace(partition_id || ':' || substr(w, i, 3), '\', '\\'), '''', '''''') || ''''
            || case when length(w) < 3 then ':*' else '' end, ' & ')::tsquery
        from unnest(words) sent, lower(normalize(sent, nfkc)) w, generate_series(1, greatest(length(w) - 2, 1)) i
    $$
"""
"""What `document_words` must hold for each of the words; one or two characters begin such a piece."""
SITE = """
    create or replace function document_site(partition_id integer, external_id text) returns text
    language sql immutable strict parallel safe as $$
        select partition_id || ':' || substring(lower(external_id) from '^https?://(?:[^/?#@]*@)?([^/?#]+)')
    $$
"""
INDEXES = (
    ("documents_by_words", [sa.text("document_words(partition_id, name, external_id)")], "gin", None),
    (
        "documents_of_site",
        [sa.text("document_site(partition_id, external_id)")],
        "btree",
        "document_type = 'URL'",
    ),
    (
        "documents_of_unknown_access",
        ["partition_id", "created_at", "id"],
        "btree",
        "deleted_at is null and access_reason is not null",
    ),
)


def upgrade() -> None:
    with op.get_context().autocommit_block():  # what an attempt before has left is not believed
        op.execute(WORDS)
        op.execute(QUERY)
        op.execute(SITE)
        op.execute("set lock_timeout = 0")  # nobody waits for an index that is built concurrently
        for name, columns, using, where in INDEXES:
            op.drop_index(name, table_name="documents", if_exists=True, postgresql_concurrently=True)
            op.create_index(
                name,
                "documents",
                columns,
                postgresql_using=using,
                postgresql_where=where and sa.text(where),
                postgresql_concurrently=True,
            )


def downgrade() -> None:
    for name, *_ in INDEXES:
        op.drop_index(name, table_name="documents")
    op.execute("drop function document_site(integer, text)")
    op.execute("drop function words_query(integer, text[])")
    op.execute("drop function document_words(integer, text, text)")
