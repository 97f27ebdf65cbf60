"""Wire types and schema use one list of values per status."""

import re
from typing import get_args

import pytest

from api.wire import runs
from retrieval.database.schema import connections, work
from retrieval.statuses import ConnectionStatus, Outcome, RunStatus


def test_the_wire_says_what_the_service_says():
    assert get_args(runs.RunOutcome) == tuple(Outcome)


@pytest.mark.parametrize(
    ("table", "constraint", "names"),
    [
        (work.JobRun, "job_run_status", RunStatus),
        (connections.Connection, "connection_status", ConnectionStatus),
    ],
)
def test_the_schema_takes_these_and_no_others(table, constraint, names):
    checks = {check.name: str(check.sqltext) for check in table.__table__.constraints if hasattr(check, "sqltext")}
    assert set(re.findall(r"'(\w+)'", checks[constraint])) == set(names)
