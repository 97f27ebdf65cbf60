"""Uploads and links of a namespace with files in a bucket."""

from __future__ import annotations

import pytest

from retrieval import settings
from tests.api.routes.test_files import first_document, path, upload
from tests.standins import s3_server


@pytest.fixture
def storage(monkeypatch):
    monkeypatch.setenv("RETRIEVAL_FETCH_ALLOW", "127.0.0.0/8")
    settings.load_settings.cache_clear()
    with s3_server.running() as running:
        yield running
    settings.load_settings.cache_clear()


def test_a_link_streams_from_the_bucket_and_ends_with_the_file(org, anonymous, storage, api_settings):
    bucket = s3_server.bucket(storage)
    space = org.namespace(fileStorageConfig=storage.config(bucket))
    content = bytes(range(256)) * 5000
    upload(org, space, "owls.pdf", content, "application/pdf")
    link = path(api_settings, first_document(org, space, rawFileUrl=True)["rawFileUrl"])
    assert anonymous.get(link).content == content
    storage.always = s3_server.answer(503, "SlowDown")
    busy = anonymous.get(link)
    assert busy.status_code == 503
    assert busy.headers["retry-after"]
    assert "VENDOR" not in busy.text
    storage.always = None
    (key,) = storage.object_keys(bucket)
    assert storage.call("DELETE", f"/{bucket}/{key}") == 204
    assert anonymous.get(link).status_code == 404
    assert "canary-s3-secret" not in org.client.get("/v1/namespaces").text
