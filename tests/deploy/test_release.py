"""`make release` writes all release files; the workflows run it and `.ci/run`."""

import json
import os
import re
import shutil
import subprocess
import tarfile
import tomllib

import jsonschema
import pytest
import yaml

from retrieval.settings import PROJECT_ROOT

CURRENT_VERSION = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text())["project"]["version"]
VERSION = CURRENT_VERSION.partition(".dev")[0]
CHART = PROJECT_ROOT / "deploy" / "helm" / "retrieval"
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
CHART_VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


def list_commands(name):
    workflow = yaml.safe_load((PROJECT_ROOT / ".github" / "workflows" / name).read_text())
    return [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]


def test_the_workflows_call_the_commands_of_the_project():
    assert {".ci/run", ".ci/proofs", "make release IMAGES=no"} <= {*list_commands("test.yml")}
    assert "make release" in list_commands("release.yml")


def test_the_schema_of_the_chart_knows_every_default():
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(CHART_VALUES, SCHEMA)
    assert set(CHART_VALUES) <= set(SCHEMA["properties"])


def new_project(folder, version, changelog):
    """Create a repository with one commit, the release script, a version and a changelog."""
    (folder / "deploy").mkdir()
    shutil.copy(PROJECT_ROOT / "deploy" / "release.sh", folder / "deploy")
    (folder / "pyproject.toml").write_text(f'version = "{version}"\n')
    (folder / "CHANGELOG.md").write_text(changelog)
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "First")


def git(folder, *arguments):
    identity = ["-c", "user.name=Tester", "-c", "user.email=tester@example.com"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True)


def run_release(folder):
    return subprocess.run(["deploy/release.sh"], cwd=folder, capture_output=True, text=True, check=False)


def test_a_version_with_a_dated_section_is_not_released_again(tmp_path):
    changelog = "## [Unreleased]\n\n- New\n\n## [0.2.0] - 2026-11-27\n\n- Old\n"
    new_project(tmp_path, "0.2.0", changelog)
    released = run_release(tmp_path)
    assert released.returncode == 1
    assert "CHANGELOG.md has a section of 0.2.0" in released.stderr
    assert (tmp_path / "CHANGELOG.md").read_text() == changelog


def test_a_version_with_a_tag_at_another_commit_is_not_released_again(tmp_path):
    new_project(tmp_path, "0.3.0", "## [Unreleased]\n\n- New\n")
    git(tmp_path, "tag", "v0.3.0")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "Second")
    released = run_release(tmp_path)
    assert released.returncode == 1
    assert "v0.3.0 is a tag of another commit" in released.stderr


@pytest.mark.slow
def test_a_release_has_packages_chart_notes_and_checksums(tmp_path):
    # The release is built from a copy of the tagged commit.
    subprocess.run(["git", "clone", "--quiet", PROJECT_ROOT, tmp_path / "project"], check=True)
    for name in (".venv", ".uv"):
        (tmp_path / "project" / name).symlink_to(PROJECT_ROOT / name)
    for name in ("pyproject.toml", "clients/python/pyproject.toml"):
        file = tmp_path / "project" / name
        file.write_text(file.read_text().replace(f'version = "{CURRENT_VERSION}"', f'version = "{VERSION}"'))
    script, dist = tmp_path / "project" / "deploy" / "release.sh", tmp_path / "project" / "dist"
    subprocess.run([script], env=os.environ | {"IMAGES": "no"}, check=True, capture_output=True)
    names = {file.name for file in dist.iterdir()}
    assert names == {
        f"retrieval_service-{VERSION}-py3-none-any.whl",
        f"retrieval_service-{VERSION}.tar.gz",
        f"retrieval_client-{VERSION}-py3-none-any.whl",
        f"retrieval_client-{VERSION}.tar.gz",
        f"retrieval-chart-{VERSION}.tgz",
        "notes.md",
        "SHA256SUMS",
    }
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=dist, check=True)
    with tarfile.open(dist / f"retrieval-chart-{VERSION}.tgz") as chart:
        assert {"retrieval/Chart.yaml", "retrieval/values.schema.json", "retrieval/README.md"} <= {*chart.getnames()}
    changelog = (tmp_path / "project" / "CHANGELOG.md").read_text()
    assert re.search(rf"^## \[{re.escape(VERSION)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE)
    assert "### Added" in (dist / "notes.md").read_text()
