"""Helm chart: checks on the templates, and on rendered manifests if helm is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib

import pytest
import yaml

from local import cli
from retrieval.settings import PROJECT_ROOT, SECRET_FIELDS, Settings

CHART = PROJECT_ROOT / "deploy" / "helm" / "retrieval"
CHART_VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
TEMPLATES = {path.name: path.read_text() for path in (CHART / "templates").iterdir()}
ALL_OPTIONS = (
    "worker.autoscaling.enabled=true",
    "ingress.enabled=true",
    "ingress.appHost=app.example.com",
    "caSecret=house",
    "app.signInSecret=people",
)


def test_chart_and_client_have_the_version_of_the_service():
    version = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text())["project"]["version"]
    client = tomllib.loads((PROJECT_ROOT / "clients" / "python" / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    semantic = version.replace(".dev", "-dev.")  # Helm refuses Python's form
    assert client == version
    assert {chart["version"], chart["appVersion"]} == {semantic}


def test_settings_and_roles_are_those_of_the_service():
    setting_names = {f"RETRIEVAL_{field}".upper() for field in Settings.model_fields}
    referenced = {name for text in TEMPLATES.values() for name in re.findall(r"name: (RETRIEVAL_[A-Z_]+),", text)}
    assert referenced | set(CHART_VALUES["settings"]) <= setting_names | {"RETRIEVAL_API_URL"}
    secrets = {word for text in TEMPLATES.values() for row in re.findall(r'"secrets" \(list ([^)]+)\)', text)
               for word in re.findall(r"\w+", row)}  # fmt: skip
    assert secrets <= set(SECRET_FIELDS)
    for role in re.findall(r"args: \[(\w+)\]", "".join(TEMPLATES.values())):
        assert cli.make_parser().parse_args([role]).command == role


@pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not installed")
@pytest.mark.parametrize(
    "values", [(), ALL_OPTIONS, ("prefect.enabled=false", "prefect.apiUrl=http://p/api", "app.enabled=false")]
)
def test_helm_renders_pods_that_may_nothing(values):
    options = [word for manifest in values for word in ("--set", manifest)]
    subprocess.run(["helm", "lint", "--strict", CHART, *options], check=True, capture_output=True)
    done = subprocess.run(["helm", "template", "x", CHART, *options], check=True, capture_output=True, text=True)
    manifests = [manifest for manifest in yaml.safe_load_all(done.stdout) if manifest]
    pods = [manifest["spec"]["template"]["spec"] for manifest in manifests if manifest["kind"] in ("Deployment", "Job")]
    assert len(pods) >= 5
    for pod in pods:
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsUser"] == 10001
        (container,) = pod["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["resources"]["limits"]["memory"]
        assert {"/tmp", "/var/lib/retrieval"} <= {mount["mountPath"] for mount in container["volumeMounts"]}
    kinds = [manifest["kind"] for manifest in manifests]
    assert ("ScaledObject" in kinds) == ("worker.autoscaling.enabled=true" in values)
