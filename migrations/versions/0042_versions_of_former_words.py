"""A version that a process of the release before makes visible is known to be indexed by its rules for words.

Such a process does not know `keyword_version`, and would leave that of the version before.
"""

from alembic import op

revision = "0042"
down_revision = "0039"

FORGET = """
    create or replace function forget_keyword_version() returns trigger language plpgsql as $$
    begin
        new.keyword_version := null;
        return new;
    end $$
"""
SHOWN = """
    create or replace trigger forget_keyword_version before update of active_generation on documents
    for each row when (old.active_generation is distinct from new.active_generation)
    execute function forget_keyword_version()
"""


def upgrade() -> None:
    with op.get_context().autocommit_block():  # the lock is held for a moment
        op.execute("set lock_timeout = '500ms'")
        op.execute(FORGET)
        op.execute(SHOWN)
        op.execute("set lock_timeout = 0")


def downgrade() -> None:
    op.execute("drop trigger forget_keyword_version on documents")
    op.execute("drop function forget_keyword_version()")
