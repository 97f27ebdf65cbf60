"""Base job templates for Prefect's work pool types; `.ci/newest-prefect` renders them with Prefect's workers."""

from __future__ import annotations

import asyncio
import json
import re
from uuid import uuid4

import jsonschema
import pytest
import yaml
from prefect.client.schemas.objects import FlowRun
from prefect.settings import PREFECT_API_URL, temporary_settings

from retrieval.settings import PROJECT_ROOT, SECRET_FIELDS

FOLDER = PROJECT_ROOT / "deploy" / "prefect"
POOL_TYPES = ("docker", "kubernetes")
SECRET_NAMES = {f"RETRIEVAL_{name.upper()}" for name in SECRET_FIELDS}


def read_template(kind):
    return json.loads((FOLDER / f"{kind}.json").read_text())


def make_configuration(kind, configuration_type):
    """Render the template for a flow run as Prefect's worker does."""
    with temporary_settings({PREFECT_API_URL: "http://prefect.internal:4200/api"}):
        configuration = asyncio.run(configuration_type.from_template_and_values(read_template(kind), {}))
        configuration.prepare_for_flow_run(FlowRun(flow_id=uuid4(), name="owls"))
    return configuration


@pytest.mark.parametrize("kind", POOL_TYPES)
def test_a_template_defines_each_variable_that_it_uses(kind):
    template = read_template(kind)
    used = set(re.findall(r"\{\{ (\w+) \}\}", json.dumps(template["job_configuration"])))
    assert used == set(template["variables"]["properties"])
    jsonschema.Draft202012Validator.check_schema(template["variables"])
    defaults = {
        name: schema["default"] for name, schema in template["variables"]["properties"].items() if "default" in schema
    }
    jsonschema.validate(defaults, template["variables"])


@pytest.mark.parametrize("kind", POOL_TYPES)
def test_a_template_holds_no_secret(kind):
    """Prefect stores a template in the clear."""
    text = (FOLDER / f"{kind}.json").read_text()
    assert not [name for name in SECRET_NAMES if re.search(rf"\b{name}\b", text)]


def test_flow_runs_on_kubernetes_get_their_environment_from_a_secret():
    manifest = read_template("kubernetes")["job_configuration"]["job_manifest"]
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": "retrieval-flow-runs"}}]
    chart = yaml.safe_load((PROJECT_ROOT / "deploy/helm/retrieval/values.yaml").read_text())
    assert (
        read_template("kubernetes")["variables"]["properties"]["memory_limit"]["default"]
        == (chart["worker"]["resources"]["limits"]["memory"])
    )


def test_the_kubernetes_worker_makes_a_job_that_kubernetes_accepts():
    worker = pytest.importorskip("prefect_kubernetes.worker")
    validate = pytest.importorskip("kubernetes_validate")
    configuration = make_configuration("kubernetes", worker.KubernetesWorkerJobConfiguration)
    manifest = configuration.job_manifest
    validate.validate(manifest, "1.31", strict=True)
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    assert container["command"] + container["args"] == ["/usr/bin/env", "prefect", "flow-run", "execute"]
    assert container["envFrom"] == [{"secretRef": {"name": "retrieval-flow-runs"}}]
    names = {variable["name"] for variable in container["env"]}
    assert "PREFECT__FLOW_RUN_ID" in names
    assert not names & SECRET_NAMES


def test_the_docker_worker_mounts_the_secrets():
    worker = pytest.importorskip("prefect_docker.worker")
    configuration = make_configuration("docker", worker.DockerWorkerJobConfiguration)
    assert configuration.volumes[0] == "/etc/retrieval/secrets:/run/secrets:ro"
    assert configuration.env["RETRIEVAL_DATABASE_URL_FILE"] == "/run/secrets/database_url"
    assert configuration.container_create_kwargs["entrypoint"] == ["/usr/bin/env"]
    assert configuration.command == "prefect flow-run execute"
