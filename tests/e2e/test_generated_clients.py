"""TypeScript types of the OpenAPI document are generated without a warning and compile."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from retrieval.settings import PROJECT_ROOT

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
def test_the_typescript_types_are_generated_and_a_client_of_them_compiles(described):
    """`make clients` calls the same script."""
    assert shutil.which("npm"), "npm is not on this machine: .ci/run installs what this test needs"
    folder = described / "typescript"
    generate = PROJECT_ROOT / "clients" / "typescript" / "generate.sh"
    output = done(str(generate), "openapi.json", str(folder), "retrieval-service.ts", cwd=described)
    assert "npm warn" in output or "warn" not in output.lower(), output
    (folder / "use.ts").write_text(USE)
    compiler = str(folder / "node_modules" / ".bin" / "tsc")
    options = ("--noEmit", "--strict", "--skipLibCheck", "--module", "preserve", "--target", "es2022")
    done(compiler, *options, "use.ts", cwd=folder)
