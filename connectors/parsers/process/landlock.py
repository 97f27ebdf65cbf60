"""Which files a parser child may open: Linux' Landlock (https://docs.kernel.org/userspace-api/landlock.html)."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on x86_64 and aarch64
_VERSION = 1
_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG, _TRUNCATE = 1 << 4, 1 << 5, 1 << 7, 1 << 8, 1 << 14
_READ = _READ_FILE | _READ_DIR
_CHANGE = _READ | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _TRUNCATE
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_KNOWN_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""By version of the interface, how many rights of files the kernel knows; newer versions know 16 or more."""
_TCP = 0b11
"""Binding and connecting, from version 4 on."""
_SCOPES = 0b11
"""Abstract sockets and signals to processes outside, from version 6 on."""

MISSING = (
    "This kernel offers no Landlock: the processes that read files could read whatever the service's user may. Use"
    " Linux 5.13 or later, or run workers as a user, or in a container, of their own."
)
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/nix/store")
_SYSTEM_FILES = (
    *("/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types", "/etc/fonts"),
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/sys/vm", "/sys/devices/system/cpu", "/sys/fs/cgroup"),
    *("/dev/zero", "/dev/random", "/dev/urandom"),
)
"""What C libraries look up: fonts, the number of processors, the memory; nothing that is secret."""


def version() -> int:
    """Of the interface that the kernel offers; 0 where it offers none."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        return 0
    return max(0, int(_libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)))


def restrict(given: Path, made: Path, program: str = "") -> int:
    """From now on this process reads below `given` and what its libraries need, and writes below `made` alone.

    `program`: a path of what it may start. Returns the version of the interface; 0: the kernel offers none and nothing
    is restricted. RuntimeError if other threads run already, which would stay free; OSError if the kernel refuses.
    """
    offered = version()
    if not offered:
        return 0
    if len(os.listdir("/proc/self/task")) > 1:  # noqa: PTH208 - numbers, no paths
        raise RuntimeError("Threads were started before the process was restricted.")
    rights = (1 << _KNOWN_FILE_RIGHTS.get(offered, 16)) - 1
    attributes = struct.pack("QQQ", rights, _TCP if offered >= 4 else 0, _SCOPES if offered >= 6 else 0)
    size = 8 if offered < 4 else 16 if offered < 6 else 24
    ruleset = _asked(_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0)
    try:
        for path, access in _rules(given, made, program):
            _allow(ruleset, path, access & rights)
        _asked(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return offered


def _rules(given: Path, made: Path, program: str) -> Iterator[tuple[Path, int]]:
    yield given, _READ
    yield made, _CHANGE
    yield Path("/dev/null"), _READ | _WRITE_FILE
    start = _EXECUTE if program else 0
    for path in {*map(Path, _SYSTEM), *_python(), *_parts_of(program)}:
        yield path, _READ | start
    for path in map(Path, _SYSTEM_FILES):
        yield path, _READ


def _python() -> Iterator[Path]:
    """The interpreter, its packages, and those of this project's that children use; not the project's folder."""
    yield Path(sys.executable).resolve()
    yield Path(sys.base_prefix) / "lib"
    yield Path(sys.prefix) / "pyvenv.cfg"
    for name in ("stdlib", "platstdlib", "purelib", "platlib"):
        yield Path(sysconfig.get_path(name))
    for package in ("connectors", "retrieval"):
        yield from map(Path, sys.modules[package].__path__)


def _parts_of(program: str) -> Iterable[Path]:
    path = Path(program).resolve()
    return () if not program else (path.parent.parent,) if path.parent.name == "bin" else (path,)


def _allow(ruleset: int, path: Path, access: int) -> None:
    """What is not there needs no rule."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rights = access if path.is_dir() else access & _OF_FILES
        _asked(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, place), 0)
    finally:
        os.close(place)


def _asked(call: int, *arguments: object) -> int:
    answer = int(_libc().syscall(call, *arguments))
    if answer < 0:
        raise OSError(ctypes.get_errno(), "Landlock: " + os.strerror(ctypes.get_errno()))
    return answer


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
