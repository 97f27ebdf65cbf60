"""Prometheus metrics: bounded series, counts of all processes, and freshness."""

import subprocess
import sys
from collections import Counter

import pytest
from prometheus_client.parser import text_string_to_metric_families

from retrieval.database.database import Database
from retrieval.metrics import catalog, counts, exposition
from retrieval.metrics.figures import MetricsReader

TENANTS = 1000


def parse_samples(text):
    """The samples by name and labels."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


@pytest.fixture(autouse=True)
def nothing_counted(monkeypatch):
    """Reset the process counters of other tests."""

    async def nothing(_db):
        pass

    monkeypatch.setattr(counts, "async_write_counts", nothing)
    counts._take()
    yield
    counts._take()


@pytest.fixture
def own_db(fresh_database, request):
    name = "figures_" + str(abs(hash(request.node.name)))
    opened = Database(fresh_database(name), size=2, role="metrics")
    yield opened
    opened.close()


def fill(db):
    """Organizations with namespaces, a thousand tenants and their waiting job runs and documents."""
    db.rows("insert into organizations (id, name) select 'org_' || n, 'o' from generate_series(1, 100) n")
    db.rows(
        "insert into namespaces (id, organization_id, name, config, secrets)"
        " select 'ns_' || n, 'org_' || n, 'n', '{}', '' from generate_series(1, 100) n"
    )
    db.rows(
        "insert into partitions (namespace_id, tenant) select 'ns_' || (1 + n %% 100), 't' || n"
        " from generate_series(1, %(tenants)s) n",
        {"tenants": TENANTS},
    )
    db.rows(
        "insert into jobs (id, organization_id, partition_id, source)"
        " select 'job_' || p.id, n.organization_id, p.id, 'TEXT'"
        " from partitions p join namespaces n on n.id = p.namespace_id"
    )
    db.rows(
        "insert into job_runs (id, job_id, partition_id, source, created_at)"
        " select 'ijr_' || id, 'job_' || id, id, 'TEXT', now() - interval '90 seconds' from partitions"
    )
    db.rows(
        "insert into documents (id, partition_id, job_id, job_run_id, source, external_id, document_type, name, status)"
        " select 'doc_' || id, id, 'j', 'r', 'TEXT', 'e' || id, 'TEXT', 'n',"
        " (array['SUCCESS', 'FAILED', 'QUEUED'])[1 + id %% 3] from partitions",
        {},
    )


def test_a_thousand_tenants_make_no_more_series_than_one(own_db):
    fill(own_db)
    for metric in catalog.CATALOG.values():  # everything that can ever be counted is
        if metric.kind is not catalog.Kind.GAUGE:
            first, *other_labels = [*metric.labels.values(), (), ()][:2]
            for first_label in first or ("",):
                for two in (*other_labels, ())[0] or ("",):
                    labels = [label for label in (first_label, two) if label][: len(metric.labels)]
                    count = counts.observe_seconds if metric.buckets else counts.add_count
                    count(metric, *([2.0, *labels] if metric.buckets else labels))
    for path in (f"/v1/{number}" for number in range(TENANTS)):
        counts.add_count(catalog.HTTP, catalog.route_label(path), "2xx")
    counts.write_counts(own_db)
    samples = parse_samples(exposition.render_text(MetricsReader(own_db).read()))
    assert len(samples) <= catalog.MAX_SERIES
    assert sum(metric.series for metric in catalog.CATALOG.values()) <= catalog.MAX_SERIES
    by_status = Counter(row["status"] for row in own_db.rows("select status from documents"))
    assert {status: samples["retrieval_documents", ("status", status)] for status in by_status} == by_status
    assert samples["retrieval_job_runs", ("status", "QUEUED")] == TENANTS
    assert 90 <= samples[("retrieval_queue_oldest_seconds",)] < 150
    shares = {key[1][1]: value for key, value in samples.items() if key[0] == "retrieval_queue_share_job_runs"}
    assert len(shares) == catalog.MAX_SHOWN_ORGANIZATIONS + 1
    assert sum(shares.values()) == TENANTS
    assert shares["other"] == TENANTS - 10 * catalog.MAX_SHOWN_ORGANIZATIONS


PROCESS = """
import sys
from retrieval.database.database import Database
from retrieval.metrics import catalog, counts
db = Database(sys.argv[1], size=1)
for _ in range(50):
    for seconds in (0.04, 0.3, 400):
        counts.observe_seconds(catalog.STAGE, seconds, "embed")
    counts.add_count(catalog.TOKENS, by=7)
    counts.write_counts(db)
db.close()
"""


def test_what_several_processes_count_is_added_up(own_db):
    started = [subprocess.Popen([sys.executable, "-c", PROCESS, own_db.url]) for _ in range(3)]
    assert [process.wait(60) for process in started] == [0, 0, 0]
    samples = parse_samples(exposition.render_text(MetricsReader(own_db).read()))
    assert samples[("retrieval_tokens_embedded_total",)] == 3 * 50 * 7
    assert samples["retrieval_stage_seconds_count", ("stage", "embed")] == 3 * 150
    assert samples["retrieval_stage_seconds_bucket", ("le", "0.05"), ("stage", "embed")] == 150
    assert samples["retrieval_stage_seconds_bucket", ("le", "0.25"), ("stage", "embed")] == 150
    assert samples["retrieval_stage_seconds_bucket", ("le", "300.0"), ("stage", "embed")] == 300
    assert samples["retrieval_stage_seconds_sum", ("stage", "embed")] == pytest.approx(150 * 400.34)
