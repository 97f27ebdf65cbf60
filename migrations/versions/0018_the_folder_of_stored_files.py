"""Which folder the files of LOCAL file storage are in."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.create_table(
        "files_folder",
        sa.Column("single", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("single"),
        sa.CheckConstraint("single", name="files_folder_is_one"),
    )


def downgrade() -> None:
    op.drop_table("files_folder")
