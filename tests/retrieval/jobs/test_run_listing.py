"""Runs that are searched for: of those that do not match nothing is read but what tells so."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from retrieval.database import pagination, partitions
from retrieval.jobs import control
from retrieval.ports import Scope
from tests.library import Library

RUNS = 400
SIZE = 10
FILL = """
    insert into jobs (id, organization_id, partition_id, source)
        select 'job_' || n || %(mark)s, %(org)s, %(partition)s, 'TEXT' from generate_series(1, %(runs)s) n;
    insert into job_runs (id, job_id, partition_id, source, status, finished_at)
        select 'ijr_' || n || %(mark)s, 'job_' || n || %(mark)s, %(partition)s, 'TEXT', 'COMPLETED', now()
        from generate_series(1, %(runs)s) n;
    insert into run_documents (job_run_id, document_id, position, generation, name, status, stage)
        select 'ijr_' || n || %(mark)s, 'doc_' || n || %(mark)s, 0, n, 'note ' || n,
               case when n %% 100 = 0 then 'FAILED' else 'SUCCESS' end, 'upserted' from generate_series(1, %(runs)s) n
"""


@pytest.fixture
def full(db, new_scope) -> Scope:
    """Many runs of one document each, of which every hundredth failed."""
    scope: Scope = new_scope()
    values = {"org": scope.organization, "partition": Library(db, scope, None).partition, "runs": RUNS}
    with psycopg.connect(db.url) as connection:
        for statement in FILL.split(";"):
            connection.execute(statement, {**values, "mark": scope.namespace})
    return scope


def counts(db, scope: Scope, **wanted: Any) -> tuple[int, int]:
    """How often a run's documents were counted, and how often all that is told of a run was."""
    asked = {**dict.fromkeys(("status", "outcome", "source", "about", "ids")), **wanted}
    values = {**partitions.scope_params(scope), **asked, **pagination.after_number(None, SIZE)}
    with psycopg.connect(db.url) as connection:
        row = connection.execute("explain (analyze, timing off, format json) " + control._LIST, values).fetchone()
    assert row is not None
    found = list(nodes(row[0][0]["Plan"]))
    aggregates = sum(one["Actual Loops"] for one in found if one["Node Type"] == "Aggregate")
    told = sum(one["Actual Loops"] for one in found if one.get("Function Name") == "jsonb_each_text")
    return aggregates, told


def nodes(plan: dict[str, Any]) -> Any:
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)


@pytest.mark.parametrize(
    ("wanted", "matching"),
    [({}, SIZE + 1), ({"about": "note 7"}, SIZE + 1), ({"about": "of no run"}, 0), ({"outcome": "FAILED"}, 4)],
)
def test_only_the_runs_of_the_page_are_read_whole(db, full, wanted, matching):
    counted, told = counts(db, full, **wanted)
    assert told == matching
    assert counted <= 3 * matching + (RUNS if "outcome" in wanted else 0)
