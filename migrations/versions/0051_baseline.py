"""The schema of 0.2.0, with which the history begins."""

from pathlib import Path

from alembic import op

revision = "0051"
down_revision = None

STATEMENTS = Path(__file__).with_suffix("")


def upgrade() -> None:
    for name in ("tables", "functions", "viewer"):
        statements = (STATEMENTS / f"{name}.sql").read_text(encoding="utf-8")
        op.get_bind().exec_driver_sql(statements, execution_options={"no_parameters": True})
