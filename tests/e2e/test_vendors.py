"""A namespace on a bucket, Pinecone and OpenAI's embeddings through the real processes; no key in the open."""

from contextlib import suppress

import psycopg
import pytest

from local import postgres
from tests.standins import embedding_server, pinecone, s3_server


@pytest.fixture
def storage():
    with s3_server.running() as server:
        yield server


def created(service, body):
    # A busy machine may need more than the check's 5 seconds for the SDKs.
    for _ in range(6):
        response = service.client.post("/v1/namespaces", json=body)
        if "timeout" not in response.text:
            break
    return response


@pytest.mark.slow
def test_the_main_job_on_accounts_alone_leaves_no_key_in_the_open(service, openai, storage):
    dimensions = embedding_server.MODELS["OPENAI"][embedding_server.MODEL["OPENAI"]]
    with pinecone.running(dimension=dimensions) as index:
        body = {
            "name": "On accounts",
            "fileStorageConfig": storage.config(s3_server.bucket(storage)),
            "vectorStorageConfig": index.config(),
            "embeddingModelConfig": openai.config(),
        }
        response = created(service, body)
        assert response.status_code == 200, response.text
        service.info["namespaceId"] = service.ok(response)["namespace"]["id"]
        runs = [
            service.text("Owls hunt mice at night.", name="owls")["ingestJobRunId"],
            service.file("tides.txt", b"The spring tide follows the full moon.")["ingestJobRunId"],
        ]
        assert [run["documents"]["failed"] for run in service.wait(*runs)] == [[], []]
        assert "full moon" in service.search("moon and tide", topK=1)[0]["content"]
        hybrid = {"semanticWeight": 0.5, "keywordWeight": 0.5}
        assert "Owls" in service.search("owls hunt at night", topK=1, hybridConfig=hybrid)[0]["content"]
        assert len(index.space(service.namespace)) == 2
        with psycopg.connect(postgres.url(service.home), autocommit=True) as connection:
            connection.execute("checkpoint")
        keys = [embedding_server.KEYS["OPENAI"], pinecone.API_KEY, "canary-s3-secret"]
        for file in sorted(service.home.rglob("*")):
            with suppress(FileNotFoundError):  # the service goes on
                content = file.read_bytes() if file.is_file() else b""
                assert not [key for key in keys if key.encode() in content], file
        assert not [key for key in keys if key in response.text]
