"""Index of terms by their last letters, by which the parts of compounds are found."""

from alembic import op

revision = "0059"
down_revision = "0058"


def upgrade() -> None:
    op.execute("create index term_counts_by_end on term_counts (partition_id, reverse(term)) where length(term) >= 7")
