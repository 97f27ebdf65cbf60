"""Audit entries of ingestion that a flow run requested."""

from alembic import op

revision = "0056"
down_revision = "0055"


def upgrade() -> None:
    op.execute(
        "alter table audit_entries drop constraint audit_source,"
        " add constraint audit_source check (source in ('API', 'CLI', 'PREFECT')) not valid"
    )
    op.execute("alter table audit_entries validate constraint audit_source")
