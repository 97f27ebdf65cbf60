"""A namespace's next model and store, and what of a job run was made for which."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("namespaces", sa.Column("epoch", sa.Integer, nullable=False, server_default="0"))
    op.add_column("namespaces", sa.Column("pending", sa.LargeBinary))
    op.add_column("namespaces", sa.Column("pending_run", sa.Text))
    op.add_column("namespaces", sa.Column("retired", sa.LargeBinary))
    op.add_column("run_documents", sa.Column("epoch", sa.Integer, nullable=False, server_default="0"))
    op.add_column("run_documents", sa.Column("made_from", sa.Text))
    op.add_column("run_documents", sa.Column("partition_id", sa.Integer))


def downgrade() -> None:
    for name in ("partition_id", "made_from", "epoch"):
        op.drop_column("run_documents", name)
    for name in ("retired", "pending_run", "pending", "epoch"):
        op.drop_column("namespaces", name)
