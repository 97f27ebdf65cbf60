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


def test_names_of_repository_images_and_chart_are_the_same_everywhere():
    project = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text())["project"]
    repository = project["urls"]["Repository"]
    owner, name = repository.removeprefix("https://github.com/").split("/")
    readme = (PROJECT_ROOT / "README.md").read_text()
    assert f"git clone {repository} && cd {name}\n" in readme
    assert f" ghcr.io/{owner}/retrieval up`" in readme
    assert f"uvx --from {project['name']} retrieval up" in readme
    (push,) = [command for command in list_commands("release.yml") if "docker push" in command]
    images = {CHART_VALUES["image"]["repository"], CHART_VALUES["appImage"]["repository"]}
    assert re.findall(r"for name in (.*); do", push) == [" ".join(sorted(images))]
    services = yaml.safe_load((PROJECT_ROOT / "compose.yaml").read_text())["services"].values()
    assert images <= {service["image"] for service in services}
    assert "helm push" in push


def test_a_release_is_attested_and_published_without_a_stored_token():
    workflow = yaml.safe_load((PROJECT_ROOT / ".github" / "workflows" / "release.yml").read_text())
    steps = workflow["jobs"]["release"]["steps"]
    assert workflow["permissions"]["id-token"] == workflow["permissions"]["attestations"] == "write"
    assert [step for step in steps if step.get("uses", "").startswith("actions/attest-build-provenance@")]
    (publish,) = [step["run"] for step in steps if "uv publish" in step.get("run", "")]
    assert "--trusted-publishing always" in publish


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
def test_one_command_sets_every_version(tmp_path):
    project = tmp_path / "project"
    subprocess.run(["git", "clone", "--quiet", PROJECT_ROOT, project], check=True)
    (project / ".uv").symlink_to(PROJECT_ROOT / ".uv")
    shutil.copy(PROJECT_ROOT / "deploy" / "version.sh", project / "deploy")
    subprocess.run(["deploy/version.sh", "9.8.7"], cwd=project, check=True)
    search = ["git", "grep", "--files-with-matches", "--fixed-strings"]
    changed = subprocess.run([*search, "9.8.7"], cwd=project, capture_output=True, text=True, check=True).stdout
    files = {"pyproject.toml", "clients/python/pyproject.toml", "deploy/helm/retrieval/Chart.yaml", "uv.lock"}
    assert set(changed.split()) >= files
    left = subprocess.run([*search, CURRENT_VERSION], cwd=project, capture_output=True, text=True, check=False).stdout
    assert left == "", "Let deploy/version.sh set these."


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
