"""Places of deleted documents in lists, for cursors that name them."""

from alembic import op

revision = "0060"
down_revision = "0059"


def upgrade() -> None:
    op.execute(
        """
        create table deleted_places (
            partition_id integer not null references partitions (id) on delete cascade,
            name text not null,
            document_id text not null,
            created_at timestamptz not null default now(),
            deleted_at timestamptz not null default now(),
            primary key (partition_id, name)
        )
        """
    )
    op.execute("create index deleted_places_by_age on deleted_places (deleted_at)")
