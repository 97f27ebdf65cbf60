"""The main job on a namespace with files in a bucket."""

import pytest

from retrieval import settings
from retrieval.errors import Retryable
from retrieval.namespaces import namespaces
from tests.flows.configured import Configured
from tests.standins import s3_server


@pytest.fixture(scope="module")
def storage():
    with s3_server.running() as running:
        yield running


@pytest.fixture
def bucket(storage, monkeypatch):
    storage.faults, storage.always = [], None
    monkeypatch.setenv("RETRIEVAL_FETCH_ALLOW", "127.0.0.0/8")
    settings.load_settings.cache_clear()
    yield s3_server.bucket(storage)
    settings.load_settings.cache_clear()


@pytest.fixture
def space(db, bucket, storage):
    return Configured(db, fileStorageConfig=storage.config(bucket))


def test_a_deleted_namespace_leaves_what_is_not_ours(space, storage, bucket):
    storage.call("PUT", f"/{bucket}/theirs.txt")
    space.text("Owls hunt mice at night.", "owls")
    space.work()
    space.call(namespaces.delete_namespace(space.db, space.scope.organization, space.scope.namespace))
    space.sweep()
    assert keys(storage, bucket) == ["theirs.txt"]


def test_a_storage_in_trouble_delays_and_loses_nothing(space, storage):
    space.text("Owls hunt mice at night.", "owls")
    storage.always = s3_server.answer(503, "SlowDown")
    lease = space.lease()
    with pytest.raises(Retryable):
        space.take(lease)
    storage.always = None
    space.take(lease)
    assert space.search("owls") == ["owls"]


def keys(storage, bucket):
    """Keys of the bucket."""
    return sorted(storage.object_keys(bucket))
