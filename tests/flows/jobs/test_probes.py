"""Probes of a breaker: order of namespaces, and state of waiting ones."""

from retrieval.jobs.queries import batches, breakers
from tests.flows.configured import Configured


def hung(space, name="vendor"):
    """Namespace with ingestion behind a breaker due for a probe."""
    target = breakers.BreakerTarget(space.scope.organization, name, {"at": space.scope.namespace}, 3600)
    breakers.record_failure(space.db, target, "bat_before", seconds=60, reason="It hangs.")
    partition = space.db.row(
        "select id from partitions where namespace_id = %(namespace)s", {"namespace": space.scope.namespace}
    )["id"]
    space.db.rows(
        "update breakers set open_until = now() - interval '1 s', partitions = array[%(partition)s]::bigint[]"
        " where key = %(key)s",
        {"key": target.key, "partition": partition},
    )
    return target


def waiting(db, count=1, organization=None):
    """Namespaces with two waiting texts each, of their own organizations by default."""
    spaces = [Configured(db) for _ in range(count)]
    for space in spaces:
        if organization is not None:
            values = {"organization": organization, "namespace": space.scope.namespace}
            db.rows("update namespaces set organization_id = %(organization)s where id = %(namespace)s", values)
            space.scope = type(space.scope)(organization, space.scope.namespace)
        for name in ("one", "two"):
            space.text(f"about {name}", name)
        space.calls = hung(space)
    return spaces


def dispatched_runs(db):
    """Dispatched job runs by namespace."""
    batches.form_batches(db, size=64, batches=8)
    counts = {}
    for batch in batches.undispatched_batches(db):
        batches.record_flow_run(db, batch, "run")
        counts[batch.namespace] = len(batch.job_runs)
    return counts


def test_the_probe_of_one_organization_keeps_no_other_from_probing(db):
    (first,) = waiting(db)
    assert dispatched_runs(db) == {first.scope.namespace: 1}
    (second,) = waiting(db)
    assert dispatched_runs(db) == {second.scope.namespace: 1}, "the first one's probe still hangs"


def test_many_organizations_whose_vendors_hang_do_not_fill_the_workers(db):
    spaces = waiting(db, 5)
    probing = dispatched_runs(db)
    assert list(probing.values()) == [1, 1]
    done = next(space for space in spaces if space.scope.namespace in probing)
    breakers.record_success(db, done.calls.key)
    remaining = dispatched_runs(db)
    assert remaining.pop(done.scope.namespace) == 1, "what is left of it goes, too"
    assert list(remaining.values()) == [1]
