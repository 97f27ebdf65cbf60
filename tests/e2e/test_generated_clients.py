"""Two generators make clients of our OpenAPI document without a warning; one does the round trip."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import time
from uuid import uuid4

import pytest

from retrieval.settings import PROJECT_ROOT

PYTHON_GENERATOR = "openapi-python-client==0.29.1"
# The generator's formatting has no bearing on the description.
QUIET = "post_hooks: []\n"

USE = """
import createClient from "openapi-fetch";
import type { components, paths } from "./retrieval-service";
type Search = paths["/v1/search"]["post"];
export const body: Search["requestBody"]["content"]["application/json"] = { namespaceId: "ns_1", query: "owls" };
const client = createClient<paths>({ baseUrl: "http://127.0.0.1:8000", headers: { Authorization: "Bearer rtr_1" } });
export async function first(): Promise<number | undefined> {
  const { data, error } = await client.POST("/v1/search", { body });
  return error ? undefined : data.data.results[0]?.score;
}
export const scope: components["schemas"]["KeyScope"] = "search";
"""


def required(program: str, *beside: str) -> str:
    """Path of a generator; fails the test if absent."""
    path = next(
        (candidate for candidate in (*beside, shutil.which(program)) if candidate and shutil.which(candidate)), None
    )
    assert path, f"{program} is not on this machine: .ci/run installs what this test needs"
    return path


def done(*command: str, cwd) -> str:
    ended = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=240, check=False)
    output = ended.stdout + ended.stderr
    assert ended.returncode == 0, output[-4000:]
    return output


@pytest.fixture(scope="module")
def described(service, tmp_path_factory):
    """Folder with the OpenAPI document of the service."""
    folder = tmp_path_factory.mktemp("clients")
    answer = service.client.get("/openapi.json")
    (folder / "openapi.json").write_bytes(answer.content)
    return folder


@pytest.mark.slow
def test_a_python_client_is_generated_and_does_the_round_trip(service, described, monkeypatch, request):
    uv = required("uv", str(PROJECT_ROOT / ".uv" / "bin" / "uv"))
    (described / "quiet.yaml").write_text(QUIET)
    generate = ("openapi-python-client", "generate", "--path", "openapi.json", "--config", "quiet.yaml")
    output = done(uv, "tool", "run", "--from", PYTHON_GENERATOR, *generate, "--fail-on-warning", cwd=described)
    assert "warning" not in output.lower(), output
    monkeypatch.syspath_prepend(str(described / "retrieval-service-client"))
    client = importlib.import_module("retrieval_service_client").AuthenticatedClient(
        base_url=service.info["api"], token=service.info["apiKey"], raise_on_unexpected_status=True
    )
    request.addfinalizer(client.get_httpx_client().close)

    def call(tag, name, **fields):
        """Call an operation with a plain JSON body; return the response model."""
        module = importlib.import_module(f"retrieval_service_client.api.{tag}.{name}")
        models = importlib.import_module("retrieval_service_client.models")
        if "body" in fields:
            kind, content = fields["body"]
            fields["body"] = getattr(models, kind).from_dict(content)
        answer = module.sync(client=client, **fields)
        assert answer is not None
        assert answer.success is True, answer
        return answer

    created = call(
        "namespaces",
        "create_namespace",
        body=(
            "CreateNamespace",
            {
                "name": "generated",
                "fileStorageConfig": {"type": "LOCAL"},
                "vectorStorageConfig": {"provider": "PGVECTOR"},
                "embeddingModelConfig": {"provider": "LOCAL", "model": "wordllama-l2-supercat-256"},
            },
        ),
    )
    space = created.data.namespace.id
    word = f"seal {uuid4().hex}"
    text = {"source": "TEXT", "config": {"text": word, "name": "seals"}}
    accepted = call("ingestion", "ingest_text", body=("IngestText", {"namespaceId": space, "ingestConfig": text}))
    run, deadline = accepted.data.ingest_job_run_id, time.monotonic() + 240
    while call("ingestion", "get_job_run", ingest_job_run_id=run, namespace_id=space).data.status != "COMPLETED":
        assert time.monotonic() < deadline, "the text was not ingested"
        time.sleep(0.3)
    response = call("search", "semantic_search", body=("SearchRequest", {"namespaceId": space, "query": word}))
    assert [hit.content for hit in response.data.results] == [word]
    selection = {"namespaceId": space, "filterConfig": {"documentExternalIds": ["seals"]}}
    for change in ({"metadata": {"read": True}}, {"$metadata": {"$set": {"seen": 1}}}):
        changed = call("documents", "update_documents", body=("UpdateDocuments", {**selection, "data": change}))
        assert changed.data.items_updated == 1
    assert changed.data.documents[0].metadata.to_dict() == {"read": True, "seen": 1}
    call("documents", "delete_documents", body=("DeleteDocuments", selection))
    call("namespaces", "delete_namespace", namespace_id=space)


@pytest.mark.slow
def test_the_typescript_types_are_generated_and_a_client_of_them_compiles(described):
    """`make clients` calls the same script."""
    required("npm")
    folder = described / "typescript"
    generate = PROJECT_ROOT / "clients" / "typescript" / "generate.sh"
    output = done(str(generate), "openapi.json", str(folder), "retrieval-service.ts", cwd=described)
    assert "npm warn" in output or "warn" not in output.lower(), output
    (folder / "use.ts").write_text(USE)
    compiler = str(folder / "node_modules" / ".bin" / "tsc")
    options = ("--noEmit", "--strict", "--skipLibCheck", "--module", "preserve", "--target", "es2022")
    done(compiler, *options, "use.ts", cwd=folder)
